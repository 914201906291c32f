//! Describes the OAuth client of a login, and registers clients dynamically (RFC 7591).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use serde_json::json;

use super::discovery::{AuthorizationServer, DEVICE_GRANT, failed};
use crate::{
    Error, ErrorKind, Result,
    auth::guarded_client::{GuardedClient, ProviderRequest},
    options::Secret,
    printable::Printable as _,
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Maximum length of a client id and a client secret in bytes.
const MAX_CREDENTIAL_BYTES: usize = 4 << 10;

const BASIC: &str = "client_secret_basic";
const POST: &str = "client_secret_post";
const NONE: &str = "none";

/// A client that an authorization server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientRegistration {
    pub(super) client_id: String,
    pub(super) client_secret: Option<Secret>,
    /// Whether the client is configured by options. Then its secret is not stored.
    pub(super) is_configured: bool,
    /// Whether the client secret expires. Then the client is not used for the next login.
    pub(super) expires: bool,
    /// Whether the secret is sent in the body (`client_secret_post`) instead of a header.
    pub(super) sends_secret_in_body: bool,
    /// The redirect URI that the client was registered with; `None` for a client that the user registered, and for a
    /// client that needs no redirect.
    pub(super) redirect_uri: Option<String>,
}

/// The configured client. Its secret is sent with the method that the metadata of the server names.
pub(super) fn configured(
    client_id: &str,
    client_secret: Option<Secret>,
    server: &AuthorizationServer,
) -> ClientRegistration {
    let methods = server.metadata.token_endpoint_auth_methods_supported.as_deref();
    ClientRegistration {
        client_id: client_id.to_owned(),
        is_configured: true,
        expires: false,
        sends_secret_in_body: methods
            .is_some_and(|methods| !contains(methods, BASIC) && contains(methods, POST)),
        client_secret,
        redirect_uri: None,
    }
}

fn contains(methods: &[String], method: &str) -> bool {
    methods.iter().any(|other| other == method)
}

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
    /// In seconds since 1970, 0 for never.
    #[serde(default)]
    client_secret_expires_at: u64,
}

/// Registers a client with the authorization server.
///
/// # Errors
/// `InvalidOption` if the server does not register clients, so that the user has to configure one; `Upstream` if it
/// rejects the registration.
pub(super) async fn register(
    http: &GuardedClient,
    server: &AuthorizationServer,
    redirect_uri: Option<&str>,
    scopes: &[String],
) -> Result<ClientRegistration> {
    let issuer = &server.metadata.issuer;
    let Some(endpoint) = &server.metadata.registration_endpoint else {
        let message =
            format!("the authorization server `{issuer}` does not support dynamic client registration");
        let redirect = redirect_uri.map(|uri| format!(" with the redirect URI `{uri}`")).unwrap_or_default();
        return Err(Error::new(ErrorKind::InvalidOption, message)
            .hint(format!("register a client there{redirect}, and set `remote_auth_client_id`")));
    };
    let url = http.guard().parse_url(endpoint)?;
    let method = auth_method(server.metadata.token_endpoint_auth_methods_supported.as_deref());
    let mut grants = vec!["refresh_token"];
    grants.extend(redirect_uri.map(|_| "authorization_code"));
    grants.extend(server.has_device_grant().then_some(DEVICE_GRANT));
    let mut body = json!({
        "client_name": "mcpm",
        "redirect_uris": Vec::from_iter(redirect_uri),
        "grant_types": grants,
        "response_types": Vec::from_iter(redirect_uri.map(|_| "code")),
        "token_endpoint_auth_method": method,
        // OpenID Connect Dynamic Client Registration 1.0 section 2; without it, loopback redirect URIs are rejected.
        "application_type": "native",
    });
    if !scopes.is_empty() {
        body["scope"] = scopes.join(" ").into();
    }
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let request = ProviderRequest { method: Method::POST, url, headers, body: Bytes::from(body.to_string()) };
    let response = http.send(request, MAX_RESPONSE_BYTES).await?;
    if !matches!(response.status, StatusCode::OK | StatusCode::CREATED) {
        let code = serde_json::from_slice::<serde_json::Value>(&response.body).ok().and_then(|body| {
            body.get("error")?.as_str().map(|code| code.chars().take(64).collect::<String>().printable())
        });
        let code = code.map_or_else(String::new, |code| format!(", `{code}`"));
        let status = response.status.as_u16();
        let message =
            format!("the authorization server `{issuer}` rejected the registration: status {status}{code}");
        return Err(failed(message).hint("register a client there, and set `remote_auth_client_id`"));
    }
    let registered: RegistrationResponse = serde_json::from_slice(&response.body)
        .map_err(|error| failed("the response to the registration is not valid").source(error))?;
    let lengths = [Some(&registered.client_id), registered.client_secret.as_ref()];
    if lengths.into_iter().flatten().any(|text| text.is_empty() || text.len() > MAX_CREDENTIAL_BYTES) {
        return Err(failed("the response to the registration has an empty or too long client id or secret"));
    }
    let method = registered.token_endpoint_auth_method.as_deref().unwrap_or(method);
    Ok(ClientRegistration {
        client_id: registered.client_id,
        is_configured: false,
        expires: registered.client_secret_expires_at != 0,
        client_secret: registered.client_secret.map(Secret::from).filter(|_| method != NONE),
        sends_secret_in_body: method == POST,
        redirect_uri: redirect_uri.map(str::to_owned),
    })
}

/// The authentication method to register with. A public client needs no secret that could be stolen.
fn auth_method(supported: Option<&[String]>) -> &'static str {
    // Without the field, the default is `client_secret_basic` (RFC 8414 section 2).
    let Some(supported) = supported else { return NONE };
    [NONE, BASIC, POST].into_iter().find(|method| contains(supported, method)).unwrap_or(NONE)
}
