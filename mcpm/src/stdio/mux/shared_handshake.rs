//! Admits clients to a process. They share one handshake, and normally have the same protocol version and capabilities.
//!
//! The handshake runs in a task of its own, so that a client that disconnects neither makes the process unusable nor
//! leaks it: the next client of the same kind joins the handshake, and an unused process is ended after some time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::StatusCode;
use tokio::{sync::watch, task::AbortHandle};

use super::{Multiplexer, MuxState, Readiness, RpcError, lifecycle::OwnRequestError};
use crate::{
    explain::Reason,
    mcp::{
        era::Era,
        error_code,
        message::{Message, splice},
    },
    stdio::{
        handshake::{CompletedHandshake, Initialize, MAX_RESULT_BYTES, chosen_version, is_too_large},
        owner::{Owner, ProcessOwners},
        replay_stream::StreamEnd,
        session::{Negotiated, Session, SessionId},
    },
};

/// The outcome of an `initialize`.
#[derive(Debug)]
pub(crate) struct InitializeOutcome {
    /// The response, with the caller's id.
    pub(crate) answer: Message,
    /// The session, unless the server rejected the handshake.
    pub(crate) session: Option<SessionId>,
}

/// The server's response to a handshake, with an id of the multiplexer.
type HandshakeResult = Result<Message, RpcError>;

/// A handshake in progress.
#[derive(Debug)]
pub(super) struct PendingHandshake {
    request: Initialize,
    pub(super) owner: Option<Owner>,
    outcome: watch::Receiver<Option<HandshakeResult>>,
    /// Whether the request was sent to the server.
    is_sent: bool,
    task: AbortHandle,
}

/// A client's share in a handshake. While the client holds it, the process is not assigned to clients with other
/// parameters.
#[derive(Debug)]
pub(crate) struct HandshakeLease {
    /// The outcome; `None` if the handshake was completed before.
    outcome: Option<watch::Receiver<Option<HandshakeResult>>>,
    _lease: Arc<()>,
}

/// When an unused process is available to a client with another handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// Immediately.
    Now,
    /// After a restart.
    AfterRestart,
}

impl Multiplexer {
    /// Joins the handshake of the process, completed or in progress, if the client has the same protocol
    /// version and capabilities.
    ///
    /// A client that supports server requests needs a process that has served only its owner; in any other process, the
    /// recipient of a server request would be ambiguous.
    pub(crate) fn join_handshake(
        &self,
        initialize: &Initialize,
        owner: Option<&Owner>,
    ) -> Option<HandshakeLease> {
        self.join_matching(initialize, owner, Initialize::has_same_parameters)
    }

    /// Joins the handshake of a process that was initialized with more capabilities than the client has.
    pub(crate) fn join_compatible(
        &self,
        initialize: &Initialize,
        owner: Option<&Owner>,
    ) -> Option<HandshakeLease> {
        self.join_matching(initialize, owner, Initialize::covers)
    }

    fn join_matching(
        &self,
        initialize: &Initialize,
        owner: Option<&Owner>,
        fits: fn(&Initialize, &Initialize) -> bool,
    ) -> Option<HandshakeLease> {
        let mut state = self.lock();
        if initialize.capabilities().any() && !state.is_exclusive_to(owner) {
            return None;
        }
        let outcome = match (&state.handshake, &state.pending_handshake) {
            (Some(completed), _) if fits(&completed.request, initialize) => None,
            (None, Some(pending)) if fits(&pending.request, initialize) => Some(pending.outcome.clone()),
            _ => return None,
        };
        // From now on the process counts as serving this owner, even if the session is never opened.
        state.owners.add(owner);
        Some(HandshakeLease { outcome, _lease: Arc::clone(&state.lease_counter) })
    }

    /// Joins the completed handshake, for any owner.
    #[cfg(test)]
    pub(super) fn lease_completed(&self) -> HandshakeLease {
        HandshakeLease { outcome: None, _lease: Arc::clone(&self.lock().lease_counter) }
    }

    /// Whether the process is unused, and so available for another handshake.
    pub(crate) fn availability(&self) -> Option<Availability> {
        let state = self.lock();
        if !state.sessions.is_empty() || state.is_busy() {
            return None;
        }
        if let Some(pending) = &state.pending_handshake {
            // All clients that waited for the handshake are gone.
            return (!pending.is_sent).then_some(Availability::Now);
        }
        match state.era {
            Some(Era::Legacy) if state.handshake.is_none() && !state.handshake_spent => {
                Some(Availability::Now)
            }
            Some(Era::Modern) if state.last_call.is_some() => None,
            Some(_) if self.is_ready() => Some(Availability::AfterRestart),
            Some(_) | None => None,
        }
    }

    /// Takes the process away from its clients, whose sessions end, if none of them has used it for a while.
    pub(crate) fn reclaim(&self, now: Instant, of: Option<&Owner>) -> bool {
        let mut state = self.lock();
        let is_left = |session: &Session| {
            now.saturating_duration_since(session.last_used) > self.limits.reclaim_after
                && !session.standalone.is_attached()
        };
        let is_free = self.is_ready()
            && state.era == Some(Era::Legacy)
            && state.pending_handshake.is_none()
            && !state.is_busy()
            && of.is_none_or(|owner| state.is_exclusive_to_caller(owner))
            && state.sessions.values().all(is_left);
        if is_free {
            tracing::warn!(
                sessions = state.sessions.len(),
                "ended unused sessions, because another client needs a process"
            );
            state.reset_for_era(Era::Legacy);
        }
        is_free
    }

    /// Claims the process for an era and clears its owners; the caller has to restart it.
    pub(crate) fn claim(&self, era: Era) {
        let mut state = self.lock();
        state.reset_for_era(era);
        state.is_claimed = true;
        drop(state);
        // A process that has failed meanwhile stays failed, because it would not be restarted.
        self.readiness.send_if_modified(|now| {
            let is_alive = !matches!(now, Readiness::Failed(_));
            if is_alive {
                *now = Readiness::Starting;
            }
            is_alive
        });
    }

    /// Whether the process serves only this caller, through any of its clients.
    pub(crate) fn is_exclusive_to_caller(&self, owner: &Owner) -> bool {
        self.lock().is_exclusive_to_caller(owner)
    }

    /// Begins the handshake of the first client of a process.
    pub(crate) fn start_handshake(
        self: &Arc<Self>,
        initialize: &Initialize,
        owner: Option<&Owner>,
    ) -> HandshakeLease {
        let (sender, outcome) = watch::channel(None);
        let (mux, request) = (Arc::clone(self), initialize.clone());
        // The task does nothing before the lock below is released.
        let mut state = self.lock();
        let task = tokio::spawn(async move {
            let completed = mux.perform_handshake(&request).await;
            let mut state = mux.lock();
            // Another handshake may have replaced this one.
            state.pending_handshake.take_if(|pending| pending.task.id() == tokio::task::id());
            drop(state);
            sender.send_replace(Some(completed));
        });
        let pending = PendingHandshake {
            request: initialize.clone(),
            owner: owner.cloned(),
            outcome: outcome.clone(),
            is_sent: false,
            task: task.abort_handle(),
        };
        if let Some(unsent) = state.pending_handshake.replace(pending) {
            unsent.task.abort();
            state.owners = ProcessOwners::default();
        }
        state.owners.add(owner);
        HandshakeLease { outcome: Some(outcome), _lease: Arc::clone(&state.lease_counter) }
    }

    /// Waits for the handshake and opens the client's session, unless the server rejects it.
    pub(crate) async fn finish_handshake(
        &self,
        handshake: HandshakeLease,
        initialize: &Initialize,
        id: &SessionId,
        session: Session,
    ) -> Result<InitializeOutcome, RpcError> {
        let HandshakeLease { outcome, _lease: _share } = handshake;
        let refused = match outcome {
            None => None,
            Some(mut outcome) => {
                let outcome = match outcome.wait_for(Option::is_some).await {
                    Ok(outcome) => outcome.clone(),
                    Err(_) => None,
                };
                let answer = outcome.unwrap_or_else(|| Err(restarting_error()))?;
                chosen_version(answer.result()).is_none().then_some(answer)
            }
        };
        let client_id = initialize.message().id();
        if let Some(answer) = refused {
            let answer = splice(answer.bytes(), &mut [(answer.id_span(), &client_id)]).freeze();
            let answer =
                Message::parse(answer).map_err(|malformed| RpcError::unavailable(malformed.reason))?;
            return Ok(InitializeOutcome { answer, session: None });
        }
        self.lock().open(initialize, id, session)
    }

    /// Performs the first client's handshake with the server.
    async fn perform_handshake(&self, initialize: &Initialize) -> HandshakeResult {
        self.wait_until_connected().await?;
        let rewrite = |id: u64| initialize.rewritten(&id.to_string(), initialize.version());
        {
            let mut state = self.lock();
            // The process accepts no second handshake, even if this one is rejected or times out.
            state.handshake_spent = true;
            state.pending_handshake.iter_mut().for_each(|pending| pending.is_sent = true);
        }
        let answer =
            self.send_own_request(rewrite, self.limits.handshake_timeout).await.map_err(|unanswered| {
                match unanswered {
                    OwnRequestError::ProcessEnded => {
                        RpcError::unavailable("the server exited before it responded to `initialize`")
                    }
                    OwnRequestError::TimedOut => RpcError::new(
                        StatusCode::GATEWAY_TIMEOUT,
                        error_code::INTERNAL_ERROR,
                        "the server did not respond to `initialize` in time",
                    ),
                }
            })?;
        if is_too_large(&answer) {
            let text = format!(
                "the server's response to `initialize` is larger than {} MiB",
                MAX_RESULT_BYTES >> 20
            );
            tracing::warn!(bytes = answer.bytes().len(), "a handshake failed: {text}");
            return Err(RpcError::new(StatusCode::BAD_GATEWAY, error_code::INTERNAL_ERROR, text)
                .reason(Reason::AnswerUnclear));
        }
        if let Some(version) = chosen_version(answer.result()) {
            let result = Bytes::copy_from_slice(answer.result().as_bytes());
            let mut state = self.lock();
            state.handshake = Some(CompletedHandshake {
                request: initialize.clone(),
                version,
                result,
                initialized_sent: false,
            });
            state.handshake_spent = false;
        }
        Ok(answer.into_owned())
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.readiness.borrow() == Readiness::Ready
    }
}

/// Returns how long clients wait for a process: until its first start, or for a restart.
pub(super) fn ready_timeout(state: &MuxState, limits: &crate::stdio::mux::MuxLimits) -> Duration {
    if state.was_ready { limits.restart_timeout } else { limits.start_timeout }
}

fn restarting_error() -> RpcError {
    RpcError::unavailable("the server is restarting")
}

impl MuxState {
    /// Whether the process has served, and serves, only this owner.
    fn is_exclusive_to(&self, owner: Option<&Owner>) -> bool {
        self.owners.is_exclusive_to(owner)
            && self.pending_handshake.as_ref().is_none_or(|pending| pending.owner.as_ref() == owner)
    }

    fn is_exclusive_to_caller(&self, owner: &Owner) -> bool {
        self.owners.is_of_person(owner)
    }

    /// Whether a call is in flight, or a client is being admitted.
    pub(super) fn is_busy(&self) -> bool {
        !self.calls.is_empty() || !self.subscriptions.is_empty() || Arc::strong_count(&self.lease_counter) > 1
    }

    /// Opens a session with the completed handshake.
    fn open(
        &mut self,
        initialize: &Initialize,
        id: &SessionId,
        mut session: Session,
    ) -> Result<InitializeOutcome, RpcError> {
        // The process may have ended meanwhile, and the next one may have another handshake.
        let completed = self
            .handshake
            .as_ref()
            .filter(|completed| completed.request.covers(initialize))
            .ok_or_else(restarting_error)?;
        let answer = Message::parse(completed.response_for(&initialize.message().id()))
            .map_err(|malformed| RpcError::unavailable(malformed.reason))?;
        let version = completed.version.as_str().into();
        session.negotiated = Some(Negotiated { version, capabilities: initialize.capabilities() });
        self.owners.add(session.owner.as_ref());
        self.sessions.insert(id.clone(), session);
        Ok(InitializeOutcome { answer, session: Some(id.clone()) })
    }
}

/// Ends a stream when it is dropped, so that its client does not wait for a response that is never sent.
#[derive(Debug)]
pub(crate) struct EndStreamOnDrop(pub(crate) Option<Arc<crate::stdio::replay_stream::MessageStream>>);

impl Drop for EndStreamOnDrop {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            stream.end(StreamEnd::Cancelled);
        }
    }
}
