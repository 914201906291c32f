//! Holds the values of a workload's secrets, which are passed separately from its spec.

use std::collections::BTreeMap;

use crate::options::Secret;

/// Secret values by name. They do not implement `Serialize`; [`expose`](Self::expose) returns them in plain text,
/// for another process of the same user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretValues(BTreeMap<String, Secret>);

impl SecretValues {
    /// Creates it from values by name.
    pub fn new(values: BTreeMap<String, Secret>) -> Self {
        Self(values)
    }

    /// Returns the value of a secret.
    pub fn get(&self, name: &str) -> Option<&Secret> {
        self.0.get(name)
    }

    /// Adds values, which replace existing ones of the same name.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the values in plain text; keep them out of arguments, files and logs.
    pub fn expose(&self) -> BTreeMap<&str, &str> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.expose())).collect()
    }
}

impl FromIterator<(String, Secret)> for SecretValues {
    fn from_iter<I: IntoIterator<Item = (String, Secret)>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}
