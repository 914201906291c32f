//! How a server process comes and goes, while its clients stay.

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

/// A server that knows `server/discover`, or refuses it, answers within this; only then is it asked otherwise.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a request of the lane's own has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnRequestError {
    /// The process ended.
    ProcessEnded,
    /// It said nothing for too long.
    TimedOut,
}

impl Multiplexer {
    /// Takes a new process's pipe; clients wait until the gate opens in [`resume`](Self::resume).
    ///
    /// `queued` holds what was sent on `lines` and is not yet in the pipe.
    pub(crate) fn connect(&self, lines: mpsc::UnboundedSender<Bytes>, queued: Arc<Account>) {
        let mut state = self.lock();
        state.pipe = Some(Pipe { lines, queue_account: queued, buffered: Some(Vec::new()) });
        (state.handshake_spent, state.is_claimed) = (false, false);
        let mut served = ProcessOwners::default();
        state.sessions.values().for_each(|session| served.add(session.owner.as_ref()));
        state.pending_handshake.iter().for_each(|greeting| served.add(greeting.owner.as_ref()));
        state.owners = served;
        // What they are called begins anew with a server that counts.
        state.tasks = TaskRegistry::default();
        state.tool_headers.forget();
    }

    /// The era the process is used for.
    pub(crate) fn era(&self) -> Option<Era> {
        self.lock().era
    }

    /// Says what the next process is used for, and forgets what the last one was told.
    pub(crate) fn reset_for_era(&self, era: Era) {
        self.lock().reset_for_era(era);
    }

    /// Brings back the sessions there are and lets clients through.
    ///
    /// # Errors
    /// `StartFailed` when the process does not answer within `patience`.
    pub(crate) async fn resume(&self, patience: Duration) -> Result<()> {
        self.replay_handshake(patience).await?;
        self.lock().flush_buffered();
        self.lock().was_ready = true;
        self.readiness.send_replace(Readiness::Ready);
        Ok(())
    }

    /// Answers every waiting call, since the process is gone. Sessions stay for the next one.
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

    /// Says that no process will come any more.
    pub(crate) fn mark_failed(&self, reason: &str) {
        self.readiness.send_replace(Readiness::Failed(reason.to_owned()));
        self.disconnect(reason);
    }

    /// Ends all sessions, since the process is gone for good and others are there.
    pub(crate) fn end_all_sessions(&self) {
        self.lock().end_sessions();
    }

    /// Finds out which era a fresh process speaks, and so that it answers at all.
    ///
    /// # Errors
    /// `StartFailed` when it answers nothing within `patience`; [`OwnRequestError::ProcessEnded`] as `None` when it ended,
    /// which some older servers do when anything but `initialize` comes first.
    pub(crate) async fn detect_era(&self, patience: Duration) -> Result<Option<Era>> {
        let (discover, mut discovered) = self.start_own_request(era::discover_request);
        let first_wait = DISCOVER_TIMEOUT.min(patience / 2);
        let first = tokio::time::timeout(first_wait, &mut discovered).await;
        let found = match first {
            Ok(Ok(answer)) => Ok(era::era_from_discover(&answer)),
            Ok(Err(_)) => Err(OwnRequestError::ProcessEnded),
            // Some servers ignore what comes before `initialize`; a slow one answers the first question yet.
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

    /// Plays the handshake again for the sessions that outlived the process.
    async fn replay_handshake(&self, patience: Duration) -> Result<()> {
        let told = {
            let mut state = self.lock();
            if state.sessions.is_empty() {
                // Nobody is left who would miss it; the next client brings its own.
                state.handshake = None;
            }
            // It stays known meanwhile: another client's `initialize` must not become a second one.
            if let Some(told) = &mut state.handshake {
                // What follows the handshake is sent below, not by the next call.
                told.initialized_sent = true;
            }
            state.handshake.clone()
        };
        let Some(told) = told else { return Ok(()) };
        let rewrite = |id: u64| told.request.rewritten(&id.to_string(), &told.version);
        let answer = match self.send_own_request(rewrite, patience).await {
            Ok(answer) => answer,
            // The next process gets the same chance.
            Err(OwnRequestError::ProcessEnded) => return Err(ended_early_error()),
            Err(OwnRequestError::TimedOut) => return Err(timeout_error(patience)),
        };
        let mut state = self.lock();
        if chosen_version(answer.result()).as_deref() == Some(&told.version) && !is_too_large(&answer) {
            let result = Bytes::copy_from_slice(answer.result().as_bytes());
            state.handshake = Some(CompletedHandshake { result, initialized_sent: true, ..told });
            state.send_unbuffered(BytesMut::from(INITIALIZED_NOTIFICATION));
            state.restore_sessions();
        } else {
            // The server is another one now.
            state.end_sessions();
        }
        Ok(())
    }

    /// Sends a request of the lane's own past a closed gate and waits for its answer.
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

/// What a client says once it has the answer to `initialize`.
pub(super) const INITIALIZED_NOTIFICATION: &[u8] =
    br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn ended_early_error() -> Error {
    Error::new(ErrorKind::StartFailed, "the server ended before it answered")
}

fn timeout_error(patience: Duration) -> Error {
    let message = format!("the server did not answer `initialize` within {} s", patience.as_secs_f32());
    Error::new(ErrorKind::StartFailed, message)
}

impl MuxState {
    pub(super) fn reset_for_era(&mut self, era: Era) {
        self.era = Some(era);
        self.end_sessions();
        self.last_call = None;
    }

    /// Forgets the handshake; clients have to agree anew.
    fn end_sessions(&mut self) {
        self.handshake = None;
        let ids: Vec<_> = self.sessions.keys().cloned().collect();
        for id in ids {
            self.end_session(&id);
        }
    }

    /// Sends what was held back.
    fn flush_buffered(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        for line in pipe.buffered.take().unwrap_or_default() {
            pipe.write(line);
        }
    }

    /// Subscribes again and sets the log level again. The answers are nobody's.
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

    /// Ends subscriptions that no session has any more.
    pub(super) fn unsubscribe(&mut self, uris: BTreeSet<String>) {
        for uri in uris {
            let request = self.own_request("resources/unsubscribe", &json!({ "uri": uri }));
            self.send(request);
        }
    }

    /// Sets the log level to what the sessions that are left want, when the one that asked for `ended` has ended.
    pub(super) fn raise_log_level(&mut self, ended: Option<LogLevel>) {
        if let (Some(ended), Some(least)) = (ended, self.min_log_level())
            && ended < least
        {
            let request = self.own_request("logging/setLevel", &json!({ "level": least.name() }));
            self.send(request);
        }
    }

    /// The least severe level that any session asked for, which is the one that the server is told.
    pub(super) fn min_log_level(&self) -> Option<LogLevel> {
        self.sessions.values().filter_map(|session| session.log_level).min()
    }

    /// A request of the lane's own whose answer is nobody's.
    fn own_request(&mut self, method: &str, params: &serde_json::Value) -> BytesMut {
        let id = self.new_id();
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        BytesMut::from(text.as_bytes())
    }
}
