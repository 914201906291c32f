//! Resolves the proxy in front of a server.

use std::collections::BTreeMap;

use super::request::WorkloadRequest;
use crate::{
    Environment, Error, ErrorKind, Result,
    name::WorkloadName,
    options::{OptionSet as _, ProxyMode, SharedOptions, WorkloadOptions},
    proxy::ProxySpec,
    workload::spec::ValueOrigin,
};

/// Resolves the proxy.
pub(super) fn proxy(
    request: &WorkloadRequest,
    options: &WorkloadOptions,
    name: &WorkloadName,
    origins: &mut BTreeMap<String, ValueOrigin>,
    environment: &Environment,
) -> Result<ProxySpec> {
    let shared = SharedOptions::from(&request.options);
    let proxy = ProxySpec {
        port: options.proxy_port.unwrap_or(0),
        mode: options.proxy_mode.unwrap_or(ProxyMode::StreamableHttp),
        endpoint_prefix: prefix(options)?,
        ..request.files.proxy()?.clone().with_server_name(&shared, name.as_str(), environment)?
    };
    if proxy.incoming.is_some() {
        for name in ["oidc_issuer", "oidc_jwks_url", "oidc_introspection_url"] {
            if request.options.is_given(name) {
                origins.insert("incoming".to_owned(), request.origin(name));
            }
        }
    }
    for field in ["tools", "tools_override", "authz_config", "audit_config", "enable_audit", "otel_endpoint"]
    {
        if options.is_given(field) {
            origins.insert(field.to_owned(), request.origin(field));
        }
    }
    if proxy.exchange.is_some() {
        origins.insert("exchange".to_owned(), request.origin("token_exchange_url"));
    }
    let port_origin = if proxy.port == 0 { ValueOrigin::Derived } else { request.origin("proxy_port") };
    origins.insert("proxy_port".to_owned(), port_origin);
    Ok(proxy)
}

/// Rejects invalid options of the proxy.
pub(super) fn check_proxy(request: &WorkloadRequest) -> Result<()> {
    prefix(&request.options)?;
    request.files.proxy().map(drop)
}

fn prefix(options: &WorkloadOptions) -> Result<Option<String>> {
    match options.endpoint_prefix.as_deref() {
        Some(prefix) if !prefix.starts_with('/') || prefix.contains(char::is_whitespace) => Err(Error::new(
            ErrorKind::InvalidOption,
            format!(
                "invalid value `{prefix}` for `endpoint_prefix`: it must begin with `/` and contain no whitespace"
            ),
        )),
        prefix => Ok(prefix.map(str::to_owned)),
    }
}
