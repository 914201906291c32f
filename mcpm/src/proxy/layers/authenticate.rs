//! Authenticates callers: each request needs a valid bearer token (RFC 6750; MCP 2025-11-25, authorization).
//!
//! The token is not forwarded. The request's extensions contain the authenticated caller as a
//! [`Principal`](crate::auth::incoming::Principal). An SSE stream ends when the token of its request expires.

use std::{ops::Range, sync::Arc, time::SystemTime};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    auth::{
        MAX_TOKEN_BYTES,
        incoming::{Principal, TokenError, TokenVerifier},
    },
    explain::Reason,
    mcp::error_code,
    options::Secret,
    proxy::{
        denial::Denial,
        expiring_stream::with_expiry,
        layer::{Layer, Next, ResponseFuture},
        observe::Exchange,
        protected_resource::ProtectedResource,
        respond::{self, Request, Response},
    },
};

/// A scope that challenges never name: clients request it for refresh tokens, and a resource server does not need it.
const OFFLINE_ACCESS: &str = "offline_access";

/// Verifies callers for one protected resource.
#[derive(Debug)]
pub(crate) struct Authenticator {
    incoming: TokenVerifier,
    resource: ProtectedResource,
    name: String,
    /// The accepted audiences.
    audiences: Vec<String>,
}

impl Authenticator {
    pub(crate) fn new(incoming: TokenVerifier, resource: ProtectedResource, name: String) -> Self {
        let configured = incoming.spec().audience.clone().map(|audience| vec![audience]);
        let audiences = configured.unwrap_or_else(|| resource.audiences());
        Self { incoming, resource, name, audiences }
    }

    /// Whether a token is valid.
    pub(super) async fn accepts(&self, token: &Secret) -> bool {
        // Boxed, because most of it is only needed in the rare case of a request to the provider.
        let principal = Box::pin(self.incoming.verify(token.expose(), &self.audiences)).await;
        principal.is_ok_and(|principal| self.incoming.check_scopes(&principal).is_ok())
    }

    /// Whether no caller can be authenticated because the identity provider has not responded successfully yet.
    pub(super) fn is_unavailable(&self) -> bool {
        self.incoming.is_unavailable()
    }

    /// The error of the last request to the identity provider.
    pub(super) fn provider_error(&self) -> Option<String> {
        self.incoming.last_error()
    }

    pub(super) fn resource(&self) -> &ProtectedResource {
        &self.resource
    }

    /// The metadata of the protected resource (RFC 9728 section 2).
    pub(super) fn metadata(&self, headers: &HeaderMap) -> Value {
        let mut document = json!({
            "resource": self.resource.urls(headers).resource,
            "resource_name": self.name,
            "scopes_supported": self.scopes(|_| true),
            "bearer_methods_supported": ["header"],
        });
        if let Some(issuer) = &self.incoming.spec().issuer {
            document["authorization_servers"] = json!([issuer]);
        }
        document
    }

    /// The advertised scopes, filtered by `which`.
    fn scopes(&self, which: impl Fn(&str) -> bool) -> Vec<&str> {
        let spec = self.incoming.spec();
        let mut scopes: Vec<&str> = Vec::new();
        for scope in spec.required_scopes.iter().chain(&spec.scopes) {
            if which(scope) && !scopes.contains(&scope.as_str()) {
                scopes.push(scope);
            }
        }
        scopes
    }

    /// The response with a challenge; `error` is a code of RFC 6750 section 3.1, if one applies.
    pub(super) fn challenge(
        &self,
        status: StatusCode,
        error: Option<&str>,
        message: &str,
        headers: &HeaderMap,
        denial: Denial,
    ) -> Response {
        let mut response = respond::deny(status, error_code::INVALID_REQUEST, message, b"", denial);
        let mut challenge = format!("Bearer resource_metadata=\"{}\"", self.resource.urls(headers).metadata);
        // For a token with insufficient scopes, the required ones; for a client without a token, all advertised
        // ones.
        let scopes = match status {
            StatusCode::FORBIDDEN => self.incoming.spec().required_scopes.join(" "),
            _ => self.scopes(|scope| scope != OFFLINE_ACCESS).join(" "),
        };
        if !scopes.is_empty() {
            challenge += &format!(", scope=\"{scopes}\"");
        }
        if let Some(error) = error {
            challenge += &format!(", error=\"{error}\", error_description=\"{message}\"");
        }
        if let Ok(challenge) = HeaderValue::from_str(&challenge) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// A denial with the expected values.
    fn denial(&self, reason: Reason) -> Denial {
        let denial = Denial::new(reason).input("audience", self.audiences.join(" "));
        match &self.incoming.spec().issuer {
            Some(issuer) => denial.input("issuer", issuer),
            None => denial,
        }
    }

    /// A denial with details of an authentic token; the client does not see them.
    fn denial_for(&self, error: &TokenError) -> Denial {
        let denial = self.denial(error.reason());
        let now = SystemTime::now();
        let at = |time: SystemTime| humantime::format_rfc3339_seconds(time).to_string();
        match error {
            TokenError::WrongIssuer(Some(issuer)) => denial.input("token_issuer", issuer),
            TokenError::WrongAudience(said) if said.is_empty() => denial.input("token_audience", "none"),
            TokenError::WrongAudience(said) => {
                let audience = self.audiences.first().map_or("", String::as_str);
                // Never advise accepting the token's audience: the token may have been stolen from another
                // resource.
                let fix = format!("request a token with the audience `{audience}` from the issuer");
                denial.input("token_audience", said.join(" ")).fix(fix)
            }
            TokenError::Expired(end) => {
                let end = end.map_or_else(|| "none".to_owned(), at);
                denial.input("token_expires", end).input("now", at(now))
            }
            TokenError::NotYetValid(begin) => denial.input("token_begins", at(*begin)).input("now", at(now)),
            TokenError::InsufficientScope(missing) => {
                let needed = self.incoming.spec().required_scopes.join(" ");
                let fix = format!("request a token with the scopes `{needed}`");
                denial.input("missing_scopes", missing.join(" ")).fix(fix).rule(needed)
            }
            _ => denial,
        }
    }

    fn deny(&self, error: &TokenError, headers: &HeaderMap) -> Response {
        let denial = self.denial_for(error);
        let message = error.message();
        match error {
            TokenError::Unavailable => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                respond::deny(status, error_code::INTERNAL_ERROR, message, b"", denial)
            }
            TokenError::InsufficientScope(_) => {
                self.challenge(StatusCode::FORBIDDEN, Some("insufficient_scope"), message, headers, denial)
            }
            _ => self.challenge(StatusCode::UNAUTHORIZED, Some("invalid_token"), message, headers, denial),
        }
    }

    /// The result for a request whose token was verified before, without the checks for unusual forms of requests;
    /// `None` if the token or the request needs them.
    fn verify_known(&self, request: &Request) -> Option<Result<Arc<Principal>, TokenError>> {
        let mut lines = request.headers().get_all(header::AUTHORIZATION).iter();
        let token = lines.next()?.as_bytes().strip_prefix(b"Bearer ")?;
        let is_usual = lines.next().is_none() && request.uri().query().is_none();
        if is_usual { self.incoming.verify_known(token, &self.audiences) } else { None }
    }

    /// Forwards the request of a verified caller to the inner layers.
    async fn pass(
        &self,
        verified: Result<Arc<Principal>, TokenError>,
        mut request: Request,
        next: Next<'_>,
    ) -> Response {
        let principal = match verified {
            Ok(principal) => principal,
            Err(refusal) => return self.deny(&refusal, request.headers()),
        };
        let end = principal.expires_with_leeway();
        if let Some(exchange) = Exchange::of(request.extensions()) {
            exchange.set_principal(&principal);
        }
        if let Err(refusal) = self.incoming.check_scopes(&principal) {
            return self.deny(&refusal, request.headers());
        }
        request.extensions_mut().insert(Arc::clone(&principal));
        let mut response = next.handle(request).await;
        if let Some(denial) = response.extensions_mut().get_mut::<Denial>() {
            denial.redact(&principal.token);
        }
        match end {
            Some(end) => with_expiry(response, end),
            None => response,
        }
    }

    /// The response to a request without a usable token.
    fn without_token(&self, missing: NoToken, headers: &HeaderMap) -> Response {
        let (reason, status, error, message) = match missing {
            NoToken::TwoTokens => (
                Reason::AuthMalformed,
                StatusCode::BAD_REQUEST,
                Some("invalid_request"),
                "the request has a token in the URL and one in the header",
            ),
            NoToken::Malformed => (
                Reason::AuthMalformed,
                StatusCode::BAD_REQUEST,
                Some("invalid_request"),
                "the `Authorization` header is not of the form `Bearer TOKEN`",
            ),
            NoToken::InQuery => (
                Reason::TokenInQuery,
                StatusCode::UNAUTHORIZED,
                None,
                "tokens are only accepted in the `Authorization` header",
            ),
            NoToken::Missing => {
                (Reason::TokenMissing, StatusCode::UNAUTHORIZED, None, "missing access token")
            }
        };
        self.challenge(status, error, message, headers, self.denial(reason))
    }
}

/// Why a request has no usable token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoToken {
    Missing,
    InQuery,
    TwoTokens,
    Malformed,
}

/// Returns the token of a request.
///
/// # Errors
/// Why the request has no usable token.
pub(super) fn token_of(request: &Request) -> Result<&str, NoToken> {
    let in_query = request.uri().query().is_some_and(|query| {
        url::form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token")
    });
    match (bearer(request.headers()), in_query) {
        (BearerHeader::Token(token), false) => Ok(token),
        (BearerHeader::Token(_), true) => Err(NoToken::TwoTokens),
        (BearerHeader::Malformed, _) => Err(NoToken::Malformed),
        (BearerHeader::None, true) => Err(NoToken::InQuery),
        (BearerHeader::None, false) => Err(NoToken::Missing),
    }
}

/// The token of a request, which was removed from its headers. It is not copied.
struct RemovedToken {
    line: HeaderValue,
    span: Range<usize>,
}

impl RemovedToken {
    fn of(request: &mut Request) -> Result<Self, NoToken> {
        let token = token_of(request)?;
        let (address, length) = (token.as_ptr().addr(), token.len());
        let line = request.headers_mut().remove(header::AUTHORIZATION).ok_or(NoToken::Missing)?;
        let start = address.saturating_sub(line.as_bytes().as_ptr().addr());
        Ok(Self { line, span: start..start + length })
    }

    fn expose(&self) -> &str {
        let token = self.line.as_bytes().get(self.span.clone());
        token.and_then(|token| std::str::from_utf8(token).ok()).unwrap_or_default()
    }
}

enum BearerHeader<'a> {
    Token(&'a str),
    None,
    Malformed,
}

/// Parses the header (RFC 6750 section 2.1).
fn bearer(headers: &HeaderMap) -> BearerHeader<'_> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let Some(line) = lines.next() else { return BearerHeader::None };
    // An ASCII header value contains no control characters except tabs, so this accepts the same values as `to_str`,
    // but faster.
    let line = if line.as_bytes().is_ascii() { std::str::from_utf8(line.as_bytes()).ok() } else { None };
    let Some(line) = line else { return BearerHeader::Malformed };
    let (scheme, token) = line.split_once(' ').unwrap_or((line, ""));
    let one = lines.next().is_none();
    if !scheme.eq_ignore_ascii_case("bearer") {
        // Credentials of another authentication scheme.
        return if one { BearerHeader::None } else { BearerHeader::Malformed };
    }
    let token = token.trim();
    let is_sound = |unpadded: &str| {
        !unpadded.is_empty() && token.len() <= MAX_TOKEN_BYTES && is_token68(unpadded.as_bytes())
    };
    if one && is_sound(token.trim_end_matches('=')) {
        BearerHeader::Token(token)
    } else {
        BearerHeader::Malformed
    }
}

/// Whether a text consists of the characters of a token without its padding (RFC 9110 section 11.2).
fn is_token68(text: &[u8]) -> bool {
    // The loop has no branches and no early exit, so that several bytes can be checked at once.
    text.iter().fold(true, |all, byte| {
        let is_letter = (byte | 0x20).wrapping_sub(b'a') < 26;
        // `-`, `.`, `/` and the digits are consecutive in ASCII.
        let is_digit_or_mark = byte.wrapping_sub(b'-') < 13;
        all & (is_letter | is_digit_or_mark | (*byte == b'_') | (*byte == b'~') | (*byte == b'+'))
    })
}

/// The layer.
#[derive(Debug)]
pub(crate) struct Authenticate(Arc<Authenticator>);

impl Authenticate {
    pub(crate) fn new(authenticator: Arc<Authenticator>) -> Self {
        Self(authenticator)
    }
}

impl Layer for Authenticate {
    fn handle<'a>(&'a self, mut request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let authenticator = &self.0;
        // The token is meant for the proxy only.
        if let Some(verified) = authenticator.verify_known(&request) {
            request.headers_mut().remove(header::AUTHORIZATION);
            return Box::pin(authenticator.pass(verified, request, next));
        }
        match RemovedToken::of(&mut request) {
            Ok(token) => Box::pin(async move {
                // Boxed, because most of it is only needed in the rare case of a request to the provider.
                let verifying =
                    Box::pin(authenticator.incoming.verify(token.expose(), &authenticator.audiences));
                let verified = verifying.await;
                // The token retains the read buffer of the client's connection.
                drop(token);
                authenticator.pass(verified, request, next).await
            }),
            Err(missing) => {
                let refused = authenticator.without_token(missing, request.headers());
                Box::pin(std::future::ready(refused))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_token_in_the_header_is_found_however_its_scheme_is_written() {
        let found = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::AUTHORIZATION, line.parse().expect("a value"));
            }
            match bearer(&headers) {
                BearerHeader::Token(token) => format!("token {token}"),
                BearerHeader::None => "none".to_owned(),
                BearerHeader::Malformed => "malformed".to_owned(),
            }
        };
        let long = format!("Bearer {}", "a".repeat(MAX_TOKEN_BYTES + 1));
        for (lines, expected) in [
            (&[][..], "none"),
            (&["Basic dTpw"], "none"),
            (&["Bearer a.b-c_d~e+f/g=="], "token a.b-c_d~e+f/g=="),
            (&["bEARER x"], "token x"),
            (&["Bearer  x "], "token x"),
            (&["Bearer"], "malformed"),
            (&["Bearer "], "malformed"),
            (&["Bearer a b"], "malformed"),
            (&["Bearer a,b"], "malformed"),
            (&["Bearer ="], "malformed"),
            (&["Bearer a", "Bearer a"], "malformed"),
            (&["Basic a", "Bearer a"], "malformed"),
            (&[&long], "malformed"),
        ] {
            assert_eq!(found(lines), expected, "{lines:?}");
        }
    }
}
