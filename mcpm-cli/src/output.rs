//! Writing results to standard output.

use std::io::{self, ErrorKind as IoErrorKind, Write as _};

use mcpm::{Error, ErrorKind, Result};

/// Writes a result. A reader who closed the pipe has seen enough.
pub(crate) fn write(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != IoErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::Io, "cannot write to standard output").source(error))
        }
        _ => Ok(()),
    }
}
