//! Defines the trait that all secret stores implement.

use std::{collections::BTreeMap, fmt};

use async_trait::async_trait;

use crate::{Error, ErrorKind, Result, options::Secret};

/// Maximum length of a value in bytes.
pub(super) const MAX_VALUE_BYTES: usize = 64 * 1024;

/// A store of values by name.
#[async_trait]
pub trait SecretStore: Send + Sync + fmt::Debug {
    /// Returns where values are stored, for messages: `the encrypted file ...`.
    fn location(&self) -> String;

    /// Returns the values of those names that exist; others are omitted.
    ///
    /// # Errors
    /// `SecretsUnavailable` if the store cannot be opened.
    async fn read(&self, names: &[String]) -> Result<BTreeMap<String, Secret>>;

    /// Stores a value, replacing an older one of that name.
    ///
    /// # Errors
    /// `Unsupported` if the store is read-only; `SecretsUnavailable`.
    async fn set(&self, name: &str, value: &Secret) -> Result<()>;

    /// Returns the names, sorted.
    ///
    /// # Errors
    /// `Unsupported` if the store cannot list them; `SecretsUnavailable`.
    async fn list(&self) -> Result<Vec<String>>;

    /// Removes a value; returns whether there was one.
    ///
    /// # Errors
    /// `Unsupported` if the store is read-only; `SecretsUnavailable`.
    async fn remove(&self, name: &str) -> Result<bool>;
}

/// The error for changes to a read-only store.
pub(super) fn read_only(place: &str, what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("secrets from {place} cannot be {what} by mcpm"))
}
