use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

use super::{ProcessManager, Router, too_many_processes};
use crate::{
    explain::Reason,
    mcp::{era::Era, message::Message},
    memory::Account,
    stdio::{
        handshake::MAX_INITIALIZE_BYTES,
        mux::{Multiplexer, MuxLimits, RpcError},
        owner::Owner,
        session::SessionId,
    },
    testing::{TEST_TIMEOUT, with_timeout},
};

const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
const PROCESSES: usize = 8;

/// A process that only responds to a handshake.
async fn process(mux: &Arc<Multiplexer>) {
    let (lines, mut pipe) = mpsc::unbounded_channel();
    mux.connect(lines, Account::new());
    mux.resume(TEST_TIMEOUT).await.expect("a process");
    let mux = Arc::downgrade(mux);
    tokio::spawn(async move {
        while let Some(line) = pipe.recv().await {
            let Some(mux) = mux.upgrade() else { return };
            let asked = Message::parse(line).expect("a message");
            let id = String::from_utf8(asked.id().to_vec()).expect("text");
            let answer =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25"}}}}"#);
            mux.handle_line(answer.into());
        }
    });
}

/// Starts processes, and records them.
#[derive(Debug)]
struct RecordingManager {
    notes: Mutex<Vec<(&'static str, Era)>>,
    /// Number of processes that may become ready.
    starts: Arc<Semaphore>,
}

impl RecordingManager {
    fn note(&self, what: &'static str, era: Era) {
        self.notes.lock().expect("unpoisoned").push((what, era));
    }

    fn notes(&self) -> Vec<(&'static str, Era)> {
        self.notes.lock().expect("unpoisoned").clone()
    }

    fn start(&self, mux: &Arc<Multiplexer>) {
        let (mux, starts) = (Arc::clone(mux), Arc::clone(&self.starts));
        tokio::spawn(async move {
            starts.acquire().await.expect("open").forget();
            process(&mux).await;
        });
    }
}

impl ProcessManager for RecordingManager {
    fn add(&self, era: Era) -> Result<Arc<Multiplexer>, RpcError> {
        if self.notes().iter().filter(|(what, _)| *what == "add").count() + 1 >= PROCESSES {
            return Err(too_many_processes(PROCESSES));
        }
        self.note("add", era);
        let mux = Multiplexer::new(MuxLimits::default());
        mux.reset_for_era(era);
        self.start(&mux);
        Ok(mux)
    }

    fn restart(&self, mux: &Arc<Multiplexer>, era: Era) {
        self.note("renew", era);
        self.start(mux);
    }

    fn remove(&self, _: &Arc<Multiplexer>) {}
}

async fn router() -> (Arc<Router>, Arc<RecordingManager>, Arc<Multiplexer>) {
    router_with(MuxLimits::default()).await
}

async fn router_with(limits: MuxLimits) -> (Arc<Router>, Arc<RecordingManager>, Arc<Multiplexer>) {
    let first = Multiplexer::new(limits);
    first.reset_for_era(Era::Modern);
    process(&first).await;
    let processes =
        Arc::new(RecordingManager { notes: Mutex::default(), starts: Arc::new(Semaphore::new(0)) });
    let router = Router::new(Arc::clone(&first), processes.clone(), limits);
    (Arc::new(router), processes, first)
}

fn initialize() -> Message {
    Message::parse(Bytes::from_static(INITIALIZE)).expect("a message")
}

#[tokio::test]
async fn clients_with_capabilities_share_a_process_only_with_their_own_sessions() {
    let (router, processes, _) = router().await;
    let plain = String::from_utf8_lossy(INITIALIZE).into_owned();
    let asked = plain.replace("\"capabilities\":{}", "\"capabilities\":{\"sampling\":{}}");
    let owner = |name: &str| Some(Owner::new("", name, ""));
    for (name, text, started) in
        [("a", &asked, 1), ("a", &asked, 1), ("b", &asked, 2), ("a", &plain, 3), ("b", &plain, 3)]
    {
        let message = Message::parse(text.clone().into()).expect("a message");
        processes.starts.add_permits(1);
        with_timeout(router.initialize(message, owner(name))).await.expect("a session");
        assert_eq!(processes.notes().len(), started, "{name}");
    }
}

#[tokio::test]
async fn a_process_serving_stateless_requests_is_not_reused_for_a_handshake() {
    let (router, processes, first) = router().await;
    // The request is not sent yet: its headers are checked first, which may need the server.
    processes.starts.add_permits(1);
    let given = router.stateless_mux().expect("a process");
    assert!(Arc::ptr_eq(&given, &first));
    with_timeout(router.initialize(initialize(), None)).await.expect("a session");
    assert_eq!(processes.notes(), [("add", Era::Legacy)]);
    assert_eq!(given.era(), Some(Era::Modern));
}

#[tokio::test]
async fn a_process_restarting_for_a_handshake_is_not_given_to_a_stateless_request() {
    let (router, processes, first) = router().await;
    let opens = open(&router, initialize());
    assert_eq!(processes.notes(), []);
    tokio::task::yield_now().await;
    assert_eq!(processes.notes(), [("renew", Era::Legacy)]);
    let given = router.stateless_mux().expect("a process");
    assert!(!Arc::ptr_eq(&given, &first));
    assert_eq!(processes.notes(), [("renew", Era::Legacy), ("add", Era::Modern)]);
    processes.starts.add_permits(2);
    with_timeout(opens).await.expect("no panic").expect("a session");
}

/// Opens a session in a task of its own.
fn open(router: &Arc<Router>, message: Message) -> tokio::task::JoinHandle<Result<SessionId, RpcError>> {
    let router = Arc::clone(router);
    tokio::spawn(async move {
        router.initialize(message, None).await.map(|opened| opened.session.expect("a session"))
    })
}

/// An `initialize` with parameters of its own.
fn distinct_initialize(number: usize) -> Message {
    let text = String::from_utf8_lossy(INITIALIZE)
        .replace("{}}}", &format!("{{\"experimental\":{{\"{number}\":{{}}}}}}}}}}"));
    Message::parse(text.into()).expect("a message")
}

#[tokio::test]
async fn a_slow_start_holds_up_no_other_client() {
    let (router, processes, _) = router().await;
    let slow = open(&router, distinct_initialize(1));
    tokio::task::yield_now().await;
    // Permits are granted in the order of requests, so this client gets a permit first.
    let other = open(&router, distinct_initialize(2));
    tokio::task::yield_now().await;
    assert_eq!(processes.notes(), [("renew", Era::Legacy), ("add", Era::Legacy)]);
    processes.starts.add_permits(2);
    with_timeout(slow).await.expect("no panic").expect("a session");
    with_timeout(other).await.expect("no panic").expect("a session");
}

#[tokio::test]
async fn processes_of_disconnected_clients_are_reused() {
    let (router, processes, first) = router().await;
    for number in 0..20 {
        let hung_up = open(&router, distinct_initialize(number));
        tokio::task::yield_now().await;
        hung_up.abort();
    }
    // The process that is being started for the first client is assigned to the next client.
    assert_eq!(processes.notes(), [("renew", Era::Legacy)]);
    processes.starts.add_permits(1);
    with_timeout(open(&router, distinct_initialize(30))).await.expect("no panic").expect("a session");
    assert_eq!((processes.notes().len(), first.session_and_call_count()), (1, (1, 0)));
}

#[tokio::test]
async fn without_a_free_process_a_client_shares_a_compatible_one_or_is_rejected() {
    let (router, processes, _) = router().await;
    processes.starts.add_permits(100);
    for number in 0..PROCESSES {
        with_timeout(open(&router, distinct_initialize(number))).await.expect("no panic").expect("a session");
    }
    let refused = with_timeout(open(&router, distinct_initialize(99)))
        .await
        .expect("no panic")
        .expect_err("no process");
    assert_eq!((refused.status.as_u16(), refused.reason), (503, Some(Reason::TooManyProcesses)));
    // A client without capabilities gets no server requests.
    with_timeout(open(&router, initialize())).await.expect("no panic").expect("a session");
}

#[tokio::test]
async fn a_process_is_reclaimed_from_idle_clients() {
    let limits = MuxLimits { reclaim_after: Duration::ZERO, ..MuxLimits::default() };
    let (router, processes, first) = router_with(limits).await;
    processes.starts.add_permits(100);
    let mut sessions = Vec::new();
    for number in 0..PROCESSES {
        sessions.push(
            with_timeout(open(&router, distinct_initialize(number)))
                .await
                .expect("no panic")
                .expect("a session"),
        );
    }
    with_timeout(open(&router, distinct_initialize(99))).await.expect("no panic").expect("a session");
    assert_eq!(first.session_and_call_count(), (1, 0));
    assert_eq!(sessions.iter().filter(|id| router.mux_of_session(id).is_err()).count(), 1);
}

#[tokio::test]
async fn one_caller_does_not_get_all_processes() {
    let (router, processes, _) = router().await;
    processes.starts.add_permits(100);
    let owner = |name: &str, client: usize| Some(Owner::new("", name, &client.to_string()));
    let mut refused = None;
    for number in 0..PROCESSES {
        // Each process is opened by one client, and shared with another.
        for client in [2 * number, 2 * number + 1] {
            let opened =
                with_timeout(router.initialize(distinct_initialize(number), owner("a", client))).await;
            refused = refused.or(opened.err());
        }
    }
    assert_eq!(refused.expect("a refusal").reason, Some(Reason::TooManyProcesses));
    assert_eq!(processes.notes().len(), MuxLimits::default().max_processes_per_caller);
    with_timeout(router.initialize(distinct_initialize(50), owner("b", 0))).await.expect("a session");
}

#[tokio::test]
async fn the_last_process_that_is_ready_stays() {
    let (router, processes, first) = router().await;
    // Another process, which is still starting, is added to the first one, which is in use.
    first.claim_for_stateless();
    let slow = open(&router, distinct_initialize(1));
    tokio::task::yield_now().await;
    assert_eq!(processes.notes(), [("add", Era::Legacy)]);
    slow.abort();
    let late = std::time::Instant::now() + 2 * MuxLimits::default().process_idle_timeout;
    let is_gone = async {
        while !slow.is_finished() {
            tokio::task::yield_now().await;
        }
    };
    with_timeout(is_gone).await;
    router.sweep(late);
    assert_eq!(router.health(), Ok(()), "the one that is ready");
    assert!(first.is_ready());
}

#[tokio::test]
async fn a_process_that_was_given_up_is_not_taken_for_starting() {
    let (_, _, first) = router().await;
    first.mark_failed("it is gone");
    first.claim(Era::Legacy);
    let refused = with_timeout(first.wait_until_connected()).await.expect_err("no process");
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
    let (router, processes, _) =
        router_with(MuxLimits { max_sessions: 10, max_sessions_per_caller: 4, ..MuxLimits::default() }).await;
    processes.starts.add_permits(1);
    let owner = |name: &str, client: usize| Some(Owner::new("", name, &client.to_string()));
    let open = async |name: &str, client: usize| {
        let opened =
            with_timeout(router.initialize(initialize(), owner(name, client))).await.expect("a session");
        opened.session.expect("a session")
    };
    let other = open("b", 0).await;
    let mut sessions = Vec::new();
    for client in 0..20 {
        sessions.push(open("a", client).await);
        // With the deprecated transport, the session exists before its `initialize`.
        let (early, _) = router.open_session(owner("a", client)).expect("a session");
        sessions.push(early);
    }
    let lives = |id: &SessionId| router.is_uninitialized(id) || router.mux_of_session(id).is_ok();
    assert!(lives(&other));
    let left: Vec<bool> = sessions.iter().map(lives).collect();
    assert_eq!(left.iter().filter(|lives| **lives).count(), 4);
    assert!(left[36..].iter().all(|lives| *lives), "those that were used last: {left:?}");
    // If there is no room at all, the caller with the most sessions loses one.
    for name in ["c", "d", "e", "f", "g", "h"] {
        open(name, 0).await;
    }
    assert_eq!(sessions.iter().filter(|id| lives(id)).count(), 3);
    assert!(lives(&other));
}

#[tokio::test]
async fn without_authentication_the_least_recently_used_session_is_evicted() {
    let (router, processes, _) = router_with(MuxLimits { max_sessions: 3, ..MuxLimits::default() }).await;
    processes.starts.add_permits(1);
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(with_timeout(open(&router, initialize())).await.expect("no panic").expect("a session"));
    }
    assert!(router.mux_of_session(&sessions[0]).is_ok(), "used again");
    sessions.push(with_timeout(open(&router, initialize())).await.expect("no panic").expect("a session"));
    let lives: Vec<bool> = sessions.iter().map(|id| router.mux_of_session(id).is_ok()).collect();
    assert_eq!(lives, [true, false, true, true]);
}

#[tokio::test]
async fn a_session_whose_stream_ends_while_it_is_opened_is_not_kept() {
    let (router, processes, _) = router().await;
    let (id, reader) = router.open_session(None).expect("a session");
    let opens = {
        let (router, id) = (Arc::clone(&router), id.clone());
        tokio::spawn(async move { router.initialize_session(initialize(), &id).await })
    };
    while router.is_uninitialized(&id) {
        tokio::task::yield_now().await;
    }
    drop(reader);
    router.abandon_session(&id);
    processes.starts.add_permits(1);
    with_timeout(opens).await.expect("no panic").expect("an answer that nobody reads");
    assert!(router.mux_of_session(&id).is_err());
    assert_eq!(router.session_and_call_count(), (0, 0));
}
