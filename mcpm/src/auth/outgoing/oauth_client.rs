//! Creates clients for the endpoints of an authorization server, with the crate `oauth2` over the guarded HTTP client.
//! Token responses may contain an ID token, whose types are those of the crate `openidconnect`.

use std::{fmt::Display, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{Response, StatusCode};
use oauth2::{
    AsyncHttpClient, AuthType, AuthUrl, ClientId, ClientSecret, EmptyExtraTokenFields, EndpointNotSet,
    EndpointSet, ErrorResponseType, HttpRequest, HttpResponse, RedirectUrl, RequestTokenError, Scope,
    StandardErrorResponse, TokenResponse as _, TokenUrl,
    basic::{
        BasicErrorResponse, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse, BasicTokenType,
    },
};
use openidconnect::{
    EmptyAdditionalClaims, IdTokenFields,
    core::{CoreGenderClaim, CoreIdToken, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm},
};
use url::Url;

use super::{discovery::failed, registration::ClientRegistration};
use crate::{
    Error, Result,
    auth::{
        bearer_value,
        guarded_client::{GuardedClient, ProviderRequest},
    },
    explain::Reason,
    options::Secret,
};

/// Maximum size of a response of an authorization server in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

type TokenFields = IdTokenFields<
    EmptyAdditionalClaims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;

/// A token response, which may have an ID token (OpenID Connect Core 1.0 section 3.1.3.3).
pub(super) type TokenResponse = oauth2::StandardTokenResponse<TokenFields, BasicTokenType>;

/// The client of an authorization server with both endpoints.
pub(super) type OAuthClient = oauth2::Client<
    BasicErrorResponse,
    TokenResponse,
    BasicTokenIntrospectionResponse,
    oauth2::StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;

impl<'c> AsyncHttpClient<'c> for GuardedClient {
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let url = self.guard().parse_url(&parts.uri.to_string())?;
            let request = ProviderRequest {
                method: parts.method,
                url,
                headers: parts.headers,
                body: Bytes::from(body),
            };
            let response = self.send(request, MAX_RESPONSE_BYTES).await?;
            // Not passed to the library, because the body of such a response may look like the rejection of a grant.
            if response.status.is_server_error() || response.status == StatusCode::TOO_MANY_REQUESTS {
                let status = response.status.as_u16();
                return Err(failed(format!("the authorization server responds with status {status}")));
            }
            let mut converted = Response::new(Vec::from(response.body));
            *converted.status_mut() = response.status;
            *converted.headers_mut() = response.headers;
            if response.status == StatusCode::CREATED {
                // Some servers respond with 201 when they issue a token, which the library treats as an error.
                *converted.status_mut() = StatusCode::OK;
            }
            Ok(converted)
        })
    }
}

/// Creates the client of an authorization server.
///
/// # Errors
/// `Upstream` for an endpoint that is missing or denied by the guards.
pub(super) fn oauth_client(
    http: &GuardedClient,
    registration: &ClientRegistration,
    authorization_endpoint: Option<&str>,
    token_endpoint: Option<&str>,
    redirect: Option<&Url>,
) -> Result<OAuthClient> {
    let endpoint = |url: Option<&str>, name: &str| {
        let url = url.ok_or_else(|| failed(format!("the authorization server has no {name}")))?;
        http.guard().parse_url(url).map_err(|error| {
            failed(format!("the {name} of the authorization server is not allowed")).source(error)
        })
    };
    // A grant without a browser needs no authorization endpoint; the value is then not used.
    let token_url = endpoint(token_endpoint, "token endpoint")?;
    let authorization_url = match authorization_endpoint {
        Some(url) => endpoint(Some(url), "authorization endpoint")?,
        None => token_url.clone(),
    };
    let auth_type = match registration.sends_secret_in_body {
        true => AuthType::RequestBody,
        false => AuthType::BasicAuth,
    };
    let mut client = oauth2::Client::new(ClientId::new(registration.client_id.clone()))
        .set_auth_type(auth_type)
        .set_auth_uri(AuthUrl::from_url(authorization_url))
        .set_token_uri(TokenUrl::from_url(token_url));
    if let Some(secret) = &registration.client_secret {
        client = client.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
    }
    if let Some(redirect) = redirect {
        client = client.set_redirect_uri(RedirectUrl::from_url(redirect.clone()));
    }
    Ok(client)
}

/// Requests a token for the client itself (RFC 6749 section 4.4).
///
/// # Errors
/// `Rejected` if the server denies the client a token, `Unavailable` if the server cannot be reached.
pub(super) async fn client_token(
    http: &GuardedClient,
    client: &ClientRegistration,
    token_endpoint: Option<&str>,
    resource: &str,
    scopes: &[String],
) -> Result<TokenSet, TokenRequestError> {
    let oauth =
        oauth_client(http, client, None, token_endpoint, None).map_err(TokenRequestError::Rejected)?;
    let request = oauth
        .exchange_client_credentials()
        .add_scopes(scopes.iter().cloned().map(Scope::new))
        .add_extra_param("resource", resource.to_owned());
    TokenSet::from_response(&request.request_async(http).await?).map_err(TokenRequestError::Unavailable)
}

/// Tokens that an authorization server issued.
#[derive(Debug, Clone)]
pub(super) struct TokenSet {
    pub(super) access_token: Secret,
    pub(super) refresh_token: Option<Secret>,
    /// The lifetime of the access token, which begins with the response.
    pub(super) lifetime: Option<Duration>,
    /// The scopes, if the server names them.
    pub(super) scopes: Option<Vec<String>>,
    pub(super) id_token: Option<CoreIdToken>,
}

impl TokenSet {
    /// Reads a response.
    ///
    /// # Errors
    /// `Upstream` for a token of another type, and for one that cannot be sent.
    pub(super) fn from_response(response: &TokenResponse) -> Result<Self> {
        if *response.token_type() != BasicTokenType::Bearer {
            return Err(failed("the issued token is not a bearer token"));
        }
        let access_token = Secret::from(response.access_token().secret().as_str());
        bearer_value(&access_token)
            .map_err(|error| failed("the issued token cannot be used").source(error))?;
        Ok(Self {
            access_token,
            refresh_token: response.refresh_token().map(|token| Secret::from(token.secret().as_str())),
            lifetime: response.expires_in(),
            scopes: response
                .scopes()
                .map(|scopes| scopes.iter().map(|scope| scope.as_str().to_owned()).collect()),
            id_token: response.extra_fields().id_token().cloned(),
        })
    }
}

/// The error of a response with an error code (RFC 6749 sections 4.1.2.1 and 5.2).
pub(super) fn rejected(message: String, code: &str) -> Error {
    let error = failed(message);
    if code == "invalid_scope" { error.reason(Reason::ScopeDenied) } else { error }
}

/// Why a token request failed.
#[derive(Debug)]
pub(super) enum TokenRequestError {
    /// The authorization server rejected the grant, for good (RFC 6749 section 5.2).
    InvalidGrant(Error),
    /// The authorization server rejected the request.
    Rejected(Error),
    /// The server could not be reached or failed.
    Unavailable(Error),
}

impl TokenRequestError {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::InvalidGrant(error) | Self::Rejected(error) | Self::Unavailable(error) => error,
        }
    }
}

impl<T> From<RequestTokenError<Error, StandardErrorResponse<T>>> for TokenRequestError
where
    T: ErrorResponseType + AsRef<str> + Display,
{
    /// Only the error code is used, because the error description is for developers and may repeat the request.
    fn from(error: RequestTokenError<Error, StandardErrorResponse<T>>) -> Self {
        match error {
            RequestTokenError::ServerResponse(response) => {
                let code: String =
                    response.error().as_ref().chars().filter(char::is_ascii_graphic).take(64).collect();
                let error =
                    rejected(format!("the authorization server rejected the request: `{code}`"), &code);
                if code == "invalid_grant" { Self::InvalidGrant(error) } else { Self::Rejected(error) }
            }
            RequestTokenError::Request(error) => Self::Unavailable(error),
            RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                Self::Unavailable(failed("the response of the token endpoint is not valid"))
            }
        }
    }
}
