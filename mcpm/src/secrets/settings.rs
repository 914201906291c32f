//! The settings of secrets in an environment.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

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
    /// A file that contains the password: `MCPM_SECRETS_PASSWORD_FILE`.
    pub password_file: Option<PathBuf>,
    /// The address of the D-Bus session bus, for the keyring: `DBUS_SESSION_BUS_ADDRESS`.
    pub session_bus: Option<String>,
}
