//! Caches which arguments of the server's tools are mirrored in headers.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::mcp::param_headers::{ParamHeader, ParamHeaderIndex};

/// Time after which a list that could not be read is requested again.
const LIST_RETRY_DELAY: Duration = Duration::from_secs(30);

/// The tools seen so far.
#[derive(Debug, Default)]
pub(super) struct ToolList {
    state: Mutex<ToolListState>,
    /// Held by the call that reads the list on behalf of all calls.
    pub(super) reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct ToolListState {
    index: ParamHeaderIndex,
    /// Whether the last page was read since the last change of the list.
    is_complete: bool,
    retry_at: Option<Instant>,
}

impl ToolList {
    /// Records the result of `tools/list`, and returns the cursor of the next page.
    pub(super) fn record(&self, result: &str) -> Option<String> {
        let mut state = self.lock();
        let next = state.index.update_from_list(result);
        state.is_complete |= next.is_none();
        next
    }

    /// Records that the list has changed.
    pub(super) fn invalidate(&self) {
        let mut state = self.lock();
        (state.is_complete, state.retry_at) = (false, None);
    }

    /// Records that the list cannot be read now.
    pub(super) fn record_failure(&self) {
        self.lock().retry_at = Some(Instant::now() + LIST_RETRY_DELAY);
    }

    /// Whether the list has to be read before a tool is called.
    pub(super) fn needs_reading(&self) -> bool {
        let state = self.lock();
        !state.is_complete && state.retry_at.is_none_or(|again| again <= Instant::now())
    }

    /// Returns the mirrored arguments of a tool.
    pub(super) fn mirrored(&self, tool: &str) -> Vec<ParamHeader> {
        self.lock().index.get(tool)
    }

    fn lock(&self) -> MutexGuard<'_, ToolListState> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
