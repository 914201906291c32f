//! Secrets that the environment gives: `MCPM_SECRET_NAME`.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{SecretStore, read_only};
use crate::{Result, options::Secret};

/// What the names of variables that give a secret begin with.
pub const PREFIX: &str = "MCPM_SECRET_";

/// Values that were given with the [`Environment`](crate::Environment).
#[derive(Debug, Clone)]
pub(super) struct EnvironmentStore(pub(super) BTreeMap<String, Secret>);

impl EnvironmentStore {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// The variable that gives a secret.
pub(super) fn variable_name(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Where a given secret comes from.
pub(super) fn variable_location(name: &str) -> String {
    format!("the variable `{}`", variable_name(name))
}

const LOCATION: &str = "the environment (`MCPM_SECRET_NAME`)";

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
        Err(read_only(LOCATION, "changed").hint("choose a store with `mcpm secret provider encrypted`"))
    }

    /// None: those that are given are listed whatever the store is.
    async fn list(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    async fn remove(&self, _name: &str) -> Result<bool> {
        Err(read_only(LOCATION, "removed").hint("unset the variable"))
    }
}
