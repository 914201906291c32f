//! Authenticates callers, exchanges their tokens, and authenticates mcpm to remote servers.
//!
//! [`incoming`] verifies the tokens of callers, [`exchange`] replaces them with tokens for the server, [`outgoing`]
//! logs in to a remote server, [`guarded_client`] is the HTTP client for identity providers, and [`token_cache`] caches
//! data about tokens.

pub mod exchange;
pub(crate) mod guarded_client;
pub mod incoming;
pub mod outgoing;
mod secret_source;
mod token_cache;

use http::{HeaderName, HeaderValue};

pub use secret_source::SecretSource;

use crate::{Error, ErrorKind, Result, options::Secret};

/// Maximum length of a token in bytes.
pub(crate) const MAX_TOKEN_BYTES: usize = 16 << 10;

/// Headers that belong to the protocols or to proxies.
const RESERVED_HEADERS: [&str; 28] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-real-ip",
];

/// Tells whether a header belongs to the protocols or to proxies, so that it is not set for all requests.
pub(crate) fn is_reserved_header(name: &HeaderName) -> bool {
    RESERVED_HEADERS.contains(&name.as_str())
}

/// The value of `Authorization` that carries a token (RFC 6750 section 2.1).
///
/// # Errors
/// `InvalidOption` for a token that is too long or contains characters that are not allowed in a header; the error does
/// not contain the token.
pub(crate) fn bearer_value(token: &Secret) -> Result<HeaderValue> {
    let text = token.expose();
    let is_sound = text.len() <= MAX_TOKEN_BYTES && text.bytes().all(|byte| byte.is_ascii_graphic());
    let value =
        HeaderValue::from_str(&format!("Bearer {text}")).ok().filter(|_| is_sound && !text.is_empty());
    let mut value = value.ok_or_else(|| {
        Error::new(ErrorKind::InvalidOption, "the token is empty, too long or contains invalid characters")
    })?;
    value.set_sensitive(true);
    Ok(value)
}
