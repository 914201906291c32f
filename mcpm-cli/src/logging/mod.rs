//! Writes the library's log to standard error, or to the log file of a supervisor.
//!
//! In a command that serves clients, a [thread](queue) writes the lines; other commands write the lines directly, in
//! order with their other output.

mod queue;

use std::{
    borrow::Cow,
    fs::{File, OpenOptions},
    io::{self, Write},
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

/// Maximum size of a log file in bytes; one previous file is kept.
const MAX_LOG_BYTES: u64 = 10 << 20;
/// Maximum number of queued lines.
const MAX_QUEUED_LINES: usize = 4096;
/// Time limit for writing the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The log of the process.
static LOG: OnceLock<Log> = OnceLock::new();

#[derive(Debug)]
struct Log {
    sink: LogDestination,
    /// Whether a thread writes the lines.
    queued: AtomicBool,
    queue: OnceLock<Option<Queue>>,
}

#[derive(Debug)]
enum LogDestination {
    Stderr,
    File(LogFile),
}

/// Logs to standard error: warnings, or with `debug` everything from mcpm.
pub(crate) fn to_stderr(debug: bool) {
    let filter = EnvFilter::new(if debug { "mcpm=debug,mcpm_cli=debug" } else { "warn,mcpm::audit=info" });
    LOG.get_or_init(|| Log::to(LogDestination::Stderr));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(LogWriter::default())
        .with_target(debug);
    // A second call in the same process has no effect.
    let _ = if debug { builder.try_init() } else { builder.without_time().try_init() };
}

/// Logs to a file, which is opened at the first line.
pub(crate) fn to_file(path: PathBuf, debug: bool) {
    let filter =
        EnvFilter::new(if debug { "mcpm=debug,mcpm_cli=debug" } else { "mcpm=info,mcpm_cli=info,warn" });
    LOG.get_or_init(|| Log::to(LogDestination::File(LogFile { path, file: Mutex::new(None) })));
    // A second call in the same process has no effect.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(LogWriter::default())
        .try_init();
}

/// Makes a thread write the lines while clients are served, because clients can cause any number of lines: neither a
/// slow disk nor a blocked standard error delays the clients.
pub(crate) fn start_background_writer() -> LogFlushGuard {
    if let Some(log) = LOG.get() {
        let queue =
            log.queue.get_or_init(|| Queue::start(MAX_QUEUED_LINES, |line| log.sink.write(line)).ok());
        log.queued.store(queue.is_some(), Ordering::Relaxed);
    }
    LogFlushGuard(())
}

/// Waits, when it is dropped, until queued lines are written.
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
        // A failure to write the log cannot be reported.
        let _ = match self {
            Self::Stderr => io::stderr().write_all(line),
            Self::File(file) => file.write(line),
        };
    }
}

/// A log file whose folder may not exist yet.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    /// The file and its size.
    file: Mutex<Option<(File, u64)>>,
}

impl LogFile {
    fn open(&self) -> io::Result<(File, u64)> {
        if self.path.metadata().is_ok_and(|file| file.len() > MAX_LOG_BYTES) {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        let mut options = OpenOptions::new();
        // On Windows, the file is as private as its folder.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.create(true).append(true).open(&self.path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.as_ref().is_none_or(|(_, size)| *size > MAX_LOG_BYTES) {
            *file = self.open().ok();
        }
        // The folder may not exist yet, or may have been removed.
        let Some((file, size)) = file.as_mut() else { return Ok(()) };
        let line = one_line(line);
        file.write_all(&line)?;
        *size += line.len() as u64;
        Ok(())
    }
}

/// Escapes line feeds within a line, since a server's text must not look like another line of the log.
fn one_line(line: &[u8]) -> Cow<'_, [u8]> {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    if !text.contains(&b'\n') {
        return line.into();
    }
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let mut escaped = parts.join(&b"\\n"[..]);
    escaped.push(b'\n');
    escaped.into()
}

/// Receives the lines of the log.
#[derive(Debug, Default)]
struct LogWriter {
    /// Whether the lines are warnings or errors, which may contain names of settings.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_is_one_line() {
        for (line, expected) in [("one\n", "one\n"), ("one", "one"), ("one\ntwo\n\n", "one\\ntwo\\n\n")] {
            assert_eq!(one_line(line.as_bytes()), expected.as_bytes());
        }
    }
}
