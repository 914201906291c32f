//! Random numbers from the operating system.

use crate::{Error, ErrorKind, Result, redact::hex};

/// Returns random bytes.
///
/// # Errors
/// `Internal` if the operating system provides none.
pub(crate) fn random_bytes<const LENGTH: usize>() -> Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(ErrorKind::Internal, "the operating system provides no random numbers").source(error)
    })?;
    Ok(bytes)
}

/// Returns 128 random bits in hexadecimal, which nobody can guess.
///
/// # Errors
/// As for [`random_bytes`].
pub(crate) fn random_token() -> Result<String> {
    random_bytes::<16>().map(|bytes| hex(&bytes))
}
