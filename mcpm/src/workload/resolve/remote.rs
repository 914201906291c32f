//! Checks and resolves remote servers.
//!
//! A remote server has no container, so no engine is needed, and options for containers are rejected.

use std::collections::BTreeMap;

use super::{
    container_only_options::CONTAINER_ONLY_OPTIONS,
    proxy::{check_proxy, proxy},
    remote_url::RemoteUrl,
    request::{self, WorkloadRequest},
    source::ServerSource,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    auth::exchange::{self, ExchangeSpec},
    options::{OptionSet as _, SecretRef, SecretTarget, Transport, WorkloadOptions},
    proxy::{ProxySpec, ineffective_options},
    state::SPEC_VERSION,
    workload::{Placement, RemoteSpec, ValueOrigin, WorkloadName, WorkloadSpec, headers},
};

/// Rejects options that apply to containers only, in one message.
pub(in crate::workload) fn check(request: &WorkloadRequest) -> Result<()> {
    let options = &request.options;
    let refused: Vec<String> = WorkloadOptions::SPECS
        .iter()
        .filter(|spec| CONTAINER_ONLY_OPTIONS.contains(&spec.name) && options.is_given(spec.name))
        // The targets of secrets are checked below.
        .filter(|spec| spec.name != "secret")
        .map(|spec| format!("`{}`", spec.name))
        .collect();
    if !refused.is_empty() {
        let verb = if refused.len() == 1 && refused != ["`args`"] { "is" } else { "are" };
        let message = format!("{} {verb} for containers, but this server is remote", refused.join(", "));
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    if options.transport == Some(Transport::Stdio) {
        let message = "a remote server cannot use the transport `stdio`";
        return Err(Error::new(ErrorKind::InvalidOption, message)
            .hint("set `transport` to `streamable-http` or `sse`"));
    }
    if let ServerSource::Remote(url) = &request.source {
        headers::check(options.secret.iter(), url)?;
    }
    check_proxy(request)
}

/// Resolves a workload with a remote server.
pub(in crate::workload) fn resolve(
    request: &WorkloadRequest,
    url: &RemoteUrl,
    name: WorkloadName,
    environment: &Environment,
) -> Result<WorkloadSpec> {
    let options = request.effective_options();
    let mut origins = BTreeMap::new();
    origins.insert("name".to_owned(), request.name_origin());
    let url_origin =
        if request.registry_values.is_some() { ValueOrigin::Registry } else { request.origin("server") };
    origins.insert("url".to_owned(), url_origin);
    for field in ["group", "transport", "host", "endpoint_prefix", "trust_proxy_headers"] {
        origins.insert(field.to_owned(), request.origin(field));
    }
    let proxy: ProxySpec = proxy(request, &options, &name, &mut origins, environment)?;
    let mut headers = BTreeMap::new();
    for (header, (value, origin)) in
        request.registry_values.iter().flat_map(|registry_values| &registry_values.headers)
    {
        origins.insert(format!("header.{header}"), *origin);
        headers.insert(header.clone(), value.clone());
    }
    let prompted = request.prompted_secrets(&name);
    let forwarded = options.remote_forward_headers_secret.iter();
    let forwarded = forwarded.map(|header| SecretRef::in_header(&*header.secret, &header.name));
    let secrets: Vec<SecretRef> =
        options.secret.iter().chain(prompted.keys()).cloned().chain(forwarded).collect();
    headers::check(secrets.iter(), url)?;
    let mut warnings = ineffective_options::warnings(&request.options);
    if let Some(exchange) = &proxy.exchange {
        let of_secret = secrets.iter().filter_map(|secret| match secret.destination() {
            SecretTarget::Header(name) => Some(name),
            _ => None,
        });
        reject_duplicate_header(exchange, headers.keys().map(String::as_str).chain(of_secret))?;
        if !url.is_confidential() {
            warnings.push(exchange::plain_http_warning(&url.redacted()));
        }
    }
    if !options.secret.is_empty() {
        origins.insert("secret".to_owned(), request.origin("secret"));
    }
    for secret in prompted.keys() {
        origins.insert(format!("secret.{}", secret.target), ValueOrigin::Answered);
    }
    Ok(WorkloadSpec {
        engine: None,
        runtime: None,
        version: SPEC_VERSION,
        name,
        group: options.group.clone().unwrap_or_default(),
        asked: request::options_for_export(request, &environment.working_dir),
        transport: options.transport.unwrap_or(Transport::StreamableHttp),
        proxy,
        target: None,
        place: Placement::Remote(RemoteSpec { url: url.to_string(), headers }),
        secrets,
        secret_formats: BTreeMap::new(),
        isolation: None,
        warnings,
        package: None,
        verified: None,
        origins,
    })
}

/// Rejects two values for one header: an exchanged token, and a header of all requests.
fn reject_duplicate_header<'a>(
    exchange: &ExchangeSpec,
    mut headers: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let name = exchange.header.as_deref().unwrap_or("Authorization");
    if !headers.any(|other| other.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let message = format!(
        "the header `{name}` would be set twice: to the exchanged token, and to the value that an option or the \
         registry entry gives it"
    );
    Err(Error::new(ErrorKind::InvalidOption, message)
        .hint("set `token_exchange_header_name` to another header"))
}
