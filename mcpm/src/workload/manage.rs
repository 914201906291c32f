//! Workloads on record: found, shown as they are, stopped, removed, exported.

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
    export, ignore, secret_delivery,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    image::verify::VerifiedImage,
    options::{RuntimeChoice, Transport},
    runtime::{ContainerInfo, ContainerState, LogChunk, LogOptions, Runtime, labels},
    secrets::SecretValues,
    state::{
        ContainerView, Document, Groups, Lock, Phase, Status, Store, WorkloadState, reconcile, replace_file,
    },
};

/// How much longer than the server's grace a supervisor may take to end.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(10);

/// The containers an engine has, or why it cannot be asked.
type EngineContainers = std::result::Result<Vec<ContainerInfo>, String>;

/// What a server wrote, in pieces, oldest first.
pub type Logs = BoxStream<'static, Result<LogChunk>>;

/// The workloads that are on record on this machine.
#[derive(Debug, Clone)]
pub struct Workloads {
    environment: Environment,
    store: Store,
}

/// A workload as it is now.
#[derive(Debug, Clone, Serialize)]
pub struct WorkloadInfo {
    /// Its name.
    pub name: String,
    /// How it is.
    pub status: WorkloadState,
    /// Why, when that is not plain.
    pub reason: Option<String>,
    /// Where clients connect.
    pub url: Option<String>,
    /// Its image; `None` for a remote server.
    pub image: Option<String>,
    /// The package that its image was built for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<PackageSpec>,
    /// Who signed its image, where that was verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifiedImage>,
    /// Where a remote server is, without the query of its URL.
    pub remote: Option<String>,
    /// How the server speaks MCP.
    pub transport: Option<Transport>,
    /// Its group.
    pub group: Option<String>,
    /// How often its server was started again.
    pub restarts: u32,
    /// How its server last ended.
    pub exit_code: Option<i64>,
    /// When it was made, in RFC 3339.
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

    /// Returns all workloads in the order of their names, as the engine and their supervisors say they are.
    ///
    /// # Errors
    /// `Io` when the records cannot be read. An engine that cannot be asked is said in the status.
    pub async fn list(&self) -> Result<Vec<WorkloadInfo>> {
        let names = self.store.names()?;
        Ok(self.infos(&names).await)
    }

    /// Returns one workload as it is.
    ///
    /// # Errors
    /// `NotFound`; `InvalidOption` for what is no name.
    pub async fn info(&self, name: &str) -> Result<WorkloadInfo> {
        let name = self.find(name)?;
        let lost = || Error::new(ErrorKind::NotFound, format!("there is no workload `{name}`"));
        self.infos(std::slice::from_ref(&name)).await.pop().ok_or_else(lost)
    }

    /// Returns what a workload was started from.
    ///
    /// # Errors
    /// `NotFound`; `CorruptState` when the record is damaged.
    pub fn spec(&self, name: &str) -> Result<WorkloadSpec> {
        self.store.load(&self.find(name)?, Document::Spec)
    }

    /// Reads the values of a workload's secrets, as its next start needs them. One that the user typed at its first
    /// start, and that is kept nowhere, is asked for again.
    ///
    /// # Errors
    /// `NotFound` for the workload and for missing secrets; `SecretsUnavailable`; `Interrupted`.
    pub async fn secrets(&self, name: &str) -> Result<SecretValues> {
        secret_delivery::read_values(&self.spec(name)?, &self.environment).await
    }

    /// Returns the file that a workload's supervisor writes its log to.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn log_path(&self, name: &str) -> Result<PathBuf> {
        Ok(self.store.log_path(&self.find(name)?))
    }

    /// Ends a workload, wherever it runs; its server gets `grace` to end by itself. Ended already is success.
    ///
    /// # Errors
    /// `NotFound`; `EngineUnavailable` when its container cannot be reached.
    pub async fn stop(&self, name: &str, grace: Duration) -> Result<()> {
        let name = self.find(name)?;
        // A run in the foreground takes its record with it.
        let spec = self.store.load::<WorkloadSpec>(&name, Document::Spec);
        self.end_supervisor(&name, grace).await?;
        let spec = spec?;
        if let Some(containers) = self.containers_of(&spec).await? {
            containers.stop_all(grace).await?;
        }
        if let Ok(mut status) = self.store.load::<Status>(&name, Document::Status)
            && status.phase != Phase::Stopped
        {
            status.enter(Phase::Stopped, None, std::time::SystemTime::now());
            status.supervisor = None;
            self.store.save(&name, Document::Status, &status)?;
        }
        Ok(())
    }

    /// Ends a workload and forgets it: its containers and its record are removed.
    ///
    /// # Errors
    /// `NotFound`; `EngineUnavailable` when its container cannot be removed: the record stays then.
    pub async fn remove(&self, name: &str, grace: Duration) -> Result<()> {
        let name = self.find(name)?;
        self.end_supervisor(&name, grace).await?;
        // A damaged record must be removable too.
        let spec = self.store.load::<WorkloadSpec>(&name, Document::Spec).ok();
        if spec.as_ref().is_some_and(|spec| spec.container().is_none()) {
            return self.store.remove(&name);
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
        self.store.remove(&name)
    }

    /// Returns what a workload's server wrote, and with `follow` what it writes until it ends.
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

    /// Writes what was asked of a workload to a file that `--from-config` reads. Secrets are left out.
    ///
    /// # Errors
    /// `NotFound`; `Io` when the file cannot be written.
    pub fn export(&self, name: &str, path: &Path) -> Result<()> {
        let text = export::render(&self.spec(name)?)?;
        // Values of variables are in it, so it is for its owner alone. A pipe or a device is written to as it is.
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

    /// Takes the ignore files of a folder that servers could write to for the user's own, as they are now: what they
    /// let in is no longer covered after the next start. Returns those whose text was not known so.
    ///
    /// # Errors
    /// `NotFound` when there is no such folder, or no server could write to it; `Io`; `InvalidOption` for patterns
    /// that cannot be understood.
    pub fn accept_ignore_files(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        ignore::accept(&self.environment.working_dir.join(folder), &self.environment)
    }

    fn find(&self, name: &str) -> Result<WorkloadName> {
        let name: WorkloadName = name.parse()?;
        if self.store.names()?.contains(&name) {
            return Ok(name);
        }
        Err(Error::new(ErrorKind::NotFound, format!("there is no workload `{name}`"))
            .hint("`mcpm list` shows all"))
    }

    /// Ends the process that supervises a workload, if there is one.
    async fn end_supervisor(&self, name: &WorkloadName, grace: Duration) -> Result<()> {
        let Some(holder) = Lock::holder(&self.store.lock_path(name))? else { return Ok(()) };
        let Some(process) = holder.process else { return Ok(()) };
        if process == crate::state::ProcessId::current() {
            return Err(Error::new(ErrorKind::InvalidOption, format!("`{name}` runs in this process"))
                .hint("stop its handle"));
        }
        if process.terminate()? && !process.wait_exit(grace + SUPERVISOR_GRACE).await {
            process.kill()?;
            process.wait_exit(SUPERVISOR_GRACE).await;
        }
        Ok(())
    }

    async fn containers_of(&self, spec: &WorkloadSpec) -> Result<Option<Containers>> {
        Containers::for_workload(spec, &self.environment).await
    }

    /// Asks each engine once that a workload may be on.
    async fn infos(&self, names: &[WorkloadName]) -> Vec<WorkloadInfo> {
        let mut engines: BTreeMap<(Option<String>, Option<RuntimeChoice>), EngineContainers> =
            BTreeMap::new();
        let mut infos = Vec::new();
        for name in names {
            let spec = self.store.load::<WorkloadSpec>(name, Document::Spec);
            // One that cannot be read may have a container.
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

    /// The engine that has a workload; the one that is found, when its record is damaged.
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
            remote: spec.as_ref().and_then(|spec| match &spec.place {
                Placement::Remote(remote) => Some(remote.redacted_url()),
                Placement::Container(_) => None,
            }),
            transport: spec.as_ref().map(|spec| spec.transport),
            group: spec.map(|spec| spec.group),
            restarts: status.as_ref().map_or(0, |status| status.restarts),
            exit_code: status.as_ref().and_then(|status| status.exit_code),
            created_at: status.map(|status| status.created_at),
        }
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

/// Why a remote server's output cannot be shown.
pub(super) fn no_logs(name: &str) -> Error {
    let message = format!("`{name}` is a remote server, whose output is not seen here");
    Error::new(ErrorKind::NotFound, message)
        .hint(format!("`mcpm logs --proxy {name}` shows that of its proxy"))
}

/// What the first container of a workload wrote.
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
