//! Resolves the options for a remote server: its address, the headers that are added to requests, and the login.

use std::{path::Path, sync::Arc};

use http::HeaderMap;
use url::Url;

use super::{
    added_headers::header_map,
    target::{MCP_PATH, Target},
};
use crate::{
    Environment, Error, ErrorKind, Result,
    auth::{
        SecretSource,
        outgoing::{OutgoingAuth, OutgoingSecrets, OutgoingSpec},
    },
    options::{Header, HeaderSecret, ProxyOptions, SharedOptions},
    secrets,
    transport::tls::TrustStore,
};

/// Resolves the configuration of authentication to a remote server, with relative paths below `working_dir`. An
/// environment provides secrets that the options do not contain.
///
/// # Errors
/// `InvalidOption` for contradictory options and invalid values, and for a header that is both given and in the secret
/// store.
pub(crate) fn read_outgoing(
    options: &SharedOptions,
    working_dir: &Path,
    environment: Option<&Environment>,
) -> Result<(Option<OutgoingSpec>, OutgoingSecrets)> {
    let is_given = |header: &&HeaderSecret| {
        options.remote_forward_headers.iter().any(|given| given.name.eq_ignore_ascii_case(&header.name))
    };
    if let Some(twice) = options.remote_forward_headers_secret.iter().find(is_given) {
        let message = format!("the header `{}` is given twice", twice.name);
        return Err(Error::new(ErrorKind::InvalidOption, message).hint(
            "set it with `remote_forward_headers` or with `remote_forward_headers_secret`, but not with both",
        ));
    }
    let mut spec = OutgoingSpec::read(options, working_dir)?;
    let mut secrets = OutgoingSecrets::from(options);
    if let Some(environment) = environment {
        secrets = secrets.or_from(environment, spec.as_ref());
    }
    if let (Some(spec), Some(_)) = (&mut spec, &secrets.client_secret)
        && spec.client_secret == SecretSource::None
    {
        spec.client_secret = SecretSource::Given;
    }
    if secrets.bearer_token.is_some() {
        let spec = spec.get_or_insert_default();
        if spec.bearer_token == SecretSource::None {
            spec.bearer_token = SecretSource::Given;
        }
    }
    Ok((spec, secrets))
}

/// Creates the target at `uri`.
///
/// # Errors
/// `InvalidOption` for an invalid URI, a bundle without certificates, and a login over plain HTTP.
pub(crate) fn remote_target(
    uri: &str,
    options: &ProxyOptions,
    headers: HeaderMap,
    (outgoing, secrets): (Option<OutgoingSpec>, OutgoingSecrets),
    environment: Option<&Environment>,
) -> Result<Target> {
    let bundle = options.mcpm_ca_bundle.as_deref();
    let target = Target::parse_with_trust(uri, TrustStore::with_bundle(bundle)?)?.with_headers(headers);
    let (Some(spec), Ok(mut url)) = (outgoing, Url::parse(uri)) else { return Ok(target) };
    if url.path() == "/" {
        url.set_path(MCP_PATH);
    }
    let bundle = bundle.map(Path::to_owned);
    let outgoing = OutgoingAuth::new(spec, secrets, url, bundle, environment.cloned())?;
    Ok(target.with_outgoing(Some(Arc::new(outgoing))))
}

/// Reads the values of headers that are in the secret store.
///
/// # Errors
/// `InvalidOption` without an environment; `NotFound` and `SecretsUnavailable` for secrets.
pub(crate) async fn secret_headers(
    named: &[HeaderSecret],
    environment: Option<&Environment>,
) -> Result<HeaderMap> {
    if named.is_empty() {
        return Ok(HeaderMap::new());
    }
    let environment = environment.ok_or_else(|| {
        Error::new(ErrorKind::InvalidOption, "`remote_forward_headers_secret` needs a secret store")
            .hint("set the `environment` of the proxy")
    })?;
    let names: Vec<String> = named.iter().map(|header| header.secret.clone()).collect();
    let values = secrets::read(&names, environment).await?;
    let headers = named.iter().filter_map(|header| {
        let value = values.get(&header.secret)?.clone();
        Some(Header { name: header.name.clone(), value })
    });
    header_map(&headers.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use crate::{Proxy, StdioBridge};

    #[test]
    fn a_header_is_given_once() {
        let proxy = Proxy::builder("p", "https://a.example/mcp")
            .remote_forward_headers(("X-Tenant", "a"))
            .remote_forward_headers_secret(("x-tenant", "tenant"));
        let bridge = StdioBridge::builder("https://a.example/mcp")
            .header(("X-Tenant", "a"))
            .set("remote_forward_headers_secret", "x-tenant=tenant")
            .expect("an option");
        let errors = [proxy.build().map(drop), bridge.build().map(drop)];
        for error in errors.map(|built| built.expect_err("it is given twice").to_string()) {
            assert!(error.contains("the header `x-tenant` is given twice"), "{error}");
        }
    }
}
