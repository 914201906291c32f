//! Rejects the keyring on Windows, since the Credential Manager is not supported.

use std::sync::Arc;

use crate::{Environment, Error, ErrorKind, Result, secrets::store::SecretStore};

/// Creates no client of the keyring.
///
/// # Errors
/// `Unsupported`.
pub(in crate::secrets) fn open(
    _environment: &Environment,
    _application: &'static str,
) -> Result<Arc<dyn SecretStore>> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "the keyring of Windows, its Credential Manager, is not supported",
    )
    .hint("use `mcpm secret provider encrypted`"))
}
