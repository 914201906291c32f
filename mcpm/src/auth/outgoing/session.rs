//! The current token of a remote server, and its renewal.
//!
//! A token that will expire soon is renewed while it is still used; one that has expired or was rejected is renewed
//! before the request is sent. Requests that need a new token share one renewal, and so do processes with the same
//! login: a lock is held, and the login is read again first. A renewal that fails because the authorization server
//! cannot be reached drops nothing.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant, SystemTime},
};

use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::{Mutex, OnceCell};
use url::Url;

use super::{
    OutgoingSecrets, OutgoingSpec,
    challenge::{Challenge, bearer_challenge},
    kept_login::{KeptLogin, LoginStore, login_name},
    login::Login,
    oauth_client::{TokenRequestError, TokenSet, oauth_client},
    probe::probe,
    renewal::{CurrentToken, Renewal, TokenUnavailable, renewal_time},
    revocation::revoke,
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
    user_prompt::UserPrompt,
};

/// How long a file with a bearer token is not read again.
const TOKEN_FILE_TTL: Duration = Duration::from_secs(10);
/// Most logins of one server within [`LOGIN_PERIOD`] that a running proxy asks the user for.
const MAX_LOGINS: usize = 3;
const LOGIN_PERIOD: Duration = Duration::from_secs(600);

/// Authenticates requests to one remote server.
#[derive(Debug)]
pub(crate) struct OutgoingAuth {
    spec: OutgoingSpec,
    secrets: OutgoingSecrets,
    target: Url,
    ca_bundle: Option<PathBuf>,
    /// The secret store and the prompts; without it, logins are only in memory.
    environment: Option<Environment>,
    http: OnceCell<GuardedClient>,
    current: RwLock<Option<CurrentToken>>,
    /// Held while the token is renewed.
    renewal: Mutex<Renewal>,
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
            renewal: Mutex::default(),
        })
    }

    /// The name in the secret store under which the login is kept.
    pub(crate) fn login_name(&self) -> String {
        let spec = &self.spec;
        let client = [&spec.issuer, &spec.authorize_url, &spec.client_id, &spec.resource];
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
            self.set_login(&mut renewal, login)?;
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

    /// Gets another token for a server that requires a login: the kept one, a renewed one, or that of a new login. The
    /// store is opened only here, since that may ask for its password.
    ///
    /// # Errors
    /// `NotFound` if the server names no authorization server; as for [`log_in`](Self::log_in).
    pub(crate) async fn obtain_login(&self) -> Result<()> {
        if self.current().is_none() {
            self.restore(None).await?;
            let is_valid =
                |current: CurrentToken| current.expires_at.is_none_or(|end| SystemTime::now() < end);
            if self.read_current().is_some_and(is_valid) {
                return Ok(());
            }
        }
        if let Some(used) = self.current().filter(|_| !self.uses_bearer_token()) {
            let mut renewal = self.renewal.lock().await;
            match self.renew_kept(&mut renewal, Some(&used)).await {
                Ok(_) => return Ok(()),
                Err(TokenUnavailable::LoginRequired) => {}
                Err(failure) => return Err(Error::new(ErrorKind::Upstream, failure.message())),
            }
        }
        self.log_in().await
    }

    /// The current token for a request, if there is one, without renewing it.
    pub(crate) fn current(&self) -> Option<HeaderValue> {
        self.read_current().map(|current| current.header)
    }

    fn read_current(&self) -> Option<CurrentToken> {
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
                true => self.renew_detached(None, None).await.map(Some),
                false => Ok(None),
            };
        };
        let now = SystemTime::now();
        if current.due.is_none_or(|due| now < due) {
            return Ok(Some(current.header));
        }
        if current.expires_at.is_none_or(|end| now < end) {
            // Still valid: renewed beside the request.
            let this = Arc::clone(self);
            tokio::spawn(async move { this.renew_ahead().await });
            return Ok(Some(current.header));
        }
        self.renew_detached(Some(current.header), None).await.map(Some)
    }

    /// Gets another token in a task of its own: a client that disconnects must not interrupt a renewal, whose new refresh
    /// token would be lost.
    async fn renew_detached(
        self: &Arc<Self>,
        used: Option<HeaderValue>,
        challenge: Option<Challenge>,
    ) -> Result<HeaderValue, TokenUnavailable> {
        let this = Arc::clone(self);
        let renewing = tokio::spawn(async move { this.renew(used, challenge).await });
        renewing.await.unwrap_or(Err(TokenUnavailable::Unavailable))
    }

    /// Renews a token that is still valid, unless that is under way.
    async fn renew_ahead(&self) {
        let Ok(mut renewal) = self.renewal.try_lock() else { return };
        let Some(current) = self.read_current() else { return };
        if current.due.is_some_and(|due| SystemTime::now() < due) {
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
            renewal.pause(failure);
        }
    }

    /// Returns a token to repeat a request with that the server rejected.
    ///
    /// # Errors
    /// Why there is none; `None` if the server's response is for the client, because mcpm has no login here.
    pub(crate) async fn after_rejection(
        self: &Arc<Self>,
        used: Option<HeaderValue>,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Result<HeaderValue, Option<TokenUnavailable>> {
        let challenge = bearer_challenge(headers);
        let is_detected = used.is_none() && !self.spec.requires_login();
        if is_detected && self.prompt().is_none() {
            return Err(None);
        }
        let challenge = challenge.filter(|_| status == StatusCode::FORBIDDEN || used.is_none());
        let renewed = self.renew_detached(used, challenge).await;
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
        challenge: Option<Challenge>,
    ) -> Result<HeaderValue, TokenUnavailable> {
        let mut renewal = self.renewal.lock().await;
        if let Some(current) = self.read_current()
            && used.as_ref() != Some(&current.header)
            && current.expires_at.is_none_or(|end| SystemTime::now() < end)
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
        // A challenge for more scopes is not met by renewing.
        let renewed = match &challenge {
            Some(_) => Err(TokenUnavailable::LoginRequired),
            None => self.renew_kept(&mut renewal, used.as_ref()).await,
        };
        let failure = match renewed {
            Ok(header) => return Ok(header),
            Err(TokenUnavailable::LoginRequired) => match self.log_in_again(&mut renewal, challenge).await {
                Ok(header) => return Ok(header),
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        renewal.pause(failure);
        Err(failure)
    }

    /// Takes the login that another process has renewed, or renews it.
    async fn renew_kept(
        &self,
        renewal: &mut Renewal,
        used: Option<&HeaderValue>,
    ) -> Result<HeaderValue, TokenUnavailable> {
        let name = self.login_name();
        let store = self.store();
        let mut _lock = None;
        if let Some(store) = &store {
            match store.lock(&name).await {
                Ok(lock) => _lock = Some(lock),
                Err(error) => tracing::warn!(%error, "a login is renewed without a lock"),
            }
            if let Ok(Some(kept)) = store.login(&name).await
                && let Ok(header) = bearer_value(&kept.access_token)
                && used != Some(&header)
            {
                let is_valid = kept.expires_at.is_none_or(|end| SystemTime::now() < end);
                if self.set_login(renewal, kept).is_ok() && is_valid {
                    return Ok(header);
                }
            }
        }
        let login = renewal.login.as_ref().ok_or(TokenUnavailable::LoginRequired)?;
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
        login.set_tokens(tokens);
        self.keep(&login, store.as_ref()).await;
        self.set_login(renewal, login).map_err(|_| TokenUnavailable::Unavailable)
    }

    async fn refresh(&self, login: &KeptLogin) -> Result<TokenSet, TokenRequestError> {
        let Some(refresh_token) = &login.refresh_token else {
            return Err(TokenRequestError::Rejected(Error::new(
                ErrorKind::Upstream,
                "the authorization server issued no refresh token",
            )));
        };
        let http = self.http().await.map_err(TokenRequestError::Unavailable)?;
        let oauth = oauth_client(http, &login.client, None, Some(&login.token_endpoint), None)
            .map_err(TokenRequestError::Rejected)?;
        let token = oauth2::RefreshToken::new(refresh_token.expose().to_owned());
        let request =
            oauth.exchange_refresh_token(&token).add_extra_param("resource", login.resource.clone());
        let response = request.request_async(http).await?;
        TokenSet::from_response(&response).map_err(TokenRequestError::Unavailable)
    }

    /// Asks the user of a proxy that runs in the foreground to log in, within limits.
    async fn log_in_again(
        &self,
        renewal: &mut Renewal,
        challenge: Option<Challenge>,
    ) -> Result<HeaderValue, TokenUnavailable> {
        if self.prompt().is_none() {
            return Err(TokenUnavailable::LoginRequired);
        }
        renewal.logins.retain(|at| at.elapsed() < LOGIN_PERIOD);
        if renewal.logins.len() >= MAX_LOGINS {
            return Err(TokenUnavailable::Rejected);
        }
        renewal.logins.push(Instant::now());
        self.log_in_with(renewal, challenge).await.map_err(|error| {
            tracing::warn!(%error, server = %redact_url(&self.target), "the login failed");
            TokenUnavailable::LoginRequired
        })
    }

    /// Logs in, if the server requires it and there is no valid login.
    ///
    /// # Errors
    /// Those of the login.
    pub(crate) async fn log_in(&self) -> Result<()> {
        let mut renewal = self.renewal.lock().await;
        self.log_in_with(&mut renewal, None).await.map(drop)
    }

    /// Removes the login that is kept, and revokes it (RFC 7009).
    ///
    /// # Errors
    /// `NotFound` if no login is kept; those of the secret store.
    pub(crate) async fn log_out(&self) -> Result<()> {
        let name = self.login_name();
        let none = || {
            let message = format!("no login to `{}` is kept", redact_url(&self.target));
            Error::new(ErrorKind::NotFound, message)
        };
        let store = LoginStore::open(self.environment.as_ref().ok_or_else(none)?)?;
        let login = store.login(&name).await?.ok_or_else(none)?;
        store.remove_login(&name).await?;
        if let Err(error) = revoke(self.http().await?, &login).await {
            tracing::warn!(%error, "the login is removed here, but was not revoked");
        }
        Ok(())
    }

    async fn log_in_with(&self, renewal: &mut Renewal, challenge: Option<Challenge>) -> Result<HeaderValue> {
        if !is_confidential(&self.target) {
            return Err(Error::new(ErrorKind::NotFound, "there are no logins over plain HTTP"));
        }
        let prompt = self.prompt().ok_or_else(|| {
            let message = format!("the remote server `{}` requires a login", redact_url(&self.target));
            Error::new(ErrorKind::LoginRequired, message)
        })?;
        let challenge = match challenge {
            Some(challenge) => Some(challenge),
            None => probe(self.http().await?, &self.target).await,
        };
        let store = self.store();
        let login = Login {
            http: self.http().await?,
            spec: &self.spec,
            target: &self.target,
            client_secret: self.spec.read_client_secret(&self.secrets)?,
            prompt: prompt.as_ref(),
            store: store.as_ref(),
            challenge: challenge.as_ref(),
            scopes: renewal.login.as_ref().map(|login| login.scopes.as_slice()).unwrap_or_default(),
        };
        let login = Box::pin(login.run()).await?;
        self.keep(&login, store.as_ref()).await;
        renewal.failure = None;
        self.set_login(renewal, login)
    }

    /// The stored form of the login, to hand it over to another process.
    pub(crate) async fn to_secret(&self) -> Option<Secret> {
        self.renewal.lock().await.login.as_ref().map(KeptLogin::to_secret)
    }

    /// Keeps a login in the secret store. If that is not possible, it is lost with this process.
    async fn keep(&self, login: &KeptLogin, store: Option<&LoginStore>) {
        if let Some(store) = store
            && let Err(error) = store.set_login(&self.login_name(), login).await
        {
            tracing::warn!(%error, "the login is not kept: after a restart it has to be made again");
        }
    }

    fn set_login(&self, renewal: &mut Renewal, login: KeptLogin) -> Result<HeaderValue> {
        let header = bearer_value(&login.access_token)?;
        let due = login.expires_at.map(renewal_time);
        let expires_at = login.expires_at;
        self.set_current(Some(CurrentToken { header: header.clone(), due, expires_at }));
        renewal.login = Some(login);
        renewal.failure = None;
        Ok(header)
    }

    fn uses_bearer_token(&self) -> bool {
        self.spec.bearer_token != SecretSource::None
    }

    fn read_bearer_token(&self) -> Result<HeaderValue> {
        let token = self.spec.read_bearer_token(&self.secrets)?.ok_or_else(|| {
            Error::new(ErrorKind::InvalidOption, "the bearer token for the remote server is missing")
        })?;
        let header = bearer_value(&token)?;
        let is_file = matches!(self.spec.bearer_token, SecretSource::File(_));
        let due = is_file.then(|| SystemTime::now() + TOKEN_FILE_TTL);
        self.set_current(Some(CurrentToken { header: header.clone(), due, expires_at: None }));
        Ok(header)
    }

    fn prompt(&self) -> Option<&Arc<dyn UserPrompt>> {
        self.environment.as_ref()?.user_prompt.as_ref()
    }

    fn store(&self) -> Option<LoginStore> {
        let opened = LoginStore::open(self.environment.as_ref()?);
        opened.inspect_err(|error| tracing::warn!(%error, "logins are not kept")).ok()
    }

    /// The client for this server and what it names. Only a server on a private network may name addresses there.
    async fn http(&self) -> Result<&GuardedClient> {
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
