//! The child process that holds a tunnel.

use std::{collections::VecDeque, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    sync::mpsc,
    time::timeout,
};

use crate::{Error, ErrorKind, Result, environment::Variables, options::Secret};

/// How long a program may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest line of output in bytes; the rest of a longer one is a line of its own.
const MAX_LINE_BYTES: u64 = 16 << 10;
/// Lines that wait to be read.
const MAX_QUEUED_LINES: usize = 64;
/// Last lines that an error shows.
const MAX_SHOWN_LINES: usize = 5;
/// How long the rest of the output is waited for after the program has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// A program with its arguments, none of which is a secret.
#[derive(Debug, Clone)]
pub(super) struct ChildCommand {
    pub(super) argv: Vec<String>,
    /// Variables that are not secret: those of this process, as a rule.
    pub(super) inherited: Variables,
    /// Secret variables.
    pub(super) variables: Vec<(String, Secret)>,
}

/// What a line of output says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing of interest.
    None,
    /// The URL for clients, or the port at the other end.
    Url(String),
    Port(u16),
    /// The tunnel is up.
    Up,
}

/// A running program.
#[derive(Debug)]
pub(super) struct ChildTunnel {
    child: Child,
    lines: mpsc::Receiver<String>,
    last_lines: VecDeque<String>,
}

/// What a program has said while it connected.
#[derive(Debug, Default)]
pub(super) struct Connected {
    pub(super) url: Option<String>,
    pub(super) port: Option<u16>,
}

impl ChildTunnel {
    /// Starts the program.
    pub(super) fn start(command: &ChildCommand) -> Result<Self> {
        let Some((program, args)) = command.argv.split_first() else {
            return Err(Error::new(ErrorKind::InvalidOption, "the command of the tunnel is empty"));
        };
        let mut child = Command::new(program);
        let started = child
            .args(args)
            .env_clear()
            .envs(command.inherited.iter())
            .envs(command.variables.iter().map(|(name, value)| (name, value.expose())))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let failed = |error| {
            Error::new(ErrorKind::StartFailed, format!("cannot start `{program}`"))
                .source(error)
                .hint("install it, or add its folder to `PATH`")
        };
        let mut child = started.map_err(failed)?;
        let (sender, lines) = mpsc::channel(MAX_QUEUED_LINES);
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(read_lines(stdout, sender.clone()));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(read_lines(stderr, sender));
        }
        Ok(Self { child, lines, last_lines: VecDeque::new() })
    }

    /// Reads the output until `parse` says that the tunnel is up.
    ///
    /// # Errors
    /// `Upstream` if the program ends before, or takes too long.
    pub(super) async fn wait_until_up(
        &mut self,
        parse: impl Fn(&str) -> Progress + Send,
    ) -> Result<Connected> {
        let mut connected = Connected::default();
        let connecting = async {
            loop {
                let Some(line) = self.next_line().await else {
                    let _ = self.child.wait().await;
                    return false;
                };
                match parse(&line) {
                    Progress::None => {}
                    Progress::Url(url) => connected.url = Some(url),
                    Progress::Port(port) => connected.port = Some(port),
                    Progress::Up => return true,
                }
                if connected.url.is_some() {
                    return true;
                }
            }
        };
        let is_up = timeout(CONNECT_TIMEOUT, connecting).await;
        match is_up {
            Ok(true) => Ok(connected),
            Ok(false) => Err(Error::new(ErrorKind::Upstream, format!("the tunnel {}", self.ended().await))),
            Err(_) => {
                let limit = CONNECT_TIMEOUT.as_secs();
                let message = format!("the tunnel is not up after {limit} s{}", self.shown_lines());
                Err(Error::new(ErrorKind::Upstream, message))
            }
        }
    }

    /// Waits until the program has ended.
    pub(super) async fn wait(&mut self) -> String {
        while self.next_line().await.is_some() {}
        self.ended().await
    }

    /// Asks the program to end, and kills it after `grace`.
    pub(super) async fn stop(&mut self, grace: Duration) {
        if let Some(pid) = self.child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
            && let Err(error) = kill_process(pid, Signal::TERM)
        {
            tracing::debug!(%error, "cannot signal the program of the tunnel: it has ended");
        }
        if timeout(grace, self.child.wait()).await.is_err()
            && let Err(error) = self.child.kill().await
        {
            tracing::warn!(%error, "the program of the tunnel could not be killed");
        }
    }

    /// Waits for the next line, until the program has ended and its output is read.
    async fn next_line(&mut self) -> Option<String> {
        let line = tokio::select! {
            biased;
            line = self.lines.recv() => line,
            // Programs that it started may keep the pipes open.
            _ = self.child.wait() => timeout(OUTPUT_TIMEOUT, self.lines.recv()).await.ok().flatten(),
        }?;
        tracing::debug!(line, "output of the tunnel");
        if self.last_lines.len() == MAX_SHOWN_LINES {
            self.last_lines.pop_front();
        }
        self.last_lines.push_back(line.clone());
        Some(line)
    }

    async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("has ended ({status}){}", self.shown_lines()),
            Err(error) => format!("was lost: {error}"),
        }
    }

    fn shown_lines(&self) -> String {
        let lines: Vec<&str> =
            self.last_lines.iter().filter(|line| !line.starts_with("debug1:")).map(String::as_str).collect();
        if lines.is_empty() { String::new() } else { format!("; its last output: {}", lines.join(" | ")) }
    }
}

async fn read_lines(pipe: impl AsyncRead + Unpin, lines: mpsc::Sender<String>) {
    let mut pipe = BufReader::new(pipe);
    loop {
        let mut line = Vec::new();
        match (&mut pipe).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                if lines.send(text.trim_end().to_owned()).await.is_err() {
                    return;
                }
            }
        }
    }
}
