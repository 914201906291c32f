//! Answers the container's DNS queries: an allowed name resolves to its address in the container (`names.rs`), and
//! every other name does not exist (NXDOMAIN). No other DNS server is queried.

use alloc::vec::Vec;

/// Largest query that is read, and largest response.
pub(crate) const MAX_PACKET_BYTES: usize = 512;
const HEADER: usize = 12;
const A: u16 = 1;
const INTERNET: u16 = 1;
const ANY_CLASS: u16 = 255;
/// TTL of a response in seconds.
const TTL_SECONDS: u32 = 60;
const FORMAT_ERROR: u8 = 1;
const NO_SUCH_NAME: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;

/// A response, and the name that was denied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) refused: Option<Vec<u8>>,
}

/// Responds to a packet; `None` if it is not a query.
pub(crate) fn answer(packet: &[u8], mut address: impl FnMut(&[u8]) -> Option<[u8; 4]>) -> Option<Reply> {
    let head: &[u8; HEADER] = packet.first_chunk()?;
    let flags = head[2];
    // A response to a response could loop forever.
    if flags & 0x80 != 0 {
        return None;
    }
    let failed = |code: u8| Some(Reply { bytes: header(head, code, 0, 0), refused: None });
    if flags & 0x78 != 0 {
        return failed(NOT_IMPLEMENTED);
    }
    let questions = u16::from_be_bytes([head[4], head[5]]);
    let Some((name, end)) = read_name(packet).filter(|_| questions == 1) else { return failed(FORMAT_ERROR) };
    let Some(&[kind0, kind1, class0, class1]) = packet.get(end..).and_then(<[u8]>::first_chunk) else {
        return failed(FORMAT_ERROR);
    };
    let kind = u16::from_be_bytes([kind0, kind1]);
    let class = u16::from_be_bytes([class0, class1]);
    let question = packet.get(HEADER..end + 4)?;
    let reply = |code: u8, found: Option<[u8; 4]>| {
        let mut bytes = header(head, code, 1, u8::from(found.is_some()));
        bytes.extend_from_slice(question);
        if let Some(found) = found {
            // The name is the one in the first question.
            bytes.extend_from_slice(&[0xc0, HEADER as u8, 0, A as u8, 0, INTERNET as u8]);
            bytes.extend_from_slice(&TTL_SECONDS.to_be_bytes());
            bytes.extend_from_slice(&[0, 4]);
            bytes.extend_from_slice(&found);
        }
        bytes
    };
    if class != INTERNET && class != ANY_CLASS {
        return Some(Reply { bytes: reply(NOT_IMPLEMENTED, None), refused: None });
    }
    match address(&name) {
        Some(found) => Some(Reply { bytes: reply(0, (kind == A).then_some(found)), refused: None }),
        None => Some(Reply { bytes: reply(NO_SUCH_NAME, None), refused: Some(name) }),
    }
}

/// The header of a response: the query's id and flags, and that recursion is available.
fn header(question: &[u8; HEADER], code: u8, questions: u8, answers: u8) -> Vec<u8> {
    let recursion_desired = question[2] & 1;
    let mut bytes = Vec::with_capacity(MAX_PACKET_BYTES);
    bytes.extend_from_slice(&question[..2]);
    bytes.extend_from_slice(&[0x80 | recursion_desired, 0x80 | code, 0, questions, 0, answers, 0, 0, 0, 0]);
    bytes
}

/// Returns the name in the first question in lower case, and where it ends.
fn read_name(packet: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut name = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*packet.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        // A question has no earlier name to point to.
        if length > 63 || name.len() + length > 253 {
            return None;
        }
        let label = packet.get(at..at + length)?;
        at += length;
        if !name.is_empty() {
            name.push(b'.');
        }
        for byte in label {
            let byte = byte.to_ascii_lowercase();
            // The name is sent to mcpm in a line, so only these characters are accepted.
            if !(byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_') {
                return None;
            }
            name.push(byte);
        }
    }
    (!name.is_empty()).then_some((name, at))
}
