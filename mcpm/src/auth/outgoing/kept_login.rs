//! Stores logins and client registrations in the secret store.
//!
//! The name of a stored login depends on the URL of its server, and on the options for the issuer and its endpoints,
//! the client, the resource and the scopes, so that a login is only used with the same values of these options. The
//! name of a stored client registration depends on its issuer.

use std::{
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{discovery::AuthorizationServer, oauth_client::TokenSet, registration::ClientRegistration};
use crate::{
    Environment, Result,
    options::Secret,
    redact::hex,
    secrets::Secrets,
    state::file::{create_folders, file_error},
};

/// How long to wait while another process renews the same login.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(20);

/// A login: its tokens, and the data to renew them.
#[derive(Debug, Clone)]
pub(super) struct KeptLogin {
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) resource: String,
    pub(super) client: ClientRegistration,
    pub(super) scopes: Vec<String>,
    /// Scopes that the server has required since the login; the next login requests them too.
    pub(super) missing_scopes: Vec<String>,
    /// Whether it is a login of the client itself, without a user. It is renewed by another client credentials request
    /// (RFC 6749 section 4.4).
    pub(super) is_of_client: bool,
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
    pub(super) expires_at: Option<SystemTime>,
    /// Whether the secret store contains the login in this state.
    pub(super) is_saved: bool,
}

impl KeptLogin {
    pub(super) fn new(
        server: &AuthorizationServer,
        client: ClientRegistration,
        scopes: Vec<String>,
        tokens: TokenSet,
        now: SystemTime,
    ) -> Self {
        let metadata = &server.metadata;
        let mut login = Self {
            issuer: metadata.issuer.clone(),
            token_endpoint: metadata.token_endpoint.clone().unwrap_or_default(),
            revocation_endpoint: metadata.revocation_endpoint.clone(),
            resource: server.resource.clone(),
            client,
            scopes,
            missing_scopes: Vec::new(),
            is_of_client: false,
            access_token: tokens.access_token.clone(),
            refresh_token: None,
            expires_at: None,
            is_saved: false,
        };
        login.set_tokens(tokens, now);
        login
    }

    /// Replaces the tokens. A response without a refresh token leaves the old one valid (RFC 6749 section 6).
    pub(super) fn set_tokens(&mut self, tokens: TokenSet, now: SystemTime) {
        self.access_token = tokens.access_token;
        self.expires_at = tokens.lifetime.and_then(|lifetime| now.checked_add(lifetime));
        self.refresh_token = tokens.refresh_token.or_else(|| self.refresh_token.take());
        if let Some(scopes) = tokens.scopes {
            self.scopes = scopes;
        }
    }
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct StoredLogin {
    version: u32,
    issuer: String,
    token_endpoint: String,
    revocation_endpoint: Option<String>,
    resource: String,
    client: StoredClient,
    scopes: Vec<String>,
    #[serde(default)]
    missing_scopes: Vec<String>,
    #[serde(default)]
    is_of_client: bool,
    access_token: String,
    refresh_token: Option<String>,
    /// In seconds since 1970.
    expires_at: Option<u64>,
    /// Stored because a login that is passed to another process is not necessarily in the secret store.
    is_saved: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredClient {
    client_id: String,
    client_secret: Option<String>,
    is_configured: bool,
    sends_secret_in_body: bool,
    redirect_uri: Option<String>,
}

/// The version of the stored form.
const VERSION: u32 = 1;

impl From<&ClientRegistration> for StoredClient {
    fn from(client: &ClientRegistration) -> Self {
        Self {
            client_id: client.client_id.clone(),
            client_secret: client
                .client_secret
                .as_ref()
                .filter(|_| !client.is_configured)
                .map(|secret| secret.expose().to_owned()),
            is_configured: client.is_configured,
            sends_secret_in_body: client.sends_secret_in_body,
            redirect_uri: client.redirect_uri.clone(),
        }
    }
}

impl From<StoredClient> for ClientRegistration {
    fn from(stored: StoredClient) -> Self {
        Self {
            client_id: stored.client_id,
            client_secret: stored.client_secret.map(Secret::from),
            is_configured: stored.is_configured,
            expires: false,
            sends_secret_in_body: stored.sends_secret_in_body,
            redirect_uri: stored.redirect_uri,
        }
    }
}

impl KeptLogin {
    pub(super) fn to_secret(&self) -> Secret {
        let expires_at = self.expires_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        encode(&StoredLogin {
            version: VERSION,
            issuer: self.issuer.clone(),
            token_endpoint: self.token_endpoint.clone(),
            revocation_endpoint: self.revocation_endpoint.clone(),
            resource: self.resource.clone(),
            client: StoredClient::from(&self.client),
            scopes: self.scopes.clone(),
            missing_scopes: self.missing_scopes.clone(),
            is_of_client: self.is_of_client,
            access_token: self.access_token.expose().to_owned(),
            refresh_token: self.refresh_token.as_ref().map(|token| token.expose().to_owned()),
            expires_at: expires_at.map(|since| since.as_secs()),
            is_saved: self.is_saved,
        })
    }

    /// Reads the stored form; `None` if it has another version.
    pub(super) fn from_secret(secret: &Secret) -> Option<Self> {
        let stored: StoredLogin = decode(secret)?;
        (stored.version == VERSION).then(|| Self {
            issuer: stored.issuer,
            token_endpoint: stored.token_endpoint,
            revocation_endpoint: stored.revocation_endpoint,
            resource: stored.resource,
            client: stored.client.into(),
            scopes: stored.scopes,
            missing_scopes: stored.missing_scopes,
            is_of_client: stored.is_of_client,
            access_token: Secret::from(stored.access_token),
            refresh_token: stored.refresh_token.map(Secret::from),
            expires_at: stored.expires_at.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at))),
            is_saved: stored.is_saved,
        })
    }
}

fn encode(stored: &impl Serialize) -> Secret {
    // Plain texts and numbers have a JSON form.
    Secret::from(serde_json::to_string(stored).unwrap_or_default())
}

fn decode<T: DeserializeOwned>(secret: &Secret) -> Option<T> {
    serde_json::from_str(secret.expose()).ok()
}

/// The store of logins and client registrations.
#[derive(Debug, Clone)]
pub(super) struct LoginStore {
    environment: Environment,
    secrets: Secrets,
}

impl LoginStore {
    /// # Errors
    /// As for [`Secrets::open`].
    pub(super) fn open(environment: &Environment) -> Result<Self> {
        Ok(Self { environment: environment.clone(), secrets: Secrets::open(environment)? })
    }

    /// Returns the login with this name, if it is stored and can be read.
    ///
    /// # Errors
    /// `SecretsUnavailable` if the store cannot be opened.
    pub(super) async fn login(&self, name: &str) -> Result<Option<KeptLogin>> {
        let mut found = self.secrets.find(&[name.to_owned()]).await?;
        Ok(found.remove(name).as_ref().and_then(KeptLogin::from_secret))
    }

    /// Stores a login.
    ///
    /// # Errors
    /// As for [`Secrets::set`].
    pub(super) async fn set_login(&self, name: &str, login: &KeptLogin) -> Result<()> {
        let saved = KeptLogin { is_saved: true, ..login.clone() };
        self.secrets.set(name, &saved.to_secret()).await?;
        self.touch(name);
        Ok(())
    }

    /// Marks the login as changed, for other processes.
    fn touch(&self, name: &str) {
        let path = self.lock_path(name);
        if let Err(error) = File::open(&path).and_then(|file| file.set_modified(SystemTime::now())) {
            tracing::debug!(%error, "other processes will not notice that a stored login has changed");
        }
    }

    /// When the login with this name was last stored or removed; `None` if that is unknown. Does not read the secret
    /// store.
    pub(super) fn changed_at(&self, name: &str) -> Option<SystemTime> {
        changed_at(&self.environment, name)
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        lock_path(&self.environment, name)
    }

    /// Removes a login.
    ///
    /// # Errors
    /// As for [`Secrets::remove`].
    pub(super) async fn remove_login(&self, name: &str) -> Result<()> {
        self.secrets.remove(name).await?;
        self.touch(name);
        Ok(())
    }

    /// Returns the client that is registered with an issuer.
    pub(super) async fn registration(&self, issuer: &str) -> Option<ClientRegistration> {
        let name = registration_name(issuer);
        let mut found = self.secrets.find(std::slice::from_ref(&name)).await.ok()?;
        found.remove(&name).as_ref().and_then(decode::<StoredClient>).map(ClientRegistration::from)
    }

    /// Stores the client that was registered with an issuer.
    ///
    /// # Errors
    /// As for [`Secrets::set`].
    pub(super) async fn set_registration(&self, issuer: &str, client: &ClientRegistration) -> Result<()> {
        self.secrets.set(&registration_name(issuer), &encode(&StoredClient::from(client))).await
    }

    /// Removes the client that was registered with an issuer.
    pub(super) async fn remove_registration(&self, issuer: &str) {
        if let Err(error) = self.secrets.remove(&registration_name(issuer)).await {
            tracing::debug!(%error, "cannot remove a stored client registration");
        }
    }

    /// Waits until no other process renews the login with this name, and locks it; `None` if that takes too long. The
    /// lock is released when the returned file is dropped.
    ///
    /// # Errors
    /// `Io` if the lock cannot be created.
    pub(super) async fn lock(&self, name: &str) -> Result<Option<File>> {
        let path = self.lock_path(name);
        let opening = create_folders(path.parent().unwrap_or(Path::new("")))
            .and_then(|()| File::options().create(true).truncate(false).write(true).open(&path));
        let file = opening.map_err(|error| file_error("open", &path, error))?;
        let taken = async {
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(()),
                    Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_RETRY_DELAY).await,
                    Err(TryLockError::Error(error)) => return Err(file_error("lock", &path, error)),
                }
            }
        };
        match tokio::time::timeout(LOCK_TIMEOUT, taken).await {
            Ok(taken) => taken.map(|()| Some(file)),
            Err(_) => Ok(None),
        }
    }
}

/// When the login with this name was last stored or removed; `None` if that is unknown. Does not open the secret store.
pub(super) fn changed_at(environment: &Environment, name: &str) -> Option<SystemTime> {
    lock_path(environment, name).metadata().and_then(|metadata| metadata.modified()).ok()
}

fn lock_path(environment: &Environment, name: &str) -> PathBuf {
    environment.state_dir.join("logins").join(format!("{}.lock", digest(name)))
}

/// The name of the login to a server in the secret store. `client` contains the options for the issuer and the client.
pub(super) fn login_name(server: &str, host: &str, client: &str) -> String {
    format!("login:{host}:{}", digest(&format!("{server}\n{client}")))
}

fn registration_name(issuer: &str) -> String {
    let host = issuer.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let host: String = host.chars().filter(|c| !c.is_control() && *c != ',').take(100).collect();
    format!("client:{host}:{}", digest(issuer))
}

/// The first 16 hexadecimal digits of the SHA-256 digest.
fn digest(text: &str) -> String {
    let mut digest = hex(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref());
    digest.truncate(16);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_kept_whole() {
        let login = KeptLogin {
            issuer: "https://id.example".to_owned(),
            token_endpoint: "https://id.example/token".to_owned(),
            revocation_endpoint: None,
            resource: "https://a.example/mcp".to_owned(),
            client: ClientRegistration {
                client_id: "me".to_owned(),
                client_secret: Some(Secret::from("hush")),
                is_configured: false,
                expires: false,
                sends_secret_in_body: true,
                redirect_uri: Some("http://localhost:8666/callback".to_owned()),
            },
            scopes: vec!["a".to_owned()],
            missing_scopes: vec!["b".to_owned()],
            is_of_client: true,
            access_token: Secret::from("access"),
            refresh_token: Some(Secret::from("refresh")),
            expires_at: Some(UNIX_EPOCH + Duration::from_secs(1_900_000_000)),
            is_saved: true,
        };
        let secret = login.to_secret();
        let again = KeptLogin::from_secret(&secret).expect("a login");
        assert_eq!(again.to_secret(), secret);
        assert_eq!((&again.client, again.expires_at), (&login.client, login.expires_at));
        assert!(!format!("{login:?}").contains("hush") && !format!("{login:?}").contains("access\""));
        let other = Secret::from(secret.expose().replace("\"version\":1", "\"version\":2"));
        assert!(KeptLogin::from_secret(&other).is_none());
        assert!(KeptLogin::from_secret(&Secret::from("{")).is_none());
    }

    #[test]
    fn names_tell_servers_and_clients_apart() {
        let names: std::collections::BTreeSet<String> = [
            ("https://a.example/mcp", "a.example", ""),
            ("https://a.example/other", "a.example", ""),
            ("https://a.example/mcp", "a.example", "client"),
            ("https://b.example/mcp", "b.example", ""),
        ]
        .into_iter()
        .map(|(server, host, client)| login_name(server, host, client))
        .collect();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(registration_name("https://id.example/x,y").starts_with("client:id.example:"));
    }
}
