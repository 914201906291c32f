//! Starts a workload, and rolls the start back if it fails.

use std::{sync::Arc, time::Duration};

use super::{
    EventStream, Placement, RunningWorkload, WorkloadEvent, WorkloadName, WorkloadSpec, ca_certs,
    container::{Containers, UnconfirmedCreations},
    egress_denials::EgressDenialReporter,
    events::WorkloadEvents,
    http_server::{HttpServer, HttpServerSupervisor},
    ignore,
    record::Record,
    recorded_events, remote_server,
    resolve::{isolation_folder, permissions, remote_url::RemoteUrl},
    running::{ServerHandle, StopOnDrop, end_containers},
    secret_delivery::{self, SecretDelivery},
    server_output::ServerOutput,
    transport_mismatch,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    clients::Clients,
    explain::{self, DenialRecord},
    isolation::{EgressDecision, Isolation, ProfileRecorder},
    options::{ProxyMode, Secret, SharedOptions, Transport},
    proxy::{
        Endpoint, ProxySecrets,
        external_url::ExternalUrlConfig,
        forward::Forward,
        server_check::ExpectedServer,
        service::{Files, ProxySetup, Reachability},
        stdio::{StdioServer, endpoint_path},
        target::Target,
    },
    redact::is_secret_name,
    secrets::SecretValues,
    state::{Claim, Document, Groups, Lock, Phase, Store},
    stdio::{OnEvent, RestartPolicy},
};

/// Grace period of servers that a killed supervisor has left running.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// A resolved workload that is being started.
#[derive(Debug)]
pub struct Launch {
    pub(super) spec: WorkloadSpec,
    pub(super) environment: Environment,
    pub(super) events: WorkloadEvents,
    policy: RestartPolicy,
    secrets: Option<SecretValues>,
    pub(super) recorded: bool,
    ephemeral: bool,
    pub(super) reachability: Reachability,
}

impl Launch {
    /// Launches a resolved workload.
    pub fn new(spec: WorkloadSpec, environment: Environment) -> Self {
        let policy = RestartPolicy::from(spec.restart_mode());
        Self {
            spec,
            environment,
            events: WorkloadEvents::new(),
            policy,
            secrets: None,
            recorded: false,
            ephemeral: false,
            reachability: Reachability::Port,
        }
    }

    /// Launches a recorded workload instead of a new one.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.recorded = true;
        self
    }

    /// Passes these values of secrets to the server. Without them, they are read from the store that the environment
    /// names.
    #[must_use]
    pub fn secrets(mut self, values: SecretValues) -> Self {
        self.secrets = Some(values);
        self
    }

    /// Sets the restart policy of the server, instead of the one on its record.
    #[must_use]
    pub fn restarts(mut self, policy: RestartPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Opens no port: only this process can use the server, with [`connect`](RunningWorkload::connect).
    /// The host and the port are not used then.
    #[must_use]
    pub fn in_process_only(mut self) -> Self {
        self.reachability = Reachability::InProcess;
        self
    }

    /// Removes the container and the record when the workload ends.
    #[must_use]
    pub fn ephemeral(mut self) -> Self {
        self.ephemeral = true;
        self
    }

    /// Subscribes to events from now on.
    pub fn events(&self) -> EventStream {
        self.events.subscribe()
    }

    /// Starts the workload and returns once clients can connect.
    ///
    /// # Errors
    /// `NotFound` and `SecretsUnavailable` for missing secrets, before anything is changed; `NameTaken` when the
    /// workload already runs or is being started by another process; `PortTaken`, `EngineUnavailable`, `StartFailed`.
    /// After an error, nothing of a new workload is left; a recorded workload stays on record with the reason.
    pub async fn start(mut self) -> Result<RunningWorkload> {
        let values = match self.secrets.take() {
            Some(values) => values,
            None => secret_delivery::read_values(&self.spec, &self.environment).await?,
        };
        let mut notices = Vec::new();
        if let Placement::Container(container) = &mut self.spec.place {
            // Files come and go, so overlays are computed at each start.
            let globally = self.spec.asked.ignore_globally.unwrap_or(true);
            let covers = ignore::compute_overlays(&container.mounts, globally, &self.environment)?;
            (container.overlays, notices) = (covers.overlays, covers.notices);
        }
        let (setup, path) = (self.proxy(&values)?, path(&self.spec)?);
        let store = Store::new(&self.environment.state_dir);
        let claim = if self.recorded { None } else { Some(store.create(&self.spec.name)?) };
        let lock = Lock::acquire(&store.lock_path(&self.spec.name))?;
        let service = setup.open(Files {
            audit: Some(store.folder(&self.spec.name).join("audit.jsonl")),
            denials: Some(explain::workload_log_path(&store.folder(&self.spec.name))),
        })?;
        let advice = match self.recorded {
            true => "free the port: clients are configured to use it",
            false => "set `proxy_port` to another, or to 0 for a free one",
        };
        let listeners = service.bind(self.reachability, advice).await?;
        let address = listeners.address;
        if self.reachability == Reachability::Port {
            // Clients keep the URL, so the port stays the same from now on.
            self.spec.proxy.port = address.port();
        }
        store.save(&self.spec.name, Document::Spec, &self.spec)?;
        let group = if self.recorded { None } else { self.create_group()? };
        let record = Arc::new(Record::begin(store.clone(), self.spec.name.clone(), self.events.clone())?);
        record.events.emit(WorkloadEvent::Starting { name: self.spec.name.to_string() });
        let exposed = service.warnings(address).await;
        let created =
            group.as_ref().map(|_| format!("the group `{}` did not exist and was created", self.spec.group));
        let warnings: Vec<String> =
            exposed.into_iter().chain(self.spec.warnings.clone()).chain(notices).chain(created).collect();
        for message in warnings.clone() {
            record.events.emit(WorkloadEvent::Warning { message });
        }
        let denials = service.denials();
        let denial_reporter =
            EgressDenialReporter::new(record.events.clone(), Arc::clone(denials), service.audit().cloned());
        // Boxed, since it would be most of the size of every caller's future.
        let started =
            Box::pin(self.start_server(&record, denial_reporter, &values, service.publicity())).await;
        let (containers, server, endpoint) = match started {
            Ok(started) => started,
            Err(error) => {
                // A denied connection may be the reason for the failure, so denials are written before the error is
                // returned.
                if let Some(audit) = service.audit() {
                    audit.flush().await;
                }
                denials.flush().await;
                if claim.is_some() {
                    // The folder is removed, but the denial that the error names can still be looked up.
                    denials.copy_to(&explain::failed_start_log_path(&self.environment.state_dir));
                }
                let error = with_last_denial(error, denials.last());
                recorded_events::record_failed_start(&error);
                record.update(Phase::Failed, Some(error.to_string()), |status| status.supervisor = None);
                return Err(error);
            }
        };
        let proxy = service.serve(listeners, &path, endpoint, warnings);
        let url = proxy.url().to_owned();
        record.update(Phase::Running, None, |status| {
            if proxy.address().is_some() {
                status.url = Some(url.clone());
                status.port = Some(address.port());
            }
            status.container = self.spec.container().map(|container| container.name.clone());
        });
        if proxy.address().is_some() {
            Clients::new(self.environment.clone()).update_url(self.spec.name.as_str(), &url);
        }
        record.events.emit(WorkloadEvent::Ready { name: self.spec.name.to_string(), url });
        if let Some(claim) = claim {
            Claim::commit(claim);
        }
        if let Some(group) = group {
            group.commit();
        }
        let creations =
            containers.as_ref().map(|containers| containers.creations.clone()).unwrap_or_default();
        Ok(RunningWorkload {
            proxy,
            server,
            containers,
            on_drop: Box::new(StopOnDrop {
                spec: self.spec,
                environment: self.environment,
                store,
                record,
                ephemeral: self.ephemeral,
                creations,
                armed: true,
            }),
            _lock: lock,
        })
    }

    /// Creates the group, unless it exists. The group is removed again if the start fails.
    fn create_group(&self) -> Result<Option<NewGroup>> {
        let groups = Groups::new(&self.environment.state_dir);
        if groups.exists(&self.spec.group)? {
            return Ok(None);
        }
        match groups.create(&self.spec.group) {
            Ok(()) => {
                let store = Store::new(&self.environment.state_dir);
                let (workload, name) = (self.spec.name.clone(), self.spec.group.clone());
                Ok(Some(NewGroup { groups, store, workload, name, committed: false }))
            }
            // Another start created it meanwhile.
            Err(error) if error.kind() == ErrorKind::NameTaken => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks and prepares the proxy, with the secrets that are not on record. The proxy redacts the server's secrets
    /// in its logs.
    fn proxy(&self, values: &SecretValues) -> Result<Box<ProxySetup>> {
        let setup = ProxySetup::new(
            self.spec.name.as_str(),
            self.spec.transport.as_str(),
            self.spec.proxy.clone(),
            self.proxy_secrets(),
            self.environment.variables.clone(),
        )?;
        let mut secrets: Vec<Secret> = values.expose().into_values().map(Secret::from).collect();
        if let Placement::Remote(remote) = &self.spec.place {
            let named = remote.headers.iter().filter(|(name, _)| is_secret_name(name));
            secrets.extend(named.map(|(_, value)| Secret::from(value.as_str())));
        }
        Ok(setup.mask(secrets))
    }

    /// The secrets of the proxy, which are not on record.
    pub(super) fn proxy_secrets(&self) -> ProxySecrets {
        let given = ProxySecrets::from(&SharedOptions::from(&self.spec.asked));
        given.or_from(&self.environment, &self.spec.proxy)
    }

    async fn start_server(
        &self,
        record: &Arc<Record>,
        denial_reporter: EgressDenialReporter,
        values: &SecretValues,
        publicity: ExternalUrlConfig,
    ) -> Result<(Option<Containers>, ServerHandle, Box<dyn Endpoint>)> {
        let containers = match &self.spec.place {
            Placement::Container(_) => Containers::for_workload(&self.spec, &self.environment).await?,
            Placement::Remote(remote) => {
                let endpoint = Box::pin(self.start_remote(remote, values, publicity, record)).await?;
                return Ok((None, ServerHandle::Remote, endpoint));
            }
        };
        let Some(mut containers) = containers else {
            return Err(Error::new(ErrorKind::Internal, "the workload has no container"));
        };
        if self.spec.package.is_none()
            && let Some(given) = &self.spec.asked.ca_cert
        {
            let store = Store::new(&self.environment.state_dir);
            ca_certs::write(&store.folder(&self.spec.name), given, &self.environment)?;
        }
        let spec = &self.spec;
        let delivery =
            SecretDelivery::new(&spec.name, &spec.secrets, &spec.secret_formats, values, &self.environment)?;
        containers = containers.with_secrets(delivery);
        let folder = Store::new(&self.environment.state_dir).folder(&self.spec.name);
        containers.output = Some(Arc::new(ServerOutput::open(&folder, self.spec.target.is_none())?));
        if self.recorded || self.spec.isolation.is_some() {
            // A killed supervisor may have left containers running. They use the same published ports, and with
            // isolation the same socket, whatever their slot is.
            containers.stop_all(LEFTOVER_GRACE).await?;
        }
        containers.isolation = self.isolate(&containers, denial_reporter).await?;
        let mut tidy = CleanupOnDrop { launch: self, creations: containers.creations.clone(), armed: true };
        let event_record = Arc::clone(record);
        let on_event: OnEvent = Arc::new(move |event| event_record.on_event(event));
        let started = match &self.spec.target {
            None => self.start_stdio(&containers, on_event).await.map(|server| {
                let endpoint: Box<dyn Endpoint> = Box::new(server.bridge(self.spec.proxy.mode, publicity));
                (ServerHandle::Stdio(server), endpoint)
            }),
            Some(spec) => {
                let target = Arc::new(Target::unreachable("the server is starting"));
                let expected = ExpectedServer::at(&target, Some(self.spec.transport));
                let supervisor = HttpServerSupervisor {
                    expected: expected.clone(),
                    containers: containers.clone(),
                    spec: spec.clone(),
                    transport: self.spec.transport,
                    target: Arc::clone(&target),
                    policy: self.policy,
                    start_timeout: self.spec.start_timeout(),
                    on_event,
                };
                HttpServer::start(supervisor).await.map(|(server, passed)| {
                    if let Some(remark) =
                        remote_server::startup_notice(&passed, "server", &format!("`{}`", expected.path()))
                    {
                        record.warn(remark.message);
                    }
                    let endpoint: Box<dyn Endpoint> = Box::new(Forward::new(target, publicity, expected));
                    (ServerHandle::Http(Box::new(server)), endpoint)
                })
            }
        };
        tidy.armed = false;
        match started {
            Ok((server, endpoint)) => Ok((Some(containers), server, endpoint)),
            Err(error) => {
                if !self.recorded
                    && let Err(left) = containers.remove_all().await
                {
                    tracing::warn!(error = %left, "a container could not be removed");
                }
                Err(error)
            }
        }
    }

    /// Sets up the isolation of containers.
    async fn isolate(
        &self,
        containers: &Containers,
        denial_reporter: EgressDenialReporter,
    ) -> Result<Option<Arc<Isolation>>> {
        let Some(spec) = &self.spec.isolation else { return Ok(None) };
        let gateways = containers.runtime.gateways().await?;
        let store = Store::new(&self.environment.state_dir);
        let own = store.folder(&self.spec.name);
        let base =
            permissions::profile_without_connections(&containers.spec, &self.spec.proxy.allowed_hosts, &own);
        let begin = if self.recorded { ProfileRecorder::resume } else { ProfileRecorder::create };
        let learner = spec.learn.as_ref().map(|path| begin(path, base)).transpose()?;
        let on_decision = Arc::new(move |decision: EgressDecision| denial_reporter.on_decision(&decision));
        let folder = isolation_folder(&store, &self.spec.name);
        let port = self.spec.target.as_ref().map(|target| target.port);
        let carried = containers.spec.entry.as_ref().is_some_and(|entry| entry.volume.is_some());
        let architecture = containers.runtime.engine().await?.architecture;
        let folder = (!carried).then_some((folder.as_path(), architecture.as_str()));
        Isolation::start(folder, spec, port, gateways, on_decision, learner, None)
            .map(|isolation| Some(Arc::new(isolation)))
    }

    async fn start_stdio(&self, containers: &Containers, on_event: OnEvent) -> Result<StdioServer> {
        let starting = StdioServer::start(
            Arc::new(containers.clone()),
            self.policy,
            self.spec.start_timeout(),
            on_event,
        );
        tokio::select! {
            started = starting => started,
            mismatch = transport_mismatch::detect_http_server(containers) => {
                if let Ok(Some(container)) = containers.first().await
                    && let Err(error) = containers.runtime.stop(&container.id, Duration::ZERO).await
                {
                    tracing::warn!(%error, "a container could not be stopped");
                }
                Err(mismatch)
            }
        }
    }
}

/// A group that was created for a workload.
struct NewGroup {
    groups: Groups,
    store: Store,
    workload: WorkloadName,
    name: String,
    committed: bool,
}

impl NewGroup {
    fn commit(mut self) {
        self.committed = true;
    }

    /// Tells whether no other workload has joined the group meanwhile. A workload whose record cannot be read counts as
    /// a member.
    fn is_unused(&self) -> Result<bool> {
        for name in self.store.names()? {
            if name != self.workload
                && self.store.load::<WorkloadSpec>(&name, Document::Spec)?.group == self.name
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for NewGroup {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        let removed =
            self.is_unused().and_then(|unused| if unused { self.groups.remove(&self.name) } else { Ok(()) });
        if let Err(error) = removed {
            tracing::warn!(%error, "a group could not be removed");
        }
    }
}

/// Removes the containers of a cancelled start.
struct CleanupOnDrop<'a> {
    launch: &'a Launch,
    creations: UnconfirmedCreations,
    armed: bool,
}

impl Drop for CleanupOnDrop<'_> {
    fn drop(&mut self) {
        if self.armed {
            let Launch { spec, environment, recorded, .. } = self.launch;
            end_containers(spec.clone(), environment.clone(), !recorded, self.creations.clone());
        }
    }
}

/// Adds a hint with the last denied connection, which may be why the server did not start.
fn with_last_denial(error: Error, denial: Option<DenialRecord>) -> Error {
    let Some(denial) = denial else { return error };
    let explanation =
        format!("a connection of the server was denied: `mcpm explain {}` shows why", denial.id);
    let hint = error.next_step().map_or_else(|| explanation.clone(), |step| format!("{step}; {explanation}"));
    error.hint(hint)
}

/// Returns the path of the server below the proxy's address.
fn path(spec: &WorkloadSpec) -> Result<String> {
    if let Placement::Remote(remote) = &spec.place {
        return Ok(RemoteUrl::parse(&remote.url)?.path().to_owned());
    }
    let path = match spec.transport {
        Transport::Stdio => endpoint_path(spec.proxy.mode),
        Transport::StreamableHttp => endpoint_path(ProxyMode::StreamableHttp),
        Transport::Sse => endpoint_path(ProxyMode::Sse),
    };
    Ok(path.to_owned())
}
