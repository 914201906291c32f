//! Secrets: where they are kept, and how their values are found when a workload starts.
//!
//! A [`SecretStore`] keeps values by name. [`Secrets`] is the one that an [`Environment`] asks for, behind the
//! values that the environment itself gives. A workload has [references](crate::options::SecretRef) alone; their
//! [`SecretValues`] are read when it starts, travel beside its spec, and are never stored.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use serde::Serialize;

use crate::{Environment, Error, ErrorKind, Result, options::Secret};

mod command;
mod encrypted;
mod environment;
mod file_format;
#[cfg(feature = "keyring")]
mod keyring;
mod password;
mod select;
mod values;

pub use environment::PREFIX as GIVEN_PREFIX;
pub use select::{Provider, SecretSettings, StoreConfig};
pub use values::SecretValues;

use environment::EnvironmentStore;

/// The longest value that is kept.
const MAX_VALUE_BYTES: usize = 64 * 1024;

/// Keeps values by name.
#[async_trait]
pub trait SecretStore: Send + Sync + fmt::Debug {
    /// Says where values are kept, for people: `the encrypted file ...`.
    fn location(&self) -> String;

    /// Returns the values of those names that are kept; the others are left out.
    ///
    /// # Errors
    /// `SecretsUnavailable` when the store cannot be opened.
    async fn read(&self, names: &[String]) -> Result<BTreeMap<String, Secret>>;

    /// Keeps a value, in place of an older one of that name.
    ///
    /// # Errors
    /// `Unsupported` when the store is only read; `SecretsUnavailable`.
    async fn set(&self, name: &str, value: &Secret) -> Result<()>;

    /// Returns the names, sorted.
    ///
    /// # Errors
    /// `Unsupported` when the store does not tell; `SecretsUnavailable`.
    async fn list(&self) -> Result<Vec<String>>;

    /// Forgets a value; tells whether there was one.
    ///
    /// # Errors
    /// `Unsupported` when the store is only read; `SecretsUnavailable`.
    async fn remove(&self, name: &str) -> Result<bool>;
}

/// The secrets that an [`Environment`] leads to.
#[derive(Debug, Clone)]
pub struct Secrets {
    overrides: EnvironmentStore,
    store: Arc<dyn SecretStore>,
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretInfo {
    /// Its name.
    pub name: String,
    /// Where its value comes from.
    pub place: String,
}

impl Secrets {
    /// Opens the store that is injected, named by `MCPM_SECRETS_PROVIDER` or set up, in this order; nothing is
    /// asked for or unlocked yet.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown provider, `Unsupported` for one this build lacks, `CorruptState` for
    /// damaged settings.
    pub fn open(environment: &Environment) -> Result<Self> {
        let given = EnvironmentStore(environment.secrets.overrides.clone());
        let store = match &environment.secrets.store {
            Some(store) => Arc::clone(store),
            None => StoreConfig::load(environment)?.store(environment)?,
        };
        Ok(Self { overrides: given, store })
    }

    /// Says where values are kept.
    pub fn place(&self) -> String {
        self.store.location()
    }

    /// Returns one value.
    ///
    /// # Errors
    /// `NotFound`; those of the store.
    pub async fn get(&self, name: &str) -> Result<Secret> {
        check_name(name)?;
        let mut found = self.find(&[name.to_owned()]).await?;
        found.remove(name).ok_or_else(|| self.missing(&[name]))
    }

    /// Keeps a value.
    ///
    /// # Errors
    /// `InvalidOption` for a bad name and for a value that is empty, too long or holds a zero byte; those of the
    /// store.
    pub async fn set(&self, name: &str, value: &Secret) -> Result<()> {
        check_name(name)?;
        check_value(value)?;
        self.store.set(name, value).await
    }

    /// Returns what there is, by name. One that is given and kept is there twice, the given one first: it counts.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list(&self) -> Result<Vec<SecretInfo>> {
        let given = self.overrides.names().map(|name| (name, environment::variable_location(name)));
        let mut all: Vec<(String, String)> = given.map(|(name, place)| (name.to_owned(), place)).collect();
        let place = self.store.location();
        all.extend(self.store.list().await?.into_iter().map(|name| (name, place.clone())));
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all.dedup();
        Ok(all.into_iter().map(|(name, place)| SecretInfo { name, place }).collect())
    }

    /// Forgets a value.
    ///
    /// # Errors
    /// `NotFound`; those of the store.
    pub async fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        if self.store.remove(name).await? { Ok(()) } else { Err(self.missing(&[name])) }
    }

    /// Returns the values of these names, all of them or none.
    ///
    /// # Errors
    /// `NotFound` names every secret that is missing; those of the store.
    pub async fn read(&self, names: &[String]) -> Result<SecretValues> {
        let mut names = names.to_vec();
        names.sort();
        names.dedup();
        names.iter().try_for_each(|name| check_name(name))?;
        let found = self.find(&names).await?;
        let missing: Vec<&str> =
            names.iter().filter(|name| !found.contains_key(*name)).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(self.missing(&missing));
        }
        found.values().try_for_each(check_value)?;
        Ok(SecretValues::new(found))
    }

    /// The values of those names that exist. The store is left alone when it is not needed: opening it may mean
    /// that somebody is asked for a password.
    pub(crate) async fn find(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        let mut found = self.overrides.read(names).await?;
        let rest: Vec<String> = names.iter().filter(|name| !found.contains_key(*name)).cloned().collect();
        if !rest.is_empty() {
            found.extend(self.store.read(&rest).await?);
        }
        Ok(found)
    }

    fn missing(&self, names: &[&str]) -> Error {
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let what = if names.len() == 1 { "is no secret" } else { "are no secrets" };
        let message = format!("there {what} {} in {}", quoted.join(", "), self.store.location());
        let first = names.first().copied().unwrap_or_default();
        Error::new(ErrorKind::NotFound, message).hint(format!(
            "keep it with `mcpm secret set {first}`, or set `{}`",
            environment::variable_name(first)
        ))
    }
}

/// Returns the values of these names from where `environment` says. Without names, nothing is opened.
///
/// # Errors
/// Those of [`Secrets::open`] and [`Secrets::read`].
pub async fn read(names: &[String], environment: &Environment) -> Result<SecretValues> {
    match names {
        [] => Ok(SecretValues::default()),
        names => Secrets::open(environment)?.read(names).await,
    }
}

/// Refuses what no secret is called: a name goes into messages, arguments of a program and `NAME,target=TARGET`.
fn check_name(name: &str) -> Result<()> {
    let rule = if name.is_empty() {
        "a name cannot be empty"
    } else if name.starts_with('-') {
        "a name does not begin with `-`"
    } else if name.contains(',') || name.chars().any(char::is_control) {
        "a name has no comma and no control characters"
    } else if name.trim() != name {
        "a name neither begins nor ends with a space"
    } else if name.len() > 255 {
        "a name has at most 255 bytes"
    } else {
        return Ok(());
    };
    let message = format!("`{}` cannot name a secret: {rule}", name.escape_debug());
    Err(Error::new(ErrorKind::InvalidOption, message))
}

fn check_value(value: &Secret) -> Result<()> {
    let refused = |why| Err(Error::new(ErrorKind::InvalidOption, why));
    match value.expose() {
        "" => refused("the value of a secret cannot be empty"),
        text if text.len() > MAX_VALUE_BYTES => refused("the value of a secret has at most 64 KiB"),
        text if text.contains('\0') => refused("the value of a secret cannot hold a zero byte"),
        _ => Ok(()),
    }
}

/// Makes the error of a store that is only read.
fn read_only(place: &str, what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("secrets of {place} cannot be {what} by mcpm"))
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
