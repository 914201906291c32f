//! Lists, inspects, stops, removes and exports recorded workloads.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::BoxStream};
use serde::Serialize;

use super::{
    PackageSpec, Placement, WorkloadName, WorkloadSpec,
    container::{Containers, belongs_to},
    engine::{runtime, runtime_of},
    export, ignore, remote_login, secret_delivery,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    clients::{ClientTarget, Clients},
    image::{ImageReference, verify::VerifiedImage},
    options::{ProxyMode, RuntimeChoice, Transport},
    runtime::{ContainerInfo, ContainerState, EngineName, LogChunk, LogOptions, Runtime, labels},
    secrets::SecretValues,
    state::{
        ContainerView, Document, Groups, Lock, LoginState, Phase, Status, Store, WorkloadState, reconcile,
        replace_file,
    },
    stdio_bridge::{StdioBridge, StdioBridgeBuilder},
    tunnel::TunnelTarget,
};

/// The containers of an engine, or why it cannot be queried.
type EngineContainers = std::result::Result<Vec<ContainerInfo>, String>;

/// The output of a server in chunks, oldest first.
pub type Logs = BoxStream<'static, Result<LogChunk>>;

/// The recorded workloads of this machine.
#[derive(Debug, Clone)]
pub struct Workloads {
    pub(super) environment: Environment,
    pub(super) store: Store,
}

/// The status of a workload.
#[derive(Debug, Clone, Serialize)]
pub struct WorkloadInfo {
    /// Its name.
    pub name: String,
    /// Its phase.
    pub status: WorkloadState,
    /// The reason for the phase, if there is one.
    pub reason: Option<String>,
    /// The URL for clients.
    pub url: Option<String>,
    /// Its image; `None` for a remote server.
    pub image: Option<String>,
    /// The package that its image was built for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<PackageSpec>,
    /// The verified signer of its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifiedImage>,
    /// The runtime of its container; `None` for a remote server, and in old records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<EngineName>,
    /// The URL of a remote server, without its query.
    pub remote: Option<String>,
    /// How the server speaks MCP.
    pub transport: Option<Transport>,
    /// Its group.
    pub group: Option<String>,
    /// How often its server was restarted.
    pub restarts: u32,
    /// The state of the login to its remote server, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginState>,
    /// How its server last exited.
    pub exit_code: Option<i64>,
    /// When it was created, in RFC 3339.
    pub created_at: Option<String>,
}

impl Workloads {
    /// Opens the records.
    pub fn new(environment: Environment) -> Self {
        let store = Store::new(&environment.state_dir);
        Self { environment, store }
    }

    /// Returns the groups.
    pub fn groups(&self) -> Groups {
        Groups::new(&self.environment.state_dir)
    }

    /// Returns the names of all workloads.
    pub(super) fn names(&self) -> Result<Vec<WorkloadName>> {
        self.store.names()
    }

    /// Returns the status of all workloads in the order of their names, reconciled with the engine and their
    /// supervisors.
    ///
    /// # Errors
    /// `Io` when the records cannot be read. An engine that does not respond is part of the status.
    pub async fn list(&self) -> Result<Vec<WorkloadInfo>> {
        let names = self.names()?;
        Ok(self.infos(&names).await)
    }

    /// Returns the status of one workload.
    ///
    /// # Errors
    /// `NotFound`; `InvalidOption` for an invalid name.
    pub async fn info(&self, name: &str) -> Result<WorkloadInfo> {
        let name = self.find(name)?;
        let lost = || Error::new(ErrorKind::NotFound, format!("there is no workload `{name}`"));
        self.infos(std::slice::from_ref(&name)).await.pop().ok_or_else(lost)
    }

    /// Returns the spec of a workload.
    ///
    /// # Errors
    /// `NotFound`; `CorruptState` when the record is damaged.
    pub fn spec(&self, name: &str) -> Result<WorkloadSpec> {
        self.store.load(&self.find(name)?, Document::Spec)
    }

    /// Returns the images of all recorded workloads, running or not. An image store must keep them.
    ///
    /// # Errors
    /// `Io`; `CorruptState` when a record is damaged, since its image is not known then.
    pub fn images(&self) -> Result<Vec<ImageReference>> {
        let mut images = Vec::new();
        for name in self.store.names()? {
            let spec: WorkloadSpec = self.store.load(&name, Document::Spec)?;
            if let Some(container) = spec.container() {
                images.push(ImageReference::parse(&container.image)?);
            }
        }
        Ok(images)
    }

    /// Reads the values of a workload's secrets for its next start. Prompts for those that the user typed at its first
    /// start and that are not stored.
    ///
    /// # Errors
    /// `NotFound` for the workload and for missing secrets; `SecretsUnavailable`; `Interrupted`.
    pub async fn secrets(&self, name: &str) -> Result<SecretValues> {
        secret_delivery::read_values(&self.spec(name)?, &self.environment).await
    }

    /// Prepares to serve a running workload on standard input and output.
    ///
    /// # Errors
    /// `NotFound`; `Upstream` when the workload does not run.
    pub async fn stdio_bridge(&self, name: &str) -> Result<StdioBridgeBuilder> {
        let spec = self.spec(name)?;
        Ok(StdioBridge::builder(self.running_url(name).await?).mode(client_transport(&spec)))
    }

    /// Returns the endpoint of a running workload, for a tunnel.
    ///
    /// # Errors
    /// `NotFound`; `Upstream` when the workload does not run.
    pub async fn tunnel_target(&self, name: &str) -> Result<TunnelTarget> {
        let spec = self.spec(name)?;
        let url = self.running_url(name).await?;
        TunnelTarget::workload(&url, client_transport(&spec))
    }

    /// Returns what the configuration of a client says of a running workload.
    ///
    /// # Errors
    /// `NotFound`; `Upstream` when the workload does not run.
    pub async fn client_target(&self, name: &str) -> Result<ClientTarget> {
        let spec = self.spec(name)?;
        let url = self.running_url(name).await?;
        let requires_login = spec.proxy.incoming.is_some();
        Ok(ClientTarget { name: name.to_owned(), url, transport: client_transport(&spec), requires_login })
    }

    /// Returns the MCP clients of this machine.
    pub fn clients(&self) -> Clients {
        Clients::new(self.environment.clone())
    }

    /// Returns the URL of a workload that runs.
    async fn running_url(&self, name: &str) -> Result<String> {
        let WorkloadInfo { url, status, .. } = self.info(name).await?;
        if url.is_none() && status == WorkloadState::Running {
            let message = format!("`{name}` has no port: only the program that started it can use it");
            return Err(Error::new(ErrorKind::Upstream, message));
        }
        url.ok_or_else(|| {
            Error::new(ErrorKind::Upstream, format!("`{name}` is not running (status: {})", status.as_str()))
                .hint(format!("`mcpm start {name}` starts it"))
        })
    }

    /// Returns the log file of a workload's supervisor.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn log_path(&self, name: &str) -> Result<PathBuf> {
        Ok(self.store.log_path(&self.find(name)?))
    }

    /// Stops a workload, whichever process runs it; its server gets `grace` to exit by itself. Does nothing if it has
    /// stopped already.
    ///
    /// # Errors
    /// `NotFound`; `EngineUnavailable` when its container cannot be reached.
    pub async fn stop(&self, name: &str, grace: Duration) -> Result<()> {
        let name = self.find(name)?;
        // A workload in the foreground removes its record itself.
        let spec = self.store.load::<WorkloadSpec>(&name, Document::Spec);
        self.end_supervisor(&name, grace).await?;
        let spec = spec?;
        if let Some(containers) = self.containers_of(&spec).await? {
            containers.stop_all(grace).await?;
        }
        if let Ok(mut status) = self.store.load::<Status>(&name, Document::Status)
            && (status.phase != Phase::Stopped || status.interrupted)
        {
            status.enter(Phase::Stopped, None, std::time::SystemTime::now());
            status.supervisor = None;
            status.interrupted = false;
            self.store.save(&name, Document::Status, &status)?;
        }
        Ok(())
    }

    /// Stops a workload, and removes its containers, its entries in the configurations of clients, and its record.
    ///
    /// # Errors
    /// `NotFound`; `EngineUnavailable` when its container cannot be removed, in which case the record stays.
    pub async fn remove(&self, name: &str, grace: Duration) -> Result<()> {
        let name = self.find(name)?;
        self.end_supervisor(&name, grace).await?;
        // A damaged record can be removed as well.
        let spec = self.store.load::<WorkloadSpec>(&name, Document::Spec).ok();
        if let Some(spec) = spec.as_ref().filter(|spec| spec.container().is_none()) {
            let others = self.store.names()?.into_iter().filter(|other| *other != name);
            let others = others.filter_map(|other| self.store.load(&other, Document::Spec).ok());
            Box::pin(remote_login::forget(spec, &self.environment, others)).await;
            self.store.remove(&name)?;
            self.clients().remove_workload(name.as_str());
            return Ok(());
        }
        let runtime = self.engine_of(spec.as_ref()).await?;
        let state = self.environment.state_dir.to_string_lossy();
        for container in runtime.list().await? {
            let says = |label, value: &str| container.labels.get(label).is_some_and(|label| label == value);
            if says(labels::NAME, name.as_str()) && says(labels::STATE, &state) {
                if container.state == ContainerState::Running {
                    runtime.stop(&container.id, grace).await?;
                }
                runtime.remove(&container.id).await?;
            }
        }
        secret_delivery::remove_leftover_files(&name, &self.environment);
        self.store.remove(&name)?;
        self.clients().remove_workload(name.as_str());
        Ok(())
    }

    /// Returns the output of a workload's server, with `follow` until it exits.
    ///
    /// # Errors
    /// `NotFound` when there is no such workload, or no container of it; a remote server has none.
    pub async fn logs(&self, name: &str, follow: bool, tail: Option<usize>) -> Result<Logs> {
        let spec = self.spec(name)?;
        match self.containers_of(&spec).await? {
            Some(containers) => container_logs(&containers, follow, tail).await,
            None => Err(no_logs(name)),
        }
    }

    /// Writes the options of a workload to a file for `from_config`. Secrets are left out.
    ///
    /// # Errors
    /// `NotFound`; `Io` when the file cannot be written.
    pub fn export(&self, name: &str, path: &Path) -> Result<()> {
        let text = export::render(&self.spec(name)?)?;
        // It contains values of variables, so only its owner may read it. A pipe or a device is written to directly.
        let place = self.environment.working_dir.join(path);
        let written = match std::fs::metadata(&place) {
            Ok(found) if !found.is_file() => std::fs::write(&place, text),
            _ => replace_file(&place, text.as_bytes()),
        };
        written.map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot write `{}`", path.display())).source(error)
        })
    }

    /// Returns the text that [`export`](Self::export) writes.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn export_text(&self, name: &str) -> Result<String> {
        export::render(&self.spec(name)?)
    }

    /// Accepts the current ignore files of a folder that servers could write to: files that they no longer ignore are
    /// visible after the next start. Returns those whose text has changed.
    ///
    /// # Errors
    /// `NotFound` when there is no such folder, or no server could write to it; `Io`; `InvalidOption` for invalid
    /// patterns.
    pub fn accept_ignore_files(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        ignore::accept(&self.environment.working_dir.join(folder), &self.environment)
    }

    pub(super) fn find(&self, name: &str) -> Result<WorkloadName> {
        let name: WorkloadName = name.parse()?;
        if self.store.names()?.contains(&name) {
            return Ok(name);
        }
        Err(Error::new(ErrorKind::NotFound, format!("there is no workload `{name}`"))
            .hint("`mcpm list` shows all"))
    }

    async fn containers_of(&self, spec: &WorkloadSpec) -> Result<Option<Containers>> {
        Containers::for_workload(spec, &self.environment).await
    }

    /// Queries each engine once that a workload may be on.
    async fn infos(&self, names: &[WorkloadName]) -> Vec<WorkloadInfo> {
        let mut engines: BTreeMap<(Option<String>, Option<RuntimeChoice>), EngineContainers> =
            BTreeMap::new();
        let mut infos = Vec::new();
        for name in names {
            let spec = self.store.load::<WorkloadSpec>(name, Document::Spec);
            // A workload whose record cannot be read may have a container.
            if spec.as_ref().is_ok_and(|spec| spec.container().is_none()) {
                infos.push(self.info_of(name, spec, &Ok(Vec::new())));
                continue;
            }
            let of = |spec: &WorkloadSpec| (spec.engine.clone(), spec.asked.runtime);
            let seen = match engines.entry(spec.as_ref().map(of).unwrap_or_default()) {
                Entry::Occupied(seen) => seen.into_mut(),
                Entry::Vacant(place) => {
                    let containers = self.containers(spec.as_ref().ok()).await;
                    place.insert(containers.map_err(|error| error.to_string()))
                }
            };
            infos.push(self.info_of(name, spec, seen));
        }
        infos
    }

    /// Returns the engine of a workload; the default one if its record is damaged.
    async fn engine_of(&self, spec: Option<&WorkloadSpec>) -> Result<Arc<dyn Runtime>> {
        match spec {
            Some(spec) => runtime_of(&self.environment, spec).await,
            None => runtime(&self.environment, None).await,
        }
    }

    async fn containers(&self, spec: Option<&WorkloadSpec>) -> Result<Vec<ContainerInfo>> {
        self.engine_of(spec).await?.list().await
    }

    fn info_of(
        &self,
        name: &WorkloadName,
        spec: Result<WorkloadSpec>,
        containers: &EngineContainers,
    ) -> WorkloadInfo {
        let status = self.store.load::<Status>(name, Document::Status);
        let (shown, reason) = match (&spec, &status) {
            (Ok(spec), Ok(status)) => {
                let alive = Lock::holder(&self.store.lock_path(name)).is_ok_and(|holder| holder.is_some());
                let reconciled = reconcile(name, status, alive, &view(spec, containers));
                (reconciled.state, reconciled.reason)
            }
            (Err(error), _) | (_, Err(error)) => (WorkloadState::Unknown, Some(error.to_string())),
        };
        let spec = spec.ok();
        let status = status.ok();
        let serves =
            matches!(shown, WorkloadState::Running | WorkloadState::Restarting | WorkloadState::Starting);
        WorkloadInfo {
            name: name.to_string(),
            status: shown,
            reason,
            url: status.as_ref().and_then(|status| status.url.clone()).filter(|_| serves),
            image: spec.as_ref().and_then(WorkloadSpec::container).map(|container| container.image.clone()),
            package: spec.as_ref().and_then(|spec| spec.package.clone()),
            verified: spec.as_ref().and_then(|spec| spec.verified.clone()),
            runtime: spec.as_ref().and_then(|spec| spec.runtime),
            remote: spec.as_ref().and_then(|spec| match &spec.place {
                Placement::Remote(remote) => Some(remote.redacted_url()),
                Placement::Container(_) => None,
            }),
            transport: spec.as_ref().map(|spec| spec.transport),
            group: spec.map(|spec| spec.group),
            restarts: status.as_ref().map_or(0, |status| status.restarts),
            login: status.as_ref().and_then(|status| status.login).filter(|_| serves),
            exit_code: status.as_ref().and_then(|status| status.exit_code),
            created_at: status.map(|status| status.created_at),
        }
    }
}

/// Returns the transport of a workload's proxy.
pub(super) fn client_transport(spec: &WorkloadSpec) -> ProxyMode {
    match spec.transport {
        Transport::Stdio => spec.proxy.mode,
        Transport::Sse => ProxyMode::Sse,
        Transport::StreamableHttp => ProxyMode::StreamableHttp,
    }
}

fn view(spec: &WorkloadSpec, containers: &EngineContainers) -> ContainerView {
    let Some(wanted) = spec.container() else { return ContainerView::NotUsed };
    match containers {
        Err(reason) => ContainerView::Unreachable(reason.clone()),
        Ok(all) => {
            match all.iter().find(|container| container.name == wanted.name && belongs_to(container, wanted))
            {
                None => ContainerView::Gone,
                Some(container) => match container.state {
                    ContainerState::Running => ContainerView::Running,
                    ContainerState::Created => ContainerView::Exited(None),
                    ContainerState::Exited(exit) => ContainerView::Exited(Some(exit.code)),
                },
            }
        }
    }
}

/// Returns the error for a request for a remote server's output.
pub(super) fn no_logs(name: &str) -> Error {
    let message = format!("`{name}` is a remote server, whose output mcpm cannot read");
    Error::new(ErrorKind::NotFound, message)
        .hint(format!("`mcpm logs --proxy {name}` shows the log of its proxy"))
}

/// Returns the output of a workload's first container.
pub(super) async fn container_logs(
    containers: &Containers,
    follow: bool,
    tail: Option<usize>,
) -> Result<Logs> {
    let Some(container) = containers.first().await? else {
        return Err(Error::new(ErrorKind::NotFound, format!("`{}` has no container", containers.spec.name)));
    };
    let logs = containers.runtime.logs(&container.id, LogOptions { follow, tail }).await?;
    Ok(logs.boxed())
}
