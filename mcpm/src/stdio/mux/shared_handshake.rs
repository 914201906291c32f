//! Lets clients into a process: one handshake for all clients that say the same.
//!
//! The handshake is made by a task of its own, so that a client that hangs up neither spoils the process nor leaves one
//! behind that nobody knows of: whoever says the same next joins, and a process without clients is ended in time.

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

/// What came of an `initialize`.
#[derive(Debug)]
pub(crate) struct InitializeOutcome {
    /// The answer, with the caller's id.
    pub(crate) answer: Message,
    /// The session, unless the server refused.
    pub(crate) session: Option<SessionId>,
}

/// What the server answered to a handshake, under an id of the lane's.
type HandshakeResult = Result<Message, RpcError>;

/// A handshake that is being made.
#[derive(Debug)]
pub(super) struct PendingHandshake {
    request: Initialize,
    pub(super) owner: Option<Owner>,
    outcome: watch::Receiver<Option<HandshakeResult>>,
    /// Whether the server was sent it.
    is_sent: bool,
    task: AbortHandle,
}

/// A client's share in a handshake. As long as it is held, the process is nobody else's.
#[derive(Debug)]
pub(crate) struct HandshakeLease {
    /// What comes of it; `None` when it was made before.
    outcome: Option<watch::Receiver<Option<HandshakeResult>>>,
    _lease: Arc<()>,
}

/// How a process can be taken for a client with another handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// As it is.
    Now,
    /// Once it has been started anew.
    AfterRestart,
}

impl Multiplexer {
    /// Gives a client a share in the handshake that was made, or is being made, if it says the same.
    ///
    /// One that can be asked for something needs a process that has worked for its owner alone: in another, nobody
    /// could tell whom the server asks.
    pub(crate) fn join_handshake(&self, asked: &Initialize, owner: Option<&Owner>) -> Option<HandshakeLease> {
        self.join_matching(asked, owner, Initialize::has_same_parameters)
    }

    /// The same for a client that can do less than the process was told.
    pub(crate) fn join_compatible(
        &self,
        asked: &Initialize,
        owner: Option<&Owner>,
    ) -> Option<HandshakeLease> {
        self.join_matching(asked, owner, Initialize::covers)
    }

    fn join_matching(
        &self,
        asked: &Initialize,
        owner: Option<&Owner>,
        fits: fn(&Initialize, &Initialize) -> bool,
    ) -> Option<HandshakeLease> {
        let mut state = self.lock();
        if asked.capabilities().any() && !state.is_exclusive_to(owner) {
            return None;
        }
        let outcome = match (&state.handshake, &state.pending_handshake) {
            (Some(told), _) if fits(&told.request, asked) => None,
            (None, Some(greeting)) if fits(&greeting.request, asked) => Some(greeting.outcome.clone()),
            _ => return None,
        };
        // From now on the process works for this one too, whatever becomes of the session.
        state.owners.add(owner);
        Some(HandshakeLease { outcome, _lease: Arc::clone(&state.lease_counter) })
    }

    /// A share in the handshake that was made, for any owner.
    #[cfg(test)]
    pub(super) fn lease_completed(&self) -> HandshakeLease {
        HandshakeLease { outcome: None, _lease: Arc::clone(&self.lock().lease_counter) }
    }

    /// Whether the process can be taken for another handshake, as nobody uses it.
    pub(crate) fn availability(&self) -> Option<Availability> {
        let state = self.lock();
        if !state.sessions.is_empty() || state.is_busy() {
            return None;
        }
        if let Some(greeting) = &state.pending_handshake {
            // All who waited for it are gone.
            return (!greeting.is_sent).then_some(Availability::Now);
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

    /// Takes the process from its clients if none of them has used it for a while: their sessions end.
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
                "ended unused sessions, as another client needs a process"
            );
            state.reset_for_era(Era::Legacy);
        }
        is_free
    }

    /// Takes the process for an era and forgets who used it; it has to be renewed, which nobody else then does.
    pub(crate) fn claim(&self, era: Era) {
        let mut state = self.lock();
        state.reset_for_era(era);
        state.is_claimed = true;
        drop(state);
        // One that was given up since it was found stays so: nobody would start it anew.
        self.readiness.send_if_modified(|now| {
            let is_alive = !matches!(now, Readiness::Failed(_));
            if is_alive {
                *now = Readiness::Starting;
            }
            is_alive
        });
    }

    /// Whether the process works for this caller alone, whatever clients they come with.
    pub(crate) fn is_exclusive_to_caller(&self, owner: &Owner) -> bool {
        self.lock().is_exclusive_to_caller(owner)
    }

    /// Begins the handshake of a client whose alone the process is so far.
    pub(crate) fn start_handshake(
        self: &Arc<Self>,
        asked: &Initialize,
        owner: Option<&Owner>,
    ) -> HandshakeLease {
        let (sender, outcome) = watch::channel(None);
        let (lane, request) = (Arc::clone(self), asked.clone());
        // Nothing of it happens before the lock below is released.
        let mut state = self.lock();
        let task = tokio::spawn(async move {
            let told = lane.perform_handshake(&request).await;
            let mut state = lane.lock();
            // Another may have taken its place.
            state.pending_handshake.take_if(|greeting| greeting.task.id() == tokio::task::id());
            drop(state);
            sender.send_replace(Some(told));
        });
        let greeting = PendingHandshake {
            request: asked.clone(),
            owner: owner.cloned(),
            outcome: outcome.clone(),
            is_sent: false,
            task: task.abort_handle(),
        };
        if let Some(unsent) = state.pending_handshake.replace(greeting) {
            unsent.task.abort();
            state.owners = ProcessOwners::default();
        }
        state.owners.add(owner);
        HandshakeLease { outcome: Some(outcome), _lease: Arc::clone(&state.lease_counter) }
    }

    /// Waits for the handshake and opens the client's session, unless the server refuses.
    pub(crate) async fn finish_handshake(
        &self,
        handshake: HandshakeLease,
        asked: &Initialize,
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
        let client_id = asked.message().id();
        if let Some(answer) = refused {
            let answer = splice(answer.bytes(), &mut [(answer.id_span(), &client_id)]).freeze();
            let answer =
                Message::parse(answer).map_err(|malformed| RpcError::unavailable(malformed.reason))?;
            return Ok(InitializeOutcome { answer, session: None });
        }
        self.lock().open(asked, id, session)
    }

    /// Makes the first client's handshake with the server.
    async fn perform_handshake(&self, asked: &Initialize) -> HandshakeResult {
        self.wait_until_connected().await?;
        let rewrite = |id: u64| asked.rewritten(&id.to_string(), asked.version());
        {
            let mut state = self.lock();
            // The process takes no second handshake, also when this one is refused or not answered.
            state.handshake_spent = true;
            state.pending_handshake.iter_mut().for_each(|greeting| greeting.is_sent = true);
        }
        let answer =
            self.send_own_request(rewrite, self.limits.handshake_timeout).await.map_err(|unanswered| {
                match unanswered {
                    OwnRequestError::ProcessEnded => {
                        RpcError::unavailable("the server ended before it answered `initialize`")
                    }
                    OwnRequestError::TimedOut => RpcError::new(
                        StatusCode::GATEWAY_TIMEOUT,
                        error_code::INTERNAL_ERROR,
                        "the server did not answer `initialize`",
                    ),
                }
            })?;
        if is_too_large(&answer) {
            let text =
                format!("the server's answer to `initialize` is larger than {} MiB", MAX_RESULT_BYTES >> 20);
            tracing::warn!(bytes = answer.bytes().len(), "a handshake failed: {text}");
            return Err(RpcError::new(StatusCode::BAD_GATEWAY, error_code::INTERNAL_ERROR, text)
                .reason(Reason::AnswerUnclear));
        }
        if let Some(version) = chosen_version(answer.result()) {
            let result = Bytes::copy_from_slice(answer.result().as_bytes());
            let mut state = self.lock();
            state.handshake =
                Some(CompletedHandshake { request: asked.clone(), version, result, initialized_sent: false });
            state.handshake_spent = false;
        }
        Ok(answer.into_owned())
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.readiness.borrow() == Readiness::Ready
    }
}

/// How long clients wait for a process: until it is ready for the first time, or is ready again.
pub(super) fn ready_timeout(state: &MuxState, limits: &crate::stdio::mux::MuxLimits) -> Duration {
    if state.was_ready { limits.restart_timeout } else { limits.start_timeout }
}

fn restarting_error() -> RpcError {
    RpcError::unavailable("the server is restarting")
}

impl MuxState {
    /// Whether the process has worked, and works, for this caller alone.
    fn is_exclusive_to(&self, owner: Option<&Owner>) -> bool {
        self.owners.is_exclusive_to(owner)
            && self.pending_handshake.as_ref().is_none_or(|greeting| greeting.owner.as_ref() == owner)
    }

    fn is_exclusive_to_caller(&self, owner: &Owner) -> bool {
        self.owners.is_of_person(owner)
    }

    /// Whether a call is in flight, or a client is being let in.
    pub(super) fn is_busy(&self) -> bool {
        !self.calls.is_empty() || !self.subscriptions.is_empty() || Arc::strong_count(&self.lease_counter) > 1
    }

    /// Opens a session with the handshake that was made.
    fn open(
        &mut self,
        asked: &Initialize,
        id: &SessionId,
        mut session: Session,
    ) -> Result<InitializeOutcome, RpcError> {
        // The process may have ended since, and another may have begun otherwise.
        let told =
            self.handshake.as_ref().filter(|told| told.request.covers(asked)).ok_or_else(restarting_error)?;
        let answer = Message::parse(told.response_for(&asked.message().id()))
            .map_err(|malformed| RpcError::unavailable(malformed.reason))?;
        let version = told.version.as_str().into();
        session.negotiated = Some(Negotiated { version, capabilities: asked.capabilities() });
        self.owners.add(session.owner.as_ref());
        self.sessions.insert(id.clone(), session);
        Ok(InitializeOutcome { answer, session: Some(id.clone()) })
    }
}

/// Ends a stream when it is dropped: its client waits for an answer on it that nobody will give.
#[derive(Debug)]
pub(crate) struct EndStreamOnDrop(pub(crate) Option<Arc<crate::stdio::replay_stream::MessageStream>>);

impl Drop for EndStreamOnDrop {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            stream.end(StreamEnd::Cancelled);
        }
    }
}
