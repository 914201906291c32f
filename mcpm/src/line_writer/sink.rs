//! The destination of lines.

use std::{fmt, io};

/// Maximum number of bytes that are written with one call, unless the sink allows fewer.
pub(super) const MAX_BATCH_BYTES: usize = 64 << 10;

/// A destination of lines.
pub(crate) trait LineSink: Send + fmt::Debug {
    /// Writes complete lines; an error if not all lines were written.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Returns the maximum size of several lines in the next call.
    fn max_batch_bytes(&self) -> usize {
        MAX_BATCH_BYTES
    }
}
