//! What stands in front of a server, read from options, and the secrets that it needs beside.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::layers::origin::check_hosts;
use crate::{
    Environment, Error, ErrorKind, Result,
    audit::{AuditOwner, AuditSpec},
    auth::{
        exchange::{ClientSecret, ExchangeSpec},
        incoming::IncomingSpec,
    },
    environment::Variables,
    options::{Header, ProxyMode, Secret, SharedOptions},
    policy::PolicySpec,
    telemetry::TelemetrySpec,
};

/// What stands in front of a server, as it is recorded: without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxySpec {
    /// Address or name to listen on.
    pub host: String,
    /// Port to listen on; 0 until a free one was taken, which then stays.
    pub port: u16,
    /// What clients of a stdio server are offered.
    pub mode: ProxyMode,
    /// Path prefix of SSE endpoint URLs.
    pub endpoint_prefix: Option<String>,
    /// Whether `X-Forwarded-*` headers are believed.
    pub trust_proxy_headers: bool,
    /// Origins of browser pages that may call it.
    pub allowed_origins: Vec<String>,
    /// Names that clients may call it by; empty leaves that to the address it listens on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_hosts: Vec<String>,
    /// Names that clients may call it by as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_hosts: Vec<String>,
    /// What callers are asked for; `None` lets everybody in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming: Option<IncomingSpec>,
    /// What callers' tokens are exchanged for, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangeSpec>,
    /// What callers may see and do.
    #[serde(default, skip_serializing_if = "PolicySpec::is_nothing")]
    pub policy: PolicySpec,
    /// What is recorded of requests; `None` records nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditSpec>,
    /// What is measured; `None` when nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetrySpec>,
}

impl Default for ProxySpec {
    /// Listens on 127.0.0.1 and a free port, lets all callers pass, records nothing and measures nothing.
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
            policy: PolicySpec::default(),
            audit: None,
            telemetry: None,
        }
    }
}

impl ProxySpec {
    /// Reads options without defaults, and the files that they name, with relative paths below `working_dir`, and returns
    /// the spec with its secrets. `name` is the server's. An environment gives client secrets that the options do not, and
    /// variables. Port, mode and prefix are left to the caller, since not all proxies have options for them, and so are
    /// the CA bundle and the [check](Self::check).
    ///
    /// # Errors
    /// `InvalidOption` for options that contradict each other and for values that cannot be used; `NotFound` or `Io`
    /// for a file that cannot be read.
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
        let mut spec = Self {
            host: options.host.clone().unwrap_or(usual.host),
            trust_proxy_headers: options.trust_proxy_headers.unwrap_or(usual.trust_proxy_headers),
            allowed_origins: options.allowed_origins.to_vec(),
            more_hosts: options.allowed_hosts.to_vec(),
            exchange: ExchangeSpec::read(options, incoming.as_ref(), working_dir)?,
            incoming,
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
        let mut secrets = ProxySecrets::from(options);
        if let Some(environment) = environment {
            secrets = secrets.or_from(environment, &spec);
        }
        if let Some(incoming) = &mut spec.incoming {
            incoming.has_secret = secrets.oidc_client_secret.is_some();
        }
        if let (Some(exchange), Some(_)) = (&mut spec.exchange, &secrets.token_exchange_client_secret) {
            exchange.client_secret = ClientSecret::Given;
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

    /// Checks what can be checked before anything is made for the proxy.
    ///
    /// # Errors
    /// `InvalidOption` says what cannot be used.
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
        Ok(())
    }

    /// Refuses what is neither an address nor a name. Whether it is one of this machine shows when it is bound.
    fn check_host(&self) -> Result<()> {
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '[' | ']' | '%');
        if !self.host.is_empty() && self.host.chars().all(allowed) {
            return Ok(());
        }
        let message = format!("invalid value `{}` for `host`: neither an address nor a name", self.host);
        Err(Error::new(ErrorKind::InvalidOption, message))
    }
}

/// Secrets of a proxy. They are not part of a [`ProxySpec`], which is recorded.
#[derive(Debug, Clone, Default)]
pub struct ProxySecrets {
    /// The client secret for introspection.
    pub oidc_client_secret: Option<Secret>,
    /// The client secret for token exchange.
    pub token_exchange_client_secret: Option<Secret>,
    /// Headers for the collector.
    pub otel_headers: Vec<Header>,
}

impl ProxySecrets {
    /// Adds the client secrets of an environment that the spec needs and that are not given.
    pub(crate) fn or_from(self, environment: &Environment, spec: &ProxySpec) -> Self {
        let introspects = spec.incoming.as_ref().is_some_and(IncomingSpec::uses_secret);
        let exchanges = spec.exchange.as_ref().is_some_and(ExchangeSpec::takes_secret);
        let oidc = environment.oidc_client_secret.as_ref().filter(|_| introspects);
        let exchange = environment.token_exchange_client_secret.as_ref().filter(|_| exchanges);
        Self {
            oidc_client_secret: self.oidc_client_secret.or_else(|| oidc.cloned()),
            token_exchange_client_secret: self.token_exchange_client_secret.or_else(|| exchange.cloned()),
            ..self
        }
    }

    /// Returns every secret, to keep it out of records.
    pub(super) fn all(&self) -> impl Iterator<Item = &Secret> {
        let clients = [&self.oidc_client_secret, &self.token_exchange_client_secret];
        clients.into_iter().flatten().chain(self.otel_headers.iter().map(|header| &header.value))
    }
}

impl From<&SharedOptions> for ProxySecrets {
    fn from(options: &SharedOptions) -> Self {
        Self {
            oidc_client_secret: options.oidc_client_secret.clone(),
            token_exchange_client_secret: options.token_exchange_client_secret.clone(),
            otel_headers: options.otel_headers.clone(),
        }
    }
}
