//! Builds and starts a standalone proxy.

use std::{path::Path, sync::Arc};

use url::Url;

use super::{
    ProxySpec, RunningProxy,
    forward::Forward,
    ineffective_options,
    remote::{remote_target, secret_headers},
    server_check::ExpectedServer,
    service::{Files, ProxySetup, Reachability},
    target::{MCP_PATH, Target},
};
use crate::{
    Environment, Error, ErrorKind, Result,
    audit::AuditOwner,
    auth::exchange,
    options::{OptionSet as _, ProxyOptions, SharedOptions},
    redact::url::redact_url,
};

/// The transport to the server, as `/health` and telemetry report it.
const TRANSPORT: &str = "http";

/// Builds a [`Proxy`] from options.
#[derive(Debug, Clone, Default)]
pub struct ProxyBuilder {
    pub(crate) options: ProxyOptions,
    environment: Option<Environment>,
    reachability: Reachability,
}

impl ProxyBuilder {
    /// Uses an environment. It provides client secrets and variables that the options do not set, and the state folder
    /// in which recent denials are recorded, so that [`explain()`](crate::explain()) finds them in other processes.
    /// Without an environment there are no such secrets and variables, and denials are kept only in memory.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Opens no port: only this process can use the server, with [`connect`](RunningProxy::connect).
    /// The host and the port are not used then.
    #[must_use]
    pub fn in_process_only(mut self) -> Self {
        self.reachability = Reachability::InProcess;
        self
    }

    /// Sets an option by name, with a value in text form, as on the command line.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown name or an invalid value.
    pub fn set(mut self, name: &str, text: &str) -> Result<Self> {
        self.options.set(name, text)?;
        Ok(self)
    }

    /// Checks the options and fills in the defaults. Reads the files that options name.
    ///
    /// # Errors
    /// `InvalidOption` for invalid, missing or contradictory options, `Unsupported` for features that are not
    /// implemented, `NotFound` or `Io` for a file that cannot be read.
    pub fn build(self) -> Result<Proxy> {
        self.options.check()?;
        let warnings = ineffective_options::warnings(&self.options);
        let required = |value: &Option<String>, name: &str| {
            value.clone().ok_or_else(|| Error::new(ErrorKind::InvalidOption, format!("`{name}` is required")))
        };
        let name = required(&self.options.server_name, "server_name")?;
        let target = required(&self.options.target_uri, "target_uri")?;
        // Relative paths are relative to the current folder of the process.
        let (folder, environment) = (Path::new(""), self.environment.as_ref());
        let given = SharedOptions::from(&self.options);
        let (spec, secrets) = ProxySpec::read(&given, &name, folder, AuditOwner::Proxy, environment)?;
        spec.check(&secrets)?;
        let headers = spec.forward_headers(&secrets)?;
        let spec = ProxySpec { port: self.options.port.unwrap_or(0), ..spec };
        let variables = environment.map(|environment| environment.variables.clone()).unwrap_or_default();
        let login = (spec.outgoing.clone(), secrets.outgoing.clone());
        let target = remote_target(&target, &self.options, headers, login, environment)?;
        Ok(Proxy {
            setup: ProxySetup::new(&*name, TRANSPORT, spec, secrets, variables)?,
            files: Files::of_proxy(environment, &name),
            target,
            environment: self.environment,
            reachability: self.reachability,
            options: Box::new(self.options.or(ProxyOptions::defaults())),
            warnings,
        })
    }
}

impl From<ProxyOptions> for ProxyBuilder {
    fn from(options: ProxyOptions) -> Self {
        Self { options, ..Self::default() }
    }
}

/// A proxy in front of an MCP server, ready to be started.
#[derive(Debug)]
pub struct Proxy {
    setup: Box<ProxySetup>,
    files: Files,
    target: Target,
    environment: Option<Environment>,
    reachability: Reachability,
    options: Box<ProxyOptions>,
    /// Options that have no effect.
    warnings: Vec<String>,
}

impl Proxy {
    /// Creates a builder. `server_name` is used in messages; `target_uri` is the server's URL.
    pub fn builder(server_name: impl Into<String>, target_uri: impl Into<String>) -> ProxyBuilder {
        ProxyBuilder::default().server_name(server_name).target_uri(target_uri)
    }

    /// Returns the options with all defaults filled in.
    pub fn options(&self) -> &ProxyOptions {
        &self.options
    }

    /// Starts to listen and forward, on the caller's tokio runtime, until the handle is stopped or dropped.
    ///
    /// # Errors
    /// `PortTaken` if the port is in use; `InvalidOption` if the host is not an address of this machine; `Io` if
    /// the audit log cannot be written; `LoginRequired` if the server requires a login and the environment has no user
    /// prompt, `Upstream` if the login fails; `NotFound` and `SecretsUnavailable` for secrets of headers.
    pub async fn start(mut self) -> Result<RunningProxy> {
        let named = &self.options.remote_forward_headers_secret;
        self.target.add_headers(secret_headers(named, self.environment.as_ref()).await?);
        if let Some(outgoing) = self.target.outgoing() {
            Box::pin(outgoing.prepare()).await?;
        }
        let service = self.setup.open(self.files)?;
        let listeners =
            service.bind(self.reachability, "set `port` to another, or to 0 for a free one").await?;
        let path = match self.target.path() {
            "/" => "/",
            _ => MCP_PATH,
        };
        let expected = ExpectedServer::at(&self.target, None);
        let endpoint = Forward::new(Arc::new(self.target), service.publicity(), expected);
        let mut warnings = service.warnings(listeners.address).await;
        warnings.extend(self.warnings);
        if service.exchanges()
            && let Some(uri) = self.options.target_uri.as_deref().and_then(|uri| Url::parse(uri).ok())
            && uri.scheme() != "https"
            && !crate::http_client::is_loopback_url(&uri)
        {
            warnings.push(exchange::plain_http_warning(&redact_url(&uri)));
        }
        for message in &warnings {
            tracing::warn!("{message}");
        }
        Ok(service.serve(listeners, path, Box::new(endpoint), warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Secret;

    #[test]
    fn an_environment_gives_the_client_secrets_that_the_options_do_not() {
        let secret = |text: &str| Some(Secret::from(text));
        let environment = Environment {
            oidc_client_secret: secret("from-environment"),
            token_exchange_client_secret: secret("exchange-from-environment"),
            ..Environment::from_lookup(|_| None)
        };
        let builder = || {
            let builder = Proxy::builder("p", "http://127.0.0.1:1/mcp").oidc_client_id("me");
            builder.oidc_introspection_url("https://id.example/ask")
        };
        let used = |builder: ProxyBuilder| {
            let secrets = builder.build().expect("a proxy").setup.secrets;
            [secrets.oidc_client_secret, secrets.token_exchange_client_secret]
                .map(|secret| secret.map(|secret| secret.expose().to_owned()))
        };
        assert_eq!(used(builder()), [None, None], "without an environment there is no secret");
        let [own, exchange] = used(builder().environment(environment.clone()));
        assert_eq!((own.as_deref(), exchange), (Some("from-environment"), None));
        let [own, _] = used(builder().oidc_client_secret("given").environment(environment.clone()));
        assert_eq!(own.as_deref(), Some("given"), "an option takes precedence");
        let exchanging = builder().environment(environment).token_exchange_url("https://id.example/token");
        let [_, exchange] = used(exchanging.token_exchange_client_id("me"));
        assert_eq!(exchange.as_deref(), Some("exchange-from-environment"));
    }
}
