//! Handles the start, the restart and the end of a process, while its clients stay connected.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{Multiplexer, MuxState, Pipe, Readiness, error_response, task_owners::TaskRegistry};
use crate::{
    Error, ErrorKind, Result,
    mcp::{
        era::{self, Era},
        error_code,
        message::Message,
    },
    memory::Account,
    stdio::{
        handshake::{CompletedHandshake, chosen_version, is_too_large},
        owner::ProcessOwners,
        replay_stream::StreamEnd,
        session::LogLevel,
    },
};

/// Timeout of `server/discover`, after which `initialize` is sent.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a request of the multiplexer has no response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnRequestError {
    /// The process ended.
    ProcessEnded,
    /// The request timed out.
    TimedOut,
}

impl Multiplexer {
    /// Connects to the pipe of a new process. Lines are buffered until [`resume`](Self::resume).
    ///
    /// The account `queued` is charged for the lines that were sent on `lines` but are not written to the pipe yet.
    pub(crate) fn connect(&self, lines: mpsc::UnboundedSender<Bytes>, queued: Arc<Account>) {
        let mut state = self.lock();
        state.pipe = Some(Pipe { lines, queue_account: queued, buffered: Some(Vec::new()) });
        (state.handshake_spent, state.is_claimed) = (false, false);
        let mut served = ProcessOwners::default();
        state.sessions.values().for_each(|session| served.add(session.owner.as_ref()));
        state.pending_handshake.iter().for_each(|greeting| served.add(greeting.owner.as_ref()));
        state.owners = served;
        // A server that numbers its tasks starts again from the first number.
        state.tasks = TaskRegistry::default();
        state.tool_headers.forget();
    }

    /// Returns the era that the process is used for.
    pub(crate) fn era(&self) -> Option<Era> {
        self.lock().era
    }

    /// Sets the era of the next process, and clears the state of the previous one.
    pub(crate) fn reset_for_era(&self, era: Era) {
        self.lock().reset_for_era(era);
    }

    /// Restores the sessions in the new process, and then forwards the messages of clients.
    ///
    /// # Errors
    /// `StartFailed` if the process does not respond within `patience`.
    pub(crate) async fn resume(&self, patience: Duration) -> Result<()> {
        self.replay_handshake(patience).await?;
        self.lock().flush_buffered();
        self.lock().was_ready = true;
        self.readiness.send_replace(Readiness::Ready);
        Ok(())
    }

    /// Fails all calls in flight, because the process has ended. The sessions stay for the next process.
    pub(crate) fn disconnect(&self, reason: &str) {
        self.readiness.send_if_modified(|now| {
            let was_ready = *now == Readiness::Ready;
            if was_ready {
                *now = Readiness::Starting;
            }
            was_ready
        });
        let mut state = self.lock();
        state.pipe = None;
        state.own_requests.clear();
        state.server_requests.clear();
        state.end_subscribers(&StreamEnd::ServerEnded(reason.to_owned()));
        for call in std::mem::take(&mut state.calls).into_values() {
            if state.shares_stream(&call) {
                call.stream.push(error_response(&call.id, error_code::INTERNAL_ERROR, reason).freeze());
            } else {
                call.stream.end(StreamEnd::ServerEnded(reason.to_owned()));
            }
        }
    }

    /// Records that no other process will be started.
    pub(crate) fn mark_failed(&self, reason: &str) {
        self.readiness.send_replace(Readiness::Failed(reason.to_owned()));
        self.disconnect(reason);
    }

    /// Ends all sessions, because the process has ended for good while other processes remain.
    pub(crate) fn end_all_sessions(&self) {
        self.lock().end_sessions();
    }

    /// Detects the era of a new process, which also shows whether the process responds.
    ///
    /// # Errors
    /// `StartFailed` if the process does not respond within `patience`. Returns `None` if the process ended, as some
    /// older servers do if the first request is not `initialize`.
    pub(crate) async fn detect_era(&self, patience: Duration) -> Result<Option<Era>> {
        let (discover, mut discovered) = self.start_own_request(era::discover_request);
        let first_wait = DISCOVER_TIMEOUT.min(patience / 2);
        let first = tokio::time::timeout(first_wait, &mut discovered).await;
        let found = match first {
            Ok(Ok(answer)) => Ok(era::era_from_discover(&answer)),
            Ok(Err(_)) => Err(OwnRequestError::ProcessEnded),
            // Some servers ignore requests before `initialize`; a slow one may still respond to the first request.
            Err(_) => {
                self.lock().handshake_spent = true;
                let (initialize, initialized) = self.start_own_request(era::initialize_request);
                let either = async {
                    tokio::select! {
                        answer = discovered => answer.map(|answer| era::era_from_discover(&answer)),
                        answer = initialized => answer.map(|answer| era::era_from_initialize(&answer)),
                    }
                };
                let found = match tokio::time::timeout(patience - first_wait, either).await {
                    Ok(answer) => answer.map_err(|_| OwnRequestError::ProcessEnded),
                    Err(_) => Err(OwnRequestError::TimedOut),
                };
                self.lock().own_requests.remove(&initialize);
                found
            }
        };
        self.lock().own_requests.remove(&discover);
        match found {
            Ok(era) => Ok(Some(era)),
            Err(OwnRequestError::ProcessEnded) => Ok(None),
            Err(OwnRequestError::TimedOut) => Err(timeout_error(patience)),
        }
    }

    /// Replays the handshake for the sessions that survived the process.
    async fn replay_handshake(&self, patience: Duration) -> Result<()> {
        let completed = {
            let mut state = self.lock();
            if state.sessions.is_empty() {
                // No session is left; the next client sends its own handshake.
                state.handshake = None;
            }
            // The handshake stays recorded during the replay, so that another client's `initialize` does not become a
            // second handshake.
            if let Some(completed) = &mut state.handshake {
                // `notifications/initialized` is sent below, not with the next call.
                completed.initialized_sent = true;
            }
            state.handshake.clone()
        };
        let Some(completed) = completed else { return Ok(()) };
        let rewrite = |id: u64| completed.request.rewritten(&id.to_string(), &completed.version);
        let answer = match self.send_own_request(rewrite, patience).await {
            Ok(answer) => answer,
            // The next process may try again.
            Err(OwnRequestError::ProcessEnded) => return Err(ended_early_error()),
            Err(OwnRequestError::TimedOut) => return Err(timeout_error(patience)),
        };
        let mut state = self.lock();
        if chosen_version(answer.result()).as_deref() == Some(&completed.version) && !is_too_large(&answer) {
            let result = Bytes::copy_from_slice(answer.result().as_bytes());
            state.handshake = Some(CompletedHandshake { result, initialized_sent: true, ..completed });
            state.send_unbuffered(BytesMut::from(INITIALIZED_NOTIFICATION));
            state.restore_sessions();
        } else {
            // The server has changed.
            state.end_sessions();
        }
        Ok(())
    }

    /// Sends a request of the multiplexer ahead of the buffered lines, and waits for its response.
    pub(crate) async fn send_own_request(
        &self,
        request: impl FnOnce(u64) -> BytesMut,
        patience: Duration,
    ) -> std::result::Result<Message, OwnRequestError> {
        let (id, answer) = self.start_own_request(request);
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(OwnRequestError::ProcessEnded),
            Err(_) => {
                self.lock().own_requests.remove(&id);
                Err(OwnRequestError::TimedOut)
            }
        }
    }

    fn start_own_request(&self, request: impl FnOnce(u64) -> BytesMut) -> (u64, oneshot::Receiver<Message>) {
        let mut state = self.lock();
        let id = state.new_id();
        let (sender, receiver) = oneshot::channel();
        if state.pipe.is_some() {
            state.own_requests.insert(id, sender);
            state.send_unbuffered(request(id));
        }
        (id, receiver)
    }
}

/// The notification that follows the response to `initialize`.
pub(super) const INITIALIZED_NOTIFICATION: &[u8] =
    br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn ended_early_error() -> Error {
    Error::new(ErrorKind::StartFailed, "the server exited before it responded")
}

fn timeout_error(patience: Duration) -> Error {
    let message = format!("the server did not respond to `initialize` within {} s", patience.as_secs_f32());
    Error::new(ErrorKind::StartFailed, message).hint("if the server needs more time, set `start_timeout`")
}

impl MuxState {
    pub(super) fn reset_for_era(&mut self, era: Era) {
        self.era = Some(era);
        self.end_sessions();
        self.last_call = None;
    }

    /// Discards the handshake; clients have to initialize again.
    fn end_sessions(&mut self) {
        self.handshake = None;
        let ids: Vec<_> = self.sessions.keys().cloned().collect();
        for id in ids {
            self.end_session(&id);
        }
    }

    /// Sends the buffered lines.
    fn flush_buffered(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        for line in pipe.buffered.take().unwrap_or_default() {
            pipe.write(line);
        }
    }

    /// Restores the subscriptions and the log level; the server's responses are dropped.
    fn restore_sessions(&mut self) {
        let uris: BTreeSet<String> = self
            .sessions
            .values()
            .flat_map(|session| &session.subscriptions)
            .map(|wanted| wanted.uri().clone())
            .collect();
        for uri in uris {
            let request = self.own_request("resources/subscribe", &json!({ "uri": uri }));
            self.send_unbuffered(request);
        }
        if let Some(level) = self.min_log_level() {
            let request = self.own_request("logging/setLevel", &json!({ "level": level.name() }));
            self.send_unbuffered(request);
        }
    }

    /// Unsubscribes from resources that no session is subscribed to.
    pub(super) fn unsubscribe(&mut self, uris: BTreeSet<String>) {
        for uri in uris {
            let request = self.own_request("resources/unsubscribe", &json!({ "uri": uri }));
            self.send(request);
        }
    }

    /// Raises the log level to that of the remaining sessions, after the session that requested the level `ended` has
    /// ended.
    pub(super) fn raise_log_level(&mut self, ended: Option<LogLevel>) {
        if let (Some(ended), Some(least)) = (ended, self.min_log_level())
            && ended < least
        {
            let request = self.own_request("logging/setLevel", &json!({ "level": least.name() }));
            self.send(request);
        }
    }

    /// Returns the least severe level that any session requested; this is the level that the server gets.
    pub(super) fn min_log_level(&self) -> Option<LogLevel> {
        self.sessions.values().filter_map(|session| session.log_level).min()
    }

    /// Creates a request of the multiplexer whose response is dropped.
    fn own_request(&mut self, method: &str, params: &serde_json::Value) -> BytesMut {
        let id = self.new_id();
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        BytesMut::from(text.as_bytes())
    }
}
