//! Tests of processes that start, exit, and are no longer needed.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream},
    sync::{Notify, mpsc, oneshot},
};

use super::{
    Process, ProcessControl, ProcessExit, ProcessOutput, RestartPolicy, ServerEvent, Spawn,
    process_pool::{PoolConfig, ProcessPool},
};
use crate::{
    Error, ErrorKind, Result,
    mcp::{era::Era, message::Message},
    stdio::{
        mux::{MuxLimits, Readiness},
        router::{ProcessManager as _, Router},
    },
    testing::with_timeout,
};

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(3600);
const SECOND: Duration = Duration::from_secs(1);

/// The behaviour of a simulated process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProcessScript {
    /// It cannot be started, because the engine is unavailable.
    EngineUnavailable,
    /// It cannot be started.
    Fails,
    /// It responds and runs until it is stopped.
    Lives,
    /// It responds and exits after a while.
    Ends(Duration),
    /// It does not respond, and exits slowly.
    Lingers,
    /// It responds once, closes its output and keeps running.
    ClosesOutput,
    /// It responds once, closes its input and keeps running.
    ClosesInput,
}

/// Starts processes that follow the script of a test.
#[derive(Debug)]
struct ScriptedSpawner {
    plan: Mutex<Vec<ProcessScript>>,
    started: AtomicUsize,
    slots: Mutex<Vec<usize>>,
    stop_calls: mpsc::UnboundedSender<()>,
    gate: Mutex<Option<oneshot::Receiver<()>>>,
    ends: Arc<Notify>,
}

struct ScriptedControl {
    lives_on: bool,
    asked_to_end: mpsc::UnboundedSender<()>,
    gate: Option<oneshot::Receiver<()>>,
}

fn ended() -> ProcessExit {
    ProcessExit { exit: None, reason: "ended".to_owned(), transient: false }
}

#[async_trait]
impl ProcessControl for ScriptedControl {
    async fn wait(&mut self) -> ProcessExit {
        if self.lives_on {
            std::future::pending::<()>().await;
        }
        ended()
    }

    async fn stop(&mut self, _grace: Duration) {
        // The test may be over.
        let _ = self.asked_to_end.send(());
        if let Some(gate) = self.gate.take() {
            gate.await.expect("a gate that opens");
        }
    }
}

#[async_trait]
impl Spawn for ScriptedSpawner {
    async fn spawn(&self, slot: usize) -> Result<Process> {
        self.slots.lock().expect("unpoisoned").push(slot);
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let act = {
            let plan = self.plan.lock().expect("unpoisoned");
            *plan.get(number).or(plan.last()).expect("a plan")
        };
        let failed = |kind| Err(Error::new(kind, "no process"));
        let life = match act {
            ProcessScript::EngineUnavailable => return failed(ErrorKind::EngineUnavailable),
            ProcessScript::Fails => return failed(ErrorKind::StartFailed),
            ProcessScript::Lives
            | ProcessScript::Lingers
            | ProcessScript::ClosesOutput
            | ProcessScript::ClosesInput => None,
            ProcessScript::Ends(life) => Some(life),
        };
        let asked_to_end = self.stop_calls.clone();
        if matches!(act, ProcessScript::ClosesOutput | ProcessScript::ClosesInput) {
            let ((stdin, input), (output, stdout)) = (tokio::io::duplex(1024), tokio::io::duplex(1024));
            tokio::spawn(answer_once(input, output, act));
            let control = Box::new(ScriptedControl { lives_on: true, asked_to_end, gate: None });
            return Ok(Process {
                stdin: Box::new(stdin),
                stdout: ProcessOutput::Pipe(Box::new(stdout)),
                control,
            });
        }
        let (ours, theirs) = tokio::io::duplex(1024);
        let (stdout, stdin) = tokio::io::split(ours);
        let gate =
            if act == ProcessScript::Lingers { self.gate.lock().expect("unpoisoned").take() } else { None };
        if act != ProcessScript::Lingers {
            tokio::spawn(answer(theirs, life, Arc::clone(&self.ends)));
        } else {
            // Both pipes stay open, but the process never responds.
            tokio::spawn(async move {
                let _open = theirs;
                std::future::pending::<()>().await;
            });
        }
        let control = Box::new(ScriptedControl { lives_on: false, asked_to_end, gate });
        Ok(Process { stdin: Box::new(stdin), stdout: ProcessOutput::Pipe(Box::new(stdout)), control })
    }
}

/// Responds to all requests, until it exits.
async fn answer(pipe: DuplexStream, life: Option<Duration>, ends: Arc<Notify>) {
    let (read, mut write) = tokio::io::split(pipe);
    let mut lines = BufReader::new(read).lines();
    let over = async {
        match life {
            Some(life) => tokio::time::sleep(life).await,
            None => ends.notified().await,
        }
    };
    tokio::pin!(over);
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = &mut over => return,
        };
        let Ok(Some(line)) = line else { return };
        let asked: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        if let Some(id) = asked.get("id") {
            let answer = serde_json::json!({
                "jsonrpc": "2.0", "id": id, "result": { "protocolVersion": "2025-11-25" },
            });
            if write.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// Responds to the first request, and closes one of its pipes a second later.
async fn answer_once(input: DuplexStream, mut output: DuplexStream, act: ProcessScript) {
    let mut lines = BufReader::new(input).lines();
    lines.next_line().await.expect("a pipe").expect("a question");
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#;
    output.write_all(format!("{answer}\n").as_bytes()).await.expect("a reader");
    tokio::time::sleep(SECOND).await;
    match act {
        ProcessScript::ClosesOutput => drop(output),
        _ => {
            drop(lines);
            let _open = output;
            std::future::pending::<()>().await;
        }
    }
    std::future::pending::<()>().await;
}

struct PoolFixture {
    keepers: Arc<ProcessPool>,
    planned: Arc<ScriptedSpawner>,
    events: mpsc::UnboundedReceiver<ServerEvent>,
    stops: mpsc::UnboundedReceiver<()>,
    open: Option<oneshot::Sender<()>>,
}

#[derive(Debug)]
struct SharedSpawner(Arc<ScriptedSpawner>);

#[async_trait]
impl Spawn for SharedSpawner {
    async fn spawn(&self, slot: usize) -> Result<Process> {
        self.0.spawn(slot).await
    }
}

impl PoolFixture {
    fn new(policy: RestartPolicy, plan: &[ProcessScript]) -> Self {
        let (asked_to_end, stops) = mpsc::unbounded_channel();
        let (open, gate) = oneshot::channel();
        let planned = Arc::new(ScriptedSpawner {
            plan: Mutex::new(plan.to_vec()),
            started: AtomicUsize::new(0),
            slots: Mutex::default(),
            stop_calls: asked_to_end,
            gate: Mutex::new(Some(gate)),
            ends: Arc::default(),
        });
        let (sender, events) = mpsc::unbounded_channel();
        let keepers = ProcessPool::new(PoolConfig {
            spawn: Arc::new(SharedSpawner(Arc::clone(&planned))),
            policy,
            ready_timeout: Duration::from_secs(60),
            limits: MuxLimits::default(),
            max_processes: 8,
            // The test may be over.
            on_event: Arc::new(move |event| drop(sender.send(event))),
        });
        Self { keepers, planned, events, stops, open: Some(open) }
    }

    async fn event(&mut self) -> ServerEvent {
        tokio::time::timeout(LONG, self.events.recv()).await.expect("an event in time").expect("an event")
    }

    /// Returns the attempts and delays of restarts, up to the event that ends them.
    async fn restarts(&mut self) -> (Vec<(u32, u64)>, ServerEvent) {
        let mut restarts = Vec::new();
        loop {
            match self.event().await {
                ServerEvent::Restarting { attempt, delay, .. } => restarts.push((attempt, delay.as_secs())),
                ServerEvent::Ready => {}
                other => return (restarts, other),
            }
        }
    }
}

fn policy() -> RestartPolicy {
    RestartPolicy { attempts: 4, first_delay: SECOND, max_delay: SECOND * 5, ..RestartPolicy::default() }
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_processes_that_were_on_their_way_out() {
    let mut test = PoolFixture::new(RestartPolicy::NEVER, &[ProcessScript::Lingers]);
    let mux = test.keepers.add(Era::Legacy).expect("a mux");
    tokio::task::yield_now().await;
    test.keepers.remove(&mux);
    with_timeout(test.stops.recv()).await.expect("the process is asked to end");
    let mut stopping = Box::pin(test.keepers.stop(Duration::ZERO));
    assert_eq!((&mut stopping).now_or_never(), None, "its process lives on");
    test.open.take().expect("a gate").send(()).expect("a process that waits");
    stopping.await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_keeps_exiting_is_given_up() {
    let mut test = PoolFixture::new(policy(), &[ProcessScript::Ends(SECOND)]);
    let mux = test.keepers.start_first().await.expect("a process");
    let (restarts, last) = test.restarts().await;
    assert_eq!(restarts, [(1, 1), (2, 2), (3, 4), (4, 5)]);
    assert_eq!(last, ServerEvent::Ended(ended()));
    assert_eq!(test.planned.started.load(Ordering::Relaxed), 5);
    assert!(matches!(*mux.readiness().borrow(), Readiness::Failed(_)));
    assert_eq!(test.keepers.add(Era::Legacy).expect_err("it is over").status, 503);
}

#[tokio::test(start_paused = true)]
async fn a_steady_run_starts_the_count_anew() {
    let plan = [
        ProcessScript::Ends(SECOND),
        ProcessScript::Ends(SECOND),
        ProcessScript::Ends(SECOND * 31),
        ProcessScript::Ends(SECOND),
    ];
    let mut test = PoolFixture::new(policy(), &plan);
    test.keepers.start_first().await.expect("a process");
    let (restarts, _) = test.restarts().await;
    assert_eq!(restarts, [(1, 1), (2, 2), (1, 1), (2, 2), (3, 4), (4, 5)]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_after_a_restart_is_given_up() {
    let mut test = PoolFixture::new(policy(), &[ProcessScript::Ends(SECOND), ProcessScript::Lingers]);
    test.open.take().expect("a gate").send(()).expect("a process that ends when it is told to");
    let first = test.keepers.start_first().await.expect("a process");
    let router = Router::new(first, Arc::clone(&test.keepers) as _, MuxLimits::default());
    let initialize = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "a", "version": "1" },
        },
    });
    let initialize = Message::parse(initialize.to_string().into()).expect("a message");
    router.initialize(initialize, None).await.expect("a session");
    let given_up = tokio::time::timeout(LONG, test.restarts()).await;
    let (restarts, last) = given_up.expect("a server that is given up");
    assert_eq!(restarts, [(1, 1), (2, 2), (3, 4), (4, 5)]);
    assert!(matches!(last, ServerEvent::Ended(_)), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_a_pipe_and_lives_on_is_ended_and_started_again() {
    for (act, reason) in [
        (ProcessScript::ClosesOutput, "closed its output and did not exit"),
        (ProcessScript::ClosesInput, "closed its input and did not exit"),
    ] {
        let mut test = PoolFixture::new(policy(), &[act, ProcessScript::Lives]);
        let mux = test.keepers.start_first().await.expect("a process");
        assert_eq!(test.event().await, ServerEvent::Ready);
        tokio::time::sleep(SECOND * 2).await;
        let note = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
        let begin = tokio::time::Instant::now();
        mux.notify(&Message::parse(note).expect("a message"), None).await.expect("room");
        let event = test.event().await;
        let ServerEvent::Restarting { ended, .. } = event else { panic!("{event:?}") };
        assert_eq!(ended.reason, reason);
        assert!(begin.elapsed() < SECOND * 15, "{:?}", begin.elapsed());
        test.stops.try_recv().expect("it was ended");
        assert_eq!(test.event().await, ServerEvent::Ready);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_does_not_wait_for_a_server_that_closed_its_output() {
    for pause in [SECOND + SECOND / 2, SECOND * 5] {
        let mut test = PoolFixture::new(policy(), &[ProcessScript::ClosesOutput]);
        let mux = test.keepers.start_first().await.expect("a process");
        assert_eq!(test.event().await, ServerEvent::Ready);
        tokio::time::sleep(pause).await;
        // Its calls get errors if it does not exit immediately.
        assert_eq!(*mux.readiness().borrow() == Readiness::Ready, pause < SECOND * 2);
        let begin = tokio::time::Instant::now();
        test.keepers.stop(SECOND).await;
        assert!(begin.elapsed() < SECOND, "{:?}", begin.elapsed());
        test.stops.try_recv().expect("it was ended");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_engine_is_retried_without_end() {
    let mut plan = vec![ProcessScript::Ends(SECOND)];
    plan.extend([ProcessScript::EngineUnavailable; 12]);
    plan.push(ProcessScript::Ends(SECOND));
    let mut test = PoolFixture::new(policy(), &plan);
    test.keepers.start_first().await.expect("a process");
    let (restarts, last) = test.restarts().await;
    assert_eq!(restarts[..5], [(1, 1), (1, 1), (1, 2), (1, 4), (1, 5)]);
    assert_eq!(restarts[13..], [(2, 2), (3, 4), (4, 5)]);
    assert_eq!(last, ServerEvent::Ended(ended()));
}

#[tokio::test(start_paused = true)]
async fn a_failed_process_restart_is_retried_and_reported() {
    let mut test = PoolFixture::new(
        policy(),
        &[ProcessScript::Lives, ProcessScript::Fails, ProcessScript::Fails, ProcessScript::Lives],
    );
    let mux = test.keepers.start_first().await.expect("a process");
    assert_eq!(test.event().await, ServerEvent::Ready);
    mux.claim(Era::Legacy);
    test.keepers.restart(&mux, Era::Legacy);
    for attempt in 1..=2 {
        let event = test.event().await;
        let ServerEvent::Restarting { ended, attempt: told, .. } = event else { panic!("{event:?}") };
        assert_eq!((&*ended.reason, told), ("could not be started: no process", attempt));
    }
    assert_eq!(test.event().await, ServerEvent::Ready);
    assert_eq!(*mux.readiness().borrow(), Readiness::Ready);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_one_process_is_not_the_end_of_the_server() {
    let mut test = PoolFixture::new(policy(), &[ProcessScript::Lives, ProcessScript::Ends(SECOND)]);
    test.keepers.start_first().await.expect("a process");
    assert_eq!(test.event().await, ServerEvent::Ready);
    let other = test.keepers.add(Era::Legacy).expect("another");
    loop {
        match test.event().await {
            ServerEvent::ProcessReady { process: 1 } | ServerEvent::ProcessRestarting { process: 1, .. } => {}
            ServerEvent::ProcessEnded { process: 1, .. } => break,
            event => panic!("{event:?}"),
        }
    }
    assert!(matches!(*other.readiness().borrow(), Readiness::Failed(_)));
    // The server has ended only when its last process has ended.
    *test.planned.plan.lock().expect("unpoisoned") = vec![ProcessScript::Ends(SECOND)];
    test.planned.ends.notify_waiters();
    assert_eq!(test.restarts().await.1, ServerEvent::Ended(ended()));
}

#[tokio::test(start_paused = true)]
async fn processes_are_bounded_those_that_are_ending_included() {
    let mut test =
        PoolFixture::new(policy(), &[ProcessScript::Lives, ProcessScript::Lingers, ProcessScript::Lives]);
    test.keepers.start_first().await.expect("a process");
    let lingering = test.keepers.add(Era::Legacy).expect("another");
    tokio::task::yield_now().await;
    for _ in 2..8 {
        test.keepers.add(Era::Legacy).expect("another");
    }
    assert!(test.keepers.add(Era::Legacy).expect_err("too many").reason.is_some());
    test.keepers.remove(&lingering);
    with_timeout(test.stops.recv()).await.expect("the process is asked to end");
    assert!(test.keepers.add(Era::Legacy).is_err(), "it has not ended yet");
    test.open.take().expect("a gate").send(()).expect("a process that waits");
    tokio::time::sleep(SECOND).await;
    test.keepers.add(Era::Legacy).expect("room again");
    tokio::time::sleep(SECOND).await;
    assert_eq!(test.planned.slots.lock().expect("unpoisoned").last(), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn processes_that_do_not_start_are_not_tried_without_a_pause() {
    let mut test = PoolFixture::new(policy(), &[ProcessScript::Lives, ProcessScript::Fails]);
    test.keepers.start_first().await.expect("a process");
    assert_eq!(test.event().await, ServerEvent::Ready);
    test.keepers.add(Era::Legacy).expect("a mux");
    assert!(matches!(test.event().await, ServerEvent::ProcessEnded { process: 1, .. }));
    assert_eq!(test.keepers.add(Era::Legacy).expect_err("a pause").status, 503);
    tokio::time::sleep(SECOND * 2).await;
    test.keepers.add(Era::Legacy).expect("a mux");
}
