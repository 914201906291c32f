//! The headers that a remote server is sent with each request, beside those of clients.
//!
//! A registry's entry says which the server wants; what it does not know is asked for. A header that is set here goes
//! before one that a client sends under its name: who runs the server decides as whom it is used. One with a secret is
//! a reference until the requests are made, and crosses no network in the clear.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    Origin, RemoteSpec,
    entry::{Asking, Supplied, asks_secret, names_secret, value_of},
    remote::RemoteUrl,
};
use crate::{
    Error, ErrorKind, Result,
    options::{Secret, SecretRef, SecretTarget},
    registry::Way,
    secrets::SecretValues,
};

/// Headers that are the protocols' own: set for all requests alike, they would break them.
const NOT_TO_SET: &[&str] = &[
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The header of a name, unless it is none to set.
fn header(name: &str) -> Option<HeaderName> {
    let parsed: HeaderName = name.parse().ok()?;
    (names_secret(name) && !NOT_TO_SET.contains(&parsed.as_str())).then_some(parsed)
}

/// Refuses references to secrets that a remote server at this place cannot get.
///
/// # Errors
/// `InvalidOption`.
pub(super) fn check<'a>(secrets: impl Iterator<Item = &'a SecretRef>, url: &RemoteUrl) -> Result<()> {
    let refused = |message: String| Error::new(ErrorKind::InvalidOption, message);
    let mut known = Vec::new();
    for secret in secrets {
        let target = &secret.target;
        let SecretTarget::Header(name) = secret.destination() else {
            let message =
                format!("the secret's target `{target}` is for containers, and a remote server has none");
            return Err(refused(message).hint("`target=header:NAME` is for remote servers"));
        };
        let Some(name) = header(name) else {
            return Err(refused(format!("`{}` is no header to set", name.escape_debug())));
        };
        if known.contains(&name) {
            return Err(refused(format!("two secrets have the target `{target}`")));
        }
        if !url.hides_headers() {
            return Err(shows_secret(&name, url));
        }
        known.push(name);
    }
    Ok(())
}

fn shows_secret(name: &HeaderName, url: &RemoteUrl) -> Error {
    let message = format!("the header `{name}` would show its secret on the way to `{}`", url.shown());
    Error::new(ErrorKind::InvalidOption, message).hint("use an `https` URL")
}

/// Finds out the headers that an entry names, and asks for those that it requires and nobody gave.
///
/// # Errors
/// `InvalidOption` for a required value that nobody gave and nobody can be asked for, and for what no header can hold;
/// `Registry` for what is no header to set; `Interrupted`.
pub(super) async fn supply(
    way: &Way,
    url: &RemoteUrl,
    given: &[SecretRef],
    supplied: &mut Supplied,
    asking: &Asking<'_>,
) -> Result<()> {
    let mut known: Vec<HeaderName> = given
        .iter()
        .filter_map(|secret| match secret.destination() {
            SecretTarget::Header(name) => name.parse().ok(),
            _ => None,
        })
        .collect();
    for input in &way.headers {
        let name = header(&input.name).ok_or_else(|| {
            let message =
                format!("the entry names `{}`, which is no header to set", input.name.escape_debug());
            Error::new(ErrorKind::Registry, message).hint(
                "run its URL instead, with `secret` set to `NAME,target=header:HEADER` for what it needs",
            )
        })?;
        if known.contains(&name) {
            continue;
        }
        if asks_secret(input, false, false) && !url.hides_headers() {
            return Err(shows_secret(&name, url));
        }
        let value = value_of(input, asking).await.map_err(|error| match error.kind() {
            ErrorKind::InvalidOption => {
                error.hint(format!("set `secret` to `NAME,target=header:{name}`, or run in a terminal"))
            }
            _ => error,
        })?;
        let Some(value) = value else { continue };
        known.push(name);
        sendable(&input.name, &value.text)?;
        if value.secret && value.origin == Origin::Answered {
            supplied.secrets.insert(input.name.clone(), Secret::from(value.text));
        } else {
            supplied.headers.insert(input.name.clone(), (value.text, value.origin));
        }
    }
    Ok(())
}

/// The headers with their values, those with secrets marked as such.
///
/// # Errors
/// `NotFound` when a value is missing; `InvalidOption` for what no header can hold.
pub(super) fn with_values(
    remote: &RemoteSpec,
    secrets: &[SecretRef],
    values: &SecretValues,
) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let mut set = |name: &str, value: HeaderValue| {
        let header = header(name).ok_or_else(|| {
            Error::new(ErrorKind::InvalidOption, format!("`{}` is no header to set", name.escape_debug()))
        })?;
        headers.insert(header, value);
        Ok::<_, Error>(())
    };
    for (name, value) in &remote.headers {
        set(name, sendable(name, value)?)?;
    }
    for secret in secrets {
        let SecretTarget::Header(name) = secret.destination() else { continue };
        let value = values.get(&secret.name).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("the value of secret `{}` is missing", secret.name))
        })?;
        let mut value = sendable(name, value.expose())?;
        value.set_sensitive(true);
        set(name, value)?;
    }
    Ok(headers)
}

/// A value as a header has it. A refusal does not repeat it.
fn sendable(name: &str, value: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(value).map_err(|_| {
        let message = format!("the value for the header `{name}` holds what no header can");
        Error::new(ErrorKind::InvalidOption, message).hint("letters, digits and signs of ASCII, in one line")
    })
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
