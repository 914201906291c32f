//! The resolved configuration of telemetry, and the checks of its options.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use http::HeaderName;
use serde::{Deserialize, Serialize};
use url::Url;

use super::otel_variables::ServiceVariables;
use crate::{
    Error, ErrorKind, Result,
    environment::Variables,
    options::{Header, OptionSet as _, OtlpProtocol, ProxyOptions, SharedOptions},
    printable::Printable as _,
    redact::url::{redact_url_text, split_scheme},
};

/// The configuration of telemetry. It does not contain the values of headers, so that it can be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySpec {
    /// The service name (`service.name`).
    pub service_name: String,
    /// Additional resource attributes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Whether legacy attribute names are recorded in addition to the current ones.
    pub legacy: bool,
    /// Whether `/metrics` is served on the port of the proxy.
    pub prometheus: bool,
    /// The port of 127.0.0.1 on which `/metrics` is served without authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus_port: Option<u16>,
    /// The export to a collector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp: Option<OtlpSpec>,
}

/// The configuration of the OTLP export.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtlpSpec {
    /// The URL of the collector.
    pub endpoint: String,
    /// The OTLP transport.
    pub protocol: OtlpProtocol,
    /// A file of certificates that are trusted in addition to the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<PathBuf>,
    /// Names of the headers of each request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Whether spans are exported.
    pub tracing: bool,
    /// Whether metrics are exported.
    pub metrics: bool,
    /// The fraction of traces started by this proxy whose spans are exported, from 0 to 1.
    pub sampling_rate: f64,
    /// Names of environment variables that each span includes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
}

/// The rate is never NaN, so equality is reflexive.
impl Eq for OtlpSpec {}

impl OtlpSpec {
    fn read(options: &SharedOptions, endpoint: &str, working_dir: &Path) -> Result<Self> {
        let insecure = options.otel_insecure.unwrap_or(false);
        let protocol = options.otel_protocol.unwrap_or(OtlpProtocol::Http);
        let endpoint = parse_endpoint(endpoint, insecure, protocol)?;
        let bundle = options.mcpm_ca_bundle.as_ref().filter(|_| speaks_tls(&endpoint));
        let sampling_rate =
            options.otel_sampling_rate.or_else(|| ProxyOptions::defaults().otel_sampling_rate);
        Ok(Self {
            ca_bundle: bundle.map(|path| working_dir.join(path)),
            endpoint,
            protocol,
            headers: names(&options.otel_headers)?,
            tracing: options.otel_tracing_enabled.unwrap_or(true),
            metrics: options.otel_metrics_enabled.unwrap_or(true),
            sampling_rate: sampling_rate.unwrap_or(0.0),
            variables: variables(&options.otel_env_vars)?,
        })
    }
}

/// The options that have no effect without an endpoint.
pub(crate) const OTLP_OPTIONS: [&str; 7] = [
    "otel_insecure",
    "otel_headers",
    "otel_env_vars",
    "otel_tracing_enabled",
    "otel_metrics_enabled",
    "otel_sampling_rate",
    "otel_protocol",
];
/// The options that have no effect without an endpoint or `/metrics`.
pub(crate) const SHARED_OPTIONS: [&str; 3] =
    ["otel_service_name", "otel_custom_attributes", "otel_use_legacy_attributes"];
/// The prefix of variables that may contain secrets of mcpm itself.
const RESERVED_PREFIX: &str = "MCPM_";

fn invalid_option(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, message.into())
}

/// Whether the endpoint uses TLS.
fn speaks_tls(endpoint: &str) -> bool {
    endpoint.starts_with("https:")
}

/// Parses the URL of the collector.
fn parse_endpoint(text: &str, insecure: bool, protocol: OtlpProtocol) -> Result<String> {
    let text = text.trim();
    let scheme = if insecure { "http" } else { "https" };
    let full = if split_scheme(text).is_some() { text.to_owned() } else { format!("{scheme}://{text}") };
    let shown = redact_url_text(&full);
    let form = match protocol {
        OtlpProtocol::Http => "use `https://HOST[:PORT][/PATH]`",
        OtlpProtocol::Grpc => "use `https://HOST[:PORT]`",
    };
    let bad = |why: &str| invalid_option(format!("`{shown}` is not a valid OTLP endpoint: {why}")).hint(form);
    let mut url = Url::parse(&full).map_err(|error| bad(&error.to_string()))?;
    match url.scheme() {
        "https" | "http" if insecure => url.set_scheme("http").map_err(|()| bad("it has no scheme"))?,
        "https" => {}
        "http" if crate::http_client::is_loopback_url(&url) => {}
        "http" => {
            return Err(invalid_option(format!("`{shown}` does not use `https`"))
                .hint("use `https`, or set `otel_insecure` to `true` for a collector without TLS"));
        }
        _ => return Err(bad("the scheme is neither `http` nor `https`")),
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad("it has no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it contains credentials").hint("send them with `otel_headers`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("it has a query or a fragment"));
    }
    if protocol == OtlpProtocol::Grpc && url.path() != "/" {
        return Err(
            bad("gRPC endpoints have no path").hint("leave out the path, or set `otel_protocol` to `http`")
        );
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Headers that belong to the protocol.
const RESERVED_HEADERS: [&str; 7] =
    ["connection", "content-encoding", "content-length", "content-type", "host", "te", "transfer-encoding"];

fn names(headers: &[Header]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for header in headers {
        let name: HeaderName = header.name.parse().map_err(|_| {
            invalid_option(format!("`{}` is not a valid header name", header.name.printable()))
        })?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(invalid_option(format!("the header `{name}` is reserved for HTTP or OTLP"))
                .with("option", "otel_headers"));
        }
        // gRPC treats these as binary.
        if name.as_str().ends_with("-bin") {
            return Err(invalid_option(format!(
                "the header `{name}` is not supported: gRPC headers whose names end in `-bin` have binary values"
            ))
            .with("option", "otel_headers"));
        }
        let name = name.to_string();
        if names.contains(&name) {
            return Err(invalid_option(format!("the OTLP header `{name}` is set twice")));
        }
        names.push(name);
    }
    Ok(names)
}

fn variables(names: &[String]) -> Result<Vec<String>> {
    let mut kept: Vec<String> = Vec::new();
    for name in names {
        let invalid = |why: &str| {
            Err(invalid_option(format!("`{}` cannot be included in spans: {why}", name.printable()))
                .with("option", "otel_env_vars"))
        };
        if name.is_empty() || name.contains(['=', '\0']) {
            return invalid("it is not a valid name of a variable");
        }
        if name.starts_with(RESERVED_PREFIX) {
            return invalid("variables that begin with `MCPM_` may contain secrets");
        }
        if !kept.contains(name) {
            kept.push(name.clone());
        }
    }
    Ok(kept)
}

fn service_name(configured: Option<&str>, name: &str) -> Result<String> {
    match configured {
        Some("") => Err(invalid_option("the service name is empty").with("option", "otel_service_name")),
        Some(configured) => Ok(configured.to_owned()),
        None => Ok(format!("mcpm-{name}")),
    }
}

fn attributes(list: Option<&crate::options::Attributes>) -> Result<BTreeMap<String, String>> {
    let mut attributes = BTreeMap::new();
    for entry in list.into_iter().flat_map(|list| &list.entries) {
        let (key, value) = (entry.key.trim().to_owned(), entry.value.trim().to_owned());
        if attributes.insert(key.clone(), value).is_some() {
            return Err(invalid_option(format!("the attribute `{key}` is set twice"))
                .with("option", "otel_custom_attributes"));
        }
    }
    Ok(attributes)
}

impl TelemetrySpec {
    /// Resolves the configuration for a server from options, with relative paths below `working_dir`; `None` if
    /// telemetry is off. `environment` contains OpenTelemetry's variables, over which options take precedence.
    ///
    /// # Errors
    /// `InvalidOption` for contradictory options and invalid values.
    pub(crate) fn read(
        options: &SharedOptions,
        name: &str,
        working_dir: &Path,
        environment: &Variables,
    ) -> Result<Option<Self>> {
        let prometheus = options.otel_enable_prometheus_metrics_path.unwrap_or(false);
        let otlp = options.otel_endpoint.as_deref();
        let otlp = otlp.map(|endpoint| OtlpSpec::read(options, endpoint, working_dir)).transpose()?;
        let prometheus_port = options.otel_prometheus_port;
        if !prometheus && prometheus_port.is_none() && otlp.is_none() {
            return Ok(None);
        }
        let of_service = ServiceVariables::from_variables(environment);
        let mut all = of_service.attributes;
        all.extend(attributes(options.otel_custom_attributes.as_ref())?);
        let configured = options.otel_service_name.as_deref().or(of_service.name.as_deref());
        let spec = Self {
            service_name: service_name(configured, name)?,
            attributes: all,
            legacy: options.otel_use_legacy_attributes.unwrap_or(true),
            prometheus,
            prometheus_port,
            otlp,
        };
        spec.check()?;
        Ok(Some(spec))
    }

    fn check(&self) -> Result<()> {
        let Some(otlp) = &self.otlp else { return Ok(()) };
        if !otlp.tracing && !otlp.metrics {
            return Err(invalid_option(
                "an OTLP endpoint is set, but neither traces nor metrics are exported",
            )
            .hint("omit `otel_endpoint`, `otel_tracing_enabled` or `otel_metrics_enabled`"));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
