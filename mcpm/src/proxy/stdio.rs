//! A stdio server and the proxy in front of it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use super::{
    RunningProxy, Served,
    bridge::Bridge,
    check_hosts, listener,
    public::Publicity,
    target::{MCP_PATH, SSE_PATH},
};
use crate::{
    Environment, Result,
    audit::{Audit, AuditSpec},
    auth::incoming::{Incoming, IncomingSpec},
    explain::Recent,
    mcp::{lane::Limits, router::Router},
    options::{Header, ProxyMode, Secret},
    policy::PolicySpec,
    redact::Masks,
    telemetry::{Telemetry, TelemetrySpec},
    transport::{
        RestartPolicy, ServerEvent, Spawn,
        keeper::{Keepers, OnEvent, Settings},
    },
};

/// How long calls under way may still be answered when the proxy stops; then they are refused.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How often unused sessions and processes are looked for.
const SWEEP: Duration = Duration::from_secs(30);
/// Most processes of one server.
const PROCESSES: usize = 8;
/// How the server is reached, in words.
const TRANSPORT: &str = "stdio";
/// How long a server may take to answer when it starts.
const PATIENCE: Duration = Duration::from_secs(60);

/// The processes of a stdio server and who uses them. Dropping it ends them without grace.
#[derive(Debug)]
pub(crate) struct StdioServer {
    keepers: Arc<Keepers>,
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
        let limits = Limits { start, ..Limits::default() };
        let settings = Settings { spawn, policy, patience, limits, processes: PROCESSES, on_event };
        let keepers = Keepers::new(settings);
        let first = keepers.first().await?;
        let router = Arc::new(Router::new(first, Arc::clone(&keepers) as _, limits));
        let swept = Arc::clone(&router);
        let sweeper = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(SWEEP);
            loop {
                ticks.tick().await;
                swept.sweep(Instant::now());
            }
        });
        Ok(Self { keepers, router, sweeper })
    }

    /// What answers HTTP requests for it.
    pub(crate) fn bridge(&self, mode: ProxyMode, publicity: Publicity) -> Bridge {
        Bridge::new(Arc::clone(&self.router), mode, publicity)
    }

    /// Ends all processes.
    pub(crate) async fn stop(&self, grace: Duration) {
        self.keepers.stop(grace).await;
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        self.sweeper.abort();
        // Connections of clients outlive this for a moment and hold on to the keepers.
        self.keepers.end();
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
    host: String,
    port: u16,
    mode: ProxyMode,
    policy: RestartPolicy,
    patience: Duration,
    allowed_hosts: Vec<String>,
    rules: PolicySpec,
    audit: Option<AuditSpec>,
    telemetry: Option<(TelemetrySpec, Vec<Header>)>,
    incoming: Option<(IncomingSpec, Option<Secret>)>,
    environment: Option<Environment>,
}

impl StdioProxy {
    /// Names the server, for messages, and says how its processes are started.
    pub fn new(name: impl Into<String>, spawn: impl Spawn + 'static) -> Self {
        Self {
            name: name.into(),
            spawn: Arc::new(spawn),
            host: "127.0.0.1".to_owned(),
            port: 0,
            mode: ProxyMode::StreamableHttp,
            policy: RestartPolicy::default(),
            patience: PATIENCE,
            allowed_hosts: Vec::new(),
            rules: PolicySpec::default(),
            audit: None,
            telemetry: None,
            incoming: None,
            environment: None,
        }
    }

    /// Listens there; 127.0.0.1 and a free port otherwise.
    pub fn listen(mut self, host: impl Into<String>, port: u16) -> Self {
        self.host = host.into();
        self.port = port;
        self
    }

    /// Takes requests that name one of these hosts as well; otherwise those that name an address, a loopback name or the
    /// name it listens on.
    pub fn allow_hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_hosts.extend(hosts.into_iter().map(Into::into));
        self
    }

    /// Serves in that mode; streamable HTTP otherwise.
    pub fn mode(mut self, mode: ProxyMode) -> Self {
        self.mode = mode;
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
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Filters and renames tools and authorizes callers so; otherwise everything passes.
    pub fn rules(mut self, rules: PolicySpec) -> Self {
        self.rules = rules;
        self
    }

    /// Records requests so; otherwise not at all.
    pub fn audit(mut self, audit: AuditSpec) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Measures so, and sends these headers to the collector; otherwise nothing is measured.
    pub fn telemetry(mut self, spec: TelemetrySpec, headers: Vec<Header>) -> Self {
        self.telemetry = Some((spec, headers));
        self
    }

    /// Requires a token of each caller so, with the client secret for introspection; otherwise everybody is let in.
    pub fn incoming(mut self, spec: IncomingSpec, client_secret: Option<Secret>) -> Self {
        self.incoming = Some((spec, client_secret));
        self
    }

    /// Takes the client secret, if none is given, and variables from an environment, and keeps the last denials below
    /// its state folder; otherwise there are neither, and denials are kept in memory alone.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Starts the server, waits until it answers, and listens.
    ///
    /// # Errors
    /// `PortTaken`, `InvalidOption` for the host, `StartFailed` when the server ends, or stays silent for longer than
    /// its [`patience`](Self::patience), `InvalidOption` for its [`rules`](Self::rules) and for how callers come
    /// [in](Self::incoming), `Io` when its [`audit`](Self::audit) log cannot be written.
    pub async fn start(
        self,
        on_event: impl Fn(ServerEvent) + Send + Sync + 'static,
    ) -> Result<RunningStdioProxy> {
        let policy = self.rules.policy(&self.name)?;
        check_hosts(&self.allowed_hosts)?;
        let environment = self.environment.as_ref();
        let headers = self.telemetry.iter().flat_map(|(_, headers)| headers);
        let mut secrets: Vec<Secret> = headers.map(|header| header.value.clone()).collect();
        let incoming = match self.incoming {
            Some((spec, given)) => {
                let from_environment = environment.filter(|_| spec.takes_secret());
                let secret = given.or_else(|| from_environment?.oidc_client_secret.clone());
                spec.check(secret.as_ref())?;
                spec.check_secret(secret.as_ref())?;
                spec.check_reach(&self.host, false)?;
                secrets.extend(secret.clone());
                Some(Incoming::new(spec, secret)?)
            }
            None => None,
        };
        let denials = environment.map(|environment| super::refusals(&environment.state_dir, &self.name));
        let recent = Recent::new(&*self.name, denials).masks(Masks::new(secrets.clone(), &[]));
        let open = |spec| Audit::open(spec, &self.name, None, secrets);
        let audit = self.audit.as_ref().map(open).transpose()?;
        let telemetry = match &self.telemetry {
            Some((spec, headers)) => {
                let variables =
                    environment.map(|environment| environment.variables.clone()).unwrap_or_default();
                Some(Telemetry::start(spec, headers, &variables, &self.name, TRANSPORT)?)
            }
            None => None,
        };
        let listener = listener::bind(&self.host, self.port).await?;
        let server = StdioServer::start(self.spawn, self.policy, self.patience, Arc::new(on_event)).await?;
        let served = Served {
            host: &self.host,
            path: path_of(self.mode),
            transport: TRANSPORT,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            more_hosts: self.allowed_hosts,
            incoming,
            exchange: None,
            publicity: Publicity::default(),
            policy,
            recent: Arc::new(recent),
            audit,
            telemetry,
            endpoint: Box::new(server.bridge(self.mode, Publicity::default())),
        };
        let issuer = super::issuer_warning(served.incoming.as_ref()).await;
        for message in served.warnings(&listener).into_iter().chain(issuer) {
            tracing::warn!("{message}");
        }
        Ok(RunningStdioProxy { proxy: RunningProxy::serve(self.name, listener, served)?, server })
    }
}

/// The path on which a mode serves.
pub(crate) fn path_of(mode: ProxyMode) -> &'static str {
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
        let over = tokio::time::timeout(LAST_ANSWERS, &mut listening).await.is_ok();
        self.server.stop(grace).await;
        if !over {
            self.server.router.end_streams();
            listening.await;
        }
    }
}
