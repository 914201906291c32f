//! Revokes the tokens of a login (RFC 7009).

use http::{HeaderMap, HeaderValue, Method, header};
use url::{Url, form_urlencoded};

use super::{discovery::failed, kept_login::KeptLogin, registration::ClientRegistration};
use crate::{
    Result,
    auth::guarded_client::{GuardedClient, ProviderRequest, basic},
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Revokes the refresh token, and with it the access tokens that were issued for it, or else the access token.
///
/// # Errors
/// `Upstream` if the server has no revocation endpoint or rejects the request.
pub(super) async fn revoke(
    http: &GuardedClient,
    login: &KeptLogin,
    client: &ClientRegistration,
) -> Result<()> {
    let endpoint = login.revocation_endpoint.as_deref();
    let endpoint = endpoint.ok_or_else(|| failed("the authorization server has no revocation endpoint"))?;
    let request = request(http.guard().parse_url(endpoint)?, login, client)?;
    match http.send(request, MAX_RESPONSE_BYTES).await?.status {
        status if status.is_success() => Ok(()),
        status => Err(failed(format!("the revocation endpoint responds with status {}", status.as_u16()))),
    }
}

/// Builds the request (RFC 7009 section 2.1).
fn request(url: Url, login: &KeptLogin, client: &ClientRegistration) -> Result<ProviderRequest> {
    let (token, hint) = match &login.refresh_token {
        Some(token) => (token, "refresh_token"),
        None => (&login.access_token, "access_token"),
    };
    let mut headers = HeaderMap::new();
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("token", token.expose()).append_pair("token_type_hint", hint);
    match &client.client_secret {
        Some(secret) if !client.sends_secret_in_body => {
            headers.insert(header::AUTHORIZATION, basic(&client.client_id, secret)?);
        }
        Some(secret) => {
            form.append_pair("client_id", &client.client_id).append_pair("client_secret", secret.expose());
        }
        None => {
            form.append_pair("client_id", &client.client_id);
        }
    }
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    headers.insert(header::CONTENT_TYPE, kind);
    Ok(ProviderRequest { method: Method::POST, url, headers, body: form.finish().into() })
}
