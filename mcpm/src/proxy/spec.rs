//! The resolved configuration of a proxy, and its secrets.

use std::path::Path;

use http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::{added_headers::header_map, layers::origin::check_hosts, remote::read_outgoing};
use crate::{
    Environment, Error, ErrorKind, Result,
    audit::{AuditOwner, AuditSpec},
    auth::{
        SecretSource,
        exchange::ExchangeSpec,
        incoming::IncomingSpec,
        outgoing::{OutgoingSecrets, OutgoingSpec},
    },
    environment::Variables,
    options::{Header, ProxyMode, Secret, SharedOptions},
    policy::PolicySpec,
    telemetry::TelemetrySpec,
};

/// The configuration of a proxy, without secrets, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxySpec {
    /// Address or hostname to listen on.
    pub host: String,
    /// Port to listen on; 0 for a free port, which is then kept.
    pub port: u16,
    /// The transport that clients of a stdio server use.
    pub mode: ProxyMode,
    /// Path prefix of SSE endpoint URLs.
    pub endpoint_prefix: Option<String>,
    /// Whether `X-Forwarded-*` headers are trusted.
    pub trust_proxy_headers: bool,
    /// Origins of web pages that may call the proxy.
    pub allowed_origins: Vec<String>,
    /// Hostnames that clients may use; if empty, those of the listener's address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_hosts: Vec<String>,
    /// Additional hostnames that clients may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_hosts: Vec<String>,
    /// Incoming authentication; `None` allows all callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming: Option<IncomingSpec>,
    /// Token exchange; `None` forwards no tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangeSpec>,
    /// Authentication to a remote server; `None` if no option configures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outgoing: Option<OutgoingSpec>,
    /// Names of headers that are added to each request to a remote server; their values are not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forward_headers: Vec<String>,
    /// Tool filters, overrides and authorization.
    #[serde(default, skip_serializing_if = "PolicySpec::is_nothing")]
    pub policy: PolicySpec,
    /// The audit log; `None` records nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditSpec>,
    /// Telemetry; `None` measures nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetrySpec>,
}

impl Default for ProxySpec {
    /// Listens on 127.0.0.1 and a free port, without authentication, audit log and telemetry.
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            mode: ProxyMode::StreamableHttp,
            endpoint_prefix: None,
            trust_proxy_headers: false,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            more_hosts: Vec::new(),
            incoming: None,
            exchange: None,
            outgoing: None,
            forward_headers: Vec::new(),
            policy: PolicySpec::default(),
            audit: None,
            telemetry: None,
        }
    }
}

impl ProxySpec {
    /// Reads options without defaults, and the files that they name, with relative paths below `working_dir`, and
    /// returns the spec with its secrets. `name` is the name of the server. An environment provides variables, and
    /// client secrets that the options do not contain. The caller sets the port, the mode and the prefix, because not
    /// all proxies have options for them, and the CA bundle; it also calls [`check`](Self::check).
    ///
    /// # Errors
    /// `InvalidOption` for contradictory options and invalid values; `NotFound` or `Io` for a file that cannot be
    /// read.
    pub(crate) fn read(
        options: &SharedOptions,
        name: &str,
        working_dir: &Path,
        audit_of: AuditOwner,
        environment: Option<&Environment>,
    ) -> Result<(Self, ProxySecrets)> {
        let none = Variables::default();
        let variables = environment.map_or(&none, |environment| &environment.variables);
        let (usual, policies) = (Self::default(), options.authz_config.as_ref());
        let incoming = IncomingSpec::read(options, working_dir)?;
        let (outgoing, outgoing_secrets) = read_outgoing(options, working_dir, environment)?;
        let mut spec = Self {
            host: options.host.clone().unwrap_or(usual.host),
            trust_proxy_headers: options.trust_proxy_headers.unwrap_or(usual.trust_proxy_headers),
            allowed_origins: options.allowed_origins.to_vec(),
            more_hosts: options.allowed_hosts.to_vec(),
            exchange: ExchangeSpec::read(options, incoming.as_ref(), working_dir)?,
            incoming,
            outgoing,
            forward_headers: options
                .remote_forward_headers
                .iter()
                .map(|header| header.name.clone())
                .collect(),
            policy: PolicySpec::read(&options.tools, options.tools_override.as_ref(), policies, working_dir)?,
            audit: AuditSpec::read(
                options.enable_audit,
                options.audit_config.as_ref(),
                working_dir,
                audit_of,
            )?,
            telemetry: TelemetrySpec::read(options, name, working_dir, variables)?,
            ..usual
        };
        let mut secrets = ProxySecrets { outgoing: outgoing_secrets, ..ProxySecrets::from(options) };
        if let Some(environment) = environment {
            secrets = secrets.or_from(environment, &spec);
        }
        if let Some(incoming) = &mut spec.incoming {
            incoming.has_secret = secrets.oidc_client_secret.is_some();
        }
        if let (Some(exchange), Some(_)) = (&mut spec.exchange, &secrets.token_exchange_client_secret) {
            exchange.client_secret = SecretSource::Given;
        }
        Ok((spec, secrets))
    }

    /// Names the server in telemetry, unless the options or the environment name the service. Reads no file.
    ///
    /// # Errors
    /// `InvalidOption` for options of telemetry that cannot be used.
    pub(crate) fn with_server_name(
        self,
        options: &SharedOptions,
        name: &str,
        environment: &Environment,
    ) -> Result<Self> {
        let telemetry = TelemetrySpec::read(options, name, &environment.working_dir, &environment.variables)?;
        Ok(Self { telemetry, ..self })
    }

    /// Checks everything that can be checked before anything is created for the proxy.
    ///
    /// # Errors
    /// `InvalidOption` for configuration that cannot be used.
    pub(crate) fn check(&self, secrets: &ProxySecrets) -> Result<()> {
        self.check_host()?;
        check_hosts(&self.more_hosts)?;
        if let Some(incoming) = &self.incoming {
            incoming.check(secrets.oidc_client_secret.as_ref())?;
            incoming.check_exposure(&self.host, self.trust_proxy_headers)?;
            incoming.check_file()?;
        }
        if let Some(exchange) = &self.exchange {
            exchange.check(self.incoming.as_ref(), secrets.token_exchange_client_secret.as_ref())?;
            exchange.check_file()?;
        }
        if let Some(outgoing) = &self.outgoing {
            outgoing.check_secrets(&secrets.outgoing)?;
        }
        header_map(&secrets.forward_headers).map(drop)
    }

    /// Returns the headers that are added to each request to a remote server.
    ///
    /// # Errors
    /// `InvalidOption` for a header whose value was given when the workload was first started, and is not recorded.
    pub(crate) fn forward_headers(&self, secrets: &ProxySecrets) -> Result<HeaderMap> {
        let is_given = |name: &&String| {
            secrets.forward_headers.iter().any(|given| given.name.eq_ignore_ascii_case(name))
        };
        match self.forward_headers.iter().find(|name| !is_given(name)) {
            None => header_map(&secrets.forward_headers),
            Some(name) => {
                let message = format!(
                    "the value of the header `{name}` is missing; header values are not stored with the configuration"
                );
                Err(Error::new(ErrorKind::InvalidOption, message)
                    .hint("store it as a secret, and name the secret with `remote_forward_headers_secret`"))
            }
        }
    }

    /// Checks that the host is an address or a hostname. Whether it belongs to this machine is checked when it is
    /// bound.
    fn check_host(&self) -> Result<()> {
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '[' | ']' | '%');
        if !self.host.is_empty() && self.host.chars().all(allowed) {
            return Ok(());
        }
        let message =
            format!("invalid value `{}` for `host`: neither an IP address nor a hostname", self.host);
        Err(Error::new(ErrorKind::InvalidOption, message))
    }
}

/// The secrets of a proxy. They are not part of [`ProxySpec`], which is recorded.
#[derive(Debug, Clone, Default)]
pub struct ProxySecrets {
    /// The client secret for introspection.
    pub oidc_client_secret: Option<Secret>,
    /// The client secret for token exchange.
    pub token_exchange_client_secret: Option<Secret>,
    /// Headers of OTLP requests.
    pub otel_headers: Vec<Header>,
    /// The secrets of authentication to a remote server.
    pub outgoing: OutgoingSecrets,
    /// Headers that are added to each request to a remote server.
    pub forward_headers: Vec<Header>,
}

impl ProxySecrets {
    /// Adds client secrets of an environment that the spec needs and that are not set.
    pub(crate) fn or_from(self, environment: &Environment, spec: &ProxySpec) -> Self {
        let introspects = spec.incoming.as_ref().is_some_and(IncomingSpec::uses_secret);
        let exchanges = spec.exchange.as_ref().is_some_and(ExchangeSpec::takes_secret);
        let oidc = environment.oidc_client_secret.as_ref().filter(|_| introspects);
        let exchange = environment.token_exchange_client_secret.as_ref().filter(|_| exchanges);
        Self {
            oidc_client_secret: self.oidc_client_secret.or_else(|| oidc.cloned()),
            token_exchange_client_secret: self.token_exchange_client_secret.or_else(|| exchange.cloned()),
            outgoing: self.outgoing.or_from(environment, spec.outgoing.as_ref()),
            ..self
        }
    }

    /// Returns all secrets, to redact them in records.
    pub(super) fn all(&self) -> impl Iterator<Item = &Secret> {
        let clients = [&self.oidc_client_secret, &self.token_exchange_client_secret];
        let outgoing = [&self.outgoing.client_secret, &self.outgoing.bearer_token];
        let headers = self.otel_headers.iter().chain(&self.forward_headers).map(|header| &header.value);
        clients.into_iter().chain(outgoing).flatten().chain(headers)
    }
}

impl From<&SharedOptions> for ProxySecrets {
    fn from(options: &SharedOptions) -> Self {
        Self {
            oidc_client_secret: options.oidc_client_secret.clone(),
            token_exchange_client_secret: options.token_exchange_client_secret.clone(),
            otel_headers: options.otel_headers.clone(),
            outgoing: OutgoingSecrets::from(options),
            forward_headers: options.remote_forward_headers.clone(),
        }
    }
}
