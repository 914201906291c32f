//! The destination of the lines of the audit log: a file, a standard stream, or the library's log.

use std::path::{Path, PathBuf};

use super::{AuditSink, AuditSpec};
use crate::{
    Error, ErrorKind, Result,
    line_writer::{LineSink, RotatingFile},
};

/// Opens the sink that `spec` names. `usual` is the file of a workload, for [`AuditSink::Usual`].
///
/// # Errors
/// `Io` if the file cannot be written.
pub(super) fn open(spec: &AuditSpec, usual: Option<PathBuf>) -> Result<Box<dyn LineSink>> {
    Ok(match (&spec.sink, &usual) {
        (AuditSink::File(path), _) | (AuditSink::Usual, Some(path)) => Box::new(file(path, spec)?),
        (AuditSink::Usual | AuditSink::Stdout, _) => Box::new(StandardStream::Stdout),
        (AuditSink::Stderr, _) => Box::new(StandardStream::Stderr),
        (AuditSink::Log, _) => Box::new(TracingSink),
    })
}

fn file(path: &Path, spec: &AuditSpec) -> Result<RotatingFile> {
    RotatingFile::open(path.to_owned(), spec.rotation()).map_err(|error| {
        let message = format!("cannot write the audit log `{}`", path.display());
        Error::new(ErrorKind::Io, message).source(error).hint("set another `logFile`")
    })
}

/// Writes to a standard stream of the process.
#[derive(Debug)]
enum StandardStream {
    Stdout,
    Stderr,
}

impl LineSink for StandardStream {
    fn write(&mut self, lines: &[u8]) -> std::io::Result<()> {
        use std::io::Write as _;
        match self {
            Self::Stdout => {
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(lines).and_then(|()| stdout.flush())
            }
            Self::Stderr => std::io::stderr().lock().write_all(lines),
        }
    }
}

/// Writes events to the library's log.
#[derive(Debug)]
struct TracingSink;

impl LineSink for TracingSink {
    fn write(&mut self, lines: &[u8]) -> std::io::Result<()> {
        for line in String::from_utf8_lossy(lines).lines() {
            tracing::info!(target: "mcpm::audit", "{line}");
        }
        Ok(())
    }
}
