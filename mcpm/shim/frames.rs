//! Many connections over one stream: frames of a letter, the connection's number and a length in four bytes each, and
//! that many bytes.
//!
//! The container begins connections and numbers them; a number is free again once both ends have closed it. Each end
//! sends no more of a connection than the other has room for, so that one that nobody reads holds up no other. The
//! shim and mcpm both use this file.

use alloc::vec::Vec;

/// A connection begins; the container alone says so.
pub(crate) const OPEN: u8 = b'o';
/// Bytes of a connection.
pub(crate) const DATA: u8 = b'd';
/// No more bytes come from this end.
pub(crate) const END_STREAM: u8 = b'e';
/// So many bytes were passed on, and as many may be sent again.
pub(crate) const WINDOW_UPDATE: u8 = b'r';
/// Nothing more is said of the connection by this end; without [`END_STREAM`] before it, it broke off.
pub(crate) const CLOSE: u8 = b'c';

/// Bytes before those of the connection.
pub(crate) const FRAME_HEADER_BYTES: usize = 9;
/// Most bytes of a connection in one frame.
pub(crate) const MAX_FRAME_PAYLOAD_BYTES: usize = 16 * 1024;
/// Most bytes of a connection that are sent and not passed on.
pub(crate) const WINDOW_BYTES: usize = 128 * 1024;
/// Connections have lower numbers.
pub(crate) const MAX_CONNECTIONS: u32 = 512;

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) connection: u32,
    pub(crate) payload: &'a [u8],
}

/// What no end sends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidFrame;

/// Takes the first frame; `None` while it is not whole.
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

/// How many bytes a frame of [`WINDOW_UPDATE`] speaks of.
pub(crate) fn parse_window_update(bytes: &[u8]) -> Result<usize, InvalidFrame> {
    let room = bytes.try_into().map(u32::from_le_bytes).map_err(|_| InvalidFrame)? as usize;
    if room <= WINDOW_BYTES { Ok(room) } else { Err(InvalidFrame) }
}

/// Adds a frame; `bytes` are no more than [`MAX_FRAME_PAYLOAD_BYTES`].
pub(crate) fn write_frame(to: &mut Vec<u8>, letter: u8, number: u32, bytes: &[u8]) {
    to.push(letter);
    to.extend_from_slice(&number.to_le_bytes());
    #[expect(clippy::cast_possible_truncation, reason = "no frame has so many bytes")]
    let length = bytes.len() as u32;
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(bytes);
}
