//! Builds and starts the proxy that workloads, [`Proxy`](super::Proxy) and [`StdioProxy`](super::StdioProxy) use.
//!
//! [`ProxySetup`] checks a [`ProxySpec`] and has no side effects. Opening the setup returns a [`ProxyService`], with an
//! open audit log and running telemetry. Serving an endpoint with the service returns a [`RunningProxy`].

use std::{
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    Endpoint, ProxySecrets, ProxySpec, RunningProxy,
    external_url::ExternalUrlConfig,
    in_process::InProcessEndpoint,
    layers::{authenticate::Authenticator, origin::OriginCheck},
    listener,
    protected_resource::ProtectedResource,
    stack::Stack,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    audit::Audit,
    auth::{
        exchange::TokenExchanger,
        incoming::{IncomingSpec, TokenVerifier},
    },
    environment::Variables,
    explain::{self, DenialLog},
    options::Secret,
    policy::Policy,
    redact::{Redactor, hex},
    telemetry::{Telemetry, listed_headers},
};

/// How long a start waits for the issuer.
const ISSUER_TIMEOUT: Duration = Duration::from_secs(3);
/// The address on which metrics are served without authentication.
const METRICS_HOST: &str = "127.0.0.1";
/// The variable with headers for the collector (OpenTelemetry Protocol Exporter).
const OTLP_HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// A checked proxy configuration with its secrets. Nothing is open or running.
#[derive(Debug)]
pub(crate) struct ProxySetup {
    name: String,
    transport: &'static str,
    spec: ProxySpec,
    pub(super) secrets: ProxySecrets,
    variables: Variables,
    policy: Policy,
    incoming: Option<TokenVerifier>,
    exchange: Option<TokenExchanger>,
    masked: Vec<Secret>,
}

/// Files that a proxy writes, unless its spec names others.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The audit log; if `None`, events are written to standard output.
    pub(crate) audit: Option<PathBuf>,
    /// Recent denials; if `None`, they are kept only in memory.
    pub(crate) denials: Option<PathBuf>,
}

impl Files {
    /// The files of a proxy without a workload.
    pub(super) fn of_proxy(environment: Option<&Environment>, name: &str) -> Self {
        let denials = environment.map(|environment| denials_of_proxy(&environment.state_dir, name));
        Self { audit: None, denials }
    }
}

impl ProxySetup {
    /// Checks a spec. `name` is the server's name, for messages; `transport` is the transport to the server.
    ///
    /// # Errors
    /// `InvalidOption` for invalid values, and for a missing client secret.
    pub(crate) fn new(
        name: impl Into<String>,
        transport: &'static str,
        spec: ProxySpec,
        mut secrets: ProxySecrets,
        variables: Variables,
    ) -> Result<Box<Self>> {
        let name = name.into();
        let policy = spec.policy.policy(&name)?;
        let (mut incoming, mut exchange) = (None, None);
        if let Some(spec) = &spec.incoming {
            let secret = secrets.oidc_client_secret.clone();
            spec.check_secret(secret.as_ref())?;
            incoming = Some(TokenVerifier::new(spec.clone(), secret)?);
        }
        if let (Some(spec), Some(incoming)) = (&spec.exchange, &spec.incoming) {
            let secret = secrets.token_exchange_client_secret.clone();
            exchange = Some(TokenExchanger::new(spec.clone(), incoming.guard(), secret)?);
        }
        // A recorded spec contains only the names of headers; their values come from the environment variable.
        if let Some(text) = variables.get(OTLP_HEADERS).filter(|_| secrets.otel_headers.is_empty()) {
            let otlp = spec.telemetry.as_ref().and_then(|telemetry| telemetry.otlp.as_ref());
            let known = otlp.map(|otlp| otlp.headers.as_slice()).unwrap_or_default();
            secrets.otel_headers = listed_headers(text, known);
        }
        let masked = secrets.all().cloned().collect();
        // Boxed, because futures of starting a proxy contain it.
        Ok(Box::new(Self { name, transport, spec, secrets, variables, policy, incoming, exchange, masked }))
    }

    /// Adds secrets that are redacted in records.
    pub(crate) fn mask(mut self: Box<Self>, secrets: impl IntoIterator<Item = Secret>) -> Box<Self> {
        self.masked.extend(secrets);
        self
    }

    /// Opens the audit log and starts telemetry.
    ///
    /// # Errors
    /// `Io` if the audit log cannot be written; `InvalidOption` if telemetry cannot be started.
    pub(crate) fn open(self: Box<Self>, files: Files) -> Result<Box<ProxyService>> {
        let Self { name, transport, spec, secrets, variables, policy, incoming, exchange, masked } = *self;
        let recent = DenialLog::new(&*name, files.denials).masks(Redactor::new(masked.clone(), &[]));
        let audit = spec.audit.as_ref();
        let audit = audit.map(|spec| Audit::open(spec, &name, files.audit, masked)).transpose()?;
        let telemetry = spec.telemetry.as_ref();
        let telemetry = telemetry
            .map(|spec| Telemetry::start(spec, &secrets.otel_headers, &variables, &name, transport))
            .transpose()?;
        Ok(Box::new(ProxyService {
            name,
            transport,
            policy,
            incoming,
            exchange,
            denials: Arc::new(recent),
            audit,
            telemetry: telemetry.map(Arc::new),
            spec,
        }))
    }
}

/// Who can connect to a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Reachability {
    /// Everyone who can reach its port, and its own process.
    #[default]
    Port,
    /// Only its own process.
    InProcess,
}

/// The listeners of a service.
#[derive(Debug)]
pub(crate) struct Listeners {
    /// `None` for a proxy that only its own process uses.
    proxy: Option<TcpListener>,
    /// The address of the proxy; without a port, a loopback address with port 0.
    pub(crate) address: SocketAddr,
    metrics: Option<TcpListener>,
}

/// Everything in front of one server: authentication, policies, audit log and telemetry.
#[derive(Debug)]
pub(crate) struct ProxyService {
    pub(super) name: String,
    /// The transport to the server, as `/health` and telemetry report it.
    pub(super) transport: &'static str,
    pub(super) spec: ProxySpec,
    pub(super) policy: Policy,
    incoming: Option<TokenVerifier>,
    pub(super) exchange: Option<TokenExchanger>,
    pub(super) denials: Arc<DenialLog>,
    pub(super) audit: Option<Arc<Audit>>,
    pub(super) telemetry: Option<Arc<Telemetry>>,
}

impl ProxyService {
    /// Binds the addresses of the spec. `advice` is the hint if the proxy's port is in use.
    ///
    /// # Errors
    /// `PortTaken` if a port is in use; `InvalidOption` if the host is not an address of this machine.
    pub(crate) async fn bind(&self, reachability: Reachability, advice: &'static str) -> Result<Listeners> {
        let or_advise = |advice: &'static str| {
            move |error: Error| match error.kind() {
                ErrorKind::PortTaken => error.hint(advice),
                _ => error,
            }
        };
        let (proxy, address) = match reachability {
            Reachability::InProcess => (None, SocketAddr::from(([127, 0, 0, 1], 0))),
            Reachability::Port => {
                let proxy =
                    listener::bind(&self.spec.host, self.spec.port).await.map_err(or_advise(advice))?;
                let address = proxy.local_addr().map_err(|error| {
                    Error::new(ErrorKind::Io, "the listener has no address").source(error)
                })?;
                (Some(proxy), address)
            }
        };
        let metrics = match self.spec.telemetry.as_ref().and_then(|telemetry| telemetry.prometheus_port) {
            None => None,
            Some(port) => {
                let advice = "set `otel_prometheus_port` to another port";
                Some(listener::bind(METRICS_HOST, port).await.map_err(or_advise(advice))?)
            }
        };
        Ok(Listeners { proxy, address, metrics })
    }

    /// Recent denials.
    pub(crate) fn denials(&self) -> &Arc<DenialLog> {
        &self.denials
    }

    /// The audit log, if there is one.
    pub(crate) fn audit(&self) -> Option<&Arc<Audit>> {
        self.audit.as_ref()
    }

    /// Whether callers' tokens are exchanged.
    pub(crate) fn exchanges(&self) -> bool {
        self.exchange.is_some()
    }

    /// The configuration of the external URL.
    pub(crate) fn publicity(&self) -> ExternalUrlConfig {
        ExternalUrlConfig {
            prefix: self.spec.endpoint_prefix.clone(),
            trust_proxy_headers: self.spec.trust_proxy_headers,
        }
    }

    /// Returns warnings about who can use the server, and about an issuer that cannot be reached.
    pub(crate) async fn warnings(&self, address: SocketAddr) -> Vec<String> {
        let mut all = warnings(address.ip(), self.spec.incoming.as_ref());
        all.extend(Box::pin(issuer_warning(self.incoming.as_ref())).await);
        all
    }

    /// Serves an endpoint on a path, on the caller's runtime, until the handle is stopped or dropped. The handle
    /// contains the warnings.
    pub(crate) fn serve(
        mut self: Box<Self>,
        listeners: Listeners,
        path: &str,
        endpoint: Box<dyn Endpoint>,
        warnings: Vec<String>,
    ) -> RunningProxy {
        let Listeners { proxy: port, address, metrics } = listeners;
        let (name, host) = (self.name.clone(), self.spec.host.clone());
        let trusted = self.spec.trust_proxy_headers;
        let only_host = self.spec.allowed_hosts.first().cloned();
        let origin = OriginCheck::new(&host, address.ip().is_loopback(), self.spec.allowed_origins.clone())
            .only_hosts(self.spec.allowed_hosts.clone())
            .more_hosts(self.spec.more_hosts.clone())
            .authenticated(self.incoming.is_some());
        let authenticator = self.incoming.take().map(|incoming| {
            let explicit = incoming.spec().resource_url.clone();
            let resource = ProtectedResource::new(explicit, &host, address, path, self.publicity());
            Arc::new(Authenticator::new(incoming, resource, name.clone()))
        });
        let (recent, audit, telemetry) =
            (Arc::clone(&self.denials), self.audit.clone(), self.telemetry.clone());
        let stack = Arc::new(Stack::new(*self, origin, authenticator, endpoint));
        let stop = CancellationToken::new();
        let weak = Arc::downgrade(&stack);
        let authority = shown_authority(&host, address);
        let (url, shown_address) = match &port {
            Some(_) => (format!("http://{authority}{path}"), Some(address)),
            None => (String::new(), None),
        };
        let serving = listener::serve(port, stack, trusted, stop.clone());
        let task = match metrics.zip(telemetry.clone()) {
            None => tokio::spawn(serving),
            Some((listener, telemetry)) => {
                let origin = OriginCheck::new(METRICS_HOST, true, []);
                let stack = Arc::new(Stack::of_metrics(telemetry, origin, Arc::clone(&recent)));
                let metrics = listener::serve(Some(listener), stack, false, stop.clone());
                tokio::spawn(async { _ = tokio::join!(serving, metrics) })
            }
        };
        // Requests of clients in this process must pass the check of `Host`, whichever names are allowed.
        let in_process_authority = only_host.unwrap_or(authority);
        let listening = task.abort_handle();
        let task = Mutex::new(Some(task));
        RunningProxy {
            name,
            url,
            address: shown_address,
            warnings,
            recent,
            audit,
            stop,
            task,
            telemetry,
            listening,
            in_process: InProcessEndpoint::new(weak, in_process_authority, path.to_owned()),
        }
    }
}

/// Fetches the issuer's keys once, and returns a warning if that fails. The proxy starts nevertheless, because the
/// issuer may recover.
async fn issuer_warning(incoming: Option<&TokenVerifier>) -> Option<String> {
    let why = match tokio::time::timeout(ISSUER_TIMEOUT, Box::pin(incoming?.prefetch())).await {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no response within {} s", ISSUER_TIMEOUT.as_secs()),
    };
    Some(format!(
        "callers cannot be authenticated now, because a request to the identity provider failed: {why}"
    ))
}

/// Warnings about who can use a server behind a proxy that listens on this address.
fn warnings(ip: IpAddr, incoming: Option<&IncomingSpec>) -> Vec<String> {
    let Some(incoming) = incoming else {
        let reach =
            if ip.is_unspecified() { "every address of this machine".to_owned() } else { format!("`{ip}`") };
        let message = format!(
            "the proxy listens on {reach}: anyone who can reach it can use the server; require a login with \
             `oidc_issuer`"
        );
        return if ip.is_loopback() { Vec::new() } else { vec![message] };
    };
    incoming.warnings().map(str::to_owned).collect()
}

/// The file with the denials of a standalone proxy. The name may be any text; proxies with the same name share a
/// file.
fn denials_of_proxy(state_dir: &Path, name: &str) -> PathBuf {
    let sanitize = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let mut file: String = name.chars().take(64).map(sanitize).collect();
    if file != name || name.is_empty() {
        let mut digest = hex(ring::digest::digest(&ring::digest::SHA256, name.as_bytes()).as_ref());
        digest.truncate(16);
        file = format!("{file}_{digest}");
    }
    explain::proxy_log_dir(state_dir).join(format!("{file}.jsonl"))
}

/// How local clients write the address: the host of the spec, or an address that reaches it.
fn shown_authority(host: &str, address: SocketAddr) -> String {
    let port = address.port();
    if address.ip().is_unspecified() {
        // `0.0.0.0` is not a destination; from this machine loopback reaches it.
        return if address.is_ipv4() { format!("127.0.0.1:{port}") } else { format!("[::1]:{port}") };
    }
    match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(_) => address.to_string(),
        Err(_) => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn proxies_of_different_names_keep_their_denials_in_different_files() {
        let (long, longer) = ("a".repeat(100), "a".repeat(101));
        let names = ["a-b", "a_b", "a b", "a/b", "", "..", &long, &longer];
        let files: HashSet<PathBuf> =
            names.iter().map(|name| denials_of_proxy(Path::new("state"), name)).collect();
        assert_eq!(files.len(), names.len(), "{files:?}");
        assert!(files.contains(Path::new("state/refusals/a-b.jsonl")));
        assert!(files.iter().all(|file| file.parent() == Some(Path::new("state/refusals"))), "{files:?}");
    }
}
