//! One login: the authorization code flow with PKCE (RFC 6749 section 4.1, RFC 7636, RFC 8707, RFC 9207).

use std::{collections::BTreeSet, time::Duration};

use http::{HeaderMap, HeaderValue, header};
use oauth2::{AuthorizationCode, CsrfToken, PkceCodeChallenge, Scope};
use openidconnect::{
    ClientId, ClientSecret, IssuerUrl, Nonce,
    core::{CoreIdToken, CoreIdTokenVerifier, CoreJsonWebKeySet},
};
use url::Url;

use super::{
    OutgoingSpec,
    callback::{AuthorizationResponse, CallbackServer, parse_pasted},
    challenge::Challenge,
    discovery::{AuthorizationServer, discover, failed},
    kept_login::{KeptLogin, LoginStore},
    oauth_client::{TokenRequestError, TokenSet, oauth_client},
    registration::{self, ClientRegistration},
};
use crate::{
    Error, ErrorKind, Result,
    auth::guarded_client::GuardedClient,
    options::Secret,
    user_prompt::{LoginPrompt, UserPrompt},
};

/// Maximum size of a key set in bytes.
const MAX_JWKS_BYTES: usize = 512 << 10;
/// Lets a client refresh tokens while the user is away (OpenID Connect Core 1.0 section 11).
const OFFLINE_ACCESS: &str = "offline_access";
/// The scopes of a configured issuer that speaks OpenID Connect.
const OPENID_SCOPES: [&str; 3] = ["openid", "profile", "email"];

/// What a login needs.
pub(super) struct Login<'a> {
    pub(super) http: &'a GuardedClient,
    pub(super) spec: &'a OutgoingSpec,
    /// The remote server.
    pub(super) target: &'a Url,
    pub(super) client_secret: Option<Secret>,
    pub(super) prompt: &'a dyn UserPrompt,
    pub(super) store: Option<&'a LoginStore>,
    /// The challenge of the server's response, if there was one.
    pub(super) challenge: Option<&'a Challenge>,
    /// Scopes of an earlier login that the new one must have too.
    pub(super) scopes: &'a [String],
}

impl Login<'_> {
    /// Logs in, and waits for the user as long as the spec allows.
    ///
    /// # Errors
    /// `Upstream` if the authorization server cannot be used, denies access or is not answered in time; `PortTaken` for
    /// the callback port; `InvalidOption` if the user has to name a client; those of the prompt.
    pub(super) async fn run(&self) -> Result<KeptLogin> {
        let server = self.server().await?;
        check_pkce(&server)?;
        let callback = self.callback_server().await?;
        let redirect = callback.redirect_uri()?;
        let scopes = self.scopes(&server);
        let (client, is_kept) = self.client(&server, redirect.as_str(), &scopes).await?;
        let token_endpoint = server.metadata.token_endpoint.clone().unwrap_or_default();
        let authorized = self.authorize(&server, &client, callback, &redirect, &scopes).await;
        if authorized.is_err()
            && is_kept
            && let Some(store) = self.store
        {
            // The server may not know the client any more; the next login registers another one.
            store.remove_registration(&server.metadata.issuer).await;
        }
        let tokens = authorized?;
        let mut login = KeptLogin {
            issuer: server.metadata.issuer.clone(),
            token_endpoint,
            revocation_endpoint: server.metadata.revocation_endpoint.clone(),
            resource: server.resource.clone(),
            client,
            scopes,
            access_token: tokens.access_token.clone(),
            refresh_token: None,
            expires_at: None,
        };
        login.set_tokens(tokens);
        Ok(login)
    }

    /// The authorization server: the configured endpoints, or what is discovered.
    async fn server(&self) -> Result<AuthorizationServer> {
        let resource = self.spec.resource.clone();
        if let (Some(authorize), Some(token)) = (&self.spec.authorize_url, &self.spec.token_url) {
            return Ok(AuthorizationServer::configured(authorize, token, self.target).with_resource(resource));
        }
        let issuer = self.spec.issuer.as_deref();
        let server = discover(self.http, self.target, self.challenge, issuer).await?;
        Ok(server.with_resource(resource))
    }

    /// Listens on the configured port. A client that is registered for this login may use another port.
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
        let challenged = self.challenge.and_then(|challenge| challenge.param("scope"));
        let mut scopes: Vec<String> = if !self.spec.scopes.is_empty() {
            self.spec.scopes.clone()
        } else if let Some(challenged) = challenged {
            challenged.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
        } else if server.resource_scopes.is_empty() && self.spec.issuer.is_some() && server.is_openid {
            OPENID_SCOPES.map(str::to_owned).to_vec()
        } else {
            server.resource_scopes.clone()
        };
        let supported = server.metadata.scopes_supported.as_deref().unwrap_or_default();
        let offline = supported.iter().filter(|scope| *scope == OFFLINE_ACCESS);
        scopes.extend(offline.chain(self.scopes).cloned());
        let mut seen = BTreeSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
        scopes
    }

    /// The client: the configured one, the one of a metadata document, one that was registered before, or a new one;
    /// and whether it was registered before.
    async fn client(
        &self,
        server: &AuthorizationServer,
        redirect: &str,
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
            && kept.redirect_uri.as_deref() == Some(redirect)
        {
            return Ok((kept, true));
        }
        let registering = registration::register(self.http, server, redirect, scopes).await;
        let client =
            registering.map_err(|error| match server.has_metadata || self.spec.requires_login() {
                true => error,
                // Nothing says that there is an authorization server.
                false => Error::new(ErrorKind::NotFound, "the remote server names no authorization server"),
            })?;
        if let Some(store) = self.store
            && let Err(error) = store.set_registration(issuer, &client).await
        {
            tracing::debug!(%error, "the client registration is not kept");
        }
        Ok((client, false))
    }

    async fn authorize(
        &self,
        server: &AuthorizationServer,
        client: &ClientRegistration,
        callback: CallbackServer,
        redirect: &Url,
        scopes: &[String],
    ) -> Result<TokenSet> {
        let metadata = &server.metadata;
        let endpoint = metadata.authorization_endpoint.as_deref();
        if endpoint.is_none() {
            return Err(failed(format!("the issuer `{}` has no authorization endpoint", metadata.issuer)));
        }
        let oauth =
            oauth_client(self.http, client, endpoint, metadata.token_endpoint.as_deref(), Some(redirect))?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let nonce = scopes.iter().any(|scope| scope == "openid").then(Nonce::new_random);
        let mut request = oauth
            .authorize_url(CsrfToken::new_random)
            .set_pkce_challenge(challenge)
            .add_extra_param("resource", server.resource.clone())
            .add_scopes(scopes.iter().cloned().map(Scope::new));
        if let Some(nonce) = &nonce {
            request = request.add_extra_param("nonce", nonce.secret().clone());
        }
        if scopes.iter().any(|scope| scope == OFFLINE_ACCESS) {
            // OpenID Connect Core 1.0 section 11: without it, the scope is ignored.
            request = request.add_extra_param("prompt", "consent");
        }
        let (url, state) = request.url();
        let response = self.wait_for_user(callback, &url, state.secret()).await?;
        check_issuer(server, response.issuer.as_deref())?;
        let code = response.outcome.map_err(|code| {
            let code: String = code.chars().filter(char::is_ascii_graphic).take(64).collect();
            failed(format!("the authorization server denied the login: `{code}`"))
        })?;
        let exchanging = oauth
            .exchange_code(AuthorizationCode::new(code))
            .set_pkce_verifier(verifier)
            .add_extra_param("resource", server.resource.clone());
        let response = exchanging.request_async(self.http).await;
        let tokens =
            TokenSet::from_response(&response.map_err(|error| TokenRequestError::from(error).into_error())?)?;
        if let (Some(nonce), Some(id_token)) = (&nonce, &tokens.id_token) {
            self.check_id_token(server, client, id_token, nonce).await?;
        }
        Ok(tokens)
    }

    /// Shows the URL to the user, and waits for the redirect, in the browser or pasted.
    async fn wait_for_user(
        &self,
        callback: CallbackServer,
        url: &Url,
        state: &str,
    ) -> Result<AuthorizationResponse> {
        let server = self.target.host_str().unwrap_or_default();
        let prompt = LoginPrompt {
            server: server.to_owned(),
            url: url.to_string(),
            open_browser: !self.spec.skip_browser,
            timeout: self.spec.timeout,
        };
        let received = callback.receive(state, server);
        let shown = async {
            self.prompt.show_login(&prompt).await?;
            match self.prompt.ask_redirect().await? {
                Some(pasted) => parse_pasted(&pasted, state),
                None => std::future::pending().await,
            }
        };
        let waiting = async {
            tokio::select! {
                received = received => received,
                shown = shown => shown,
            }
        };
        tokio::time::timeout(self.spec.timeout, waiting).await.unwrap_or_else(|_| {
            let waited = humantime::format_duration(Duration::from_secs(self.spec.timeout.as_secs().max(1)));
            Err(failed(format!("nobody logged in to `{server}` within {waited}"))
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
        let invalid = |error: &dyn std::fmt::Display| failed(format!("the ID token is not valid: {error}"));
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let url = self.http.guard().parse_url(jwks_uri)?;
        let keys = self.http.get(url, headers, MAX_JWKS_BYTES).await?;
        let keys: CoreJsonWebKeySet = serde_json::from_slice(&keys).map_err(|error| invalid(&error))?;
        let issuer = IssuerUrl::new(server.metadata.issuer.clone()).map_err(|error| invalid(&error))?;
        let client_id = ClientId::new(client.client_id.clone());
        let verifier = match &client.client_secret {
            Some(secret) => {
                let secret = ClientSecret::new(secret.expose().to_owned());
                CoreIdTokenVerifier::new_confidential_client(client_id, secret, issuer, keys)
            }
            None => CoreIdTokenVerifier::new_public_client(client_id, issuer, keys),
        };
        id_token.claims(&verifier, nonce).map(drop).map_err(|error| invalid(&error))
    }
}

/// Refuses an authorization server that does not bind codes to their client (MCP 2025-11-25, authorization: PKCE).
fn check_pkce(server: &AuthorizationServer) -> Result<()> {
    let methods = server.metadata.code_challenge_methods_supported.as_deref().unwrap_or_default();
    if !server.has_metadata || methods.iter().any(|method| method == "S256") {
        return Ok(());
    }
    Err(failed(format!(
        "the issuer `{}` does not support PKCE with S256: a stolen code could be used by others",
        server.metadata.issuer
    )))
}

/// Compares the issuer of a response with that of the login (RFC 9207 section 2.4), byte for byte.
fn check_issuer(server: &AuthorizationServer, given: Option<&str>) -> Result<()> {
    let expected = server.metadata.issuer.as_str();
    match given {
        Some(given) if !server.has_metadata || given == expected => Ok(()),
        None if !server.metadata.authorization_response_iss_parameter_supported => Ok(()),
        Some(_) => Err(failed(format!("the response of the login is not from the issuer `{expected}`"))),
        None => Err(failed(format!("the response of the login does not name the issuer `{expected}`"))),
    }
}
