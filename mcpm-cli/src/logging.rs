//! Where the library's log goes: standard error, or a supervisor's file.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use tracing_subscriber::{EnvFilter, fmt::MakeWriter};

/// Largest log file; the one before is kept beside it.
const LARGEST: u64 = 10 << 20;

/// Logs to standard error: warnings, or everything of mcpm's with `debug`.
pub(crate) fn to_stderr(debug: bool) {
    let filter = EnvFilter::new(if debug { "mcpm=debug,mcpm_cli=debug" } else { "warn,mcpm::audit=info" });
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(debug);
    // A second call in one process changes nothing.
    let _ = if debug { builder.try_init() } else { builder.without_time().try_init() };
}

/// Logs to a file that is opened at the first line.
pub(crate) fn to_file(path: PathBuf, debug: bool) {
    let filter =
        EnvFilter::new(if debug { "mcpm=debug,mcpm_cli=debug" } else { "mcpm=info,mcpm_cli=info,warn" });
    let file = LogFile { path, file: Mutex::new(None) };
    // A second call in one process changes nothing.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(file).try_init();
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
        if self.path.metadata().is_ok_and(|file| file.len() > LARGEST) {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// Writes one line of the log.
#[derive(Debug)]
struct Line<'a>(&'a LogFile);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.as_ref().is_none_or(|(_, size)| *size > LARGEST) {
            *file = self.0.open().ok();
        }
        match file.as_mut() {
            Some((file, size)) => {
                let written = file.write(bytes)?;
                *size += written as u64;
                Ok(written)
            }
            // There is no folder to write to yet, or no more.
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
