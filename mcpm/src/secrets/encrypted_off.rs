//! Stands in for `encrypted.rs` in builds without the Cargo feature `secrets`: every operation on the encrypted file
//! fails.
//!
//! Opening the store succeeds, because it is the default: workloads fail only if they need a secret that no environment
//! variable provides.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;

use super::store::SecretStore;
use crate::{Environment, Error, Feature, Result, options::Secret};

/// Secrets in one file that is encrypted with a password.
#[derive(Debug)]
pub(super) struct EncryptedFile(());

impl EncryptedFile {
    pub(super) fn new(_environment: &Environment, _keyring: Option<Arc<dyn SecretStore>>) -> Self {
        Self(())
    }
}

#[async_trait]
impl SecretStore for EncryptedFile {
    fn location(&self) -> String {
        "the encrypted file".to_owned()
    }

    async fn read(&self, _names: &[String]) -> Result<BTreeMap<String, Secret>> {
        Err(missing())
    }

    async fn set(&self, _name: &str, _value: &Secret) -> Result<()> {
        Err(missing())
    }

    async fn list(&self) -> Result<Vec<String>> {
        Err(missing())
    }

    async fn remove(&self, _name: &str) -> Result<bool> {
        Err(missing())
    }
}

fn missing() -> Error {
    Feature::Secrets.missing("the encrypted file of secrets")
}
