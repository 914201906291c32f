//! Starts a workload, and rolls the start back if it fails.

use std::{sync::Arc, time::Duration};

use http::header;

use super::{
    EventStream, Placement, RemoteSpec, RunningWorkload, WorkloadEvent, WorkloadName, WorkloadSpec, ca_certs,
    container::{Containers, UnconfirmedCreations},
    egress_denials::EgressDenialReporter,
    events::WorkloadEvents,
    headers,
    http_server::{HttpServer, HttpServerSupervisor, START_TIMEOUT},
    ignore,
    record::Record,
    remote_login,
    remote_server::{self, RemoteEndpoint, StartupNotice},
    resolve::{isolation_folder, permissions, remote_url::RemoteUrl},
    running::{ServerHandle, StopOnDrop, end_containers},
    secret_delivery::{self, SecretDelivery},
    transport_mismatch,
};
use crate::{
    Environment, Error, ErrorKind, Feature, Result,
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
    transport::tls::TrustStore,
};

/// Grace period of servers that a killed supervisor has left running.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// A resolved workload that is being started.
#[derive(Debug)]
pub struct Launch {
    spec: WorkloadSpec,
    environment: Environment,
    pub(super) events: WorkloadEvents,
    policy: RestartPolicy,
    secrets: Option<SecretValues>,
    recorded: bool,
    ephemeral: bool,
    pub(super) reachability: Reachability,
}

impl Launch {
    /// Launches a resolved workload.
    pub fn new(spec: WorkloadSpec, environment: Environment) -> Self {
        let policy = RestartPolicy::default();
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

    /// Sets the restart policy of the server.
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

    /// Asks the user to log in to a remote server, if that is required and there is no login yet, and returns the values
    /// of secrets with the login, for a [launch](Self::secrets) in a process that cannot ask. A recorded workload whose
    /// server cannot be reached is left as it is.
    ///
    /// # Errors
    /// `LoginRequired` if the environment has no user prompt; `Upstream` if the login fails; `StartFailed` for a remote
    /// server that is no MCP server; those of the secret store.
    pub async fn log_in(&self, mut values: SecretValues) -> Result<SecretValues> {
        let Placement::Remote(remote) = &self.spec.place else { return Ok(values) };
        let target = self.remote_target(remote, &values)?;
        if let Some(outgoing) = target.outgoing() {
            match self.check_remote(&target, remote).await {
                // It may be unreachable for now.
                Err(error) if self.recorded => tracing::debug!(%error, "the remote server was not checked"),
                checked => drop(checked?),
            }
            values.extend(
                outgoing.to_secret().await.map(|login| (outgoing.login_name(), login)).into_iter().collect(),
            );
        }
        Ok(values)
    }

    /// Starts the workload and returns once clients can connect.
    ///
    /// # Errors
    /// `NotFound` and `SecretsUnavailable` for missing secrets, before anything is changed; `NameTaken` when it runs
    /// or is being started elsewhere; `PortTaken`, `EngineUnavailable`, `StartFailed`. A new workload leaves nothing
    /// behind; a recorded one stays on record with the reason.
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
            true => "it is the port that clients know; free it",
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
                // Denied connections may be why it failed, so they are written before the error is returned.
                if let Some(audit) = service.audit() {
                    audit.flush().await;
                }
                denials.flush().await;
                if claim.is_some() {
                    // The folder is removed, but the denial that the error names can still be looked up.
                    denials.copy_to(&explain::failed_start_log_path(&self.environment.state_dir));
                }
                let error = with_last_denial(error, denials.last());
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

    /// Creates the group, unless it exists. It is removed again if the start fails.
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

    /// Checks the proxy, with the secrets that are not on record, and masks the server's secrets in its logs.
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
    fn proxy_secrets(&self) -> ProxySecrets {
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
        let delivery = SecretDelivery::new(&self.spec.name, &self.spec.secrets, values, &self.environment)?;
        containers = containers.with_secrets(delivery);
        if self.recorded || self.spec.isolation.is_some() {
            // A supervisor that was killed left them behind. They have the same published ports, and with isolation the
            // same socket, whatever their slot.
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

    /// The remote server, with its headers and the means to log in.
    fn remote_target(&self, remote: &RemoteSpec, values: &SecretValues) -> Result<Target> {
        let mut headers = headers::build_headers(remote, &self.spec.secrets, values)?;
        headers.extend(self.spec.proxy.forward_headers(&self.proxy_secrets())?);
        let bundle = self.spec.asked.mcpm_ca_bundle.as_deref();
        let target = Target::parse_with_trust(&remote.url, TrustStore::with_bundle(bundle)?)?;
        // An exchanged token or a header authenticates requests already.
        let is_authenticated =
            self.spec.proxy.exchange.is_some() || headers.contains_key(header::AUTHORIZATION);
        // A build without logins forwards what the server responds, unless the options require one.
        let can_log_in = Feature::Login.is_enabled() || self.spec.proxy.outgoing.is_some();
        let outgoing = if is_authenticated || !can_log_in {
            None
        } else {
            Some(Arc::new(remote_login::outgoing(&self.spec, remote, &self.environment)?))
        };
        Ok(target.with_headers(headers).with_outgoing(outgoing))
    }

    /// Asks the user to log in to the remote server, in place of the login that is kept. A running proxy takes the new
    /// login when it needs one.
    ///
    /// # Errors
    /// `InvalidOption` for a workload in a container; `NotFound` if the server names no authorization server; as for
    /// [`log_in`](Self::log_in).
    pub async fn renew_login(&self) -> Result<()> {
        remote_login::of_workload(&self.spec, &self.environment)?.log_in_and_keep().await
    }

    /// Removes the login to the remote server that is kept, and revokes it at the authorization server (RFC 7009). A
    /// running workload stops using it within seconds, another proxy when its token expires.
    ///
    /// # Errors
    /// `InvalidOption` for a workload in a container; `NotFound` if no login is kept; those of the secret store. A failed
    /// revocation is logged.
    pub async fn log_out(&self) -> Result<()> {
        remote_login::of_workload(&self.spec, &self.environment)?.log_out().await
    }

    /// Checks the remote server with one MCP exchange, and logs in if it requires that. Returns the notice about a server
    /// to which mcpm cannot log in.
    async fn check_remote(&self, target: &Target, remote: &RemoteSpec) -> Result<Option<StartupNotice>> {
        let expected = ExpectedServer::at_own_path(target, Some(self.spec.transport));
        let shown = remote.redacted_url();
        let Some(outgoing) = target.outgoing() else {
            return remote_server::check(target, &expected, &shown).await;
        };
        outgoing.prepare().await?;
        // Once with a kept login, and once with a new one.
        for _ in 0..2 {
            match remote_server::check(target, &expected, &shown).await? {
                Some(notice) if notice.needs_login => match outgoing.obtain_login().await {
                    Ok(()) => {}
                    // Its responses are forwarded, and clients may log in by themselves.
                    Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::LoginRequired) => {
                        return Ok(Some(notice));
                    }
                    Err(error) => return Err(error),
                },
                notice => return Ok(notice),
            }
        }
        remote_server::check(target, &expected, &shown).await
    }

    /// Checks that the remote server can be reached. A recorded one may be unreachable for now.
    async fn start_remote(
        &self,
        remote: &RemoteSpec,
        values: &SecretValues,
        publicity: ExternalUrlConfig,
        record: &Arc<Record>,
    ) -> Result<Box<dyn Endpoint>> {
        let target = self.remote_target(remote, values)?;
        let expected = ExpectedServer::at_own_path(&target, Some(self.spec.transport));
        if let Some(outgoing) = target.outgoing()
            && let Some(login) = values.get(&outgoing.login_name())
        {
            outgoing.restore(Some(login)).await?;
        }
        match self.check_remote(&target, remote).await {
            Ok(None) => {}
            // A server that requires a login gets an exchanged token with each request.
            Ok(Some(remark)) if self.spec.proxy.exchange.is_some() && remark.needs_login => {}
            Ok(Some(remark)) => record.warn(remark.message),
            Err(error) if self.recorded => record.warn(error.to_string()),
            Err(error) => return Err(error),
        }
        if let Some(outgoing) = target.outgoing() {
            tokio::spawn(remote_login::watch(outgoing, Arc::clone(record), self.spec.name.clone()));
        }
        let forward = Forward::new(Arc::new(target), publicity, expected);
        Ok(Box::new(RemoteEndpoint::new(forward, Arc::clone(record))))
    }

    async fn start_stdio(&self, containers: &Containers, on_event: OnEvent) -> Result<StdioServer> {
        let starting = StdioServer::start(Arc::new(containers.clone()), self.policy, START_TIMEOUT, on_event);
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

    /// Tells whether no other workload has joined it meanwhile. A workload whose record cannot be read may have.
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
