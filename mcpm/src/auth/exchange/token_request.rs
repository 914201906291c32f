//! Sends one token exchange request, and parses the response (RFC 8693 section 2).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value};
use url::{Url, form_urlencoded};

use super::{ExchangeError, ExchangeSpec};
use crate::{
    Error, ErrorKind, Result,
    auth::{
        SecretSource, bearer_value,
        guarded_client::{GuardedClient, ProviderRequest, ProviderResponse, REQUEST_TIMEOUT, basic},
    },
    options::{Secret, SubjectTokenType},
};

/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// The parameters of a token exchange request.
#[derive(Debug)]
pub(super) struct TokenRequest<'a> {
    pub(super) spec: &'a ExchangeSpec,
    pub(super) url: &'a Url,
    pub(super) http: &'a GuardedClient,
    /// The client secret, unless it is in a file.
    pub(super) client_secret: Option<&'a Secret>,
}

/// A token that an exchange returned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExchangedToken {
    /// `Bearer` and the token.
    pub(super) value: HeaderValue,
    /// The lifetime that the response states, if any.
    pub(super) lifetime: Option<Duration>,
}

impl TokenRequest<'_> {
    pub(super) async fn send(&self, subject: &str) -> std::result::Result<ExchangedToken, ExchangeError> {
        let ask = self.request(subject).await.map_err(|error| {
            tracing::warn!(%error, "token exchange failed");
            ExchangeError::ClientRejected
        })?;
        let answer = self.http.send(ask, MAX_RESPONSE_BYTES).await.map_err(|error| {
            tracing::warn!(%error, "token exchange failed");
            ExchangeError::Unavailable
        })?;
        parse_response(&answer, subject)
    }

    async fn request(&self, subject: &str) -> Result<ProviderRequest> {
        let secret = match &self.spec.client_secret {
            SecretSource::File(_) => self.read_secret().await?,
            SecretSource::Given | SecretSource::None => self.client_secret.cloned(),
        };
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if let (Some(client), Some(secret)) = (&self.spec.client_id, &secret) {
            headers.insert(header::AUTHORIZATION, basic(client, secret)?);
        }
        let body = Bytes::from(self.form(subject, secret.is_some()));
        Ok(ProviderRequest { method: Method::POST, url: self.url.clone(), headers, body })
    }

    /// Reads the client secret file with a timeout and on a blocking thread, because it may be on a network file
    /// system.
    async fn read_secret(&self) -> Result<Option<Secret>> {
        let spec = self.spec.clone();
        let reading = tokio::task::spawn_blocking(move || spec.read_secret());
        let late = || Error::new(ErrorKind::Upstream, "the client secret was not read in time");
        let read = tokio::time::timeout(REQUEST_TIMEOUT, reading).await.map_err(|_| late())?;
        read.map_err(|error| Error::new(ErrorKind::Internal, "the client secret was not read").source(error))?
    }

    fn form(&self, subject: &str, authenticated: bool) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        let kind = match self.spec.subject_token_type {
            SubjectTokenType::AccessToken => ACCESS_TOKEN,
            SubjectTokenType::IdToken => ID_TOKEN,
        };
        form.append_pair("grant_type", GRANT_TYPE)
            .append_pair("subject_token", subject)
            .append_pair("subject_token_type", kind)
            .append_pair("requested_token_type", ACCESS_TOKEN);
        if let Some(audience) = &self.spec.audience {
            form.append_pair("audience", audience);
        }
        if !self.spec.scopes.is_empty() {
            form.append_pair("scope", &self.spec.scopes.join(" "));
        }
        // A client with a secret is identified by its `Authorization` header.
        if let Some(client) = self.spec.client_id.as_ref().filter(|_| !authenticated) {
            form.append_pair("client_id", client);
        }
        form.finish()
    }
}

/// Parses the response. Only the error code is logged, because the rest may contain tokens.
fn parse_response(
    answer: &ProviderResponse,
    subject: &str,
) -> std::result::Result<ExchangedToken, ExchangeError> {
    let fields: Option<Map<String, Value>> = serde_json::from_slice(&answer.body).ok();
    let text = |name: &str| fields.as_ref().and_then(|fields| fields.get(name)).and_then(Value::as_str);
    if answer.status != StatusCode::OK {
        let code = text("error").filter(|code| is_code(code)).unwrap_or("none");
        tracing::warn!(status = %answer.status, code, "token exchange was rejected");
        return Err(match answer.status {
            StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                ExchangeError::from_oauth_error(code)
            }
            _ => ExchangeError::Unavailable,
        });
    }
    let unusable = |why: &str| {
        tracing::warn!(why, "the response of the token exchange cannot be used");
        ExchangeError::UnusableToken
    };
    let token = text("access_token").ok_or_else(|| unusable("it has no `access_token`"))?;
    if !text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(unusable("the token is not a bearer token"));
    }
    if !matches!(text("issued_token_type"), Some(ACCESS_TOKEN | JWT)) {
        return Err(unusable("its `issued_token_type` is not an access token"));
    }
    // The caller's own token must not be sent to the server.
    if token == subject {
        return Err(unusable("the returned token is the caller's own token"));
    }
    let value = bearer_value(&Secret::from(token))
        .map_err(|_| unusable("the token is too long or contains invalid characters"))?;
    let seconds = fields.as_ref().and_then(|fields| fields.get("expires_in")).and_then(Value::as_f64);
    // Larger values are clamped, because the clock cannot represent them.
    let lifetime = seconds.filter(|seconds| *seconds >= 0.0).map(|seconds| seconds.min(1e9));
    Ok(ExchangedToken { value, lifetime: lifetime.map(Duration::from_secs_f64) })
}

/// Whether a text has the form of an OAuth error code.
fn is_code(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(status: u16, body: &Value) -> std::result::Result<ExchangedToken, ExchangeError> {
        let status = StatusCode::from_u16(status).expect("a status");
        let headers = HeaderMap::new();
        parse_response(&ProviderResponse { status, headers, body: body.to_string().into() }, "own")
    }

    fn good() -> Value {
        json!({ "access_token": "other", "token_type": "Bearer", "issued_token_type": ACCESS_TOKEN,
                "expires_in": 300 })
    }

    #[test]
    fn a_bearer_token_is_taken_and_nothing_else() {
        let token = answered(200, &good()).expect("a token");
        assert_eq!(token.value, "Bearer other");
        assert!(token.value.is_sensitive());
        assert_eq!(token.lifetime, Some(Duration::from_secs(300)));
        for (name, value, taken) in [
            ("token_type", json!("bearer"), true),
            ("token_type", json!("N_A"), false),
            ("token_type", json!("DPoP"), false),
            ("token_type", Value::Null, false),
            ("issued_token_type", json!(JWT), true),
            ("issued_token_type", json!(ID_TOKEN), false),
            ("issued_token_type", json!("urn:ietf:params:oauth:token-type:refresh_token"), false),
            ("issued_token_type", Value::Null, false),
            ("access_token", Value::Null, false),
            ("access_token", json!(""), false),
            ("access_token", json!("a b"), false),
            ("access_token", json!("a\r\nX: y"), false),
            ("access_token", json!("own"), false),
            ("access_token", json!("x".repeat(crate::auth::MAX_TOKEN_BYTES + 1)), false),
            ("refresh_token", json!("x"), true),
            ("expires_in", Value::Null, true),
            ("expires_in", json!("soon"), true),
            ("expires_in", json!(1e300), true),
            ("expires_in", json!(-1), true),
        ] {
            let mut body = good();
            body[name] = value;
            let expected = if taken { None } else { Some(ExchangeError::UnusableToken) };
            assert_eq!(answered(200, &body).err(), expected, "{name} {}", body[name]);
        }
        assert_eq!(answered(200, &json!([])).err(), Some(ExchangeError::UnusableToken));
    }

    #[test]
    fn oauth_errors_are_mapped() {
        for (status, code, failure) in [
            (400, "invalid_grant", ExchangeError::TokenNotAccepted),
            (400, "invalid_token", ExchangeError::TokenNotAccepted),
            (400, "invalid_request", ExchangeError::Denied),
            (400, "invalid_target", ExchangeError::Denied),
            (400, "invalid_scope", ExchangeError::Denied),
            (403, "access_denied", ExchangeError::Denied),
            (401, "invalid_client", ExchangeError::ClientRejected),
            (400, "unauthorized_client", ExchangeError::ClientRejected),
            (400, "unsupported_grant_type", ExchangeError::ClientRejected),
            (400, "what", ExchangeError::Unavailable),
            (400, "invalid_grant\n", ExchangeError::Unavailable),
            (302, "invalid_grant", ExchangeError::Unavailable),
            (500, "invalid_grant", ExchangeError::Unavailable),
            (503, "", ExchangeError::Unavailable),
        ] {
            assert_eq!(answered(status, &json!({ "error": code })).err(), Some(failure), "{status} {code}");
        }
        assert_eq!(answered(400, &json!("no")).err(), Some(ExchangeError::Unavailable));
        // An error status takes precedence over the body.
        assert_eq!(answered(401, &good()).err(), Some(ExchangeError::Unavailable));
    }
}
