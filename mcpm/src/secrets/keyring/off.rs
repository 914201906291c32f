//! The keyring in a build without the Cargo feature `keyring`: no keyring can be opened.

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
