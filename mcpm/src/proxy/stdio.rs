//! Runs a stdio server behind an HTTP proxy.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use super::{
    ProxySecrets, ProxySpec, RunningProxy,
    bridge::Bridge,
    external_url::ExternalUrlConfig,
    service::{Files, ProxySetup, Reachability},
    target::{MCP_PATH, SSE_PATH},
};
use crate::{
    Environment, Result,
    environment::Variables,
    options::ProxyMode,
    stdio::{
        OnEvent, RestartPolicy, ServerEvent, Spawn,
        mux::MuxLimits,
        process_pool::{PoolConfig, ProcessPool},
        router::Router,
    },
};

/// How long pending calls may still complete when the proxy stops; then they are rejected.
const CALL_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of the sweep for unused sessions and processes.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum number of processes of one server.
const MAX_PROCESSES: usize = 8;
/// The transport to the server, as it is reported.
const TRANSPORT: &str = "stdio";
/// Default timeout for a server's first response.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(60);

/// The processes of a stdio server and their clients. Dropping it kills them without a grace period.
#[derive(Debug)]
pub(crate) struct StdioServer {
    pool: Arc<ProcessPool>,
    router: Arc<Router>,
    sweeper: JoinHandle<()>,
}

impl StdioServer {
    /// Starts the first process and waits until it responds.
    pub(crate) async fn start(
        spawn: Arc<dyn Spawn>,
        policy: RestartPolicy,
        start_timeout: Duration,
        on_event: OnEvent,
    ) -> Result<Self> {
        // Clients wait a little longer for a process than it may take to respond.
        let start = start_timeout.saturating_add(Duration::from_secs(15));
        let limits = MuxLimits { start_timeout: start, ..MuxLimits::default() };
        let settings = PoolConfig {
            spawn,
            policy,
            ready_timeout: start_timeout,
            limits,
            max_processes: MAX_PROCESSES,
            on_event,
        };
        let keepers = ProcessPool::new(settings);
        let first = keepers.start_first().await?;
        let router = Arc::new(Router::new(first, Arc::clone(&keepers) as _, limits));
        let swept = Arc::clone(&router);
        let sweeper = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SWEEP_INTERVAL);
            loop {
                ticks.tick().await;
                swept.sweep(Instant::now());
            }
        });
        Ok(Self { pool: keepers, router, sweeper })
    }

    /// The HTTP endpoint for this server.
    pub(crate) fn bridge(&self, mode: ProxyMode, publicity: ExternalUrlConfig) -> Bridge {
        Bridge::new(Arc::clone(&self.router), mode, publicity)
    }

    /// Stops all processes.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.pool.stop(grace).await;
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        self.sweeper.abort();
        // Connections of clients may outlive this value briefly and keep the process pool alive.
        self.pool.abort();
    }
}

/// Puts a stdio server, which the caller defines, behind an HTTP proxy.
///
/// Workloads do this with containers; use it for other processes.
#[derive(Debug)]
#[must_use = "nothing happens until it is started"]
pub struct StdioProxy {
    name: String,
    spawn: Arc<dyn Spawn>,
    policy: RestartPolicy,
    start_timeout: Duration,
    spec: ProxySpec,
    secrets: ProxySecrets,
    environment: Option<Environment>,
    reachability: Reachability,
}

impl StdioProxy {
    /// Creates it. `name` is the server's, for messages; `spawn` starts its processes.
    pub fn new(name: impl Into<String>, spawn: impl Spawn + 'static) -> Self {
        Self {
            name: name.into(),
            spawn: Arc::new(spawn),
            policy: RestartPolicy::default(),
            start_timeout: DEFAULT_START_TIMEOUT,
            spec: ProxySpec::default(),
            secrets: ProxySecrets::default(),
            environment: None,
            reachability: Reachability::Port,
        }
    }

    /// Sets the address to listen on; 127.0.0.1 and a free port by default.
    pub fn listen(mut self, host: impl Into<String>, port: u16) -> Self {
        self.spec.host = host.into();
        self.spec.port = port;
        self
    }

    /// Opens no port: only this process can use the server, with [`connect`](RunningProxy::connect).
    /// The host and the port are not used then.
    pub fn in_process_only(mut self) -> Self {
        self.reachability = Reachability::InProcess;
        self
    }

    /// Sets the transport for clients; streamable HTTP by default.
    pub fn mode(mut self, mode: ProxyMode) -> Self {
        self.spec.mode = mode;
        self
    }

    /// Sets the restart policy.
    pub fn restarts(mut self, policy: RestartPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the timeout for a process's first response; 60 s by default.
    ///
    /// In the first half of it, at most 5 s, only `server/discover` is sent; if there is no response, `initialize`
    /// follows. The same applies to later starts: restarts, and processes for other clients.
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Sets the configuration of the proxy; by default there is no authentication, audit log and telemetry.
    pub fn spec(mut self, spec: ProxySpec) -> Self {
        self.spec = spec;
        self
    }

    /// Sets the secrets that the [`spec`](Self::spec) needs; none by default.
    pub fn secrets(mut self, secrets: ProxySecrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Uses an environment: client secrets that are not set, variables, and the state folder, in which recent
    /// denials are recorded. Without one, denials are kept only in memory.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Starts the server, waits until it responds, and listens.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid [`spec`](Self::spec), `PortTaken`, `Io` if the audit log cannot be written,
    /// `StartFailed` if the server exits or does not respond within its [`start_timeout`](Self::start_timeout).
    pub async fn start(
        self,
        on_event: impl Fn(ServerEvent) + Send + Sync + 'static,
    ) -> Result<RunningStdioProxy> {
        let Self { name, spawn, policy, start_timeout, spec, mut secrets, environment, reachability } = self;
        let files = Files::of_proxy(environment.as_ref(), &name);
        let mut variables = Variables::default();
        if let Some(environment) = environment {
            secrets = secrets.or_from(&environment, &spec);
            variables = environment.variables;
        }
        spec.check(&secrets)?;
        let mode = spec.mode;
        let service = ProxySetup::new(&*name, TRANSPORT, spec, secrets, variables)?.open(files)?;
        let listeners =
            service.bind(reachability, "set `port` to another port, or to 0 for a free port").await?;
        let server = StdioServer::start(spawn, policy, start_timeout, Arc::new(on_event)).await?;
        let warnings = service.warnings(listeners.address).await;
        for message in &warnings {
            tracing::warn!("{message}");
        }
        let endpoint = server.bridge(mode, service.publicity());
        let proxy = service.serve(listeners, endpoint_path(mode), Box::new(endpoint), warnings);
        Ok(RunningStdioProxy { proxy, server })
    }
}

/// The path of the endpoint in a mode.
pub(crate) fn endpoint_path(mode: ProxyMode) -> &'static str {
    match mode {
        ProxyMode::StreamableHttp => MCP_PATH,
        ProxyMode::Sse => SSE_PATH,
    }
}

/// A stdio server behind a running proxy. Dropping it stops both.
#[derive(Debug)]
pub struct RunningStdioProxy {
    proxy: RunningProxy,
    server: StdioServer,
}

impl RunningStdioProxy {
    /// Returns the proxy.
    pub fn proxy(&self) -> &RunningProxy {
        &self.proxy
    }

    /// Stops listening, waits up to 1 s for pending calls, rejects the rest, then terminates the processes and
    /// kills them after `grace`.
    pub async fn stop(&self, grace: Duration) {
        self.server.router.end_streams();
        let listening = self.proxy.stop();
        tokio::pin!(listening);
        let over = tokio::time::timeout(CALL_DRAIN_TIMEOUT, &mut listening).await.is_ok();
        self.server.stop(grace).await;
        if !over {
            self.server.router.end_streams();
            listening.await;
        }
    }
}
