//! A server that others run: its address, what can be asked of it, and what is done for it.
//!
//! There is no container, so no engine is looked for, and options for containers are refused.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use url::{Host, Url};

use super::{
    Placement, RemoteSpec, ValueOrigin, WorkloadName, WorkloadSpec, headers,
    request::{self, WorkloadRequest},
    resolve,
    source::ServerSource,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    auth::exchange::{self, ExchangeSpec},
    options::{OptionSet as _, SecretRef, SecretTarget, Transport, WorkloadOptions},
    proxy::{ProxySpec, ineffective_options, target::Target},
    redact::url::{redact_url, redact_url_text},
    state::SPEC_VERSION,
};

/// The options that concern a container, and mean nothing where there is none; of secrets, those that are no headers.
pub(super) const CONTAINER_ONLY_OPTIONS: &[&str] = &[
    "args",
    "label",
    "proxy_mode",
    "target_host",
    "target_port",
    "publish",
    "network",
    "learn",
    "isolate_network",
    "allow_runtime_gateway",
    "env",
    "env_file",
    "env_file_dir",
    "secret",
    "volume",
    "permission_profile",
    "ignore_globally",
    "print_resolved_overlays",
    "image_verification",
    "image_verification_key",
    "certificate_identity",
    "certificate_oidc_issuer",
    "sigstore_trusted_root",
    "ca_cert",
    "runtime_image",
    "runtime_add_package",
    "runtime",
    "package_command",
    "rebuild",
    "offline",
];

/// Second-level names below which others register theirs, as in `example.co.uk`.
const PUBLIC_SECOND_LEVEL_DOMAINS: &[&str] = &["ac", "co", "com", "edu", "gov", "net", "or", "org"];

/// The address of a remote server, without a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RemoteUrl(Url);

impl RemoteUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// `InvalidOption` for what is no `http` or `https` URL, or holds credentials.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut url = Url::parse(text).map_err(|error| {
            Error::new(ErrorKind::InvalidOption, format!("`{}` is no URL", redact_url_text(text)))
                .source(error)
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            // Not repeated, since it would show them.
            return Err(Error::new(ErrorKind::InvalidOption, "the URL of the server holds credentials")
                .hint("leave out what stands before `@`"));
        }
        url.set_fragment(None);
        Target::parse(url.as_str())?;
        Ok(Self(url))
    }

    /// The name of a workload that was not given one: the name that the host's owner registered.
    pub(super) fn workload_name(&self) -> WorkloadName {
        let address = |ip: IpAddr| WorkloadName::sanitized(&format!("remote-{ip}").replace(['.', ':'], "-"));
        match self.0.host() {
            Some(Host::Ipv4(ip)) => address(ip.into()),
            Some(Host::Ipv6(ip)) => address(ip.into()),
            Some(Host::Domain(domain)) => WorkloadName::sanitized(registered_label(domain)),
            None => WorkloadName::sanitized(""),
        }
    }

    /// The URL for people.
    pub(super) fn redacted(&self) -> String {
        redact_url(&self.0)
    }

    /// Whether nobody on the way sees the headers of a request to it.
    pub(super) fn is_confidential(&self) -> bool {
        self.0.scheme() == "https"
            || match self.0.host() {
                Some(Host::Domain(name)) => name == "localhost",
                Some(Host::Ipv4(ip)) => ip.is_loopback(),
                Some(Host::Ipv6(ip)) => ip.is_loopback(),
                None => false,
            }
    }

    /// Where clients find the server below the proxy's address: where it is on its own host.
    pub(super) fn path(&self) -> &str {
        self.0.path()
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// `github` of `api.github.com`, `example` of `mcp.example.co.uk`, `localhost` of itself.
fn registered_label(domain: &str) -> &str {
    let labels: Vec<&str> = domain.split('.').filter(|label| !label.is_empty()).collect();
    match labels.as_slice() {
        [.., owner, second, top] if top.len() == 2 && PUBLIC_SECOND_LEVEL_DOMAINS.contains(second) => owner,
        [.., owner, _] => owner,
        [only] => only,
        [] => "",
    }
}

/// Refuses what can only be asked of a container, in one message.
pub(super) fn check(asked: &WorkloadRequest, environment: &Environment) -> Result<()> {
    let options = &asked.options;
    let refused: Vec<String> = WorkloadOptions::SPECS
        .iter()
        .filter(|spec| CONTAINER_ONLY_OPTIONS.contains(&spec.name) && options.is_given(spec.name))
        // Whose targets are looked at on their own.
        .filter(|spec| spec.name != "secret")
        .map(|spec| format!("`{}`", spec.name))
        .collect();
    if !refused.is_empty() {
        let verb = if refused.len() == 1 && refused != ["`args`"] { "is" } else { "are" };
        let message = format!("{} {verb} for containers, and a remote server has none", refused.join(", "));
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    if options.transport == Some(Transport::Stdio) {
        let message = "a remote server cannot speak over `stdio`";
        return Err(Error::new(ErrorKind::InvalidOption, message)
            .hint("set `transport` to `streamable-http` or `sse`"));
    }
    if let ServerSource::Remote(url) = &asked.source {
        headers::check(options.secret.iter(), url)?;
    }
    resolve::check_proxy(asked, environment)
}

/// Works out the whole workload.
pub(super) fn resolve(
    asked: &WorkloadRequest,
    url: &RemoteUrl,
    name: WorkloadName,
    environment: &Environment,
) -> Result<WorkloadSpec> {
    check(asked, environment)?;
    let options = asked.effective_options();
    let mut origins = BTreeMap::new();
    origins.insert("name".to_owned(), asked.name_origin());
    let url_origin =
        if asked.registry_values.is_some() { ValueOrigin::Registry } else { asked.origin("server") };
    origins.insert("url".to_owned(), url_origin);
    for field in ["group", "transport", "host", "endpoint_prefix", "trust_proxy_headers"] {
        origins.insert(field.to_owned(), asked.origin(field));
    }
    let proxy: ProxySpec = resolve::proxy(asked, &options, &name, &mut origins, environment)?;
    let mut headers = BTreeMap::new();
    for (header, (value, origin)) in asked.registry_values.iter().flat_map(|supplied| &supplied.headers) {
        origins.insert(format!("header.{header}"), *origin);
        headers.insert(header.clone(), value.clone());
    }
    let typed = asked.prompted_secrets(&name);
    let secrets: Vec<SecretRef> = options.secret.iter().chain(typed.keys()).cloned().collect();
    headers::check(secrets.iter(), url)?;
    let mut warnings = ineffective_options::warnings(&asked.options);
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
        origins.insert("secret".to_owned(), asked.origin("secret"));
    }
    for secret in typed.keys() {
        origins.insert(format!("secret.{}", secret.target), ValueOrigin::Answered);
    }
    Ok(WorkloadSpec {
        engine: None,
        version: SPEC_VERSION,
        name,
        group: options.group.clone().unwrap_or_default(),
        asked: request::options_for_export(asked, &environment.working_dir),
        transport: options.transport.unwrap_or(Transport::StreamableHttp),
        proxy,
        target: None,
        place: Placement::Remote(RemoteSpec { url: url.to_string(), headers }),
        secrets,
        isolation: None,
        warnings,
        package: None,
        verified: None,
        origins,
    })
}

/// Refuses two values for one header: an exchanged token, and what each request gets anyway.
fn reject_duplicate_header<'a>(
    exchange: &ExchangeSpec,
    mut headers: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let name = exchange.header.as_deref().unwrap_or("Authorization");
    if !headers.any(|other| other.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let message =
        format!("the header `{name}` would be set twice: for an exchanged token, and for all requests");
    Err(Error::new(ErrorKind::InvalidOption, message).hint("name another with `token_exchange_header_name`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_owner_of_the_host_registered() {
        for (url, name) in [
            ("https://api.github.com/mcp", "github"),
            ("https://mcp.example.co.uk/", "example"),
            ("https://example.co.uk", "example"),
            ("https://x.co", "x-server"),
            ("https://localhost:8080/mcp", "localhost"),
            ("http://127.0.0.1:1/mcp", "remote-127-0-0-1"),
            ("http://[::1]:1/mcp", "remote-1"),
            ("http://[2001:db8::7]/mcp", "remote-2001-db8-7"),
            ("https://MCP.Example.COM./x", "example"),
        ] {
            assert_eq!(RemoteUrl::parse(url).unwrap().workload_name().as_str(), name, "{url}");
        }
    }

    #[test]
    fn the_url_keeps_path_and_query_without_the_fragment() {
        let url = RemoteUrl::parse("https://example.com/v1/mcp?key=secret#top").unwrap();
        assert_eq!(url.to_string(), "https://example.com/v1/mcp?key=secret");
        assert_eq!(url.redacted(), "https://example.com/v1/mcp");
        assert_eq!(url.path(), "/v1/mcp");
    }

    #[test]
    fn what_is_for_containers_is_named_as_the_table_names_it() {
        for name in CONTAINER_ONLY_OPTIONS {
            assert!(WorkloadOptions::spec(name).is_some(), "{name}");
        }
    }

    #[test]
    fn an_option_of_a_workload_is_for_containers_or_for_every_server() {
        // A new one is in neither list: is it used for a server that others run, or to be refused there?
        const FOR_EVERY_SERVER: [&str; 20] = [
            "server",
            "name",
            "group",
            "transport",
            "host",
            "proxy_port",
            "foreground",
            "from_config",
            "mcpm_ca_bundle",
            "endpoint_prefix",
            "trust_proxy_headers",
            "tools",
            "tools_override",
            "authz_config",
            "audit_config",
            "enable_audit",
            "debug",
            "allowed_origins",
            "allowed_hosts",
            "registry",
        ];
        let section = WorkloadOptions::spec("server").map(|spec| spec.section);
        for spec in WorkloadOptions::SPECS.iter().filter(|spec| Some(spec.section) == section) {
            let lists = [CONTAINER_ONLY_OPTIONS, &FOR_EVERY_SERVER].map(|list| list.contains(&spec.name));
            assert!(lists[0] != lists[1], "`{}` is in {lists:?}", spec.name);
        }
    }
}
