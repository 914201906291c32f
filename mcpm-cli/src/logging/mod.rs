//! Where the library's log goes: standard error, or a supervisor's file.
//!
//! A command that serves others has its lines written by a [thread](queue) of its own; all others write them
//! themselves, so that they stand in order with what else is told.

mod queue;

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tracing::{Level, Metadata};
use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

use crate::flag_names;
use queue::Queue;

/// Largest log file; the one before is kept beside it.
const MAX_LOG_BYTES: u64 = 10 << 20;
/// Most lines that wait to be written.
const MAX_QUEUED_LINES: usize = 4096;
/// How long the last lines may take to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The log of the process.
static LOG: OnceLock<Log> = OnceLock::new();

#[derive(Debug)]
struct Log {
    sink: LogDestination,
    /// Whether lines are written by the thread.
    queued: AtomicBool,
    queue: OnceLock<Option<Queue>>,
}

#[derive(Debug)]
enum LogDestination {
    Stderr,
    File(LogFile),
}

/// Logs to standard error: warnings, or everything of mcpm's with `debug`.
pub(crate) fn to_stderr(debug: bool) {
    let filter = EnvFilter::new(if debug { "mcpm=debug,mcpm_cli=debug" } else { "warn,mcpm::audit=info" });
    LOG.get_or_init(|| Log::to(LogDestination::Stderr));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(LogWriter::default())
        .with_target(debug);
    // A second call in one process changes nothing.
    let _ = if debug { builder.try_init() } else { builder.without_time().try_init() };
}

/// Logs to a file that is opened at the first line.
pub(crate) fn to_file(path: PathBuf, debug: bool) {
    let filter =
        EnvFilter::new(if debug { "mcpm=debug,mcpm_cli=debug" } else { "mcpm=info,mcpm_cli=info,warn" });
    LOG.get_or_init(|| Log::to(LogDestination::File(LogFile { path, file: Mutex::new(None) })));
    // A second call in one process changes nothing.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(LogWriter::default())
        .try_init();
}

/// Has lines written by a thread while others are served, of whom anybody can cause lines: neither a slow disk nor a
/// reader of standard error who does not read holds them up.
pub(crate) fn start_background_writer() -> LogFlushGuard {
    if let Some(log) = LOG.get() {
        let queue =
            log.queue.get_or_init(|| Queue::start(MAX_QUEUED_LINES, |line| log.sink.write(line)).ok());
        log.queued.store(queue.is_some(), Ordering::Relaxed);
    }
    LogFlushGuard(())
}

/// Dropping it has the lines written that wait.
#[derive(Debug)]
#[must_use]
pub(crate) struct LogFlushGuard(());

impl Drop for LogFlushGuard {
    fn drop(&mut self) {
        if let Some((log, Some(queue))) = LOG.get().and_then(|log| Some((log, log.queue.get()?)))
            && queue.flush(FLUSH_TIMEOUT)
        {
            log.queued.store(false, Ordering::Relaxed);
        }
    }
}

impl Log {
    fn to(sink: LogDestination) -> Self {
        Self { sink, queued: AtomicBool::new(false), queue: OnceLock::new() }
    }
}

impl LogDestination {
    fn write(&self, line: &[u8]) {
        // Nobody can be told of a log that cannot be written.
        let _ = match self {
            Self::Stderr => io::stderr().write_all(line),
            Self::File(file) => file.write(line),
        };
    }
}

/// A file whose folder may not be there yet.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// The file, and how large it is.
    file: Mutex<Option<(File, u64)>>,
}

impl LogFile {
    fn open(&self) -> io::Result<(File, u64)> {
        if self.path.metadata().is_ok_and(|file| file.len() > MAX_LOG_BYTES) {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.as_ref().is_none_or(|(_, size)| *size > MAX_LOG_BYTES) {
            *file = self.open().ok();
        }
        // There may be no folder to write to yet, or no more.
        let Some((file, size)) = file.as_mut() else { return Ok(()) };
        file.write_all(line)?;
        *size += line.len() as u64;
        Ok(())
    }
}

/// Takes the lines of the log.
#[derive(Debug, Default)]
struct LogWriter {
    /// Whether they are warnings or errors, which may name settings.
    warns: bool,
}

impl MakeWriter<'_> for LogWriter {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        Self::default()
    }

    fn make_writer_for(&self, line: &Metadata<'_>) -> Self {
        Self { warns: *line.level() <= Level::WARN }
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let length = line.len();
        let worded = self.warns.then(|| std::str::from_utf8(line).ok().map(flag_names::with_flags)).flatten();
        let line = worded.as_deref().map_or(line, str::as_bytes);
        if let Some(log) = LOG.get() {
            match log.queue.get() {
                Some(Some(queue)) if log.queued.load(Ordering::Relaxed) => queue.post(line),
                _ => log.sink.write(line),
            }
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
