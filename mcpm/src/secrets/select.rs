//! Selects the secret store, unless the embedding program has provided one: the store that the environment names, else
//! the configured one, else the encrypted file.

use std::{fmt, fs, io, path::PathBuf, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    command::CommandStore, encrypted::EncryptedFile, environment::EnvironmentStore, keyring,
    store::SecretStore,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    state::{FORMAT_VERSION, document, file},
};

/// The kind of a secret store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// A file in the state folder, encrypted with a password.
    #[default]
    Encrypted,
    /// The keyring of the desktop (Secret Service).
    Keyring,
    /// Environment variables `MCPM_SECRET_NAME` only; read-only.
    Environment,
    /// A program that prints a value; read-only.
    Command,
}

impl Provider {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Encrypted, Self::Keyring, Self::Environment, Self::Command];

    /// Returns the name that users write.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Encrypted => "encrypted",
            Self::Keyring => "keyring",
            Self::Environment => "environment",
            Self::Command => "command",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Provider {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == text).ok_or_else(|| {
            Error::new(ErrorKind::InvalidOption, format!("`{text}` is not a secret provider"))
                .hint("use `encrypted`, `keyring`, `environment` or `command`")
        })
    }
}

/// The configured store, as saved in `secrets.json` in the configuration folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// The version of the format.
    pub version: u32,
    /// The kind of store.
    pub provider: Provider,
    /// For `encrypted`: whether the password is saved in the desktop's keyring.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub password_in_keyring: bool,
    /// For `command`: the program and its arguments; `{name}` is replaced by the name of the secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            version: FORMAT_VERSION,
            provider: Provider::default(),
            password_in_keyring: false,
            command: Vec::new(),
        }
    }
}

impl StoreConfig {
    /// Returns the store that the environment selects, or else the configured one, or else the encrypted file.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown provider; `Io` and `CorruptState` if the configuration cannot be read.
    pub fn load(environment: &Environment) -> Result<Self> {
        let path = path(environment);
        let set_up = match fs::read(&path) {
            Ok(bytes) => document::decode(&bytes, &path, FORMAT_VERSION, |_, _| None).map_err(|error| {
                error.hint("configure the provider again with `mcpm secret provider encrypted`")
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(file::file_error("read", &path, error)),
        };
        match environment.secrets.provider.as_deref().map(Provider::from_str).transpose()? {
            None => set_up,
            // A damaged configuration matters only to providers that need it.
            Some(provider @ (Provider::Keyring | Provider::Environment)) => {
                Ok(Self { provider, ..Self::default() })
            }
            Some(provider) => Ok(Self { provider, ..set_up? }),
        }
    }

    /// Saves the configuration.
    ///
    /// # Errors
    /// `InvalidOption` for contradictory settings; `Unsupported` for a store that this build does not include;
    /// `Io`.
    pub fn save(&self, environment: &Environment) -> Result<()> {
        if self.password_in_keyring && self.provider != Provider::Encrypted {
            let message = "only the encrypted file has a password";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        if self.provider != Provider::Command && !self.command.is_empty() {
            let message = format!("the provider `{}` takes no program", self.provider);
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        self.store(environment)?;
        let path = path(environment);
        let bytes = document::encode(self, FORMAT_VERSION)?;
        file::create_folders(&environment.config_dir)
            .and_then(|()| file::replace(&path, &bytes))
            .map_err(|error| file::file_error("write", &path, error))
    }

    /// Creates the store; it is not opened yet.
    pub(super) fn store(&self, environment: &Environment) -> Result<Arc<dyn SecretStore>> {
        Ok(match self.provider {
            Provider::Encrypted => {
                let keyring = self.password_in_keyring.then(|| keyring::open(environment, "mcpm-password"));
                Arc::new(EncryptedFile::new(environment, keyring.transpose()?))
            }
            Provider::Keyring => keyring::open(environment, "mcpm")?,
            Provider::Environment => Arc::new(EnvironmentStore(environment.secrets.overrides.clone())),
            Provider::Command => Arc::new(CommandStore::new(&self.command)?),
        })
    }
}

fn path(environment: &Environment) -> PathBuf {
    environment.config_dir.join("secrets.json")
}
