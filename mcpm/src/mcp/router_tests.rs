use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

use super::{Processes, Router, too_many_processes};
use crate::{
    explain::Reason,
    mcp::{
        era::Era,
        handshake::MAX_INITIALIZE_BYTES,
        lane::{Lane, Limits, Refusal},
        message::Message,
        owner::Owner,
        session::SessionId,
    },
    memory::Account,
    testing::{LIMIT, within},
};

const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
const PROCESSES: usize = 8;

/// A process that answers a handshake, and nothing else.
async fn process(lane: &Arc<Lane>) {
    let (lines, mut pipe) = mpsc::unbounded_channel();
    lane.connect(lines, Account::new());
    lane.resume(LIMIT).await.expect("a process");
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
    /// How many processes may become ready.
    starts: Arc<Semaphore>,
}

impl Noted {
    fn note(&self, what: &'static str, era: Era) {
        self.notes.lock().expect("unpoisoned").push((what, era));
    }

    fn notes(&self) -> Vec<(&'static str, Era)> {
        self.notes.lock().expect("unpoisoned").clone()
    }

    fn start(&self, lane: &Arc<Lane>) {
        let (lane, starts) = (Arc::clone(lane), Arc::clone(&self.starts));
        tokio::spawn(async move {
            starts.acquire().await.expect("open").forget();
            process(&lane).await;
        });
    }
}

impl Processes for Noted {
    fn add(&self, era: Era) -> Result<Arc<Lane>, Refusal> {
        if self.notes().iter().filter(|(what, _)| *what == "add").count() + 1 >= PROCESSES {
            return Err(too_many_processes(PROCESSES));
        }
        self.note("add", era);
        let lane = Lane::new(Limits::default());
        lane.prepare(era);
        self.start(&lane);
        Ok(lane)
    }

    fn renew(&self, lane: &Arc<Lane>, era: Era) {
        self.note("renew", era);
        self.start(lane);
    }

    fn remove(&self, _: &Arc<Lane>) {}
}

async fn router() -> (Arc<Router>, Arc<Noted>, Arc<Lane>) {
    router_with(Limits::default()).await
}

async fn router_with(limits: Limits) -> (Arc<Router>, Arc<Noted>, Arc<Lane>) {
    let first = Lane::new(limits);
    first.prepare(Era::Modern);
    process(&first).await;
    let processes = Arc::new(Noted { notes: Mutex::default(), starts: Arc::new(Semaphore::new(0)) });
    let router = Router::new(Arc::clone(&first), processes.clone(), limits);
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
        processes.starts.add_permits(1);
        within(router.initialize(message, owner(name))).await.expect("a session");
        assert_eq!(processes.notes().len(), started, "{name}");
    }
}

#[tokio::test]
async fn a_process_that_a_stateless_request_was_given_is_not_taken_for_a_handshake() {
    let (router, processes, first) = router().await;
    // The request is not sent yet: what stands in its headers is looked at first, which may need the server.
    processes.starts.add_permits(1);
    let given = router.modern().expect("a process");
    assert!(Arc::ptr_eq(&given, &first));
    within(router.initialize(initialize(), None)).await.expect("a session");
    assert_eq!(processes.notes(), [("add", Era::Legacy)]);
    assert_eq!(given.era(), Some(Era::Modern));
}

#[tokio::test]
async fn a_process_that_is_being_renewed_for_a_handshake_is_not_given_to_a_stateless_request() {
    let (router, processes, first) = router().await;
    let opens = open(&router, initialize());
    assert_eq!(processes.notes(), []);
    tokio::task::yield_now().await;
    assert_eq!(processes.notes(), [("renew", Era::Legacy)]);
    let given = router.modern().expect("a process");
    assert!(!Arc::ptr_eq(&given, &first));
    assert_eq!(processes.notes(), [("renew", Era::Legacy), ("add", Era::Modern)]);
    processes.starts.add_permits(2);
    within(opens).await.expect("no panic").expect("a session");
}

/// Opens a session in a task of its own.
fn open(router: &Arc<Router>, message: Message) -> tokio::task::JoinHandle<Result<SessionId, Refusal>> {
    let router = Arc::clone(router);
    tokio::spawn(async move {
        router.initialize(message, None).await.map(|opened| opened.session.expect("a session"))
    })
}

/// An `initialize` that no other client says.
fn unlike(number: usize) -> Message {
    let text = String::from_utf8_lossy(INITIALIZE)
        .replace("{}}}", &format!("{{\"experimental\":{{\"{number}\":{{}}}}}}}}}}"));
    Message::parse(text.into()).expect("a message")
}

#[tokio::test]
async fn a_slow_start_holds_up_no_other_client() {
    let (router, processes, _) = router().await;
    let slow = open(&router, unlike(1));
    tokio::task::yield_now().await;
    // It waits for a permit, and this one gets it first only since they are asked for in order.
    let other = open(&router, unlike(2));
    tokio::task::yield_now().await;
    assert_eq!(processes.notes(), [("renew", Era::Legacy), ("add", Era::Legacy)]);
    processes.starts.add_permits(2);
    within(slow).await.expect("no panic").expect("a session");
    within(other).await.expect("no panic").expect("a session");
}

#[tokio::test]
async fn clients_that_hang_up_leave_processes_that_others_can_have() {
    let (router, processes, first) = router().await;
    for number in 0..20 {
        let hung_up = open(&router, unlike(number));
        tokio::task::yield_now().await;
        hung_up.abort();
    }
    // The process that is being started for the first of them is known, and is handed on to the next.
    assert_eq!(processes.notes(), [("renew", Era::Legacy)]);
    processes.starts.add_permits(1);
    within(open(&router, unlike(30))).await.expect("no panic").expect("a session");
    assert_eq!((processes.notes().len(), first.load()), (1, (1, 0)));
}

#[tokio::test]
async fn a_client_for_which_no_process_is_left_is_refused_or_shares_one_that_serves_it() {
    let (router, processes, _) = router().await;
    processes.starts.add_permits(100);
    for number in 0..PROCESSES {
        within(open(&router, unlike(number))).await.expect("no panic").expect("a session");
    }
    let refused = within(open(&router, unlike(99))).await.expect("no panic").expect_err("no process");
    assert_eq!((refused.status.as_u16(), refused.reason), (503, Some(Reason::TooManyProcesses)));
    // A client that can do nothing is never asked for what the process was told of.
    within(open(&router, initialize())).await.expect("no panic").expect("a session");
}

#[tokio::test]
async fn a_process_is_taken_from_clients_that_have_left_it_alone() {
    let limits = Limits { reclaim: Duration::ZERO, ..Limits::default() };
    let (router, processes, first) = router_with(limits).await;
    processes.starts.add_permits(100);
    let mut sessions = Vec::new();
    for number in 0..PROCESSES {
        sessions.push(within(open(&router, unlike(number))).await.expect("no panic").expect("a session"));
    }
    within(open(&router, unlike(99))).await.expect("no panic").expect("a session");
    assert_eq!(first.load(), (1, 0));
    assert_eq!(sessions.iter().filter(|id| router.session(id).is_err()).count(), 1);
}

#[tokio::test]
async fn one_caller_does_not_get_all_processes() {
    let (router, processes, _) = router().await;
    processes.starts.add_permits(100);
    let owner = |name: &str, client: usize| Some(Owner::new("", name, &client.to_string()));
    let mut refused = None;
    for number in 0..PROCESSES {
        // Each is opened with one client, and joined with another.
        for client in [2 * number, 2 * number + 1] {
            let opened = within(router.initialize(unlike(number), owner("a", client))).await;
            refused = refused.or(opened.err());
        }
    }
    assert_eq!(refused.expect("a refusal").reason, Some(Reason::TooManyProcesses));
    assert_eq!(processes.notes().len(), Limits::default().processes_of_one);
    within(router.initialize(unlike(50), owner("b", 0))).await.expect("a session");
}

#[tokio::test]
async fn the_last_process_that_is_ready_stays() {
    let (router, processes, first) = router().await;
    // One that is still starting is added beside the first, which serves.
    first.engage();
    let slow = open(&router, unlike(1));
    tokio::task::yield_now().await;
    assert_eq!(processes.notes(), [("add", Era::Legacy)]);
    slow.abort();
    let late = std::time::Instant::now() + 2 * Limits::default().lane;
    let is_gone = async {
        while !slow.is_finished() {
            tokio::task::yield_now().await;
        }
    };
    within(is_gone).await;
    router.sweep(late);
    assert_eq!(router.health(), Ok(()), "the one that is ready");
    assert!(first.is_ready());
}

#[tokio::test]
async fn a_process_that_was_given_up_is_not_taken_for_starting() {
    let (_, _, first) = router().await;
    first.give_up("it is gone");
    first.claim(Era::Legacy);
    let refused = within(first.connected()).await.expect_err("no process");
    assert_eq!((refused.status.as_u16(), &*refused.message), (503, "it is gone"));
}

#[tokio::test]
async fn an_initialize_that_is_too_large_is_refused() {
    let (router, ..) = router().await;
    let text = String::from_utf8_lossy(INITIALIZE)
        .replace("{}}}", &format!("{{\"{}\":1}}}}}}", "x".repeat(MAX_INITIALIZE_BYTES)));
    let refused = router.initialize(Message::parse(text.into()).expect("a message"), None).await;
    let refused = refused.expect_err("too large");
    assert_eq!((refused.status.as_u16(), refused.reason), (413, Some(Reason::InitializeTooLarge)));
}

#[tokio::test]
async fn one_caller_does_not_keep_others_from_opening_sessions() {
    let (router, processes, _) = router_with(Limits { sessions: 10, of_one: 4, ..Limits::default() }).await;
    processes.starts.add_permits(1);
    let owner = |name: &str, client: usize| Some(Owner::new("", name, &client.to_string()));
    let open = async |name: &str, client: usize| {
        let opened = within(router.initialize(initialize(), owner(name, client))).await.expect("a session");
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
}

#[tokio::test]
async fn where_callers_are_not_told_apart_the_least_used_session_makes_room() {
    let (router, processes, _) = router_with(Limits { sessions: 3, ..Limits::default() }).await;
    processes.starts.add_permits(1);
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(within(open(&router, initialize())).await.expect("no panic").expect("a session"));
    }
    assert!(router.session(&sessions[0]).is_ok(), "used again");
    sessions.push(within(open(&router, initialize())).await.expect("no panic").expect("a session"));
    let lives: Vec<bool> = sessions.iter().map(|id| router.session(id).is_ok()).collect();
    assert_eq!(lives, [true, false, true, true]);
}

#[tokio::test]
async fn a_session_whose_stream_ends_while_it_is_opened_is_not_kept() {
    let (router, processes, _) = router().await;
    let (id, reader) = router.open_session(None).expect("a session");
    let opens = {
        let (router, id) = (Arc::clone(&router), id.clone());
        tokio::spawn(async move { router.initialize_open(initialize(), &id).await })
    };
    while router.is_opening(&id) {
        tokio::task::yield_now().await;
    }
    drop(reader);
    router.abandon_session(&id);
    processes.starts.add_permits(1);
    within(opens).await.expect("no panic").expect("an answer that nobody reads");
    assert!(router.session(&id).is_err());
    assert_eq!(router.load(), (0, 0));
}
