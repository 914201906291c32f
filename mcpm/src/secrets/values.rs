//! The values of a workload's secrets, which travel beside its spec.

use std::collections::BTreeMap;

use crate::options::Secret;

/// Values by the name of the secret. They cannot be serialised by accident: who hands them to another process of
/// the same user does so with [`expose`](Self::expose).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretValues(BTreeMap<String, Secret>);

impl SecretValues {
    /// Takes values by name.
    pub fn new(values: BTreeMap<String, Secret>) -> Self {
        Self(values)
    }

    /// Returns the value of a secret.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.0.get(name)
    }

    /// Adds values; those of a name that is there already take its place.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the values in clear; keep them out of arguments, files and logs.
    pub fn expose(&self) -> BTreeMap<&str, &str> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.expose())).collect()
    }
}

impl FromIterator<(String, Secret)> for SecretValues {
    fn from_iter<I: IntoIterator<Item = (String, Secret)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
