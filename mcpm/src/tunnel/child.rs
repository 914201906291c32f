//! Runs the process group that keeps a tunnel open.

use std::{collections::VecDeque, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::{Child, Command},
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    Error, ErrorKind, Result,
    environment::Variables,
    options::Secret,
    platform::{ProcessGroup, Signal},
    redact::{Redactor, is_secret_name, truncate},
};

/// Timeout for a program to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a line of output in bytes; the rest of a longer line is treated as another line.
const MAX_LINE_BYTES: u64 = 16 << 10;
/// Maximum number of lines that wait to be read.
const MAX_QUEUED_LINES: usize = 64;
/// Number of last lines that an error shows.
const MAX_SHOWN_LINES: usize = 5;
/// Maximum length of a shown line of output in bytes.
const MAX_SHOWN_BYTES: usize = 500;
/// Interval of the checks whether processes of the group remain.
const GROUP_INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait for the rest of the output after the program has ended.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);

/// A program with its arguments, none of which is a secret.
#[derive(Debug, Clone)]
pub(super) struct ChildCommand {
    pub(super) argv: Vec<String>,
    /// Variables that the program inherits from this process.
    pub(super) inherited: Variables,
    /// Variables whose values are secret.
    pub(super) variables: Vec<(String, Secret)>,
}

/// The information in a line of output.
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

impl Progress {
    /// Reads a line that is a URL.
    pub(super) fn of_url(line: &str) -> Self {
        let is_url = line.starts_with("https://") || line.starts_with("http://");
        match is_url && !line.contains(|c: char| c.is_whitespace() || c.is_control()) {
            true => Self::Url(line.to_owned()),
            false => Self::None,
        }
    }
}

/// A running program with the processes that it started. Dropping it kills them.
///
/// They form a process group, which is killed as a whole: otherwise, a wrapper such as `sh -c` or `npx` would leave the
/// tunnel open when it ends.
#[derive(Debug)]
pub(super) struct ChildTunnel {
    program: String,
    child: Child,
    /// `None` once no process of the group remains.
    group: Option<ProcessGroup>,
    redactor: Redactor,
    lines: mpsc::Receiver<String>,
    last_lines: VecDeque<String>,
}

/// The output of a program while it connected.
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
        let started = ProcessGroup::prepare(&mut child)
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
        let inherited = command.inherited.iter().filter(|(name, _)| is_secret_name(name));
        let inherited = inherited.map(|(_, value)| Secret::from(value));
        let secrets = command.variables.iter().map(|(_, value)| value.clone()).chain(inherited);
        Ok(Self {
            program: program.clone(),
            group: ProcessGroup::of(&child),
            child,
            redactor: Redactor::new(secrets, &[]),
            lines,
            last_lines: VecDeque::new(),
        })
    }

    /// Reads the output until `parse` finds that the tunnel is up.
    ///
    /// # Errors
    /// `Upstream` if the program ends before that, or takes too long.
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
            Ok(false) => {
                let message = format!("the tunnel cannot be opened: {}", self.ended().await);
                Err(Error::new(ErrorKind::Upstream, message))
            }
            Err(_) => {
                let limit = CONNECT_TIMEOUT.as_secs();
                let message = format!("the tunnel is not up after {limit} s{}", self.shown_lines());
                Err(Error::new(ErrorKind::Upstream, message))
            }
        }
    }

    /// Waits until the program has ended, and describes how it ended.
    pub(super) async fn wait(&mut self) -> String {
        while self.next_line().await.is_some() {}
        self.ended().await
    }

    /// Sends a termination signal to the processes, and kills those that remain after `grace`.
    pub(super) async fn stop(&mut self, grace: Duration) {
        self.signal_group(Signal::TERM);
        let ended = async {
            let _ = self.child.wait().await;
            // The system does not reuse the pid of the leader while its group has processes.
            while self.group.is_some_and(ProcessGroup::remains) {
                sleep(GROUP_INTERVAL).await;
            }
        };
        if timeout(grace, ended).await.is_err() {
            self.signal_group(Signal::KILL);
            if let Err(error) = self.child.wait().await {
                tracing::warn!(%error, "cannot wait for `{}`", self.program);
            }
        }
        self.group = None;
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group
            && let Err(error) = group.signal(signal)
        {
            tracing::debug!(%error, "cannot signal the processes of the tunnel: they have ended");
        }
    }

    /// Waits for the next line, until the program has ended and its output is read.
    async fn next_line(&mut self) -> Option<String> {
        let line = tokio::select! {
            biased;
            line = self.lines.recv() => line,
            // Programs that the program has started may keep the pipes open.
            _ = self.child.wait() => timeout(OUTPUT_TIMEOUT, self.lines.recv()).await.ok().flatten(),
        }?;
        let shown = self.redactor.redact_with_urls(&line).replace(char::is_control, " ");
        let shown = truncate(&shown, MAX_SHOWN_BYTES).into_owned();
        tracing::debug!(line = shown, "output of the tunnel");
        if self.last_lines.len() == MAX_SHOWN_LINES {
            self.last_lines.pop_front();
        }
        self.last_lines.push_back(shown);
        Some(line)
    }

    async fn ended(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("`{}` ended ({status}){}", self.program, self.shown_lines()),
            Err(error) => format!("cannot wait for `{}`: {error}", self.program),
        }
    }

    fn shown_lines(&self) -> String {
        let lines: Vec<&str> =
            self.last_lines.iter().filter(|line| !line.starts_with("debug1:")).map(String::as_str).collect();
        if lines.is_empty() { String::new() } else { format!("; last output: {}", lines.join(" | ")) }
    }
}

impl Drop for ChildTunnel {
    fn drop(&mut self) {
        self.signal_group(Signal::KILL);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a program that starts another program, which ignores SIGTERM. Returns the first program and the pid of
    /// the other one.
    async fn nested() -> (ChildTunnel, String) {
        let script = "trap '' TERM; sleep 1000 & echo $!; trap - TERM; wait";
        let command = ChildCommand {
            argv: ["sh", "-c", script].map(str::to_owned).into(),
            inherited: Variables::from_process(),
            variables: Vec::new(),
        };
        let mut tunnel = ChildTunnel::start(&command).expect("a shell");
        let pid = tunnel.next_line().await.expect("a pid");
        assert!(is_alive(&pid));
        (tunnel, pid)
    }

    fn is_alive(pid: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    async fn assert_ends(pid: &str) {
        let ended = async {
            while is_alive(pid) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(10), ended).await.expect("a process of the group is left");
    }

    #[tokio::test]
    async fn no_process_of_the_group_outlives_the_tunnel() {
        let (mut tunnel, pid) = nested().await;
        tunnel.stop(Duration::from_millis(100)).await;
        assert_ends(&pid).await;

        let (tunnel, pid) = nested().await;
        drop(tunnel);
        assert_ends(&pid).await;

        let (mut tunnel, pid) = nested().await;
        let leader = tunnel.child.id().expect("a process");
        let _ = crate::platform::signal_process(leader, Signal::KILL);
        assert!(tunnel.wait().await.contains("ended (signal: 9"));
        assert!(is_alive(&pid));
        tunnel.stop(Duration::ZERO).await;
        assert_ends(&pid).await;
    }

    #[tokio::test]
    async fn shown_output_has_no_secrets_and_no_control_characters() {
        let secret = "a-secret-value";
        let script =
            "echo \"token $TOKEN\"; printf 'a\\033[2Jb\\n'; head -c 2000 /dev/zero | tr '\\0' x; exit 3";
        let command = ChildCommand {
            argv: ["sh", "-c", script].map(str::to_owned).into(),
            inherited: Variables::from_process(),
            variables: vec![("TOKEN".to_owned(), Secret::from(secret))],
        };
        let mut tunnel = ChildTunnel::start(&command).expect("a shell");
        let said = tunnel.wait().await;
        assert!(said.starts_with("`sh` ended (exit status: 3); last output: token "), "{said}");
        assert!(!said.contains(secret) && said.contains("a [2Jb") && said.ends_with("xxx…"), "{said}");
        assert!(said.len() < 700, "{said}");
    }
}
