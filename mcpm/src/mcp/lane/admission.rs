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

use super::{Lane, Readiness, Refusal, State, connection::Unanswered};
use crate::{
    explain::Reason,
    mcp::{
        era::Era,
        error_code,
        handshake::{Initialize, MAX_RESULT_BYTES, Told, chosen_version, is_too_large},
        message::{Message, splice},
        outlet::End,
        owner::{Owner, Served},
        session::{Negotiated, Session, SessionId},
    },
};

/// What came of an `initialize`.
#[derive(Debug)]
pub(crate) struct Initialized {
    /// The answer, with the caller's id.
    pub(crate) answer: Message,
    /// The session, unless the server refused.
    pub(crate) session: Option<SessionId>,
}

/// What the server answered to a handshake, under an id of the lane's.
type Outcome = Result<Message, Refusal>;

/// A handshake that is being made.
#[derive(Debug)]
pub(super) struct Greeting {
    request: Initialize,
    pub(super) owner: Option<Owner>,
    outcome: watch::Receiver<Option<Outcome>>,
    /// Whether the server was sent it.
    is_sent: bool,
    task: AbortHandle,
}

/// A client's share in a handshake. As long as it is held, the process is nobody else's.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// What comes of it; `None` when it was made before.
    outcome: Option<watch::Receiver<Option<Outcome>>>,
    _share: Arc<()>,
}

/// How a process can be taken for a client with another handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Free {
    /// As it is.
    Now,
    /// Once it has been started anew.
    Renewed,
}

impl Lane {
    /// Gives a client a share in the handshake that was made, or is being made, if it says the same.
    ///
    /// One that can be asked for something needs a process that has worked for its owner alone: in another, nobody
    /// could tell whom the server asks.
    pub(crate) fn join(&self, asked: &Initialize, owner: Option<&Owner>) -> Option<Handshake> {
        self.join_if(asked, owner, Initialize::same_client_shape)
    }

    /// The same for a client that can do less than the process was told.
    pub(crate) fn join_covering(&self, asked: &Initialize, owner: Option<&Owner>) -> Option<Handshake> {
        self.join_if(asked, owner, Initialize::covers)
    }

    fn join_if(
        &self,
        asked: &Initialize,
        owner: Option<&Owner>,
        fits: fn(&Initialize, &Initialize) -> bool,
    ) -> Option<Handshake> {
        let mut state = self.lock();
        if asked.capabilities().any() && !state.is_of(owner) {
            return None;
        }
        let outcome = match (&state.told, &state.greeting) {
            (Some(told), _) if fits(&told.request, asked) => None,
            (None, Some(greeting)) if fits(&greeting.request, asked) => Some(greeting.outcome.clone()),
            _ => return None,
        };
        // From now on the process works for this one too, whatever becomes of the session.
        state.served.add(owner);
        Some(Handshake { outcome, _share: Arc::clone(&state.shares) })
    }

    /// A share in the handshake that was made, for any owner.
    #[cfg(test)]
    pub(super) fn made(&self) -> Handshake {
        Handshake { outcome: None, _share: Arc::clone(&self.lock().shares) }
    }

    /// Whether the process can be taken for another handshake, as nobody uses it.
    pub(crate) fn free(&self) -> Option<Free> {
        let state = self.lock();
        if !state.sessions.is_empty() || state.is_called() {
            return None;
        }
        if let Some(greeting) = &state.greeting {
            // All who waited for it are gone.
            return (!greeting.is_sent).then_some(Free::Now);
        }
        match state.era {
            Some(Era::Legacy) if state.told.is_none() && !state.tainted => Some(Free::Now),
            Some(Era::Modern) if state.last_call.is_some() => None,
            Some(_) if self.is_ready() => Some(Free::Renewed),
            Some(_) | None => None,
        }
    }

    /// Takes the process from its clients if none of them has used it for a while: their sessions end.
    pub(crate) fn reclaim(&self, now: Instant, of: Option<&Owner>) -> bool {
        let mut state = self.lock();
        let is_left = |session: &Session| {
            now.saturating_duration_since(session.last_used) > self.limits.reclaim
                && !session.standalone.is_attached()
        };
        let is_free = self.is_ready()
            && state.era == Some(Era::Legacy)
            && state.greeting.is_none()
            && !state.is_called()
            && of.is_none_or(|owner| state.is_person(owner))
            && state.sessions.values().all(is_left);
        if is_free {
            tracing::warn!(
                sessions = state.sessions.len(),
                "ended unused sessions, as another client needs a process"
            );
            state.prepare(Era::Legacy);
        }
        is_free
    }

    /// Takes the process for an era and forgets who used it; it has to be renewed, which nobody else then does.
    pub(crate) fn claim(&self, era: Era) {
        let mut state = self.lock();
        state.prepare(era);
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
    pub(crate) fn is_of_person(&self, owner: &Owner) -> bool {
        self.lock().is_person(owner)
    }

    /// Begins the handshake of a client whose alone the process is so far.
    pub(crate) fn greet(self: &Arc<Self>, asked: &Initialize, owner: Option<&Owner>) -> Handshake {
        let (sender, outcome) = watch::channel(None);
        let (lane, request) = (Arc::clone(self), asked.clone());
        // Nothing of it happens before the lock below is released.
        let mut state = self.lock();
        let task = tokio::spawn(async move {
            let told = lane.tell(&request).await;
            let mut state = lane.lock();
            // Another may have taken its place.
            state.greeting.take_if(|greeting| greeting.task.id() == tokio::task::id());
            drop(state);
            sender.send_replace(Some(told));
        });
        let greeting = Greeting {
            request: asked.clone(),
            owner: owner.cloned(),
            outcome: outcome.clone(),
            is_sent: false,
            task: task.abort_handle(),
        };
        if let Some(unsent) = state.greeting.replace(greeting) {
            unsent.task.abort();
            state.served = Served::default();
        }
        state.served.add(owner);
        Handshake { outcome: Some(outcome), _share: Arc::clone(&state.shares) }
    }

    /// Waits for the handshake and opens the client's session, unless the server refuses.
    pub(crate) async fn let_in(
        &self,
        handshake: Handshake,
        asked: &Initialize,
        id: &SessionId,
        session: Session,
    ) -> Result<Initialized, Refusal> {
        let Handshake { outcome, _share } = handshake;
        let refused = match outcome {
            None => None,
            Some(mut outcome) => {
                let outcome = match outcome.wait_for(Option::is_some).await {
                    Ok(outcome) => outcome.clone(),
                    Err(_) => None,
                };
                let answer = outcome.unwrap_or_else(|| Err(restarting()))?;
                chosen_version(answer.result()).is_none().then_some(answer)
            }
        };
        let client_id = asked.message().id();
        if let Some(answer) = refused {
            let answer = splice(answer.bytes(), &mut [(answer.id_span(), &client_id)]).freeze();
            let answer =
                Message::parse(answer).map_err(|malformed| Refusal::unavailable(malformed.reason))?;
            return Ok(Initialized { answer, session: None });
        }
        self.lock().open(asked, id, session)
    }

    /// Makes the first client's handshake with the server.
    async fn tell(&self, asked: &Initialize) -> Outcome {
        self.connected().await?;
        let rewrite = |id: u64| asked.rewritten(&id.to_string(), asked.version());
        {
            let mut state = self.lock();
            // The process takes no second handshake, also when this one is refused or not answered.
            state.tainted = true;
            state.greeting.iter_mut().for_each(|greeting| greeting.is_sent = true);
        }
        let answer =
            self.ask(rewrite, self.limits.handshake).await.map_err(|unanswered| match unanswered {
                Unanswered::Gone => Refusal::unavailable("the server ended before it answered `initialize`"),
                Unanswered::Silent => Refusal::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    error_code::INTERNAL_ERROR,
                    "the server did not answer `initialize`",
                ),
            })?;
        if is_too_large(&answer) {
            let text =
                format!("the server's answer to `initialize` is larger than {} MiB", MAX_RESULT_BYTES >> 20);
            tracing::warn!(bytes = answer.bytes().len(), "a handshake failed: {text}");
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, error_code::INTERNAL_ERROR, text)
                .reason(Reason::AnswerUnclear));
        }
        if let Some(version) = chosen_version(answer.result()) {
            let result = Bytes::copy_from_slice(answer.result().as_bytes());
            let mut state = self.lock();
            state.told = Some(Told { request: asked.clone(), version, result, initialized: false });
            state.tainted = false;
        }
        Ok(answer.copied())
    }

    pub(crate) fn is_ready(&self) -> bool {
        *self.readiness.borrow() == Readiness::Ready
    }
}

/// How long clients wait for a process: until it is ready for the first time, or is ready again.
pub(super) fn patience(state: &State, limits: &super::Limits) -> Duration {
    if state.was_ready { limits.restart } else { limits.start }
}

fn restarting() -> Refusal {
    Refusal::unavailable("the server is restarting")
}

impl State {
    /// Whether the process has worked, and works, for this caller alone.
    fn is_of(&self, owner: Option<&Owner>) -> bool {
        self.served.is_of(owner)
            && self.greeting.as_ref().is_none_or(|greeting| greeting.owner.as_ref() == owner)
    }

    fn is_person(&self, owner: &Owner) -> bool {
        self.served.is_of_person(owner)
    }

    /// Whether a call is in flight, or a client is being let in.
    pub(super) fn is_called(&self) -> bool {
        !self.calls.is_empty() || !self.listening.is_empty() || Arc::strong_count(&self.shares) > 1
    }

    /// Opens a session with the handshake that was made.
    fn open(
        &mut self,
        asked: &Initialize,
        id: &SessionId,
        mut session: Session,
    ) -> Result<Initialized, Refusal> {
        // The process may have ended since, and another may have begun otherwise.
        let told = self.told.as_ref().filter(|told| told.request.covers(asked)).ok_or_else(restarting)?;
        let answer = Message::parse(told.answer(&asked.message().id()))
            .map_err(|malformed| Refusal::unavailable(malformed.reason))?;
        let version = told.version.as_str().into();
        session.negotiated = Some(Negotiated { version, capabilities: asked.capabilities() });
        self.served.add(session.owner.as_ref());
        self.sessions.insert(id.clone(), session);
        Ok(Initialized { answer, session: Some(id.clone()) })
    }
}

/// Ends a stream when it is dropped: its client waits for an answer on it that nobody will give.
#[derive(Debug)]
pub(crate) struct EndOnDrop(pub(crate) Option<Arc<crate::mcp::outlet::Outlet>>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            stream.end(End::Cancelled);
        }
    }
}
