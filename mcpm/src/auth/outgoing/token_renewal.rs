//! Provides the current token for a remote server, and renews it.
//!
//! A token that will expire soon is renewed while requests still use it. If a token has expired or was rejected, the
//! request waits for the new token. Requests that need a new token share one renewal. Processes with the same login
//! also share renewals: each process takes a lock and reads the stored login again before it renews the token. If the
//! authorization server cannot be reached, the login stays stored, and a later request tries the renewal again.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::{Mutex, OnceCell, watch};
use url::Url;

use super::{
    OutgoingSecrets, OutgoingSpec, TokenUnavailable,
    challenge::{Challenge, bearer_challenge},
    kept_login::{KeptLogin, login_name},
    oauth_client::{TokenRequestError, TokenSet, client_token, oauth_client},
    registration::ClientRegistration,
    token_state::{CurrentToken, Rejection, Renewal, TokenSource, renewal_time},
};
use crate::{
    Environment, Error, ErrorKind, Result,
    auth::{
        SecretSource, bearer_value,
        guarded_client::{AllowedAddresses, ClientGuard, GuardedClient, UrlSource},
    },
    http_client::is_confidential,
    options::Secret,
    redact::url::redact_url,
    state::LoginState,
};

/// Minimum interval between reads of a file with a bearer token.
const TOKEN_FILE_TTL: Duration = Duration::from_secs(10);

/// Authenticates requests to one remote server.
#[derive(Debug)]
pub(crate) struct OutgoingAuth {
    pub(super) spec: OutgoingSpec,
    pub(super) secrets: OutgoingSecrets,
    pub(super) target: Url,
    ca_bundle: Option<PathBuf>,
    /// Provides the secret store and the prompts; without it, logins are kept only in memory.
    pub(super) environment: Option<Environment>,
    http: OnceCell<GuardedClient>,
    current: RwLock<Option<CurrentToken>>,
    pub(super) state: watch::Sender<Option<LoginState>>,
    /// The clock.
    pub(super) now: fn() -> SystemTime,
    /// Held while the token is renewed.
    pub(super) renewal: Mutex<Renewal>,
}

impl OutgoingAuth {
    /// Creates the authentication to the server at `target`. Reads no files and sends no requests.
    ///
    /// # Errors
    /// `InvalidOption` if the spec requires a token, and requests to the server are not encrypted.
    pub(crate) fn new(
        spec: OutgoingSpec,
        secrets: OutgoingSecrets,
        target: Url,
        ca_bundle: Option<PathBuf>,
        environment: Option<Environment>,
    ) -> Result<Self> {
        if !is_confidential(&target) && (spec.requires_login() || spec.bearer_token != SecretSource::None) {
            let message = format!("a token would be sent unencrypted to `{}`", redact_url(&target));
            return Err(Error::new(ErrorKind::InvalidOption, message).hint("use an `https` URL"));
        }
        Ok(Self {
            spec,
            secrets,
            target,
            ca_bundle,
            environment,
            http: OnceCell::new(),
            current: RwLock::new(None),
            state: watch::Sender::new(None),
            now: SystemTime::now,
            renewal: Mutex::default(),
        })
    }

    /// The name under which the login is stored in the secret store.
    pub(crate) fn login_name(&self) -> String {
        let spec = &self.spec;
        let client = [
            &spec.issuer,
            &spec.authorize_url,
            &spec.token_url,
            &spec.client_id,
            &spec.client_metadata_url,
            &spec.resource,
        ];
        let mut client: Vec<&str> = client.iter().map(|text| text.as_deref().unwrap_or_default()).collect();
        // The scopes are part of the name, so that a workload with few scopes does not get a token with more scopes.
        client.extend(spec.scopes.iter().map(String::as_str));
        let mut server = self.target.clone();
        server.set_fragment(None);
        let host: String =
            self.target.authority().chars().filter(|c| !c.is_control() && *c != ',').take(100).collect();
        login_name(server.as_str(), &host, &client.join("\n"))
    }

    /// Loads the configured bearer token or the stored login for the requests. `handed_over` is a login that another
    /// process has passed to this one.
    ///
    /// # Errors
    /// `InvalidOption` for a token file that cannot be used.
    pub(crate) async fn restore(&self, handed_over: Option<&Secret>) -> Result<()> {
        if self.uses_bearer_token() {
            return self.read_bearer_token().map(drop);
        }
        let (store, name) = (self.store_with_prompt(), self.login_name());
        let changed = store.as_ref().and_then(|store| store.changed_at(&name));
        let login = match (handed_over.and_then(KeptLogin::from_secret), store) {
            (Some(login), _) => Some(login),
            (None, Some(store)) => store.login(&name).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "a stored login cannot be read");
                None
            }),
            (None, None) => None,
        };
        if let Some(login) = login {
            let mut renewal = self.renewal.lock().await;
            renewal.seen_change = changed;
            self.set_login(&mut renewal, login, TokenSource::Kept)?;
        }
        Ok(())
    }

    /// If options require a token, makes sure that there is one: a configured token, or that of a stored or new login.
    ///
    /// # Errors
    /// As for [`restore`](Self::restore) and [`log_in`](Self::log_in).
    pub(crate) async fn prepare(&self) -> Result<()> {
        match self.current() {
            None if self.uses_bearer_token() => self.restore(None).await,
            None if self.spec.requires_login() => self.obtain_login().await,
            _ => Ok(()),
        }
    }

    /// Subscribes to the state of the login; `None` before the first login, and for a bearer token.
    pub(crate) fn states(&self) -> watch::Receiver<Option<LoginState>> {
        self.state.subscribe()
    }

    /// The current token for a request, if there is one, without renewing it.
    pub(crate) fn current(&self) -> Option<HeaderValue> {
        self.read_current().map(|current| current.header)
    }

    pub(super) fn read_current(&self) -> Option<CurrentToken> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_current(&self, current: Option<CurrentToken>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// The value of `Authorization` for a request; `None` for a server that has required no login so far.
    ///
    /// # Errors
    /// Why there is no valid token.
    pub(crate) async fn authorization(self: &Arc<Self>) -> Result<Option<HeaderValue>, TokenUnavailable> {
        let Some(current) = self.read_current() else {
            return match self.spec.requires_login() {
                true => self.renew_detached(None, Rejection::default()).await.map(Some),
                false => Ok(None),
            };
        };
        let now = (self.now)();
        if current.due.is_none_or(|due| now < due) {
            return Ok(Some(current.header));
        }
        if current.is_valid(now) {
            // The token is still valid, so it is renewed concurrently with the request.
            let this = Arc::clone(self);
            tokio::spawn(async move { this.renew_ahead().await });
            return Ok(Some(current.header));
        }
        self.renew_detached(Some(current.header), Rejection::default()).await.map(Some)
    }

    /// The value of `Authorization` for a request that must not cause a login prompt. An expired token is renewed,
    /// unless a renewal is already in progress.
    pub(crate) async fn authorization_without_user(self: &Arc<Self>) -> Option<HeaderValue> {
        if !self.read_current()?.is_valid((self.now)()) {
            let this = Arc::clone(self);
            // In a task of its own, so that the caller cannot interrupt the renewal.
            tokio::spawn(async move { this.renew_ahead().await }).await.ok()?;
        }
        self.current()
    }

    /// Gets another token in a task of its own: if a disconnecting client interrupted the renewal, the new refresh
    /// token would be lost.
    async fn renew_detached(
        self: &Arc<Self>,
        used: Option<HeaderValue>,
        rejection: Rejection,
    ) -> Result<HeaderValue, TokenUnavailable> {
        let this = Arc::clone(self);
        let renewing = tokio::spawn(async move { this.renew(used, rejection).await });
        renewing.await.unwrap_or(Err(TokenUnavailable::Unavailable))
    }

    /// Renews the token if it is due, unless a renewal is already in progress. The user is not prompted to log in.
    async fn renew_ahead(&self) {
        let Ok(mut renewal) = self.renewal.try_lock() else { return };
        let Some(current) = self.read_current() else { return };
        if current.due.is_some_and(|due| (self.now)() < due) {
            return;
        }
        if self.uses_bearer_token() {
            if let Err(error) = self.read_bearer_token() {
                tracing::warn!(%error, "cannot reload the file with the bearer token");
            }
            return;
        }
        if renewal.is_paused(false).is_some() {
            return;
        }
        let used = Some(&current.header);
        if let Err(failure) = self.renew_kept(&mut renewal, used).await {
            if failure == TokenUnavailable::LoginRequired {
                let is_valid = current.is_valid((self.now)());
                self.set_state(if is_valid { LoginState::Authenticated } else { LoginState::NeedsLogin });
            }
            renewal.pause(false, failure);
        }
    }

    /// Returns a token with which to repeat a request that the server rejected. If the request has already been
    /// repeated (`is_repeat`), a renewed token is not renewed again, and no second login is made for the same scopes.
    ///
    /// # Errors
    /// Why there is no other token; `None` if the client should get the server's response, because mcpm has no login to
    /// this server.
    pub(crate) async fn after_rejection(
        self: &Arc<Self>,
        used: Option<HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
        is_repeat: bool,
    ) -> Result<HeaderValue, Option<TokenUnavailable>> {
        let has_login = self.state.borrow().is_some();
        let is_detected = used.is_none() && !self.spec.requires_login() && !has_login;
        let challenge = bearer_challenge(headers);
        let is_insufficient_scope = status == StatusCode::FORBIDDEN;
        let rejection = Rejection { challenge, is_insufficient_scope, is_repeat };
        let renewed = self.renew_detached(used, rejection).await;
        renewed.map_err(|failure| if is_detected { None } else { Some(failure) })
    }

    /// Whether a response rejects the token, or reports that its scopes are insufficient.
    pub(crate) fn is_rejection(status: StatusCode, headers: &HeaderMap) -> bool {
        status == StatusCode::UNAUTHORIZED
            || status == StatusCode::FORBIDDEN
                && bearer_challenge(headers)
                    .is_some_and(|challenge| challenge.param("error") == Some("insufficient_scope"))
    }

    /// Gets a token other than `used`: one that another request or process has obtained, a renewed one, or that of a
    /// new login.
    async fn renew(
        &self,
        used: Option<HeaderValue>,
        rejection: Rejection,
    ) -> Result<HeaderValue, TokenUnavailable> {
        let mut renewal = self.renewal.lock().await;
        if let Some(current) = self.read_current()
            && used.as_ref() != Some(&current.header)
            && current.is_valid((self.now)())
        {
            return Ok(current.header);
        }
        if self.uses_bearer_token() {
            let read = self.read_bearer_token().ok().filter(|read| used.as_ref() != Some(read));
            return read.ok_or(TokenUnavailable::Rejected);
        }
        let is_insufficient_scope = rejection.is_insufficient_scope;
        if let Some(failure) = renewal.is_paused(is_insufficient_scope) {
            return Err(failure);
        }
        let is_own = used.is_some() && self.read_current().map(|current| current.header) == used;
        let source = if is_own { renewal.source } else { TokenSource::Kept };
        let challenge = rejection.challenge;
        let scopes = challenge.as_ref().map(Challenge::scopes).unwrap_or_default();
        let was_challenged = scopes.iter().all(|scope| renewal.challenged_scopes.contains(scope));
        let renewed = match source {
            TokenSource::LoggedIn if rejection.is_repeat && was_challenged => Err(TokenUnavailable::Rejected),
            // Another renewal does not help, and no renewal adds scopes. But a login that another process has made
            // meanwhile may help.
            TokenSource::Renewed if rejection.is_repeat => {
                self.take_kept(&mut renewal, self.store().as_ref(), used.as_ref()).await
            }
            _ if is_insufficient_scope => {
                self.take_kept(&mut renewal, self.store().as_ref(), used.as_ref()).await
            }
            _ => self.renew_kept(&mut renewal, used.as_ref()).await,
        };
        let names_server =
            challenge.as_ref().is_some_and(|challenge| challenge.param("resource_metadata").is_some());
        let failure = match renewed {
            Ok(header) => return Ok(header),
            Err(TokenUnavailable::LoginRequired) => match self.log_in_again(&mut renewal, challenge).await {
                Ok(header) => return Ok(header),
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        if failure != TokenUnavailable::Unavailable {
            self.keep_missing_scopes(&mut renewal, scopes).await;
            // If the server does not name its resource metadata, clients may log in by other means, so the login is not
            // reported as missing.
            if names_server || renewal.login.is_some() || self.spec.requires_login() {
                self.set_state(LoginState::NeedsLogin);
            }
        }
        renewal.pause(is_insufficient_scope, failure);
        Err(failure)
    }

    /// Takes over the login if another process has renewed it; otherwise renews it.
    pub(super) async fn renew_kept(
        &self,
        renewal: &mut Renewal,
        used: Option<&HeaderValue>,
    ) -> Result<HeaderValue, TokenUnavailable> {
        let store = self.store();
        let mut _lock = None;
        if let Some(store) = &store {
            match store.lock(&self.login_name()).await {
                Ok(Some(lock)) => _lock = Some(lock),
                // Another process is using the refresh token, which must not be used twice.
                Ok(None) => return Err(TokenUnavailable::Unavailable),
                Err(error) => {
                    tracing::warn!(%error, "cannot lock a login against other processes, so it is renewed \
                        without a lock")
                }
            }
        }
        match self.take_kept(renewal, store.as_ref(), used).await {
            Err(TokenUnavailable::LoginRequired) => {}
            taken => return taken,
        }
        let login =
            renewal.login.as_mut().filter(|login| login.is_of_client || login.refresh_token.is_some());
        let login = login.ok_or(TokenUnavailable::LoginRequired)?;
        self.set_state(LoginState::Refreshing);
        let refreshed = self.refresh(login).await;
        if let Err(TokenRequestError::InvalidGrant(_)) = refreshed {
            // The refresh token stays invalid.
            login.refresh_token = None;
        }
        let mut login = login.clone();
        let tokens = refreshed.map_err(|error| {
            let failure = match error {
                TokenRequestError::Unavailable(_) => TokenUnavailable::Unavailable,
                _ => TokenUnavailable::LoginRequired,
            };
            let error = error.into_error();
            tracing::warn!(%error, server = %redact_url(&self.target), "the login was not renewed");
            failure
        })?;
        login.set_tokens(tokens, (self.now)());
        self.keep(renewal, &mut login, store.as_ref()).await;
        self.set_login(renewal, login, TokenSource::Renewed).map_err(|_| TokenUnavailable::Unavailable)
    }

    /// The client of a login, with the configured secret, which may have changed.
    pub(super) fn client_of(&self, login: &KeptLogin) -> Result<ClientRegistration> {
        let mut client = login.client.clone();
        if client.is_configured {
            client.client_secret = self.spec.read_client_secret(&self.secrets)?;
        }
        Ok(client)
    }

    async fn refresh(&self, login: &KeptLogin) -> Result<TokenSet, TokenRequestError> {
        let http = self.http().await.map_err(TokenRequestError::Unavailable)?;
        let client = self.client_of(login).map_err(TokenRequestError::Unavailable)?;
        if login.is_of_client {
            let endpoint = Some(login.token_endpoint.as_str());
            return client_token(http, &client, endpoint, &login.resource, &login.scopes).await;
        }
        let Some(refresh_token) = &login.refresh_token else {
            let message = "the authorization server issued no refresh token";
            return Err(TokenRequestError::InvalidGrant(Error::new(ErrorKind::Upstream, message)));
        };
        let oauth = oauth_client(http, &client, None, Some(&login.token_endpoint), None)
            .map_err(TokenRequestError::Rejected)?;
        let token = oauth2::RefreshToken::new(refresh_token.expose().to_owned());
        let request =
            oauth.exchange_refresh_token(&token).add_extra_param("resource", login.resource.clone());
        let response = request.request_async(http).await?;
        TokenSet::from_response(&response).map_err(TokenRequestError::Unavailable)
    }

    pub(super) fn set_login(
        &self,
        renewal: &mut Renewal,
        login: KeptLogin,
        source: TokenSource,
    ) -> Result<HeaderValue> {
        let header = bearer_value(&login.access_token)?;
        let expires_at = login.expires_at;
        let due = expires_at.map(|end| renewal_time(end, (self.now)()));
        self.set_current(Some(CurrentToken { header: header.clone(), due, expires_at }));
        (renewal.login, renewal.source) = (Some(login), source);
        renewal.end_pauses();
        self.set_state(LoginState::Authenticated);
        Ok(header)
    }

    /// Sets the state; receivers are notified only if it changes.
    pub(super) fn set_state(&self, state: LoginState) {
        self.state.send_if_modified(|before| before.replace(state) != Some(state));
    }

    pub(super) fn uses_bearer_token(&self) -> bool {
        self.spec.bearer_token != SecretSource::None
    }

    fn read_bearer_token(&self) -> Result<HeaderValue> {
        let token = self.spec.read_bearer_token(&self.secrets)?.ok_or_else(|| {
            Error::new(ErrorKind::InvalidOption, "the bearer token for the remote server is missing")
        })?;
        let header = bearer_value(&token)?;
        let is_file = matches!(self.spec.bearer_token, SecretSource::File(_));
        let due = is_file.then(|| (self.now)() + TOKEN_FILE_TTL);
        self.set_current(Some(CurrentToken { header: header.clone(), due, expires_at: None }));
        Ok(header)
    }

    /// The HTTP client for this server and the URLs that it names. Only a server on a private network may name
    /// addresses on private networks.
    pub(super) async fn http(&self) -> Result<&GuardedClient> {
        self.http
            .get_or_try_init(|| async {
                let addresses = AllowedAddresses::for_server(&self.target).await;
                GuardedClient::new(ClientGuard {
                    allow_http: false,
                    addresses,
                    source: UrlSource::RemoteServer,
                    ca_bundle: self.ca_bundle.clone(),
                })
            })
            .await
    }
}

#[cfg(test)]
#[path = "token_renewal_tests.rs"]
mod tests;
