//! A stdio server and the proxy in front of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use super::{
    ProxySecrets, ProxySpec, RunningProxy,
    bridge::Bridge,
    external_url::ExternalUrlConfig,
    service::{Files, ProxySetup},
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

/// How long calls under way may still be answered when the proxy stops; then they are refused.
const CALL_DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How often unused sessions and processes are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Most processes of one server.
const MAX_PROCESSES: usize = 8;
/// How the server is reached, in words.
const TRANSPORT: &str = "stdio";
/// How long a server may take to answer when it starts.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(60);

/// The processes of a stdio server and who uses them. Dropping it ends them without grace.
#[derive(Debug)]
pub(crate) struct StdioServer {
    pool: Arc<ProcessPool>,
    router: Arc<Router>,
    sweeper: JoinHandle<()>,
}

impl StdioServer {
    /// Starts the first process and waits until it answers.
    pub(crate) async fn start(
        spawn: Arc<dyn Spawn>,
        policy: RestartPolicy,
        patience: Duration,
        on_event: OnEvent,
    ) -> Result<Self> {
        // Clients wait for a process that is started for them a little longer than it may take to answer.
        let start = patience.saturating_add(Duration::from_secs(15));
        let limits = MuxLimits { start_timeout: start, ..MuxLimits::default() };
        let settings = PoolConfig {
            spawn,
            policy,
            ready_timeout: patience,
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

    /// What answers HTTP requests for it.
    pub(crate) fn bridge(&self, mode: ProxyMode, publicity: ExternalUrlConfig) -> Bridge {
        Bridge::new(Arc::clone(&self.router), mode, publicity)
    }

    /// Ends all processes.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.pool.stop(grace).await;
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        self.sweeper.abort();
        // Connections of clients outlive this for a moment and hold on to the keepers.
        self.pool.abort();
    }
}

/// Puts any stdio server of the caller's behind an HTTP proxy.
///
/// Workloads do this with containers; an application that has a process of its own does it here.
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
}

impl StdioProxy {
    /// Names the server, for messages, and says how its processes are started.
    pub fn new(name: impl Into<String>, spawn: impl Spawn + 'static) -> Self {
        Self {
            name: name.into(),
            spawn: Arc::new(spawn),
            policy: RestartPolicy::default(),
            start_timeout: DEFAULT_START_TIMEOUT,
            spec: ProxySpec::default(),
            secrets: ProxySecrets::default(),
            environment: None,
        }
    }

    /// Listens there; 127.0.0.1 and a free port otherwise.
    pub fn listen(mut self, host: impl Into<String>, port: u16) -> Self {
        self.spec.host = host.into();
        self.spec.port = port;
        self
    }

    /// Serves in that mode; streamable HTTP otherwise.
    pub fn mode(mut self, mode: ProxyMode) -> Self {
        self.spec.mode = mode;
        self
    }

    /// Restarts the server so.
    pub fn restarts(mut self, policy: RestartPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Gives a process that long to answer when it starts; 60 s otherwise.
    ///
    /// In the first half of it, and at most for 5 s, the server is asked `server/discover` alone; one that stays silent
    /// is then asked `initialize`. The same holds for every later start: a restart, or a process for another client.
    pub fn start_timeout(mut self, patience: Duration) -> Self {
        self.start_timeout = patience;
        self
    }

    /// Puts this in front of the server, in place of what was set before; otherwise all callers pass, and nothing is recorded
    /// or measured.
    pub fn spec(mut self, spec: ProxySpec) -> Self {
        self.spec = spec;
        self
    }

    /// Takes the secrets that the [`spec`](Self::spec) needs; none otherwise.
    pub fn secrets(mut self, secrets: ProxySecrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Takes client secrets that are not given, and variables, from an environment, and keeps the last denials below its
    /// state folder; otherwise there are neither, and denials are kept in memory alone.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Starts the server, waits until it answers, and listens.
    ///
    /// # Errors
    /// `InvalidOption` for a [`spec`](Self::spec) that cannot be used, `PortTaken`, `Io` when the audit log cannot be
    /// written, `StartFailed` when the server ends, or stays silent for longer than its [`start_timeout`](Self::start_timeout).
    pub async fn start(
        self,
        on_event: impl Fn(ServerEvent) + Send + Sync + 'static,
    ) -> Result<RunningStdioProxy> {
        let Self { name, spawn, policy, start_timeout: patience, spec, mut secrets, environment } = self;
        let files = Files::of_proxy(environment.as_ref(), &name);
        let mut variables = Variables::default();
        if let Some(environment) = environment {
            secrets = secrets.or_from(&environment, &spec);
            variables = environment.variables;
        }
        spec.check(&secrets)?;
        let mode = spec.mode;
        let service = ProxySetup::new(&*name, TRANSPORT, spec, secrets, variables)?.open(files)?;
        let listeners = service.bind("listen on another port, or on 0 for a free one").await?;
        let server = StdioServer::start(spawn, policy, patience, Arc::new(on_event)).await?;
        let warnings = service.warnings(listeners.address).await;
        for message in &warnings {
            tracing::warn!("{message}");
        }
        let endpoint = server.bridge(mode, service.publicity());
        let proxy = service.serve(listeners, endpoint_path(mode), Box::new(endpoint), warnings);
        Ok(RunningStdioProxy { proxy, server })
    }
}

/// The path on which a mode serves.
pub(crate) fn endpoint_path(mode: ProxyMode) -> &'static str {
    match mode {
        ProxyMode::StreamableHttp => MCP_PATH,
        ProxyMode::Sse => SSE_PATH,
    }
}

/// A stdio server behind a proxy that listens. Dropping it ends both.
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

    /// Stops listening, lets calls under way be answered for up to 1 s, refuses the rest, then asks the processes to end and kills them after `grace`.
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
