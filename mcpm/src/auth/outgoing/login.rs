//! Performs one login: with the authorization code grant and PKCE (RFC 6749 section 4.1, RFC 7636, RFC 8707, RFC 9207),
//! the device authorization grant, or the client credentials grant.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant, SystemTime},
};

use http::{HeaderMap, HeaderValue, header};
use oauth2::{AuthorizationCode, CsrfToken, PkceCodeChallenge, PkceCodeVerifier, Scope};
use openidconnect::{
    ClientId, ClientSecret, IssuerUrl, Nonce,
    core::{CoreIdToken, CoreIdTokenVerifier, CoreJsonWebKeySet, CoreJwsSigningAlgorithm},
};
use url::Url;

use super::{
    OutgoingSpec,
    callback::{AuthorizationResponse, CallbackServer, parse_pasted},
    challenge::Challenge,
    device::DeviceGrant,
    discovery::{AuthorizationServer, discover, failed},
    kept_login::{KeptLogin, LoginStore},
    oauth_client::{OAuthClient, TokenRequestError, TokenSet, client_token, oauth_client, rejected},
    registration::{self, ClientRegistration},
};
use crate::{
    Error, ErrorKind, Result,
    auth::guarded_client::GuardedClient,
    explain::Reason,
    options::Secret,
    redact::url::redact_url,
    user_prompt::{LoginPrompt, UserPrompt},
};

/// Maximum size of a key set in bytes.
const MAX_JWKS_BYTES: usize = 512 << 10;
/// The scope with which a client may refresh tokens while the user is absent (OpenID Connect Core 1.0 section 11).
const OFFLINE_ACCESS: &str = "offline_access";
/// The default scopes for a configured issuer that supports OpenID Connect.
const OPENID_SCOPES: [&str; 3] = ["openid", "profile", "email"];

/// The accepted signature algorithms of ID tokens: those with a public key.
const ID_TOKEN_ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// One login, and the data that it needs.
pub(super) struct Login<'a> {
    pub(super) http: &'a GuardedClient,
    pub(super) spec: &'a OutgoingSpec,
    /// The remote server.
    pub(super) target: &'a Url,
    pub(super) client_secret: Option<Secret>,
    /// The prompt for the user; without it, only the client itself can log in.
    pub(super) prompt: Option<&'a dyn UserPrompt>,
    pub(super) store: Option<&'a LoginStore>,
    /// The challenge of the server's response, if there was one.
    pub(super) challenge: Option<&'a Challenge>,
    /// The previous login, whose scopes the new login must have too.
    pub(super) before: Option<&'a KeptLogin>,
    /// Whether the user has started the login. Then a login that is not completed suggests an error, and not an absent
    /// user.
    pub(super) is_attended: bool,
    /// The clock.
    pub(super) now: fn() -> SystemTime,
}

impl Login<'_> {
    /// Logs in, and waits for the user as long as the spec allows. If the authorization server issues tokens only to
    /// clients, the configured client requests a token for itself.
    ///
    /// # Errors
    /// `Upstream` if the authorization server cannot be used or denies access, or if the user does not log in in time;
    /// `LoginRequired` without a prompt; `PortTaken` for the callback port; `InvalidOption` if the user has to
    /// configure a client; errors of the prompt.
    pub(super) async fn run(&self) -> Result<KeptLogin> {
        let server = self.server().await?;
        let scopes = self.scopes(&server);
        if server.has_client_credentials_only() {
            return self.run_as_client(&server, scopes).await;
        }
        let prompt = self.prompt.ok_or_else(|| login_required(self.target))?;
        let mut callback = None;
        if server.has_code_grant() {
            check_pkce(&server)?;
            callback = match self.callback_server().await {
                Err(error) if error.kind() == ErrorKind::PortTaken && server.has_device_grant() => {
                    tracing::warn!(%error, "the callback port is in use, so the user can log in only on \
                        another device");
                    None
                }
                bound => Some(bound?),
            };
        } else if !server.has_device_grant() {
            let issuer = &server.metadata.issuer;
            return Err(failed(format!("the issuer `{issuer}` has no authorization endpoint")));
        }
        let redirect = callback.as_ref().map(CallbackServer::redirect_uri).transpose()?;
        let (client, is_kept) = self.client(&server, redirect.as_ref().map(Url::as_str), &scopes).await?;
        let authorized =
            self.authorize(prompt, &server, &client, callback.zip(redirect.as_ref()), &scopes).await;
        if authorized.is_err()
            && is_kept
            && self.is_attended
            && let Some(store) = self.store
        {
            // The server may no longer know the client, and shows that error only to the user. The next login registers
            // another client.
            store.remove_registration(&server.metadata.issuer).await;
        }
        Ok(KeptLogin::new(&server, client, scopes, authorized?, (self.now)()))
    }

    /// Requests a token for the configured client itself (RFC 6749 section 4.4).
    async fn run_as_client(&self, server: &AuthorizationServer, scopes: Vec<String>) -> Result<KeptLogin> {
        let issuer = &server.metadata.issuer;
        let (Some(client_id), Some(secret)) = (&self.spec.client_id, self.client_secret.clone()) else {
            let message =
                format!("the authorization server `{issuer}` issues tokens only to registered clients");
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("register a client there, and set `remote_auth_client_id` and the client secret"));
        };
        let client = registration::configured(client_id, Some(secret), server);
        let endpoint = server.metadata.token_endpoint.as_deref();
        let requested = client_token(self.http, &client, endpoint, &server.resource, &scopes).await;
        let tokens = requested.map_err(TokenRequestError::into_error)?;
        Ok(KeptLogin { is_of_client: true, ..KeptLogin::new(server, client, scopes, tokens, (self.now)()) })
    }

    /// The authorization server, with the configured endpoints or the discovered ones.
    async fn server(&self) -> Result<AuthorizationServer> {
        let resource = self.spec.resource.clone();
        if let (Some(authorize), Some(token)) = (&self.spec.authorize_url, &self.spec.token_url) {
            return Ok(AuthorizationServer::configured(authorize, token, self.target).with_resource(resource));
        }
        let issuer = self.spec.issuer.as_deref();
        let server = discover(self.http, self.target, self.challenge, issuer).await?;
        Ok(server.with_resource(resource))
    }

    /// Binds the callback server to the configured port. If a client is registered for this login, another port may be
    /// used.
    async fn callback_server(&self) -> Result<CallbackServer> {
        match CallbackServer::bind(self.spec.callback_port).await {
            Err(error) if error.kind() == ErrorKind::PortTaken && self.spec.client_id.is_none() => {
                CallbackServer::bind(0).await
            }
            bound => bound,
        }
    }

    /// The scopes to request: the configured ones, or those of the challenge, or those of the resource.
    fn scopes(&self, server: &AuthorizationServer) -> Vec<String> {
        let challenged = self.challenge.map(Challenge::scopes).filter(|scopes| !scopes.is_empty());
        let is_step_up =
            self.challenge.is_some_and(|challenge| challenge.param("error") == Some("insufficient_scope"));
        let mut scopes: Vec<String> = if !self.spec.scopes.is_empty() {
            let more = challenged.filter(|_| is_step_up).unwrap_or_default();
            self.spec.scopes.iter().cloned().chain(more).collect()
        } else if let Some(challenged) = challenged {
            challenged
        } else if server.resource_scopes.is_empty() && self.spec.issuer.is_some() && server.is_openid {
            OPENID_SCOPES.map(str::to_owned).to_vec()
        } else {
            server.resource_scopes.clone()
        };
        let supported = server.metadata.scopes_supported.as_deref().unwrap_or_default();
        let offline = supported.iter().filter(|scope| *scope == OFFLINE_ACCESS);
        scopes.extend(offline.cloned());
        if let Some(before) = self.before.filter(|before| before.issuer == server.metadata.issuer) {
            scopes.extend(before.scopes.iter().chain(&before.missing_scopes).cloned());
        }
        let mut seen = BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }

    /// The client of the login: the configured client, that of a client ID metadata document, a client that was
    /// registered before, or a newly registered one. The flag is true for a client that was registered before.
    async fn client(
        &self,
        server: &AuthorizationServer,
        redirect: Option<&str>,
        scopes: &[String],
    ) -> Result<(ClientRegistration, bool)> {
        if let Some(client_id) = &self.spec.client_id {
            return Ok((registration::configured(client_id, self.client_secret.clone(), server), false));
        }
        if let Some(document) = &self.spec.client_metadata_url
            && server.metadata.client_id_metadata_document_supported
        {
            return Ok((registration::configured(document, None, server), false));
        }
        let issuer = &server.metadata.issuer;
        if let Some(store) = self.store
            && let Some(kept) = store.registration(issuer).await
            && kept.redirect_uri.as_deref() == redirect
        {
            return Ok((kept, true));
        }
        let registering = registration::register(self.http, server, redirect, scopes).await;
        let client =
            registering.map_err(|error| match server.has_metadata || self.spec.requires_login() {
                true => error,
                // Neither metadata nor options show that there is an authorization server.
                false => Error::new(ErrorKind::NotFound, "the remote server names no authorization server"),
            })?;
        if let Some(store) = self.store
            && !client.expires
            && let Err(error) = store.set_registration(issuer, &client).await
        {
            tracing::debug!(%error, "cannot store the client registration");
        }
        Ok((client, false))
    }

    /// Lets the user log in: in the browser of this machine, or on another device.
    async fn authorize(
        &self,
        prompt: &dyn UserPrompt,
        server: &AuthorizationServer,
        client: &ClientRegistration,
        callback: Option<(CallbackServer, &Url)>,
        scopes: &[String],
    ) -> Result<TokenSet> {
        let metadata = &server.metadata;
        let endpoint = metadata.authorization_endpoint.as_deref().filter(|_| callback.is_some());
        let redirect = callback.as_ref().map(|(_, redirect)| *redirect);
        let oauth = oauth_client(self.http, client, endpoint, metadata.token_endpoint.as_deref(), redirect)?;
        let code = callback.map(|(callback, _)| CodeRequest::new(callback, &oauth, &server.resource, scopes));
        let mut device = None;
        if server.has_device_grant() {
            match DeviceGrant::begin(self.http, &oauth, server, scopes).await {
                Ok(begun) => device = Some(begun),
                // The client may not be registered for this grant.
                Err(error) if code.is_some() => {
                    tracing::debug!(%error, "cannot offer a login on another device")
                }
                Err(error) => return Err(error),
            }
        }
        let url = match (&code, &device) {
            (Some(code), _) => code.url.to_string(),
            (None, Some(device)) => device.complete_url(),
            (None, None) => {
                return Err(failed("the authorization server supports no grant that mcpm can use"));
            }
        };
        let shown = LoginPrompt {
            server: self.target.host_str().unwrap_or_default().to_owned(),
            url,
            has_redirect: code.is_some(),
            device: device.as_ref().map(DeviceGrant::login),
            open_browser: !self.spec.skip_browser,
            timeout: self.spec.timeout,
            deadline: Instant::now() + self.spec.timeout,
        };
        let (state, nonce, verifier, callback) = match code {
            Some(code) => (code.state, code.nonce, Some(code.verifier), Some(code.callback)),
            None => (CsrfToken::new(String::new()), None, None, None),
        };
        let waiting = self.wait_for_user(prompt, &shown, callback, state.secret(), device.as_ref());
        let response = match waiting.await? {
            UserResponse::Redirect(response) => response,
            UserResponse::Tokens(tokens) => return Ok(*tokens),
        };
        check_issuer(server, response.issuer.as_deref())?;
        let code = response.outcome.map_err(|code| denied(&code))?;
        let mut exchanging = oauth
            .exchange_code(AuthorizationCode::new(code))
            .add_extra_param("resource", server.resource.clone());
        if let Some(verifier) = verifier {
            exchanging = exchanging.set_pkce_verifier(verifier);
        }
        let response = exchanging.request_async(self.http).await;
        let tokens =
            TokenSet::from_response(&response.map_err(|error| TokenRequestError::from(error).into_error())?)?;
        if let (Some(nonce), Some(id_token)) = (&nonce, &tokens.id_token) {
            self.check_id_token(server, client, id_token, nonce).await?;
        }
        Ok(tokens)
    }

    /// Shows the login to the user, and waits for its end: the redirect of the browser, a redirect that the user
    /// pasted, or a login on another device.
    async fn wait_for_user(
        &self,
        prompt: &dyn UserPrompt,
        shown: &LoginPrompt,
        callback: Option<CallbackServer>,
        state: &str,
        device: Option<&DeviceGrant<'_>>,
    ) -> Result<UserResponse> {
        let has_code = callback.is_some();
        let redirected = async {
            match callback {
                Some(callback) => callback.receive(state, &shown.server).await.map(UserResponse::Redirect),
                None => std::future::pending().await,
            }
        };
        let granted = async {
            let Some(device) = device else { return std::future::pending().await };
            match device.wait().await {
                Ok(Some(tokens)) => Ok(UserResponse::Tokens(Box::new(tokens))),
                Ok(None) => Err(denied("access_denied")),
                // The user can still log in with the browser.
                Err(error) if has_code => {
                    tracing::debug!(%error, "the login on another device failed; the login in the browser \
                        continues");
                    std::future::pending().await
                }
                Err(error) => Err(error),
            }
        };
        let asked = async {
            prompt.show_login(shown).await?;
            loop {
                let Some(pasted) = prompt.ask_redirect(shown).await? else {
                    return std::future::pending().await;
                };
                match parse_pasted(&pasted, state) {
                    Ok(response) if has_code => return Ok(UserResponse::Redirect(response)),
                    Ok(_) => {}
                    Err(error) => tracing::warn!("{error}"),
                }
            }
        };
        let waiting = async {
            tokio::select! {
                ended = redirected => ended,
                ended = granted => ended,
                ended = asked => ended,
            }
        };
        tokio::time::timeout(self.spec.timeout, waiting).await.unwrap_or_else(|_| {
            let waited = humantime::format_duration(Duration::from_secs(self.spec.timeout.as_secs().max(1)));
            Err(failed(format!("the login to `{}` was not completed within {waited}", shown.server))
                .hint("set `remote_auth_timeout` to a longer time"))
        })
    }

    /// Verifies the ID token, which shows that the response is for this login (OpenID Connect Core 1.0 section
    /// 3.1.3.7).
    async fn check_id_token(
        &self,
        server: &AuthorizationServer,
        client: &ClientRegistration,
        id_token: &CoreIdToken,
        nonce: &Nonce,
    ) -> Result<()> {
        let Some(jwks_uri) = &server.metadata.jwks_uri else { return Ok(()) };
        let invalid = |error: &dyn std::fmt::Display| {
            failed(format!("the ID token is not valid: {error}")).reason(Reason::LoginMixUp)
        };
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let url = self.http.guard().parse_url(jwks_uri)?;
        let keys = self.http.get(url, headers, MAX_JWKS_BYTES).await?;
        let keys: CoreJsonWebKeySet = serde_json::from_slice(&keys).map_err(|error| invalid(&error))?;
        let issuer = IssuerUrl::new(server.metadata.issuer.clone()).map_err(|error| invalid(&error))?;
        let client_id = ClientId::new(client.client_id.clone());
        let mut verifier = match &client.client_secret {
            Some(secret) => {
                let secret = ClientSecret::new(secret.expose().to_owned());
                CoreIdTokenVerifier::new_confidential_client(client_id, secret, issuer, keys)
            }
            None => CoreIdTokenVerifier::new_public_client(client_id, issuer, keys),
        };
        verifier = verifier.set_allowed_algs(ID_TOKEN_ALGORITHMS);
        id_token.claims(&verifier, nonce).map(drop).map_err(|error| invalid(&error))
    }
}

/// How a user ends a login.
#[derive(Debug)]
enum UserResponse {
    /// The redirect of the authorization endpoint.
    Redirect(AuthorizationResponse),
    /// The tokens for a login on another device.
    Tokens(Box<TokenSet>),
}

/// A request for an authorization code.
#[derive(Debug)]
struct CodeRequest {
    callback: CallbackServer,
    /// The URL that the user opens.
    url: Url,
    state: CsrfToken,
    verifier: PkceCodeVerifier,
    /// The expected nonce of an ID token.
    nonce: Option<Nonce>,
}

impl CodeRequest {
    fn new(callback: CallbackServer, oauth: &OAuthClient, resource: &str, scopes: &[String]) -> Self {
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let nonce = scopes.iter().any(|scope| scope == "openid").then(Nonce::new_random);
        let mut request = oauth
            .authorize_url(CsrfToken::new_random)
            .set_pkce_challenge(challenge)
            .add_extra_param("resource", resource.to_owned())
            .add_scopes(scopes.iter().cloned().map(Scope::new));
        if let Some(nonce) = &nonce {
            request = request.add_extra_param("nonce", nonce.secret().clone());
        }
        if scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
            // Without this parameter, the scope is ignored (OpenID Connect Core 1.0 section 11).
            request = request.add_extra_param("prompt", "consent");
        }
        let (url, state) = request.url();
        Self { callback, url, state, verifier, nonce }
    }
}

/// The error if a login needs a user, but there is no prompt.
pub(super) fn login_required(target: &Url) -> Error {
    let message = format!("the remote server `{}` requires a login", redact_url(target));
    Error::new(ErrorKind::LoginRequired, message)
        .hint("run mcpm in a terminal, or let the program that embeds it show the login")
}

/// The error if the authorization server has ended the login with an error code.
fn denied(code: &str) -> Error {
    let code: String = code.chars().filter(char::is_ascii_graphic).take(64).collect();
    rejected(format!("the authorization server denied the login: `{code}`"), &code)
}

/// Rejects an authorization server that does not support PKCE, which binds codes to their client (MCP 2025-11-25,
/// authorization).
fn check_pkce(server: &AuthorizationServer) -> Result<()> {
    let methods = server.metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !server.has_metadata || methods.iter().any(|method| method == "S256") {
        return Ok(());
    }
    Err(failed(format!(
        "the issuer `{}` does not support PKCE with S256: a stolen code could be used by others",
        server.metadata.issuer
    ))
    .reason(Reason::PkceMissing))
}

/// Compares the issuer of a response with that of the login (RFC 9207 section 2.4), byte for byte.
fn check_issuer(server: &AuthorizationServer, given: Option<&str>) -> Result<()> {
    let expected = server.metadata.issuer.as_str();
    match given {
        Some(given) if !server.has_metadata || given == expected => Ok(()),
        None if !server.metadata.authorization_response_iss_parameter_supported => Ok(()),
        Some(_) => Err(failed(format!("the authorization response is not from the issuer `{expected}`"))
            .reason(Reason::LoginMixUp)),
        None => Err(failed(format!("the authorization response does not name the issuer `{expected}`"))
            .reason(Reason::LoginMixUp)),
    }
}
