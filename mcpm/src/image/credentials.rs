//! Finds the login for a registry that `docker login` or `podman login` stored.
//!
//! Docker's `config.json` is read first, then Podman's `auth.json`. In each file, the order is that of the Docker
//! command line: the credential helper for that registry (`credHelpers`) or else the general credential store
//! (`credsStore`), and then the login in the file itself (`auths`). `credential_helper.rs` runs the helper programs.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;

use super::credential_helper::{self, HelperFolders};
pub use super::login::Credentials;
use crate::{Error, ErrorKind, Result, docker_config::read_json, environment::EngineSettings};

/// The key of the login for Docker Hub.
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";

/// The folders with the helper programs of Docker Desktop and Homebrew, for programs that were started with a short
/// `PATH`, as from the desktop of macOS.
const HELPER_DIRS: [&str; 3] =
    ["/usr/local/bin", "/opt/homebrew/bin", "/Applications/Docker.app/Contents/Resources/bin"];
/// The folder of Docker Desktop's programs in the home folder, if it was installed for one user.
const USER_HELPER_DIR: &str = ".docker/bin";

/// The files and helper programs that hold logins.
#[derive(Debug, Clone, Default)]
pub struct CredentialStore {
    files: Vec<PathBuf>,
    helpers: HelperFolders,
}

impl CredentialStore {
    /// Looks in Docker's `config.json`, then in Podman's `auth.json`. That file is below the runtime folder on Linux;
    /// on macOS, and for logins that outlive a session, it is below the configuration folder.
    pub fn new(settings: &EngineSettings) -> Self {
        let docker = settings.docker_config_dir.iter().map(|dir| dir.join("config.json"));
        let podman = settings.runtime_dir.iter().chain(&settings.config_home);
        let podman = podman.map(|dir| dir.join("containers/auth.json"));
        let of_user = settings.home.iter().map(|home| home.join(USER_HELPER_DIR));
        let others = of_user.chain(HELPER_DIRS.map(PathBuf::from)).collect();
        Self { files: docker.chain(podman).collect(), helpers: HelperFolders { path: None, others } }
    }

    /// Looks for helper programs in these folders, written as in `PATH`, instead of in this process's `PATH`.
    #[must_use]
    pub fn helper_path(mut self, path: impl Into<OsString>) -> Self {
        self.helpers.path = Some(path.into());
        self
    }

    /// Returns the login for a registry; `None` without one.
    ///
    /// # Errors
    /// `Io` when a file cannot be read, `CorruptState` when it is invalid or a helper program fails.
    pub async fn lookup(&self, registry: &str) -> Result<Option<Credentials>> {
        for file in &self.files {
            if let Some(config) = read_json::<AuthConfigFile>(file)?
                && let Some(found) = self.lookup_in(&config, registry).await?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    async fn lookup_in(&self, config: &AuthConfigFile, registry: &str) -> Result<Option<Credentials>> {
        let key = registry_key(registry);
        let helper = config.cred_helpers.get(registry).or_else(|| config.cred_helpers.get(key));
        let store = helper.or(config.creds_store.as_ref()).filter(|name| !name.is_empty());
        if let Some(name) = store
            && let Some(found) = credential_helper::get(name, key, &self.helpers).await?
        {
            return Ok(Some(found));
        }
        let exact = config.auths.get(key);
        let entry = exact.or_else(|| {
            let by_host = |(written, _): &(&String, &AuthEntry)| host_of(written) == host_of(key);
            config.auths.iter().find(by_host).map(|(_, entry)| entry)
        });
        entry.map_or(Ok(None), |entry| entry.credentials(registry))
    }
}

/// The fields of the file about logins.
#[derive(Deserialize, Default)]
struct AuthConfigFile {
    #[serde(default)]
    auths: BTreeMap<String, AuthEntry>,
    #[serde(default, rename = "credsStore")]
    creds_store: Option<String>,
    #[serde(default, rename = "credHelpers")]
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
struct AuthEntry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl AuthEntry {
    fn credentials(&self, registry: &str) -> Result<Option<Credentials>> {
        let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        if let Some(token) = given(&self.identitytoken) {
            return Ok(Some(Credentials::IdentityToken(token)));
        }
        if let Some(auth) = given(&self.auth) {
            return decode(&auth).map(Some).ok_or_else(|| {
                Error::new(ErrorKind::CorruptState, format!("the stored login for `{registry}` is damaged"))
                    .hint(format!("run `docker login {registry}` again"))
            });
        }
        Ok(given(&self.username)
            .zip(given(&self.password))
            .map(|(username, password)| Credentials::Password { username, password }))
    }
}

/// Reads `base64(user:password)`.
fn decode(auth: &str) -> Option<Credentials> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (username, password) = text.split_once(':')?;
    // Old versions of Docker padded the password with NUL.
    let password = password.trim_matches('\0');
    Some(Credentials::Password { username: username.to_owned(), password: password.to_owned() })
}

/// Docker Hub's login has the URL of its first API as its key.
pub(crate) fn registry_key(registry: &str) -> &str {
    if registry == "docker.io" { DOCKER_HUB_KEY } else { registry }
}

/// Old tools wrote `https://HOST/v1/` where new ones write `HOST`.
fn host_of(key: &str) -> &str {
    let key = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    key.split('/').next().unwrap_or(key)
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
