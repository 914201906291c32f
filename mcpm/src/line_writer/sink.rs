//! The destination of lines.

use std::{fmt, io};

/// Most bytes that are written with one call, unless the sink allows fewer.
pub(super) const MAX_BATCH_BYTES: usize = 64 << 10;

/// A destination of lines.
pub(crate) trait LineSink: Send + fmt::Debug {
    /// Writes complete lines: all of them, or it fails.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Returns the most bytes of several lines that it accepts in the next call.
    fn max_batch_bytes(&self) -> usize {
        MAX_BATCH_BYTES
    }
}
