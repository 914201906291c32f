//! Reads secrets from environment variables: `MCPM_SECRET_NAME` contains the secret NAME.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::store::{SecretStore, read_only};
use crate::{Result, options::Secret};

/// The prefix of environment variables that contain secrets.
pub const PREFIX: &str = "MCPM_SECRET_";

/// Values that were supplied in the [`Environment`](crate::Environment).
#[derive(Debug, Clone)]
pub(super) struct EnvironmentStore(pub(super) BTreeMap<String, Secret>);

impl EnvironmentStore {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// The environment variable for a secret.
pub(super) fn variable_name(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The location of such a secret, for messages.
pub(super) fn variable_location(name: &str) -> String {
    format!("the variable `{}`", variable_name(name))
}

pub(super) const LOCATION: &str = "the environment (`MCPM_SECRET_NAME`)";

#[async_trait]
impl SecretStore for EnvironmentStore {
    fn location(&self) -> String {
        LOCATION.to_owned()
    }

    async fn read(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        let of = |name: &String| Some((name.clone(), self.0.get(name)?.clone()));
        Ok(names.iter().filter_map(of).collect())
    }

    async fn set(&self, _name: &str, _value: &Secret) -> Result<()> {
        let hint = "select another store with `mcpm secret provider encrypted`, and unset `MCPM_SECRETS_PROVIDER` if it is set";
        Err(read_only(LOCATION, "changed").hint(hint))
    }

    /// Returns no names: [`Secrets`](super::Secrets) lists the values from the environment, whatever the store is.
    async fn list(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn remove(&self, _name: &str) -> Result<bool> {
        Err(read_only(LOCATION, "removed").hint("unset the variable"))
    }
}
