//! Starts a sandbox, and waits for its end.

use std::{
    fs::File,
    io::{self, IoSlice, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{fs::FileExt as _, net::UnixStream as StdUnixStream},
    },
    path::Path,
    time::Duration,
};

use rustix::{
    fs::{MemfdFlags, memfd_create},
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::{PidfdFlags, getpid, pidfd_open},
};
use tokio::{
    io::AsyncReadExt as _,
    net::UnixStream,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command},
};

use super::{
    SandboxPlan, SandboxStreams, encode, program,
    start_error::{StartedSandbox, parse_reports},
};
use crate::{Error, ErrorKind, Result, platform::exit_code, runtime::Exit};

/// How long a sandbox may take to start; mounts of network file systems can be slow.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Most bytes of an exit record.
const MAX_EXIT_RECORD_BYTES: usize = 32;

/// A running sandbox. Dropping it, or the end of this process, kills everything in it.
#[derive(Debug)]
pub(crate) struct SandboxProcess {
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "containers get pipes that exist before their processes")
    )]
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    monitor: Child,
    /// The monitor ends the sandbox when this is closed.
    lifeline: Option<io::PipeWriter>,
    exit_record: File,
    started: StartedSandbox,
}

/// Starts a sandbox, and returns when its program runs; with
/// [`SandboxCommand::Isolated`](super::SandboxCommand::Isolated), when the shim is about to request the configuration.
///
/// The monitor writes the exit code into `exit_file`, which must be empty, and open for reading and writing. Call it
/// on a tokio runtime. If the future is dropped, the sandbox is killed.
///
/// # Errors
/// `EngineUnavailable` if the machine does not allow sandboxes, with what to do about it; `StartFailed` if the program
/// cannot be run; `Engine` if the file system cannot be built; `InvalidOption` for invalid texts in the plan.
pub(crate) async fn spawn(
    plan: &SandboxPlan,
    streams: SandboxStreams,
    exit_file: File,
) -> Result<SandboxProcess> {
    let encoded = encode::encode(plan)?;
    let (mut process, control) = start_monitor(plan, &encoded, streams, exit_file)?;
    let reports = tokio::time::timeout(START_TIMEOUT, read_reports(control)).await;
    let reports = reports.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(cannot_start)?;
    match parse_reports(&reports) {
        Ok(started) => {
            process.started = started;
            Ok(process)
        }
        Err(error) => {
            // After reporting the failed step, the monitor records the exit code and ends.
            let _ = tokio::time::timeout(START_TIMEOUT, process.wait()).await;
            Err(error)
        }
    }
}

impl SandboxProcess {
    /// Returns the id of the sandbox's first process, as a process of this machine.
    pub(crate) fn pid(&self) -> u32 {
        self.started.process
    }

    /// Returns the id of the monitor; `None` after its end. Other processes can signal the sandbox through it.
    pub(crate) fn monitor_pid(&self) -> Option<u32> {
        self.monitor.id()
    }

    /// Returns the version of Landlock that restricts the server, or `None` if the kernel has no version that does.
    pub(crate) fn landlock_version(&self) -> Option<u32> {
        Some(self.started.landlock).filter(|version| *version > 0)
    }

    /// Waits until the sandbox has ended; can be called again.
    pub(crate) async fn wait(&mut self) -> io::Result<Exit> {
        let status = self.monitor.wait().await?;
        let mut record = [0; MAX_EXIT_RECORD_BYTES];
        let count = self.exit_record.read_at(&mut record, 0)?;
        let recorded = std::str::from_utf8(record.get(..count).unwrap_or_default()).ok();
        // A monitor that was killed has not recorded an exit code.
        let without_record = Exit::with_code(exit_code(status));
        Ok(recorded.and_then(parse_exit_record).unwrap_or(without_record))
    }

    /// Sends a signal to the server, unless it has ended.
    #[cfg(test)]
    pub(crate) fn signal(&mut self, signal: crate::platform::Signal) -> io::Result<()> {
        use crate::platform::{Signal, signal_process};

        match self.monitor.id() {
            // A killed monitor would end without recording the exit code.
            Some(_) if signal == Signal::KILL => self.kill(),
            Some(monitor) => drop(signal_process(monitor, signal)?),
            None => {}
        }
        Ok(())
    }

    /// Kills everything in the sandbox; its exit code is recorded nevertheless.
    pub(crate) fn kill(&mut self) {
        self.lifeline = None;
    }
}

/// Parses what the monitor writes when the sandbox ends: the exit code, and 1 if the kernel killed it for lack of
/// memory.
pub(crate) fn parse_exit_record(record: &str) -> Option<Exit> {
    let (code, out_of_memory) = record.strip_suffix('\n')?.split_once(' ')?;
    Some(Exit { out_of_memory: out_of_memory == "1", ..Exit::with_code(code.parse().ok()?) })
}

fn start_monitor(
    plan: &SandboxPlan,
    encoded: &[u8],
    streams: SandboxStreams,
    exit_file: File,
) -> Result<(SandboxProcess, UnixStream)> {
    let open = || -> io::Result<_> {
        let (control, shims) = StdUnixStream::pair()?;
        control.set_nonblocking(true)?;
        let stdin = streams.stdin.open_input()?;
        let stdout = streams.stdout.open_output()?;
        let stderr = streams.stderr.open_output()?;
        Ok((UnixStream::from_std(control)?, shims, stdin, stdout, stderr))
    };
    let (control, shims, (stdin, stdin_pipe), (stdout, stdout_pipe), (stderr, stderr_pipe)) =
        open().map_err(cannot_start)?;
    let shims: OwnedFd = shims.into();
    let monitor = run_shim(&plan.program_folder, [&shims, &stdout, &stderr])?;
    // If this process kept these ends open, it would never see the end of the streams.
    drop((shims, stdout, stderr));
    let connect = || -> io::Result<_> {
        let (lifeline_end, lifeline) = io::pipe()?;
        send_plan(&control, encoded, &stdin, &lifeline_end.into(), &exit_file)?;
        let process = SandboxProcess {
            stdin: stdin_pipe.map(|pipe| ChildStdin::from_std(pipe.into())).transpose()?,
            stdout: stdout_pipe.map(|pipe| ChildStdout::from_std(pipe.into())).transpose()?,
            stderr: stderr_pipe.map(|pipe| ChildStderr::from_std(pipe.into())).transpose()?,
            monitor,
            lifeline: Some(lifeline),
            exit_record: exit_file,
            started: StartedSandbox { process: 0, landlock: 0 },
        };
        Ok(process)
    };
    // The monitor ends by itself when the socket is closed.
    connect().map(|process| (process, control)).map_err(cannot_start)
}

/// Runs the shim with these standard streams.
fn run_shim(folder: &Path, streams: [&OwnedFd; 3]) -> Result<Child> {
    let run = |path: &Path| -> io::Result<Child> {
        let [stdin, stdout, stderr] = streams;
        let mut command = Command::new(path);
        command.arg("sandbox").env_clear().current_dir("/");
        command.arg0("mcpm");
        command.stdin(stdin.try_clone()?).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        command.spawn()
    };
    let is_denied = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    match program::path_in_memory()?.and_then(|path| run(&path)) {
        Err(error) if is_denied(&error) => {
            program::path_in_folder(folder)?.and_then(|path| run(&path)).map_err(cannot_start)
        }
        result => result.map_err(cannot_start),
    }
}

/// Sends the plan and the files of a sandbox, which no program inherits.
fn send_plan(
    control: &UnixStream,
    plan: &[u8],
    stdin: &OwnedFd,
    lifeline: &OwnedFd,
    exit_file: &File,
) -> io::Result<()> {
    let mut file = File::from(memfd_create("mcpm-plan", MemfdFlags::CLOEXEC)?);
    file.write_all(plan)?;
    io::Seek::rewind(&mut file)?;
    // Other processes may hold copies of the lifeline pipe, but this descriptor always signals the end of this process.
    let this_process = pidfd_open(getpid(), PidfdFlags::empty())?;
    let files = [file.as_fd(), stdin.as_fd(), lifeline.as_fd(), this_process.as_fd(), exit_file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let length = u32::try_from(plan.len()).map_err(io::Error::other)?.to_le_bytes();
    if !message.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err(io::Error::other("too many files"));
    }
    sendmsg(control, &[IoSlice::new(&length)], &mut message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Reads the shim's reports until no process of the shim has the socket open.
async fn read_reports(mut control: UnixStream) -> io::Result<Vec<u8>> {
    let mut reports = Vec::new();
    control.read_to_end(&mut reports).await?;
    Ok(reports)
}

fn cannot_start(error: io::Error) -> Error {
    Error::new(ErrorKind::StartFailed, "cannot start a sandbox").source(error)
}
