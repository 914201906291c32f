//! Starts `scripted-server`, returns the reports of its processes, and sends them commands.

use std::path::{Path, PathBuf};

use mcpm::{
    proxy::{RunningStdioProxy, StdioProxy},
    stdio::{LocalProcess, RestartPolicy, ServerEvent},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, tcp::OwnedWriteHalf},
    sync::mpsc,
};

use super::{http::Http, with_timeout};

/// A server that is not started yet, and the socket to which its processes report.
#[derive(Debug)]
pub struct ScriptedServer {
    program: PathBuf,
    reports: TcpListener,
}

impl ScriptedServer {
    /// Creates a server from the path of the program.
    pub async fn new(program: impl AsRef<Path>) -> Self {
        let reports = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { program: program.as_ref().to_owned(), reports }
    }

    /// The command that starts its processes.
    pub fn process(&self, flags: &[&str]) -> LocalProcess {
        let address = self.reports.local_addr().unwrap().to_string();
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        LocalProcess::new(&self.program, ["--control".to_owned(), address].into_iter().chain(flags))
    }

    /// Waits for the next process.
    pub async fn next_process(&self) -> ServerProcess {
        let (stream, _) = with_timeout("a server to start", self.reports.accept()).await.unwrap();
        let (read, orders) = stream.into_split();
        let (sender, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(read).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        ServerProcess { events, orders }
    }

    /// Puts a proxy in front of the server, which restarts the server at once when it exits.
    pub async fn start(self, flags: &[&str]) -> ScriptedProxy {
        let proxy = StdioProxy::new("scripted", self.process(flags));
        self.serve(proxy).await
    }

    /// Puts a proxy in front of the server that the caller has configured with [`process`](Self::process).
    pub async fn serve(self, proxy: StdioProxy) -> ScriptedProxy {
        let (sender, events) = mpsc::unbounded_channel();
        let first_delay = std::time::Duration::from_millis(1);
        let running =
            proxy.restarts(RestartPolicy { first_delay, ..RestartPolicy::default() }).start(move |event| {
                // The test may have ended.
                let _ = sender.send(event);
            });
        let running = with_timeout("the proxy to start", running).await.unwrap();
        let life = self.next_process().await;
        ScriptedProxy {
            http: Http(running.proxy().address().unwrap()),
            running,
            script: self,
            process: life,
            events,
        }
    }
}

/// The one field that every message except a response has; other fields may contain values that a [`Value`] cannot
/// represent.
#[derive(Deserialize)]
struct Method {
    method: Option<String>,
}

/// One process of a scripted server.
#[derive(Debug)]
pub struct ServerProcess {
    events: mpsc::UnboundedReceiver<Vec<u8>>,
    orders: OwnedWriteHalf,
}

impl ServerProcess {
    /// Waits for the next report: a line that the server received, after `< `, or another report, after `! `.
    pub async fn next_report(&mut self) -> Option<Vec<u8>> {
        with_timeout("a report of the server", self.events.recv()).await
    }

    /// Waits until the server receives a message with this method, and returns its line.
    pub async fn line(&mut self, method: &str) -> String {
        loop {
            let report =
                self.next_report().await.unwrap_or_else(|| panic!("the server ended before `{method}`"));
            let Some(line) = report.strip_prefix(b"< ") else { continue };
            let line = String::from_utf8(line.to_vec()).unwrap();
            if serde_json::from_str::<Method>(&line)
                .is_ok_and(|found| found.method.as_deref() == Some(method))
            {
                return line;
            }
        }
    }

    /// Waits until the server receives a message with this method.
    pub async fn received(&mut self, method: &str) -> Value {
        serde_json::from_str(&self.line(method).await).unwrap()
    }

    /// All messages that the server has received and that were not returned yet.
    pub async fn drain_received(&mut self) -> Vec<Value> {
        self.send_command("mark so far").await;
        let mut all = Vec::new();
        loop {
            match self.next_report().await {
                Some(report) if report == b"! so far" => return all,
                Some(report) => {
                    all.extend(
                        report.strip_prefix(b"< ").map(|line| serde_json::from_slice::<Value>(line).unwrap()),
                    );
                }
                None => panic!("the server ended"),
            }
        }
    }

    /// Opens a gate, so that waiting calls continue.
    pub async fn open(&mut self, gate: &str) {
        self.send_command(&format!("open {gate}")).await;
    }

    /// Makes the server write a message.
    pub async fn send(&mut self, message: &Value) {
        self.send_command(&format!("say {message}")).await;
    }

    /// Ends the process, and waits until it has exited.
    pub async fn exit(&mut self, code: u8) {
        self.send_command(&format!("exit {code}")).await;
        self.ended().await;
    }

    /// Waits until the process has exited, and returns the last reports.
    pub async fn ended(&mut self) -> Vec<String> {
        let mut last = Vec::new();
        while let Some(report) = self.next_report().await {
            last.push(String::from_utf8_lossy(&report).into_owned());
        }
        last
    }

    async fn send_command(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).await.unwrap();
    }
}

/// A scripted server behind a running proxy.
#[derive(Debug)]
pub struct ScriptedProxy {
    /// The address of the proxy.
    pub http: Http,
    /// The proxy.
    pub running: RunningStdioProxy,
    /// Returns the next processes.
    pub script: ScriptedServer,
    /// The first process.
    pub process: ServerProcess,
    /// The server events of the proxy.
    pub events: mpsc::UnboundedReceiver<ServerEvent>,
}

impl ScriptedProxy {
    /// Ends the first process, and waits until the proxy has noticed.
    pub async fn crash(&mut self, code: u8) {
        self.process.exit(code).await;
        while !matches!(
            with_timeout("the end of the server", self.events.recv()).await,
            Some(ServerEvent::Restarting { .. } | ServerEvent::ProcessRestarting { .. })
        ) {}
    }
}
