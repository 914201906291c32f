//! Creates ids of audit events and digests of session ids, without allocating memory for their texts.

use std::{
    cell::RefCell,
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use foldhash::quality::RandomState;

use crate::redact::hex_digits;

/// Number of random numbers that are fetched with one call.
const FETCHED_RANDOM_NUMBERS: usize = 64;
/// Maximum number of cached digests.
const MAX_DIGESTS: usize = 4096;
/// Maximum length of a session id whose digest is cached.
const MAX_CACHED_ID_BYTES: usize = 128;

/// The id of an event: a random UUID (RFC 9562 section 5.4).
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditId([u8; 36]);

impl AuditId {
    pub(crate) fn random() -> Self {
        let mut bytes = random_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let digits = hex_digits(&bytes);
        let mut text = [b'-'; 36];
        for (at, bytes) in [(0, 0..4), (9, 4..6), (14, 6..8), (19, 8..10), (24, 10..16)] {
            let digits = digits[bytes].as_flattened();
            text[at..at + digits.len()].copy_from_slice(digits);
        }
        Self(text)
    }

    pub(crate) fn as_str(&self) -> &str {
        // Hexadecimal digits are ASCII, so this does not fail.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The digest of a session id, which identifies the session in the log. With the id itself, readers of the log could
/// use the session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionDigest(pub(crate) [u8; 8]);

impl SessionDigest {
    pub(crate) fn of(id: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, id.as_bytes());
        Self(digest.as_ref().first_chunk().copied().unwrap_or_default())
    }
}

/// The digests of the sessions in use, so that they are not computed for each request.
#[derive(Debug, Default)]
pub(super) struct SessionDigests(Mutex<HashMap<Box<str>, SessionDigest, RandomState>>);

impl SessionDigests {
    pub(super) fn get(&self, id: &str) -> SessionDigest {
        if let Some(digest) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id) {
            return *digest;
        }
        let digest = SessionDigest::of(id);
        if id.len() <= MAX_CACHED_ID_BYTES {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= MAX_DIGESTS {
                known.clear();
            }
            known.insert(id.into(), digest);
        }
        digest
    }
}

/// Returns random bytes. Many are fetched with one call, because each call of the operating system takes long.
fn random_bytes() -> [u8; 16] {
    thread_local! {
        static FETCHED: RefCell<Vec<[u8; 16]>> = const { RefCell::new(Vec::new()) };
    }
    FETCHED.with_borrow_mut(|fetched| {
        if fetched.is_empty() {
            fetched.resize(FETCHED_RANDOM_NUMBERS, [0; 16]);
            if getrandom::fill(fetched.as_flattened_mut()).is_err() {
                tracing::error!("the operating system provides no random numbers");
            }
        }
        fetched.pop().unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_random_uuids_of_version_4() {
        let (id, other) = (AuditId::random(), AuditId::random());
        let id = id.as_str();
        assert_ne!(id, other.as_str());
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{id}");
        assert_eq!(&id[14..15], "4", "{id}");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
        assert!(id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')), "{id}");
    }

    #[test]
    fn a_cached_digest_is_that_of_the_id() {
        let digests = SessionDigests::default();
        let long = "x".repeat(MAX_CACHED_ID_BYTES + 1);
        for id in ["a", "b", "a", &long, &long] {
            assert_eq!(digests.get(id).0, SessionDigest::of(id).0);
        }
        assert_eq!(digests.0.lock().expect("digests").len(), 2);
    }
}
