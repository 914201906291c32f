use std::{
    sync::{Arc, Mutex, atomic::AtomicUsize},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

use super::{Processes, Router};
use crate::mcp::{
    era::Era,
    lane::{Lane, Limits},
    message::Message,
    owner::Owner,
    session::SessionId,
};

const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that answers a handshake, and nothing else.
async fn process(lane: &Arc<Lane>, era: Era) {
    lane.prepare(era);
    let (lines, mut pipe) = mpsc::unbounded_channel();
    lane.connect(lines, Arc::new(AtomicUsize::new(0)));
    lane.resume(PATIENCE).await.expect("a process");
    let lane = Arc::downgrade(lane);
    tokio::spawn(async move {
        while let Some(line) = pipe.recv().await {
            let Some(lane) = lane.upgrade() else { return };
            let asked = Message::parse(line).expect("a message");
            let id = String::from_utf8(asked.id().to_vec()).expect("text");
            let answer =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25"}}}}"#);
            lane.take_line(answer.into());
        }
    });
}

/// Starts processes, and notes which.
#[derive(Debug)]
struct Noted {
    notes: Mutex<Vec<(&'static str, Era)>>,
    /// How many renewals may go on.
    renewals: Semaphore,
}

impl Noted {
    fn note(&self, what: &'static str, era: Era) {
        self.notes.lock().expect("unpoisoned").push((what, era));
    }

    fn notes(&self) -> Vec<(&'static str, Era)> {
        self.notes.lock().expect("unpoisoned").clone()
    }
}

#[async_trait::async_trait]
impl Processes for Noted {
    async fn add(&self, era: Era) -> crate::Result<Arc<Lane>> {
        self.note("add", era);
        let lane = Lane::new(Limits::default());
        process(&lane, era).await;
        Ok(lane)
    }

    async fn renew(&self, lane: &Arc<Lane>, era: Era) -> crate::Result<()> {
        self.note("renew", era);
        self.renewals.acquire().await.expect("open").forget();
        process(lane, era).await;
        Ok(())
    }

    fn remove(&self, _: &Arc<Lane>) {}
}

async fn router() -> (Arc<Router>, Arc<Noted>, Arc<Lane>) {
    router_with(Limits::default()).await
}

async fn router_with(limits: Limits) -> (Arc<Router>, Arc<Noted>, Arc<Lane>) {
    let first = Lane::new(Limits::default());
    process(&first, Era::Modern).await;
    let processes = Arc::new(Noted { notes: Mutex::default(), renewals: Semaphore::new(0) });
    let router = Router::new(Arc::clone(&first), processes.clone(), 8, limits);
    (Arc::new(router), processes, first)
}

fn initialize() -> Message {
    Message::parse(Bytes::from_static(INITIALIZE)).expect("a message")
}

#[tokio::test]
async fn who_can_be_asked_for_something_shares_a_process_with_sessions_of_their_own() {
    let (router, processes, _) = router().await;
    let plain = String::from_utf8_lossy(INITIALIZE).into_owned();
    let asked = plain.replace("\"capabilities\":{}", "\"capabilities\":{\"sampling\":{}}");
    let owner = |name: &str| Some(Owner::new("", name, ""));
    for (name, text, started) in
        [("a", &asked, 1), ("a", &asked, 1), ("b", &asked, 2), ("a", &plain, 3), ("b", &plain, 3)]
    {
        let message = Message::parse(text.clone().into()).expect("a message");
        processes.renewals.add_permits(1);
        router.initialize(message, owner(name)).await.expect("a session");
        assert_eq!(processes.notes().len(), started, "{name}");
    }
}

#[tokio::test]
async fn a_process_that_a_stateless_request_was_given_is_not_taken_for_a_handshake() {
    let (router, processes, first) = router().await;
    // The request is not sent yet: what stands in its headers is looked at first, which may need the server.
    let given = router.modern().await.expect("a process");
    assert!(Arc::ptr_eq(&given, &first));
    router.initialize(initialize(), None).await.expect("a session");
    assert_eq!(processes.notes(), [("add", Era::Legacy)]);
    assert_eq!(given.era(), Some(Era::Modern));
}

#[tokio::test]
async fn a_process_that_is_being_renewed_for_a_handshake_is_not_given_to_a_stateless_request() {
    let (router, processes, first) = router().await;
    let opens = tokio::spawn({
        let router = Arc::clone(&router);
        async move { router.initialize(initialize(), None).await.map(|opened| opened.session.is_some()) }
    });
    while processes.notes().is_empty() {
        tokio::task::yield_now().await;
    }
    let asks = tokio::spawn({
        let router = Arc::clone(&router);
        async move { router.modern().await }
    });
    tokio::task::yield_now().await;
    processes.renewals.add_permits(1);
    assert!(opens.await.expect("no panic").expect("a session"));
    let given = asks.await.expect("no panic").expect("a process");
    assert!(!Arc::ptr_eq(&given, &first));
    assert_eq!(processes.notes(), [("renew", Era::Legacy), ("add", Era::Modern)]);
}

#[tokio::test]
async fn one_caller_does_not_keep_others_from_opening_sessions() {
    let (router, processes, _) = router_with(Limits { sessions: 10, of_one: 4, ..Limits::default() }).await;
    processes.renewals.add_permits(1);
    let owner = |name: &str, client: usize| Some(Owner::new("", name, &client.to_string()));
    let open = async |name: &str, client: usize| {
        let opened = router.initialize(initialize(), owner(name, client)).await.expect("a session");
        opened.session.expect("a session")
    };
    let other = open("b", 0).await;
    let mut sessions = Vec::new();
    for client in 0..20 {
        sessions.push(open("a", client).await);
        // On the deprecated transport a session is there before it says what it is.
        let (early, _) = router.open_session(owner("a", client)).expect("a session");
        sessions.push(early);
    }
    let lives = |id: &SessionId| router.is_opening(id) || router.session(id).is_ok();
    assert!(lives(&other));
    let left: Vec<bool> = sessions.iter().map(lives).collect();
    assert_eq!(left.iter().filter(|lives| **lives).count(), 4);
    assert!(left[36..].iter().all(|lives| *lives), "those that were used last: {left:?}");
    // When there is no room at all, whoever has most makes it.
    for name in ["c", "d", "e", "f", "g", "h"] {
        open(name, 0).await;
    }
    assert_eq!(sessions.iter().filter(|id| lives(id)).count(), 3);
    assert!(lives(&other));
    // Where nobody is asked who they are, nobody is told apart.
    let refused = router.initialize(initialize(), None).await.expect_err("no room");
    assert_eq!(refused.status, 503);
}
