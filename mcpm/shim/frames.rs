//! Multiplexes many connections over one stream: a frame consists of a letter, the connection's number, a length (four
//! bytes each for the number and the length), and as many bytes as the length says.
//!
//! The container opens connections and numbers them; a number is free again once both ends have closed it. A
//! flow-control window limits the unprocessed bytes of each connection, so that a connection whose data nobody reads
//! does not block the others. The shim and mcpm both use this file.

use alloc::vec::Vec;

/// Opens a connection; only the container does that.
pub(crate) const OPEN: u8 = b'o';
/// Bytes of a connection.
pub(crate) const DATA: u8 = b'd';
/// This end sends no more bytes.
pub(crate) const END_STREAM: u8 = b'e';
/// The receiver has processed this number of bytes, so the sender may send as many again.
pub(crate) const WINDOW_UPDATE: u8 = b'r';
/// This end has closed the connection; without [`END_STREAM`] before it, the connection failed.
pub(crate) const CLOSE: u8 = b'c';

/// Bytes of a frame before its payload.
pub(crate) const FRAME_HEADER_BYTES: usize = 9;
/// Largest payload of a frame.
pub(crate) const MAX_FRAME_PAYLOAD_BYTES: usize = 16 * 1024;
/// Flow-control window of a connection.
pub(crate) const WINDOW_BYTES: usize = 128 * 1024;
/// Connection numbers are below this.
pub(crate) const MAX_CONNECTIONS: u32 = 512;

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) connection: u32,
    pub(crate) payload: &'a [u8],
}

/// A frame that no valid end sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidFrame;

/// Parses the first frame; `None` if it is incomplete.
pub(crate) fn parse_frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, &[u8])>, InvalidFrame> {
    let Some((head, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else { return Ok(None) };
    let [letter, number @ .., l0, l1, l2, l3] = *head;
    let number = u32::from_le_bytes(number);
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let right = match letter {
        OPEN | END_STREAM | CLOSE => length == 0,
        DATA => (1..=MAX_FRAME_PAYLOAD_BYTES).contains(&length),
        WINDOW_UPDATE => length == 4,
        _ => false,
    };
    if !right || number >= MAX_CONNECTIONS {
        return Err(InvalidFrame);
    }
    Ok(rest
        .split_at_checked(length)
        .map(|(bytes, rest)| (Frame { kind: letter, connection: number, payload: bytes }, rest)))
}

/// Parses the payload of a [`WINDOW_UPDATE`].
pub(crate) fn parse_window_update(bytes: &[u8]) -> Result<usize, InvalidFrame> {
    let room = bytes.try_into().map(u32::from_le_bytes).map_err(|_| InvalidFrame)? as usize;
    if room <= WINDOW_BYTES { Ok(room) } else { Err(InvalidFrame) }
}

/// Appends a frame; `bytes` are at most [`MAX_FRAME_PAYLOAD_BYTES`].
pub(crate) fn write_frame(to: &mut Vec<u8>, letter: u8, number: u32, bytes: &[u8]) {
    to.push(letter);
    to.extend_from_slice(&number.to_le_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "no frame has so many bytes")]
    let length = bytes.len() as u32;
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(bytes);
}
