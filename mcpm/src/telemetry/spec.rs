//! What is measured and where it goes, as the options say it, and which of these options go together.

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
};

/// What is measured. Values of headers are no part of it, so that it can be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySpec {
    /// What the service is called.
    pub service_name: String,
    /// What else is said of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Whether old names of attributes stand beside the new ones.
    pub legacy: bool,
    /// Whether `/metrics` is served on the port of the proxy.
    pub prometheus: bool,
    /// The port of 127.0.0.1 on which `/metrics` is served without authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus_port: Option<u16>,
    /// What is sent to a collector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub otlp: Option<OtlpSpec>,
}

/// What is sent to a collector, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtlpSpec {
    /// Where the collector is, with its scheme.
    pub endpoint: String,
    /// How it is spoken to.
    pub protocol: OtlpProtocol,
    /// Certificates that are trusted beside those of the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<PathBuf>,
    /// Names of the headers that each request to it carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Whether spans are sent.
    pub tracing: bool,
    /// Whether metrics are sent.
    pub metrics: bool,
    /// The share of traces, begun here, whose spans are sent.
    pub sampling_rate: f64,
    /// Names of the variables that each span carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
}

/// The rate is from 0 to 1, and so equal to itself.
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

/// What has no effect without an endpoint.
pub(crate) const OTLP_OPTIONS: [&str; 7] = [
    "otel_insecure",
    "otel_headers",
    "otel_env_vars",
    "otel_tracing_enabled",
    "otel_metrics_enabled",
    "otel_sampling_rate",
    "otel_protocol",
];
/// What has no effect without an endpoint or `/metrics`.
pub(crate) const SHARED_OPTIONS: [&str; 3] =
    ["otel_service_name", "otel_custom_attributes", "otel_use_legacy_attributes"];
/// Variables that may hold secrets of mcpm's own.
const RESERVED_PREFIX: &str = "MCPM_";

fn invalid_option(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOption, message.into())
}

/// Whether certificates concern an endpoint.
fn speaks_tls(endpoint: &str) -> bool {
    endpoint.starts_with("https:")
}

/// Reads where the collector is.
fn parse_endpoint(text: &str, insecure: bool, protocol: OtlpProtocol) -> Result<String> {
    // What stands before `@` is not repeated.
    let shown = text.rsplit_once('@').map_or(text, |(_, rest)| rest);
    let bad = |why: &str| {
        invalid_option(format!("`{}` is no OTLP endpoint: {why}", shown.escape_debug()))
            .hint("write `https://HOST[:PORT][/PATH]`")
    };
    let scheme = if insecure { "http" } else { "https" };
    let full = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
    let mut url = Url::parse(&full).map_err(|error| bad(&error.to_string()))?;
    match url.scheme() {
        "https" | "http" if insecure => url.set_scheme("http").map_err(|()| bad("it has no scheme"))?,
        "https" => {}
        "http" if crate::http_client::is_loopback_url(&url) => {}
        "http" => {
            return Err(invalid_option(format!("`{shown}` is not `https`"))
                .hint("use `https`, or set `otel_insecure` to `true` for a collector without TLS"));
        }
        _ => return Err(bad("the scheme is neither `http` nor `https`")),
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad("it names no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it holds credentials").hint("send them with `otel_headers`"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("it has a query or a fragment"));
    }
    if protocol == OtlpProtocol::Grpc && url.path() != "/" {
        return Err(bad("gRPC has no path"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Headers that are the protocol's own.
const RESERVED_HEADERS: [&str; 7] =
    ["connection", "content-encoding", "content-length", "content-type", "host", "te", "transfer-encoding"];

fn names(headers: &[Header]) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for header in headers {
        let name: HeaderName = header
            .name
            .parse()
            .map_err(|_| invalid_option(format!("`{}` is no header name", header.name.escape_debug())))?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(
                invalid_option(format!("the header `{name}` is OTLP's own")).with("option", "otel_headers")
            );
        }
        // gRPC has a binary form for these, and none of ours is.
        if name.as_str().ends_with("-bin") {
            return Err(
                invalid_option(format!("the header `{name}` would be binary")).with("option", "otel_headers")
            );
        }
        let name = name.to_string();
        if names.contains(&name) {
            return Err(invalid_option(format!("two OTLP headers are called `{name}`")));
        }
        names.push(name);
    }
    Ok(names)
}

fn variables(names: &[String]) -> Result<Vec<String>> {
    let mut kept: Vec<String> = Vec::new();
    for name in names {
        let refused = |why: &str| {
            Err(invalid_option(format!("`{}` cannot be part of spans: {why}", name.escape_debug()))
                .with("option", "otel_env_vars"))
        };
        if name.is_empty() || name.contains(['=', '\0']) {
            return refused("it is no name of a variable");
        }
        if name.starts_with(RESERVED_PREFIX) {
            return refused("mcpm takes secrets from such variables");
        }
        if !kept.contains(name) {
            kept.push(name.clone());
        }
    }
    Ok(kept)
}

fn service_name(given: Option<&str>, name: &str) -> Result<String> {
    match given {
        Some("") => Err(invalid_option("the service name is empty").with("option", "otel_service_name")),
        Some(given) => Ok(given.to_owned()),
        None => Ok(format!("mcpm-{name}")),
    }
}

fn attributes(given: Option<&crate::options::Attributes>) -> Result<BTreeMap<String, String>> {
    let mut attributes = BTreeMap::new();
    for entry in given.into_iter().flat_map(|given| &given.entries) {
        let (key, value) = (entry.key.trim().to_owned(), entry.value.trim().to_owned());
        if attributes.insert(key.clone(), value).is_some() {
            return Err(invalid_option(format!("the attribute `{key}` is there twice"))
                .with("option", "otel_custom_attributes"));
        }
    }
    Ok(attributes)
}

impl TelemetrySpec {
    /// Reads what is measured for the server of a name from options, with relative paths below `working_dir`; `None`
    /// when nothing is. `environment` has the variables of OpenTelemetry, over which options take precedence.
    ///
    /// # Errors
    /// `InvalidOption` for options that contradict each other and for values that cannot be used.
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
        let given = options.otel_service_name.as_deref().or(of_service.name.as_deref());
        let spec = Self {
            service_name: service_name(given, name)?,
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
                "there is an OTLP endpoint, and neither traces nor metrics are sent there",
            )
            .hint("leave out `otel_endpoint`, `otel_tracing_enabled` or `otel_metrics_enabled`"));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
