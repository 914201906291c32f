//! The current token of a remote server, and its renewal.
//!
//! A token that will expire soon is renewed while it is still used; one that has expired or was rejected is renewed
//! before the request is sent. Requests that need a new token share one renewal, and so do processes with the same
//! login: a lock is held, and the login is read again first. A renewal that fails because the authorization server
//! cannot be reached drops nothing.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::{Mutex, OnceCell, watch};
use url::Url;

use super::{
    OutgoingSecrets, OutgoingSpec,
    challenge::{Challenge, bearer_challenge},
    kept_login::{KeptLogin, LoginStore, login_name},
    oauth_client::{TokenRequestError, TokenSet, client_token, oauth_client},
    registration::ClientRegistration,
    renewal::{CurrentToken, Rejection, Renewal, TokenSource, TokenUnavailable, renewal_time},
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

/// How long a file with a bearer token is not read again.
const TOKEN_FILE_TTL: Duration = Duration::from_secs(10);

/// Authenticates requests to one remote server.
#[derive(Debug)]
pub(crate) struct OutgoingAuth {
    pub(super) spec: OutgoingSpec,
    pub(super) secrets: OutgoingSecrets,
    pub(super) target: Url,
    ca_bundle: Option<PathBuf>,
    /// The secret store and the prompts; without it, logins are only in memory.
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
    /// Creates it for the server at `target`. Reads and sends nothing.
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
            let message = format!("a token would be readable on the way to `{}`", redact_url(&target));
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

    /// The name in the secret store under which the login is kept.
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
        let client: Vec<&str> = client.iter().map(|text| text.as_deref().unwrap_or_default()).collect();
        let mut server = self.target.clone();
        server.set_fragment(None);
        let host: String =
            self.target.authority().chars().filter(|c| !c.is_control() && *c != ',').take(100).collect();
        login_name(server.as_str(), &host, &client.join("\n"))
    }

    /// Takes the configured bearer token or the kept login, so that requests can be sent with it. `handed_over` is a
    /// login that another process made for this one.
    ///
    /// # Errors
    /// `InvalidOption` for a token file that cannot be used.
    pub(crate) async fn restore(&self, handed_over: Option<&Secret>) -> Result<()> {
        if self.uses_bearer_token() {
            return self.read_bearer_token().map(drop);
        }
        let login = match handed_over.and_then(KeptLogin::from_secret) {
            Some(login) => Some(login),
            None => match self.store() {
                Some(store) => store.login(&self.login_name()).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "a kept login cannot be read");
                    None
                }),
                None => None,
            },
        };
        if let Some(login) = login {
            let mut renewal = self.renewal.lock().await;
            self.set_login(&mut renewal, login, TokenSource::Kept)?;
        }
        Ok(())
    }

    /// Makes sure that there is a token, if options require one: the configured or kept one, or that of a new login.
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

    /// The state of the login from now on; `None` before there was one, and for a bearer token.
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

    fn set_current(&self, current: Option<CurrentToken>) {
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
            // Still valid: renewed beside the request.
            let this = Arc::clone(self);
            tokio::spawn(async move { this.renew_ahead().await });
            return Ok(Some(current.header));
        }
        self.renew_detached(Some(current.header), Rejection::default()).await.map(Some)
    }

    /// Gets another token in a task of its own: a client that disconnects must not interrupt a renewal, whose new refresh
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

    /// Renews a token that is still valid, unless that is under way.
    async fn renew_ahead(&self) {
        let Ok(mut renewal) = self.renewal.try_lock() else { return };
        let Some(current) = self.read_current() else { return };
        if current.due.is_some_and(|due| (self.now)() < due) {
            return;
        }
        if self.uses_bearer_token() {
            if let Err(error) = self.read_bearer_token() {
                tracing::warn!(%error, "the file with the bearer token cannot be read again");
            }
            return;
        }
        if renewal.is_paused().is_some() {
            return;
        }
        let used = Some(&current.header);
        if let Err(failure) = self.renew_kept(&mut renewal, used).await {
            if failure == TokenUnavailable::LoginRequired {
                self.state.send_replace(Some(LoginState::NeedsLogin));
            }
            renewal.pause(failure);
        }
    }

    /// Returns a token to repeat a request with that the server rejected. `is_repeat` says that it was repeated already:
    /// then a renewed token is not renewed again, and no second login is made for the same scopes.
    ///
    /// # Errors
    /// Why there is none; `None` if the server's response is for the client, because mcpm has no login here.
    pub(crate) async fn after_rejection(
        self: &Arc<Self>,
        used: Option<HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
        is_repeat: bool,
    ) -> Result<HeaderValue, Option<TokenUnavailable>> {
        let is_detected = used.is_none() && !self.spec.requires_login();
        let challenge = bearer_challenge(headers);
        let is_insufficient_scope = status == StatusCode::FORBIDDEN;
        let rejection = Rejection { challenge, is_insufficient_scope, is_repeat };
        let renewed = self.renew_detached(used, rejection).await;
        renewed.map_err(|failure| if is_detected { None } else { Some(failure) })
    }

    /// Whether a response says that the token is not sufficient.
    pub(crate) fn is_rejection(status: StatusCode, headers: &HeaderMap) -> bool {
        status == StatusCode::UNAUTHORIZED
            || status == StatusCode::FORBIDDEN
                && bearer_challenge(headers)
                    .is_some_and(|challenge| challenge.param("error") == Some("insufficient_scope"))
    }

    /// Gets another token than `used`: that of another request or process, a renewed one, or that of a new login.
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
        if let Some(failure) = renewal.is_paused() {
            return Err(failure);
        }
        let is_own = used.is_some() && self.read_current().map(|current| current.header) == used;
        let source = if is_own { renewal.source } else { TokenSource::Kept };
        let challenge = rejection.challenge;
        let scopes = challenge.as_ref().map(Challenge::scopes).unwrap_or_default();
        let was_challenged = scopes.iter().all(|scope| renewal.challenged_scopes.contains(scope));
        let renewed = match source {
            TokenSource::LoggedIn if rejection.is_repeat && was_challenged => Err(TokenUnavailable::Rejected),
            // Renewing helps neither again nor against a lack of scopes, but a login that was made meanwhile may.
            TokenSource::Renewed if rejection.is_repeat => {
                self.take_kept(&mut renewal, self.store().as_ref(), used.as_ref()).await
            }
            _ if rejection.is_insufficient_scope => {
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
            // Clients may log in by themselves to a server that says nothing of where.
            if names_server || renewal.login.is_some() || self.spec.requires_login() {
                self.state.send_replace(Some(LoginState::NeedsLogin));
            }
        }
        renewal.pause(failure);
        Err(failure)
    }

    /// Takes the login that another process has renewed, or renews it.
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
                // Its refresh token must not be used twice.
                Ok(None) => return Err(TokenUnavailable::Unavailable),
                Err(error) => tracing::warn!(%error, "a login is renewed without a lock"),
            }
        }
        match self.take_kept(renewal, store.as_ref(), used).await {
            Err(TokenUnavailable::LoginRequired) => {}
            taken => return taken,
        }
        let login = renewal.login.as_ref().ok_or(TokenUnavailable::LoginRequired)?;
        self.state.send_replace(Some(LoginState::Refreshing));
        let tokens = self.refresh(login).await.map_err(|error| match error {
            TokenRequestError::Rejected(error) => {
                tracing::warn!(%error, server = %redact_url(&self.target), "the login was not renewed");
                TokenUnavailable::LoginRequired
            }
            TokenRequestError::Unavailable(error) => {
                tracing::warn!(%error, server = %redact_url(&self.target), "the login was not renewed");
                TokenUnavailable::Unavailable
            }
        })?;
        let mut login = login.clone();
        login.set_tokens(tokens, (self.now)());
        self.keep(&mut login, store.as_ref()).await;
        self.set_login(renewal, login, TokenSource::Renewed).map_err(|_| TokenUnavailable::Unavailable)
    }

    /// Takes the kept login, if it has another token than `used`; returns that token if it is valid.
    ///
    /// # Errors
    /// `LoginRequired` if there is none, or it has to be renewed first; `login` of `renewal` is then the one to renew.
    pub(super) async fn take_kept(
        &self,
        renewal: &mut Renewal,
        store: Option<&LoginStore>,
        used: Option<&HeaderValue>,
    ) -> Result<HeaderValue, TokenUnavailable> {
        let none = Err(TokenUnavailable::LoginRequired);
        // What could not be saved is newer than what is in the store.
        let is_saved = renewal.login.as_ref().is_none_or(|login| login.is_saved);
        let Some(store) = store.filter(|_| is_saved) else { return none };
        let kept = match store.login(&self.login_name()).await {
            Ok(Some(kept)) => kept,
            Ok(None) => {
                // Another process has logged out.
                renewal.login = None;
                self.set_current(None);
                return none;
            }
            Err(error) => {
                tracing::debug!(%error, "a kept login cannot be read");
                return none;
            }
        };
        let Ok(header) = bearer_value(&kept.access_token) else { return none };
        if used == Some(&header) {
            return none;
        }
        self.set_login(renewal, kept, TokenSource::Kept).map_err(|_| TokenUnavailable::LoginRequired)?;
        match self.read_current().is_some_and(|current| current.is_valid((self.now)())) {
            true => Ok(header),
            false => none,
        }
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
            return Err(TokenRequestError::Rejected(Error::new(
                ErrorKind::Upstream,
                "the authorization server issued no refresh token",
            )));
        };
        let oauth = oauth_client(http, &client, None, Some(&login.token_endpoint), None)
            .map_err(TokenRequestError::Rejected)?;
        let token = oauth2::RefreshToken::new(refresh_token.expose().to_owned());
        let request =
            oauth.exchange_refresh_token(&token).add_extra_param("resource", login.resource.clone());
        let response = request.request_async(http).await?;
        TokenSet::from_response(&response).map_err(TokenRequestError::Unavailable)
    }

    /// The stored form of the login, to hand it over to another process.
    pub(crate) async fn to_secret(&self) -> Option<Secret> {
        self.renewal.lock().await.login.as_ref().map(KeptLogin::to_secret)
    }

    /// Keeps a login in the secret store. If that is not possible, it is lost with this process.
    pub(super) async fn keep(&self, login: &mut KeptLogin, store: Option<&LoginStore>) {
        let Some(store) = store else { return };
        let saved = store.set_login(&self.login_name(), login).await;
        login.is_saved = saved.is_ok();
        if let Err(error) = saved {
            tracing::warn!(%error, "the login is not kept: after a restart it has to be made again");
        }
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
        renewal.failure = None;
        self.state.send_replace(Some(LoginState::Authenticated));
        Ok(header)
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

    pub(super) fn store(&self) -> Option<LoginStore> {
        let opened = LoginStore::open(self.environment.as_ref()?);
        opened.inspect_err(|error| tracing::warn!(%error, "logins are not kept")).ok()
    }

    /// The client for this server and what it names. Only a server on a private network may name addresses there.
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
#[path = "session_tests.rs"]
mod tests;
