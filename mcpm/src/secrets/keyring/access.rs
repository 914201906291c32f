//! Provides the parts that the keyrings of Linux and macOS share: the timeout, the decoding of values, and the error.

use std::time::Duration;

use zeroize::Zeroizing;

use crate::{Error, ErrorKind, Result, options::Secret};

/// How long an operation may take: long enough for a user who is prompted to unlock the keyring.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for an operation of the keyring within the time limit.
pub(super) async fn within_timeout<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(KEYRING_TIMEOUT, work)
        .await
        .map_err(|_| unavailable("it did not respond within 60 seconds"))?
}

/// Converts the value of an item.
pub(super) fn value_of(name: &str, value: Vec<u8>) -> Result<Secret> {
    let value = Zeroizing::new(value);
    let text = str::from_utf8(&value).map_err(|_| {
        let message = format!("the secret `{name}` in the keyring is not valid UTF-8");
        Error::new(ErrorKind::SecretsUnavailable, message)
    })?;
    Ok(Secret::from(text))
}

pub(super) fn unavailable(why: &str) -> Error {
    Error::new(ErrorKind::SecretsUnavailable, format!("cannot use the keyring: {why}"))
        .hint("start or unlock a keyring, or use `mcpm secret provider encrypted`")
}
