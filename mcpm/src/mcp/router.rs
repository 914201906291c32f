//! Which server process serves which client.
//!
//! A process speaks one era on one pipe, and one handshake. So all stateless requests share one process, and
//! sessions share one with the sessions that said the same at `initialize`; those that can be asked for something, only
//! with those of their owner. A client that says something else gets another process, up to a bound; beyond it, it
//! shares one, and is told what that one was told.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use http::StatusCode;
use tokio::sync::Semaphore;

use super::{
    era::Era,
    error_code,
    handshake::Initialize,
    lane::{Initialized, Lane, Limits, Readiness, Refusal},
    message::Message,
    outlet::{End, Reader},
    owner::Owner,
    session::{Session, SessionId},
};

/// Starts, empties and ends the processes behind the lanes.
#[async_trait::async_trait]
pub(crate) trait Processes: Send + Sync + std::fmt::Debug {
    /// Starts one more process for that era and returns once clients can be let in.
    async fn add(&self, era: Era) -> crate::Result<Arc<Lane>>;
    /// Replaces a lane's process by a fresh one for that era.
    async fn renew(&self, lane: &Arc<Lane>, era: Era) -> crate::Result<()>;
    /// Ends a lane's process for good.
    fn remove(&self, lane: &Arc<Lane>);
}

/// The lanes of one server, and how a client finds its own.
#[derive(Debug)]
pub(crate) struct Router {
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// Sessions of the deprecated SSE transport that have not said `initialize`.
    opening: Mutex<HashMap<SessionId, Session>>,
    processes: Arc<dyn Processes>,
    /// One decision about lanes at a time.
    turn: Semaphore,
    speaks_modern: bool,
    most_lanes: usize,
    limits: Limits,
}

impl Router {
    /// Routes to a server whose first process is `first`, for the era that [`Lane::era`] says.
    pub(crate) fn new(
        first: Arc<Lane>,
        processes: Arc<dyn Processes>,
        most_lanes: usize,
        limits: Limits,
    ) -> Self {
        Self {
            speaks_modern: first.era() == Some(Era::Modern),
            lanes: Mutex::new(vec![first]),
            opening: Mutex::new(HashMap::new()),
            processes,
            turn: Semaphore::new(1),
            most_lanes,
            limits,
        }
    }

    /// Opens a session before its `initialize`, as the deprecated SSE transport does.
    pub(crate) fn open_session(&self, owner: Option<Owner>) -> Result<(SessionId, Reader), Refusal> {
        let id = new_session_id()?;
        self.make_room(owner.as_ref())?;
        let session = Session::new(owner.clone(), true, Instant::now());
        let reader = session.standalone.read(None);
        lock(&self.opening).insert(id.clone(), session);
        self.trim(owner.as_ref());
        Ok((id, reader))
    }

    /// Whether a session waits for its `initialize`.
    pub(crate) fn is_opening(&self, id: &SessionId) -> bool {
        lock(&self.opening).contains_key(id)
    }

    /// Ends a session, such as one of the deprecated SSE transport whose connection is gone.
    pub(crate) fn abandon_session(&self, id: &SessionId) {
        if let Some(session) = lock(&self.opening).remove(id) {
            session.end();
            return;
        }
        if let Ok((lane, _)) = self.session(id) {
            // It may have ended by itself meanwhile.
            let _ = lane.close_session(id);
        }
    }

    /// The process that serves a session, and the version it speaks; marks the session as used.
    pub(crate) fn session(&self, id: &SessionId) -> Result<(Arc<Lane>, Option<Arc<str>>), Refusal> {
        let lanes = lock(&self.lanes);
        let mut found = lanes.iter().filter_map(|lane| Some((Arc::clone(lane), lane.touch(id)?)));
        found.next().ok_or_else(Refusal::unknown_session)
    }

    /// The process that serves stateless requests.
    pub(crate) async fn modern(&self) -> Result<Arc<Lane>, Refusal> {
        if !self.speaks_modern {
            let message = "the server speaks MCP 2025-11-25 or older; open a session with `initialize`";
            return Err(Refusal::new(StatusCode::NOT_FOUND, error_code::METHOD_NOT_FOUND, message));
        }
        let find = || lock(&self.lanes).iter().find(|lane| lane.engage()).cloned();
        if let Some(lane) = find() {
            return Ok(lane);
        }
        let _turn = self.turn.acquire().await.map_err(|_| stopping())?;
        match find() {
            Some(lane) => Ok(lane),
            None => self.add(Era::Modern).await,
        }
    }

    /// Opens a session with a client's `initialize`.
    pub(crate) async fn initialize(
        &self,
        message: Message,
        owner: Option<Owner>,
    ) -> Result<Initialized, Refusal> {
        let asked = read_initialize(message)?;
        self.make_room(owner.as_ref())?;
        let (id, session) = (new_session_id()?, Session::new(owner.clone(), false, Instant::now()));
        let opened = self.admit(&asked, &id, session).await;
        self.trim(owner.as_ref());
        opened
    }

    /// Completes a session that is open with its client's `initialize`; the answer goes to its stream.
    pub(crate) async fn initialize_open(&self, message: Message, id: &SessionId) -> Result<(), Refusal> {
        let asked = read_initialize(message)?;
        let session = lock(&self.opening).remove(id).ok_or_else(Refusal::unknown_session)?;
        let stream = Arc::clone(&session.standalone);
        // A stream without a session would wait for good.
        let opened = self.admit(&asked, id, session).await.inspect_err(|_| stream.end(End::Cancelled))?;
        stream.push(opened.answer.bytes().clone());
        Ok(())
    }

    /// Says why the server cannot be used, if it cannot.
    pub(crate) fn health(&self) -> Result<(), String> {
        let lanes = lock(&self.lanes);
        match lanes.first().map(|lane| lane.readiness().borrow().clone()) {
            Some(Readiness::Ready) => Ok(()),
            Some(Readiness::Failed(reason)) => Err(reason),
            Some(Readiness::Starting) | None => Err("the server is starting".to_owned()),
        }
    }

    /// Ends what nobody uses: calls, sessions and the processes that no session is left on.
    pub(crate) fn sweep(&self, now: Instant) {
        let lanes = lock(&self.lanes).clone();
        for lane in &lanes {
            lane.sweep(now);
        }
        let Ok(_turn) = self.turn.try_acquire() else { return };
        let mut kept = lock(&self.lanes);
        // One process always stays, so that the next client finds the server warm.
        while kept.len() > 1 {
            let idle = kept
                .iter()
                .rposition(|lane| lane.load() == (0, 0) && lane.idle_since(now) > self.limits.lane);
            let Some(index) = idle else { break };
            self.processes.remove(&kept.remove(index));
        }
    }

    /// Ends the streams on which no answer is awaited.
    pub(crate) fn end_streams(&self) {
        for lane in lock(&self.lanes).iter() {
            lane.end_streams();
        }
    }

    /// How many sessions and calls there are.
    pub(crate) fn load(&self) -> (usize, usize) {
        lock(&self.lanes).iter().map(|lane| lane.load()).fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// Sees to it that there is room for one more session: when callers are known, whoever has most makes it.
    fn make_room(&self, owner: Option<&Owner>) -> Result<(), Refusal> {
        if self.session_count() < self.limits.sessions {
            return Ok(());
        }
        let mut counts: HashMap<Arc<str>, usize> = HashMap::new();
        for (owner, ..) in owner.map(|_| self.owned_sessions()).unwrap_or_default() {
            *counts.entry(Arc::clone(owner.person())).or_default() += 1;
        }
        let Some((person, count)) = counts.into_iter().max_by_key(|(_, count)| *count) else {
            return Err(Refusal::unavailable("too many sessions"));
        };
        self.end_oldest(&person, count - 1);
        Ok(())
    }

    /// Ends what an owner has too many of.
    fn trim(&self, owner: Option<&Owner>) {
        if let Some(owner) = owner
            && self.session_count() > self.limits.of_one
        {
            self.end_oldest(owner.person(), self.limits.of_one);
        }
    }

    /// Ends somebody's sessions, those first that were not used for longest, until so many are left.
    fn end_oldest(&self, person: &Arc<str>, left: usize) {
        let mut own = self.owned_sessions();
        own.retain(|(owner, ..)| owner.person() == person);
        own.sort_unstable_by_key(|(_, used, _)| *used);
        let many = own.len().saturating_sub(left);
        if many > 0 {
            tracing::warn!(many, "ended sessions of a caller who has too many");
        }
        for (_, _, id) in own.into_iter().take(many) {
            self.abandon_session(&id);
        }
    }

    /// The sessions that are somebody's: whose, and when each was used last.
    fn owned_sessions(&self) -> Vec<(Owner, Instant, SessionId)> {
        let lanes = lock(&self.lanes).clone();
        let mut owned: Vec<_> = lanes.iter().flat_map(|lane| lane.owned_sessions()).collect();
        let opening = lock(&self.opening);
        let opening = opening.iter();
        owned.extend(
            opening.filter_map(|(id, session)| Some((session.owner.clone()?, session.last_used, id.clone()))),
        );
        owned
    }

    fn session_count(&self) -> usize {
        self.load().0 + lock(&self.opening).len()
    }

    /// Gives a session the process that can serve its client.
    async fn admit(
        &self,
        asked: &Initialize,
        id: &SessionId,
        mut session: Session,
    ) -> Result<Initialized, Refusal> {
        // A client that says what another has said waits for no process of others to start.
        let (lanes, owner) = (lock(&self.lanes).clone(), session.owner.clone());
        for lane in lanes.iter().filter(|lane| lane.matches(asked, owner.as_ref())) {
            lane.connected().await?;
            session = match lane.join(asked, id, session) {
                Ok(opened) => return Ok(opened),
                Err(session) => session,
            };
        }
        let _turn = self.turn.acquire().await.map_err(|_| stopping())?;
        self.lane_for(asked, owner.as_ref()).await?.initialize(asked, id, session).await
    }

    /// Finds or makes the process that can serve a client which says this.
    async fn lane_for(&self, asked: &Initialize, owner: Option<&Owner>) -> Result<Arc<Lane>, Refusal> {
        let lanes = lock(&self.lanes).clone();
        let legacy = || lanes.iter().filter(|lane| lane.era() == Some(Era::Legacy));
        if let Some(lane) = legacy()
            .find(|lane| lane.matches(asked, owner))
            .or_else(|| legacy().find(|lane| lane.is_untold()))
        {
            return Ok(Arc::clone(lane));
        }
        if let Some(lane) = lanes.iter().find(|lane| lane.claim()) {
            self.processes
                .renew(lane, Era::Legacy)
                .await
                .map_err(|error| Refusal::unavailable(error.to_string()))?;
            return Ok(Arc::clone(lane));
        }
        if lanes.len() < self.most_lanes {
            return self.add(Era::Legacy).await;
        }
        tracing::warn!(
            most = self.most_lanes,
            "a client shares a process whose handshake said other things, or was another owner's"
        );
        match legacy().rev().max_by_key(|lane| lane.nearness(asked)) {
            Some(lane) => Ok(Arc::clone(lane)),
            None => Err(Refusal::unavailable("no process is left for this client")),
        }
    }

    async fn add(&self, era: Era) -> Result<Arc<Lane>, Refusal> {
        let lane = self.processes.add(era).await.map_err(|error| Refusal::unavailable(error.to_string()))?;
        lock(&self.lanes).push(Arc::clone(&lane));
        Ok(lane)
    }
}

fn read_initialize(message: Message) -> Result<Initialize, Refusal> {
    Initialize::read(message)
        .map_err(|reason| Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_PARAMS, reason))
}

fn new_session_id() -> Result<SessionId, Refusal> {
    SessionId::random().map_err(|error| Refusal::unavailable(error.to_string()))
}

fn stopping() -> Refusal {
    Refusal::unavailable("the proxy is stopping")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
