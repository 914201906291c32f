//! What becomes of processes that are no longer needed.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use tokio::{
    io::DuplexStream,
    sync::{mpsc, oneshot},
};

use super::{
    Control, Ended, Output, Process, RestartPolicy, Spawn,
    keeper::{Keepers, Settings},
};
use crate::{
    Result,
    mcp::{era::Era, lane::Limits, router::Processes as _},
};

/// Starts processes that say nothing and end when the test lets them.
#[derive(Debug)]
struct Gates {
    asked: mpsc::UnboundedSender<()>,
    gates: Mutex<Vec<oneshot::Receiver<()>>>,
    pipes: Mutex<Vec<DuplexStream>>,
}

struct Gated {
    asked: mpsc::UnboundedSender<()>,
    gate: Option<oneshot::Receiver<()>>,
}

#[async_trait]
impl Control for Gated {
    async fn wait(&mut self) -> Ended {
        std::future::pending().await
    }

    async fn stop(&mut self, _grace: Duration) {
        self.asked.send(()).expect("a test that listens");
        if let Some(gate) = self.gate.take() {
            gate.await.expect("a gate that opens");
        }
    }
}

#[async_trait]
impl Spawn for Gates {
    async fn spawn(&self, _slot: usize) -> Result<Process> {
        let (ours, theirs) = tokio::io::duplex(1024);
        self.pipes.lock().expect("unpoisoned").push(theirs);
        let gate = self.gates.lock().expect("unpoisoned").pop();
        let (stdout, stdin) = tokio::io::split(ours);
        let control = Box::new(Gated { asked: self.asked.clone(), gate });
        Ok(Process { stdin: Box::new(stdin), stdout: Output::Pipe(Box::new(stdout)), control })
    }
}

#[tokio::test]
async fn a_stop_waits_for_processes_that_were_on_their_way_out() {
    let (asked, mut stops) = mpsc::unbounded_channel();
    let (open, gate) = oneshot::channel();
    let spawn = Gates { asked, gates: Mutex::new(vec![gate]), pipes: Mutex::default() };
    let keepers = Keepers::new(Settings {
        spawn: Arc::new(spawn),
        policy: RestartPolicy::NEVER,
        patience: Duration::from_secs(60),
        limits: Limits::default(),
        on_event: Arc::new(drop),
    });
    let lane = keepers.add(Era::Legacy).await.expect("a lane");
    keepers.remove(&lane);
    stops.recv().await.expect("the process is asked to end");
    let mut stopping = Box::pin(keepers.stop(Duration::ZERO));
    assert_eq!((&mut stopping).now_or_never(), None, "its process lives on");
    open.send(()).expect("a process that waits");
    stopping.await;
}
