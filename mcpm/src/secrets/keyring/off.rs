//! Rejects the keyring in builds without the Cargo feature `keyring`.

use std::sync::Arc;

use super::store::SecretStore;
use crate::{Environment, Feature, Result};

/// Creates no client of the keyring.
///
/// # Errors
/// `Unsupported`.
pub(super) fn open(_environment: &Environment, _application: &'static str) -> Result<Arc<dyn SecretStore>> {
    Err(Feature::Keyring.missing("the keyring"))
}
