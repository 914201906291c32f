//! Reads the server's list of tools, to find the arguments that are mirrored in `Mcp-Param-*` headers.
//!
//! A stdio server gets no headers, so the bridge itself checks that the headers of a call match its arguments.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, time::Instant};

use super::Multiplexer;
use crate::mcp::{
    era,
    param_headers::{MAX_LIST_PAGES, ParamHeader, ParamHeaderIndex},
};

/// How long a call waits for the list. Without the list, the headers of the call are not checked.
const LIST_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which a list that could not be read is requested again.
const LIST_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The mirrored arguments of the tools seen so far, and whether these are all tools.
#[derive(Debug)]
pub(super) struct ToolHeaders {
    index: ParamHeaderIndex,
    /// Whether the whole list was read since it last changed.
    complete: bool,
    /// Number of changes of the list.
    generation: u64,
    /// When the list is requested again after a failure.
    retry_at: Option<Instant>,
    /// Held by the call that reads the list on behalf of all calls.
    refresh_lock: Arc<Semaphore>,
}

impl Default for ToolHeaders {
    fn default() -> Self {
        Self {
            index: ParamHeaderIndex::default(),
            complete: false,
            generation: 0,
            retry_at: None,
            refresh_lock: Arc::new(Semaphore::new(1)),
        }
    }
}

impl ToolHeaders {
    /// Records the tools of a `tools/list` result, and returns the cursor of the next page.
    pub(super) fn update_from_list(&mut self, result: &str) -> Option<String> {
        self.index.update_from_list(result)
    }

    /// Clears the state, because the process has changed.
    pub(super) fn forget(&mut self) {
        self.index.clear();
        self.invalidate();
        self.retry_at = None;
    }

    /// Records that the list may have changed.
    pub(super) fn invalidate(&mut self) {
        self.complete = false;
        self.generation += 1;
    }

    fn needs_refresh(&self) -> bool {
        !self.complete && self.retry_at.is_none_or(|again| again <= Instant::now())
    }
}

impl Multiplexer {
    /// Returns the mirrored arguments of a tool; reads the server's list of tools first, if it is not known yet.
    pub(crate) async fn param_headers(&self, tool: &str) -> Vec<ParamHeader> {
        if self.lock().tool_headers.needs_refresh() {
            // Boxed, because it is rare and large.
            Box::pin(self.refresh_tools()).await;
        }
        self.lock().tool_headers.index.get(tool)
    }

    async fn refresh_tools(&self) {
        let until = Instant::now() + LIST_TIMEOUT;
        let (turn, changes) = {
            let tools = &self.lock().tool_headers;
            (Arc::clone(&tools.refresh_lock), tools.generation)
        };
        let Ok(Ok(_turn)) = tokio::time::timeout_at(until, turn.acquire()).await else { return };
        if !self.lock().tool_headers.needs_refresh() {
            return;
        }
        let mut cursor = None;
        for page in 0..MAX_LIST_PAGES {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(answer) =
                self.send_own_request(|id| era::tools_request(id, cursor.as_deref()), left).await
            else {
                tracing::warn!("the server does not list its tools, so headers of calls are not checked");
                self.lock().tool_headers.retry_at = Some(Instant::now() + LIST_RETRY_DELAY);
                return;
            };
            let tools = &mut self.lock().tool_headers;
            if page == 0 {
                tools.index.clear();
            }
            cursor = tools.update_from_list(answer.result());
            if cursor.is_none() {
                break;
            }
        }
        let tools = &mut self.lock().tool_headers;
        // If the list has changed meanwhile, the next call reads it again.
        tools.complete = tools.generation == changes;
        tools.retry_at = None;
    }
}
