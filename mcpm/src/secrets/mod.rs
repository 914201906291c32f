//! Stores secrets, and finds their values when a workload starts.
//!
//! A [`SecretStore`] stores values by name. [`Secrets`] is the store that an [`Environment`] selects; values in the
//! environment take precedence over stored values. The spec of a workload contains only
//! [references](crate::options::SecretRef) to secrets. Their [`SecretValues`] are read at each start, passed separately
//! from the spec, and never saved with it.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use crate::{Environment, Error, ErrorKind, Result, options::Secret, printable::Printable as _};

mod command;
#[cfg_attr(not(feature = "secrets"), path = "encrypted_off.rs")]
mod encrypted;
#[cfg(feature = "secrets")]
mod encrypted_format;
mod environment;
#[cfg_attr(not(feature = "keyring"), path = "keyring/off.rs")]
mod keyring;
#[cfg(feature = "secrets")]
mod password;
mod select;
mod settings;
mod store;
mod values;

pub use environment::PREFIX as GIVEN_PREFIX;
pub use select::{Provider, StoreConfig};
pub use settings::SecretSettings;
pub use store::SecretStore;
pub use values::SecretValues;

use environment::EnvironmentStore;
use store::MAX_VALUE_BYTES;

/// The secrets of an [`Environment`].
#[derive(Debug, Clone)]
pub struct Secrets {
    overrides: EnvironmentStore,
    store: Arc<dyn SecretStore>,
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SecretInfo {
    /// The name.
    pub name: String,
    /// Where the value is stored.
    pub place: String,
}

/// Connects to the keyring, without reading or unlocking anything, and returns where it is.
///
/// # Errors
/// `SecretsUnavailable`, also if the keyring is locked.
pub(crate) async fn check_keyring(environment: &Environment) -> Result<String> {
    #[cfg(all(feature = "keyring", not(any(target_os = "macos", windows))))]
    {
        keyring::check(environment).await
    }
    #[cfg(not(all(feature = "keyring", not(any(target_os = "macos", windows)))))]
    {
        // The name of an application that has stored nothing in the keyring.
        let store = keyring::open(environment, "mcpm-doctor")?;
        store.list().await.map(|_| store.location())
    }
}

impl Secrets {
    /// Selects the store: the injected one, the one that `MCPM_SECRETS_PROVIDER` names, the configured one, or
    /// else the encrypted file. Does not prompt for or unlock anything yet.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown provider, `Unsupported` for one that this build does not include,
    /// `CorruptState` if the configuration is damaged.
    pub fn open(environment: &Environment) -> Result<Self> {
        let overrides = EnvironmentStore(environment.secrets.overrides.clone());
        let store = match &environment.secrets.store {
            Some(store) => Arc::clone(store),
            None => StoreConfig::load(environment)?.store(environment)?,
        };
        Ok(Self { overrides, store })
    }

    /// Returns where values are stored, for messages.
    pub fn place(&self) -> String {
        self.store.location()
    }

    /// Returns one value.
    ///
    /// # Errors
    /// `NotFound`; the errors of the store.
    pub async fn get(&self, name: &str) -> Result<Secret> {
        check_name(name)?;
        let mut values = self.find(&[name.to_owned()]).await?;
        values.remove(name).ok_or_else(|| self.missing(&[name]))
    }

    /// Stores a value.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid name and for a value that is empty, longer than 64 KiB or contains a NUL byte;
    /// the errors of the store.
    pub async fn set(&self, name: &str, value: &Secret) -> Result<()> {
        check_name(name)?;
        check_value(value)?;
        self.store.set(name, value).await
    }

    /// Lists the secrets by name. A secret that is both in the environment and in the store is listed twice: first that
    /// of the environment, which takes precedence.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn list(&self) -> Result<Vec<SecretInfo>> {
        let overridden = self.overrides.names().map(|name| (name, environment::variable_location(name)));
        let mut all: Vec<(String, String)> =
            overridden.map(|(name, place)| (name.to_owned(), place)).collect();
        let place = self.store.location();
        all.extend(self.store.list().await?.into_iter().map(|name| (name, place.clone())));
        all.sort_by(|one, other| one.0.cmp(&other.0));
        all.dedup();
        Ok(all.into_iter().map(|(name, place)| SecretInfo { name, place }).collect())
    }

    /// Removes a value.
    ///
    /// # Errors
    /// `NotFound`; the errors of the store.
    pub async fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        if self.store.remove(name).await? {
            return Ok(());
        }
        Err(self.missing(&[name]).hint("`mcpm secret list` shows all"))
    }

    /// Returns the values of all these names.
    ///
    /// # Errors
    /// `NotFound` lists every secret that is missing; the errors of the store.
    pub async fn read(&self, names: &[String]) -> Result<SecretValues> {
        let mut names = names.to_vec();
        names.sort();
        names.dedup();
        names.iter().try_for_each(|name| check_name(name))?;
        let values = self.find(&names).await?;
        let missing: Vec<&str> =
            names.iter().filter(|name| !values.contains_key(*name)).map(String::as_str).collect();
        if !missing.is_empty() {
            return Err(self.missing(&missing));
        }
        values.values().try_for_each(check_value)?;
        Ok(SecretValues::new(values))
    }

    /// The values of those names that exist. The store is opened only if it is needed, because that may prompt for
    /// a password.
    pub(crate) async fn find(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        let mut values = self.overrides.read(names).await?;
        let rest: Vec<String> = names.iter().filter(|name| !values.contains_key(*name)).cloned().collect();
        if !rest.is_empty() {
            values.extend(self.store.read(&rest).await?);
        }
        Ok(values)
    }

    fn missing(&self, names: &[&str]) -> Error {
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let what = if names.len() == 1 { "is no secret" } else { "are no secrets" };
        let message = format!("there {what} {} in {}", quoted.join(", "), self.store.location());
        let (each, name) = match names {
            [name] => ("", *name),
            _ => ("for each of them, ", "NAME"),
        };
        let run = match self.store.location() == environment::LOCATION {
            true => String::new(),
            false => format!("run `mcpm secret set {name}`, or "),
        };
        let variable = environment::variable_name(name);
        Error::new(ErrorKind::NotFound, message).hint(format!("{each}{run}set the variable `{variable}`"))
    }
}

/// Returns the values of these names from the store that `environment` selects. Without names, nothing is opened.
///
/// # Errors
/// The errors of [`Secrets::open`] and [`Secrets::read`].
pub async fn read(names: &[String], environment: &Environment) -> Result<SecretValues> {
    match names {
        [] => Ok(SecretValues::default()),
        names => Secrets::open(environment)?.read(names).await,
    }
}

/// Rejects invalid names: a name occurs in messages, in a program's arguments and in `NAME,target=TARGET`.
fn check_name(name: &str) -> Result<()> {
    let rule = if name.is_empty() {
        "a name cannot be empty"
    } else if name.starts_with('-') {
        "a name cannot begin with `-`"
    } else if name.contains(',') || name.chars().any(char::is_control) {
        "a name cannot contain commas or control characters"
    } else if name.trim() != name {
        "a name cannot begin or end with a space"
    } else if name.len() > 255 {
        "a name can have at most 255 bytes"
    } else {
        return Ok(());
    };
    let message = format!("`{}` is not a valid secret name: {rule}", name.printable());
    Err(Error::new(ErrorKind::InvalidOption, message))
}

fn check_value(value: &Secret) -> Result<()> {
    let invalid = |why| Err(Error::new(ErrorKind::InvalidOption, why));
    match value.expose() {
        "" => invalid("the value of a secret cannot be empty"),
        text if text.len() > MAX_VALUE_BYTES => invalid("the value of a secret has at most 64 KiB"),
        text if text.contains('\0') => invalid("the value of a secret cannot contain a NUL byte"),
        _ => Ok(()),
    }
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
