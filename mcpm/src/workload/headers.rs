//! Resolves the headers that are added to each request to a remote server.
//!
//! A registry entry can declare headers; the user is prompted for missing required values. Options add headers whose
//! values are secrets. A header that is set here takes precedence over a client's header of the same name. Secrets are
//! stored as references, and are never sent over plain HTTP except to this machine.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{
    RemoteSpec, ValueOrigin,
    resolve::{
        input_values::{InputMode, hint_at_option, is_secret_target_name, prompts_for_secret, resolve_input},
        registry_values::RegistryValues,
        remote_url::RemoteUrl,
    },
};
use crate::{
    Error, ErrorKind, Result,
    auth::is_reserved_header,
    options::{Secret, SecretRef, SecretTarget},
    printable::Printable as _,
    registry::RunMethod,
    secrets::SecretValues,
};

/// Returns the header of a name, unless it cannot be set.
fn settable_header(name: &str) -> Option<HeaderName> {
    let parsed: HeaderName = name.parse().ok()?;
    (is_secret_target_name(name) && !is_reserved_header(&parsed)).then_some(parsed)
}

/// Rejects references to secrets that cannot be sent to this URL.
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
                format!("the secret's target `{target}` is for containers, but this server is remote");
            return Err(refused(message).hint("use `target=header:NAME` for a remote server"));
        };
        let Some(name) = settable_header(name) else {
            return Err(refused(format!("`{}` is not a header that can be set", name.printable())));
        };
        if known.contains(&name) {
            return Err(refused(format!("two secrets have the target `{target}`")));
        }
        if !url.is_confidential() {
            return Err(plaintext_secret_error(&name, url));
        }
        known.push(name);
    }
    Ok(())
}

fn plaintext_secret_error(name: &HeaderName, url: &RemoteUrl) -> Error {
    let message = format!("the secret header `{name}` would be sent unencrypted to `{}`", url.redacted());
    Error::new(ErrorKind::InvalidOption, message).hint("use an `https` URL")
}

/// Resolves the headers that an entry declares, and prompts for required ones that were not given.
///
/// # Errors
/// `InvalidOption` for a required value that is missing and cannot be prompted for, and for an invalid header value;
/// `Registry` for a header that cannot be set; `Interrupted`.
pub(super) async fn resolve_headers(
    run_method: &RunMethod,
    url: &RemoteUrl,
    given: &[SecretRef],
    registry_values: &mut RegistryValues,
    input_mode: &InputMode<'_>,
) -> Result<()> {
    let mut known: Vec<HeaderName> = given
        .iter()
        .filter_map(|secret| match secret.destination() {
            SecretTarget::Header(name) => name.parse().ok(),
            _ => None,
        })
        .collect();
    for input in &run_method.headers {
        let name = settable_header(&input.name).ok_or_else(|| {
            let message = format!(
                "the registry entry sets `{}`, which is not a header that can be set",
                input.name.printable()
            );
            Error::new(ErrorKind::Registry, message).hint(
                "run the server by its URL, and set `secret` to `NAME,target=header:HEADER` for each header \
                 that it needs",
            )
        })?;
        if known.contains(&name) {
            continue;
        }
        if prompts_for_secret(input, false, false) && !url.is_confidential() {
            return Err(plaintext_secret_error(&name, url));
        }
        let value = resolve_input(input, input_mode).await.map_err(|error| {
            hint_at_option(error, &format!("set `secret` to `NAME,target=header:{name}`"))
        })?;
        let Some(value) = value else { continue };
        known.push(name);
        header_value(&input.name, &value.text)?;
        if value.secret && value.origin == ValueOrigin::Answered {
            registry_values.secrets.insert(input.name.clone(), Secret::from(value.text));
        } else {
            registry_values.headers.insert(input.name.clone(), (value.text, value.origin));
        }
    }
    Ok(())
}

/// Returns the headers with their values; those with secrets are marked as sensitive.
///
/// # Errors
/// `NotFound` when a value is missing; `InvalidOption` for an invalid header value.
pub(super) fn build_headers(
    remote: &RemoteSpec,
    secrets: &[SecretRef],
    values: &SecretValues,
) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    let mut set = |name: &str, value: HeaderValue| {
        let header = settable_header(name).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOption,
                format!("`{}` is not a header that can be set", name.printable()),
            )
        })?;
        headers.insert(header, value);
        Ok::<_, Error>(())
    };
    for (name, value) in &remote.headers {
        set(name, header_value(name, value)?)?;
    }
    for secret in secrets {
        let SecretTarget::Header(name) = secret.destination() else { continue };
        let value = values.get(&secret.name).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("the value of secret `{}` is missing", secret.name))
        })?;
        let mut value = header_value(name, value.expose())?;
        value.set_sensitive(true);
        set(name, value)?;
    }
    Ok(headers)
}

/// Returns a header value. The error does not repeat the value.
fn header_value(name: &str, value: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(value).map_err(|_| {
        let message =
            format!("the value of the header `{name}` contains a character that is not allowed in headers");
        Error::new(ErrorKind::InvalidOption, message).hint("use printable ASCII characters on one line")
    })
}

#[cfg(test)]
#[path = "headers_tests.rs"]
mod tests;
