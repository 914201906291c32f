//! Parses the records in which mcpm sends configurations: a letter, a length of four bytes, and as many bytes as the
//! length says.

use alloc::vec::Vec;

/// Takes the next record; `None` if it is incomplete.
pub(crate) fn next_record<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (letter, rest) = bytes.split_first()?;
    *bytes = rest;
    Some((*letter, next_field(bytes)?))
}

/// Takes the next length and that many bytes; `None` if they are incomplete.
pub(crate) fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    *bytes = rest;
    Some(value)
}

/// Appends a zero byte to a text that has none.
pub(crate) fn nul_terminated(value: &[u8]) -> Option<Vec<u8>> {
    if value.contains(&0) {
        return None;
    }
    let mut text = Vec::with_capacity(value.len() + 1);
    text.extend_from_slice(value);
    text.push(0);
    Some(text)
}
