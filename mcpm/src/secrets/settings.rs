//! Defines the settings of secrets in an environment.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use super::store::SecretStore;
use crate::options::Secret;

/// The settings of secrets in an [`Environment`](crate::Environment).
#[derive(Debug, Clone, Default)]
pub struct SecretSettings {
    /// The store to use instead of the configured one.
    pub store: Option<Arc<dyn SecretStore>>,
    /// Values by name, which take precedence over those of the store: `MCPM_SECRET_NAME`.
    pub overrides: BTreeMap<String, Secret>,
    /// The kind of store to use instead of the configured one: `MCPM_SECRETS_PROVIDER`.
    pub provider: Option<String>,
    /// The password of the encrypted file: `MCPM_SECRETS_PASSWORD`.
    pub password: Option<Secret>,
    /// The password that the user has entered and that has opened the file. Clones share it, so that the user is asked
    /// once.
    pub entered_password: Arc<OnceLock<Secret>>,
    /// A file that contains the password: `MCPM_SECRETS_PASSWORD_FILE`.
    pub password_file: Option<PathBuf>,
    /// The address of the D-Bus session bus, for the keyring: `DBUS_SESSION_BUS_ADDRESS`.
    pub session_bus: Option<String>,
}

impl SecretSettings {
    /// Returns the password of the encrypted file, if it is known without asking for it or reading it from elsewhere.
    pub fn known_password(&self) -> Option<&Secret> {
        self.password.as_ref().or_else(|| self.entered_password.get())
    }
}
