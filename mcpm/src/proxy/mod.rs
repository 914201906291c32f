//! One HTTP proxy in front of one MCP server.
//!
//! [`listener`] takes connections, [`stack`] runs each request through the [`layers`], and at the end stands
//! [`forward`] for a server that speaks HTTP or [`bridge`] for one on a pipe. [`Proxy`] is the proxy alone, in
//! front of any target; a workload starts the same stack.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    net::TcpListener,
    task::{AbortHandle, JoinHandle},
};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::{
    Environment, Error, ErrorKind, Result,
    audit::{Audit, AuditOf, AuditSpec},
    auth::{
        exchange::{self, AskedOfExchange as _, Exchange},
        incoming::{AskedOfCallers as _, Incoming, IncomingSpec},
    },
    environment::Variables,
    explain::{self, Explanation, Recent},
    options::{OptionSet as _, ProxyOptions, Secret},
    policy::{Policy, PolicySpec},
    redact::{Masks, hex},
    shown::shown,
    state::Phase,
    telemetry::{AskedOfTelemetry as _, Telemetry, TelemetrySpec},
    transport::{http::is_this_machine, tls::TrustStore},
};

/// How long a start waits for the issuer.
const ISSUER_TIMEOUT: Duration = Duration::from_secs(3);

mod admission;
pub(crate) mod bridge;
pub(crate) mod denial;
mod endpoint_event;
mod expiring;
pub(crate) mod forward;
mod hop_by_hop;
mod last_seen;
mod layer;
pub(crate) mod layers;
pub(crate) mod listener;
mod looks;
pub(crate) mod messages;
mod mirror;
mod owners;
mod port_holder;
pub(crate) mod public;
mod refusal;
mod reopen;
pub(crate) mod resource;
pub(crate) mod respond;
pub(crate) mod server_check;
mod sessions;
pub(crate) mod stack;
pub(crate) mod stdio;
pub(crate) mod target;
mod trail;
mod trail_call;
mod untaken;
pub(crate) mod without_effect;

use forward::Forward;
pub(crate) use last_seen::LastExchange;
pub(crate) use layer::{Answer, Endpoint};
pub(crate) use layers::origin::check_hosts;
use layers::{authenticate::Gate, origin::Origin};
use public::Publicity;
use resource::Resource;
use server_check::{Expected, Passed};
use stack::Stack;
pub use stdio::{RunningStdioProxy, StdioProxy};
use target::{MCP_PATH, Target};

/// How a plain proxy reaches its server, in words.
const TRANSPORT: &str = "http";

/// Collects the options of a [`Proxy`].
#[derive(Debug, Clone, Default)]
pub struct ProxyBuilder {
    pub(crate) options: ProxyOptions,
    environment: Option<Environment>,
}

impl ProxyBuilder {
    /// Takes client secrets that the options do not give, and variables that they name, from an environment, and keeps
    /// the last denials below its state folder, where [`explain()`](crate::explain()) finds them in other processes.
    /// Without an environment there are neither, and denials are kept in memory alone.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sets an option by name, spelled as on a command line.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown name or a bad value.
    pub fn set(mut self, name: &str, text: &str) -> Result<Self> {
        self.options.set(name, text)?;
        Ok(self)
    }

    /// Checks the options and fills the defaults.
    ///
    /// # Errors
    /// `InvalidOption` for bad, missing or contradicting options, `Unsupported` for features not built yet.
    pub fn build(mut self) -> Result<Proxy> {
        self.options.check()?;
        let warnings = without_effect::warnings(&self.options);
        let variables = match &self.environment {
            Some(environment) => {
                add_secrets(&mut self.options, environment);
                environment.variables.clone()
            }
            None => Variables::default(),
        };
        // Relative paths are those of the process, which has no other folder here.
        let incoming = self.options.incoming(Path::new(""))?;
        let client_secret = self.options.oidc_client_secret.clone();
        let exchange = self.options.exchange(incoming.as_ref(), false, Path::new(""))?;
        let exchange_secret = self.options.token_exchange_client_secret.clone();
        let headers = self.options.otel_headers.iter().map(|header| header.value.clone());
        let secrets: Vec<Secret> =
            [&client_secret, &exchange_secret].into_iter().flatten().cloned().chain(headers).collect();
        let given = self.options.enable_audit.is_some();
        let options = self.options.or(ProxyOptions::defaults());
        let required = |value: &Option<String>, name: &str| {
            value.clone().ok_or_else(|| Error::new(ErrorKind::InvalidOption, format!("`{name}` is required")))
        };
        if let Some(incoming) = &incoming {
            let host = options.host.as_deref().unwrap_or_default();
            incoming.check_secret(client_secret.as_ref())?;
            incoming.check_reach(host, options.trust_proxy_headers.unwrap_or(false))?;
        }
        check_hosts(&options.allowed_hosts)?;
        let name = required(&options.server_name, "SERVER_NAME")?;
        let trust = TrustStore::with_bundle(options.mcpm_ca_bundle.as_deref())?;
        let target = Target::trusting(&required(&options.target_uri, "--target-uri")?, trust)?;
        let policy = PolicySpec::read(
            &options.tools,
            options.tools_override.as_ref(),
            options.authz_config.as_ref(),
            Path::new(""),
        )?;
        let audit = AuditSpec::read(
            options.enable_audit.filter(|_| given),
            options.audit_config.as_ref(),
            Path::new(""),
            AuditOf::Proxy,
        )?;
        let guard = incoming.as_ref().map(IncomingSpec::guard).unwrap_or_default();
        let telemetry = options.telemetry(&name, Path::new(""), &variables)?;
        Ok(Proxy {
            audit,
            exchange: exchange.map(|spec| Exchange::new(spec, guard, exchange_secret)).transpose()?,
            telemetry,
            variables,
            incoming: incoming.map(|spec| Incoming::new(spec, client_secret)).transpose()?,
            policy: policy.policy(&name)?,
            recent: Arc::new(
                Recent::new(
                    &*name,
                    self.environment.map(|environment| refusals(&environment.state_dir, &name)),
                )
                .masks(Masks::new(secrets.clone(), &[])),
            ),
            secrets,
            name,
            target,
            options,
            warnings,
        })
    }
}

impl From<ProxyOptions> for ProxyBuilder {
    fn from(options: ProxyOptions) -> Self {
        Self { options, ..Self::default() }
    }
}

/// A proxy in front of an MCP server, ready to start.
#[derive(Debug)]
pub struct Proxy {
    name: String,
    target: Target,
    incoming: Option<Incoming>,
    exchange: Option<Exchange>,
    policy: Policy,
    recent: Arc<Recent>,
    /// What no record may hold.
    secrets: Vec<Secret>,
    audit: Option<AuditSpec>,
    telemetry: Option<TelemetrySpec>,
    variables: Variables,
    options: ProxyOptions,
    /// What was asked and has no effect.
    warnings: Vec<String>,
}

impl Proxy {
    /// Starts from the name of the server, for messages, and the URI of the target.
    pub fn builder(server_name: impl Into<String>, target_uri: impl Into<String>) -> ProxyBuilder {
        ProxyBuilder::default().server_name(server_name).target_uri(target_uri)
    }

    /// Returns what was asked for, with every default filled in.
    pub fn options(&self) -> &ProxyOptions {
        &self.options
    }

    /// Listens and forwards, on the runtime of the caller, until the handle is stopped or dropped.
    ///
    /// # Errors
    /// `PortTaken` when the port is in use; `InvalidOption` for a host that is no address of this machine; `Io` when the
    /// audit log cannot be written.
    pub async fn start(self) -> Result<RunningProxy> {
        let open = |spec| Audit::open(spec, &self.name, None, self.secrets);
        let audit = self.audit.as_ref().map(open).transpose()?;
        let host = self.options.host.as_deref().unwrap_or("127.0.0.1");
        let listener =
            listener::bind(host, self.options.port.unwrap_or(0)).await.map_err(|error| {
                match error.kind() {
                    ErrorKind::PortTaken => error.hint("set `port` to another, or to 0 for a free one"),
                    _ => error,
                }
            })?;
        let telemetry = match &self.telemetry {
            Some(spec) => {
                let headers = &self.options.otel_headers;
                Some(Telemetry::start(spec, headers, &self.variables, &self.name, TRANSPORT)?)
            }
            None => None,
        };
        let path = match self.target.path() {
            "/" => "/",
            _ => MCP_PATH,
        };
        if self.exchange.is_some()
            && let Some(uri) = self.options.target_uri.as_deref().and_then(|uri| Url::parse(uri).ok())
            && uri.scheme() != "https"
            && !is_this_machine(&uri)
        {
            tracing::warn!("{}", exchange::shown_on_the_way(&shown(&uri)));
        }
        let expected = Expected::at(&self.target, None);
        let target = Arc::new(self.target);
        let trusted = self.options.trust_proxy_headers.unwrap_or(false);
        let publicity = Publicity { prefix: None, trusted };
        let served = Served {
            host,
            path,
            transport: TRANSPORT,
            allowed_origins: self.options.allowed_origins.to_vec(),
            allowed_hosts: Vec::new(),
            more_hosts: self.options.allowed_hosts.to_vec(),
            policy: self.policy,
            recent: self.recent,
            audit,
            telemetry,
            incoming: self.incoming,
            exchange: self.exchange,
            publicity: publicity.clone(),
            endpoint: Box::new(Forward::new(target, publicity, expected)),
        };
        let issuer = issuer_warning(served.incoming.as_ref()).await;
        for message in served.warnings(&listener).into_iter().chain(issuer).chain(self.warnings) {
            tracing::warn!("{message}");
        }
        RunningProxy::serve(self.name.clone(), listener, served)
    }
}

/// What a running proxy serves.
pub(crate) struct Served<'a> {
    /// What was asked to be listened on.
    pub(crate) host: &'a str,
    /// Path of the server on the proxy.
    pub(crate) path: &'a str,
    pub(crate) transport: &'static str,
    pub(crate) allowed_origins: Vec<String>,
    /// Names that clients may call it by; empty leaves that to the address.
    pub(crate) allowed_hosts: Vec<String>,
    /// Names that clients may call it by as well.
    pub(crate) more_hosts: Vec<String>,
    /// Who is let in; `None` lets everybody.
    pub(crate) incoming: Option<Incoming>,
    /// What callers' tokens are exchanged for, if they are.
    pub(crate) exchange: Option<Exchange>,
    /// How clients see it.
    pub(crate) publicity: Publicity,
    /// What callers may see and do.
    pub(crate) policy: Policy,
    /// Where refusals are kept.
    pub(crate) recent: Arc<Recent>,
    /// Where requests are recorded; `None` records nothing.
    pub(crate) audit: Option<Arc<Audit>>,
    /// What is measured, if anything is.
    pub(crate) telemetry: Option<Telemetry>,
    pub(crate) endpoint: Box<dyn Endpoint>,
}

impl Served<'_> {
    /// What is to be known of who can use the server.
    pub(crate) fn warnings(&self, listener: &TcpListener) -> Vec<String> {
        let ip = listener.local_addr().map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip());
        warnings(ip, self.incoming.as_ref().map(Incoming::spec))
    }
}

/// Asks the issuer once, for a short time, and says what is wrong with it. The start goes on all the same: it may come
/// back.
pub(crate) async fn issuer_warning(incoming: Option<&Incoming>) -> Option<String> {
    let why = match tokio::time::timeout(ISSUER_TIMEOUT, Box::pin(incoming?.prefetch())).await {
        Ok(Ok(())) => return None,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", ISSUER_TIMEOUT.as_secs()),
    };
    Some(format!("no caller can be authenticated now, since the issuer's keys cannot be fetched: {why}"))
}

/// What is to be known of who can use a server behind a proxy that listens there.
pub(crate) fn warnings(ip: IpAddr, incoming: Option<&IncomingSpec>) -> Vec<String> {
    let Some(incoming) = incoming else {
        let reach =
            if ip.is_unspecified() { "every address of this machine".to_owned() } else { format!("`{ip}`") };
        let message = format!(
            "the proxy listens on {reach}: whoever reaches it can use the server without a login; ask callers who \
             they are with `--oidc-issuer`"
        );
        return if ip.is_loopback() { Vec::new() } else { vec![message] };
    };
    incoming.warnings().map(str::to_owned).collect()
}

/// A proxy that listens. Dropping it stops it.
///
/// Unlike a workload it has no logs and no events, since it starts no server that could write, end or be started
/// again; what it refuses can be [explained](Self::explain). It cannot be detached: it is a task of this process and
/// nothing else, so whoever wants it to go on keeps the handle.
#[derive(Debug)]
pub struct RunningProxy {
    name: String,
    url: String,
    address: SocketAddr,
    recent: Arc<Recent>,
    audit: Option<Arc<Audit>>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
    telemetry: Option<Arc<Telemetry>>,
    /// The same task, to look at while somebody waits for its end.
    listening: AbortHandle,
    /// Gone once the proxy has stopped.
    stack: Weak<Stack>,
}

impl RunningProxy {
    pub(crate) fn serve(name: String, listener: TcpListener, served: Served<'_>) -> Result<Self> {
        let address = listener
            .local_addr()
            .map_err(|error| Error::new(ErrorKind::Io, "the listener has no address").source(error))?;
        let names_origins = !served.allowed_origins.is_empty();
        let origin = Origin::new(served.host, address.ip().is_loopback(), served.allowed_origins)
            .only_hosts(served.allowed_hosts)
            .more_hosts(served.more_hosts)
            .authenticated(served.incoming.is_some());
        let trusted = served.publicity.trusted;
        let gate = served.incoming.map(|incoming| {
            let explicit = incoming.spec().resource_url.clone();
            let resource = Resource::new(explicit, served.host, address, served.path, served.publicity);
            Arc::new(Gate::new(incoming, resource, name.clone()))
        });
        let (recent, audit) = (Arc::clone(&served.recent), served.audit.clone());
        let telemetry = served.telemetry.map(Arc::new);
        let settings = stack::Settings {
            names_origins,
            origin,
            transport: served.transport,
            gate,
            exchange: served.exchange,
            policy: served.policy,
            recent: served.recent,
            trusted,
            audit: served.audit,
            telemetry: telemetry.clone(),
        };
        let stack = Arc::new(Stack::new(settings, served.endpoint));
        let stop = CancellationToken::new();
        let weak = Arc::downgrade(&stack);
        let task = tokio::spawn(listener::serve(listener, stack, trusted, stop.clone()));
        let url = format!("http://{}{}", shown_authority(served.host, address), served.path);
        let listening = task.abort_handle();
        let task = Mutex::new(Some(task));
        Ok(Self { name, url, address, recent, audit, stop, task, telemetry, listening, stack: weak })
    }

    /// Returns the name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns where clients find the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address the proxy listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Checks with one MCP exchange whether the target is an MCP server, and returns what there is to say of one that
    /// passes, such as that it asks for a login.
    ///
    /// The proxy needs no target that is up, so this is not part of the start.
    ///
    /// # Errors
    /// `StartFailed` says what was found instead.
    pub async fn check(&self) -> Result<Option<String>> {
        let Some(stack) = self.stack.upgrade() else { return Ok(None) };
        match stack.check().await {
            Ok(Passed::Mcp) => Ok(None),
            Ok(Passed::NeedsLogin(status)) => {
                Ok(Some(format!("the target asks for a login ({})", status.as_u16())))
            }
            Ok(Passed::Redirects(to)) => {
                Ok(Some(format!("the target redirects to `{to}`, where clients may go past the proxy")))
            }
            Err(finding) => Err(finding.error("the target")),
        }
    }

    /// Explains the id of a reason, or of one of the last 256 refusals of this proxy.
    ///
    /// # Errors
    /// `NotFound` for an id that is neither.
    pub fn explain(&self, id: &str) -> Result<Explanation> {
        explain::explain_recent(id, &self.recent)
    }

    /// Returns where it is in its life, in the words of a workload.
    ///
    /// It is `Running` as long as it listens, whether or not its target answers; of that `/health` tells. It is
    /// `Stopping` while answers under way finish.
    pub fn status(&self) -> Phase {
        match (self.stop.is_cancelled(), self.listening.is_finished()) {
            (false, false) => Phase::Running,
            (true, false) => Phase::Stopping,
            // Also when its runtime was shut down.
            (_, true) => Phase::Stopped,
        }
    }

    /// Tells whether the proxy still listens.
    pub fn is_running(&self) -> bool {
        self.status() == Phase::Running
    }

    /// Stops listening and lets answers under way finish for up to 2 s; then sends the last telemetry, for up to 3 s.
    pub async fn stop(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A listener that panicked listens no more.
            let _ = task.await;
        }
        self.flush().await;
        if let Some(telemetry) = &self.telemetry {
            telemetry.stop().await;
        }
    }

    /// Waits until what was recorded is written: what a server does on its way down is, too.
    pub(crate) async fn flush(&self) {
        if let Some(audit) = &self.audit {
            audit.flush().await;
        }
        self.recent.flush().await;
    }

    /// Waits until the proxy was stopped.
    pub async fn wait(&self) {
        self.stop.cancelled().await;
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Adds the client secrets that the options do not give. What an option gives takes precedence.
fn add_secrets(options: &mut ProxyOptions, environment: &Environment) {
    if options.oidc_client_id.is_some() && options.oidc_client_secret.is_none() {
        options.oidc_client_secret.clone_from(&environment.oidc_client_secret);
    }
    if options.token_exchange_client_id.is_some()
        && options.token_exchange_client_secret.is_none()
        && options.token_exchange_client_secret_file.is_none()
    {
        options.token_exchange_client_secret.clone_from(&environment.token_exchange_client_secret);
    }
}

/// Where a proxy keeps its refusals. Its name may be any text; those of one name have one file.
fn refusals(state_dir: &Path, name: &str) -> PathBuf {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let mut file: String = name.chars().take(64).map(kept).collect();
    if file != name || name.is_empty() {
        let mut digest = hex(ring::digest::digest(&ring::digest::SHA256, name.as_bytes()).as_ref());
        digest.truncate(16);
        file = format!("{file}_{digest}");
    }
    explain::folder_of_proxies(state_dir).join(format!("{file}.jsonl"))
}

/// How clients on this machine write the address: the name that was asked for, or one that reaches it.
fn shown_authority(host: &str, address: SocketAddr) -> String {
    let port = address.port();
    if address.ip().is_unspecified() {
        // Nobody can call `0.0.0.0`; from this machine loopback reaches it.
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
        let used = |proxy: Proxy| proxy.options.oidc_client_secret.map(|secret| secret.expose().to_owned());
        assert_eq!(
            used(builder().build().expect("a proxy")),
            None,
            "without an environment there is no secret"
        );
        let proxy = builder().environment(environment.clone()).build().expect("a proxy");
        assert_eq!(used(proxy).as_deref(), Some("from-environment"));
        let proxy = builder().oidc_client_secret("given").environment(environment.clone()).build();
        assert_eq!(used(proxy.expect("a proxy")).as_deref(), Some("given"), "an option takes precedence");
        let exchanging = builder().environment(environment).token_exchange_url("https://id.example/token");
        let proxy = exchanging.token_exchange_client_id("me").build().expect("a proxy");
        let used = proxy.options.token_exchange_client_secret;
        assert_eq!(used.as_ref().map(Secret::expose), Some("exchange-from-environment"));
    }

    #[test]
    fn proxies_of_different_names_keep_their_refusals_in_different_files() {
        let (long, longer) = ("a".repeat(100), "a".repeat(101));
        let names = ["a-b", "a_b", "a b", "a/b", "", "..", &long, &longer];
        let files: HashSet<PathBuf> = names.iter().map(|name| refusals(Path::new("state"), name)).collect();
        assert_eq!(files.len(), names.len(), "{files:?}");
        assert!(files.contains(Path::new("state/refusals/a-b.jsonl")));
        assert!(files.iter().all(|file| file.parent() == Some(Path::new("state/refusals"))), "{files:?}");
    }
}
