//! Parses the framing of response bodies (RFC 9112 sections 6 and 7).

use bytes::{Buf as _, Bytes};

use super::error::ConnectionError;

/// Maximum length of a chunk-size line, and of a trailer section, in bytes.
const MAX_CHUNK_METADATA_BYTES: u16 = 8 << 10;

/// The framing of the rest of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// This number of bytes.
    Sized(u64),
    /// All bytes until the connection is closed.
    UntilClosed,
    /// Chunks.
    Chunked(Chunk),
}

/// The state of the parser of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Chunk {
    /// In the digits of a chunk size.
    Size { size: u64, digits: u8 },
    /// In the whitespace after a chunk size.
    SizeWhitespace { size: u64, length: u16 },
    /// In a chunk extension.
    Extension { size: u64, length: u16 },
    /// Before the line feed of a chunk-size line.
    SizeEnd { size: u64 },
    /// In the data of a chunk.
    Data { left: u64 },
    /// Before the carriage return, or the line feed, after the data.
    DataEnd { seen_cr: bool },
    /// In the trailer section, with `line` bytes of the current line.
    Trailer { length: u16, line: u16, returned: bool },
    /// At the end.
    Done,
}

impl Framing {
    pub(super) const fn chunked() -> Self {
        Self::Chunked(Chunk::Size { size: 0, digits: 0 })
    }

    /// Whether the body has ended.
    pub(super) fn is_done(self) -> bool {
        matches!(self, Self::Sized(0) | Self::Chunked(Chunk::Done))
    }

    /// Validates received bytes, without consuming them.
    pub(super) fn check(self, mut read: &[u8]) -> Result<(), ConnectionError> {
        let Self::Chunked(mut chunk) = self else { return Ok(()) };
        while let Some((byte, rest)) = read.split_first() {
            match chunk {
                Chunk::Done => break,
                Chunk::Data { left } => {
                    let Some(rest) = usize::try_from(left).ok().and_then(|left| read.get(left..)) else {
                        break;
                    };
                    (chunk, read) = (Chunk::DataEnd { seen_cr: false }, rest);
                }
                _ => (chunk, read) = (chunk.next(*byte)?, rest),
            }
        }
        Ok(())
    }

    /// Takes the next chunk of the body from received bytes; `None` if they contain none.
    pub(super) fn take(&mut self, read: &mut Bytes) -> Result<Option<Bytes>, ConnectionError> {
        match self {
            Self::UntilClosed => Ok((!read.is_empty()).then(|| std::mem::take(read))),
            Self::Sized(left) => Ok(take(left, read)),
            Self::Chunked(chunk) => chunk.take(read),
        }
    }
}

/// Takes all received bytes, but not more than `left`.
fn take(left: &mut u64, read: &mut Bytes) -> Option<Bytes> {
    let size = usize::try_from(*left).map_or(read.len(), |left| left.min(read.len()));
    *left -= size as u64;
    (size > 0).then(|| read.split_to(size))
}

impl Chunk {
    /// Takes the next chunk of data, and parses the framing after it, so that the end is detected early.
    fn take(&mut self, read: &mut Bytes) -> Result<Option<Bytes>, ConnectionError> {
        self.skip(read)?;
        let Self::Data { left } = self else { return Ok(None) };
        let chunk = take(left, read);
        if *left == 0 {
            *self = Self::DataEnd { seen_cr: false };
            self.skip(read)?;
        }
        Ok(chunk)
    }

    /// Parses up to the next byte of data.
    fn skip(&mut self, read: &mut Bytes) -> Result<(), ConnectionError> {
        let mut length = 0;
        for byte in read.iter() {
            if matches!(self, Self::Data { .. } | Self::Done) {
                break;
            }
            *self = self.next(*byte)?;
            length += 1;
        }
        read.advance(length);
        Ok(())
    }

    fn next(self, byte: u8) -> Result<Self, ConnectionError> {
        self.after(byte).ok_or(ConnectionError::Malformed("invalid chunk"))
    }

    fn after(self, byte: u8) -> Option<Self> {
        let longer = |length: u16| length.checked_add(1).filter(|length| *length <= MAX_CHUNK_METADATA_BYTES);
        Some(match (self, byte) {
            (Self::Size { size, digits: 1.. }, b'\r') => Self::SizeEnd { size },
            (Self::Size { size, digits: 1.. }, b';') => Self::Extension { size, length: 0 },
            (Self::Size { size, digits: 1.. }, b' ' | b'\t') => Self::SizeWhitespace { size, length: 0 },
            (Self::Size { size, digits }, digit) => {
                let value = char::from(digit).to_digit(16)?;
                // A 64-bit number has at most sixteen digits.
                (digits < 16).then_some(())?;
                Self::Size { size: size << 4 | u64::from(value), digits: digits + 1 }
            }
            (Self::SizeWhitespace { size, length }, b' ' | b'\t') => {
                Self::SizeWhitespace { size, length: longer(length)? }
            }
            (Self::SizeWhitespace { size, length }, b';') => Self::Extension { size, length },
            (Self::SizeWhitespace { size, .. } | Self::Extension { size, .. }, b'\r') => {
                Self::SizeEnd { size }
            }
            (Self::Extension { .. }, b'\n') => return None,
            (Self::Extension { size, length }, _) => Self::Extension { size, length: longer(length)? },
            (Self::SizeEnd { size: 0 }, b'\n') => Self::Trailer { length: 0, line: 0, returned: false },
            (Self::SizeEnd { size }, b'\n') => Self::Data { left: size },
            (Self::DataEnd { seen_cr: false }, b'\r') => Self::DataEnd { seen_cr: true },
            (Self::DataEnd { seen_cr: true }, b'\n') => Self::Size { size: 0, digits: 0 },
            (Self::Trailer { line: 0, returned: true, .. }, b'\n') => Self::Done,
            (Self::Trailer { length, returned: true, .. }, b'\n') => {
                Self::Trailer { length: longer(length)?, line: 0, returned: false }
            }
            (Self::Trailer { returned: true, .. }, _) | (Self::Trailer { .. }, b'\n') => return None,
            (Self::Trailer { length, line, .. }, b'\r') => Self::Trailer { length, line, returned: true },
            (Self::Trailer { length, line, .. }, _) => {
                Self::Trailer { length: longer(length)?, line: line + 1, returned: false }
            }
            // Data is taken in one piece, and not parsed byte by byte.
            (Self::SizeWhitespace { .. } | Self::SizeEnd { .. } | Self::DataEnd { .. }, _) => return None,
            (Self::Data { .. } | Self::Done, _) => return None,
        })
    }
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;
