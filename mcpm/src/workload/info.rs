//! Determines the status of recorded workloads.

use std::collections::{BTreeMap, btree_map::Entry};

use serde::Serialize;

use super::{PackageSpec, Placement, WorkloadName, WorkloadSpec, Workloads, container::belongs_to};
use crate::{
    Error, ErrorKind, Result,
    image::verify::VerifiedImage,
    options::{RestartMode, RuntimeChoice, Transport},
    runtime::{ContainerInfo, ContainerSpec, ContainerState, EngineName},
    state::{ContainerView, Document, Lock, LoginState, Status, WorkloadState, reconcile},
};

/// The containers of an engine, or why it cannot be queried.
type EngineContainers = std::result::Result<Vec<ContainerInfo>, String>;

/// The status of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
    /// Whether its container runs without control groups, so that nothing limits its memory and processor time. Always
    /// `false` with an engine.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lacks_control_groups: bool,
    /// The URL of a remote server, without its query.
    pub remote: Option<String>,
    /// How the server speaks MCP.
    pub transport: Option<Transport>,
    /// Its group.
    pub group: Option<String>,
    /// When its server is started again after an exit; `None` for a remote server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<RestartMode>,
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

    /// Returns the status of workloads. Each engine on which one of them may run is queried once.
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
            lacks_control_groups: spec
                .as_ref()
                .and_then(WorkloadSpec::container)
                .and_then(|wanted| find(wanted, containers))
                .is_some_and(|container| container.lacks_control_groups),
            remote: spec.as_ref().and_then(|spec| match &spec.place {
                Placement::Remote(remote) => Some(remote.redacted_url()),
                Placement::Container(_) => None,
            }),
            transport: spec.as_ref().map(|spec| spec.transport),
            restart: spec.as_ref().filter(|spec| spec.container().is_some()).map(WorkloadSpec::restart_mode),
            group: spec.map(|spec| spec.group),
            restarts: status.as_ref().map_or(0, |status| status.restarts),
            login: status.as_ref().and_then(|status| status.login).filter(|_| serves),
            exit_code: status.as_ref().and_then(|status| status.exit_code),
            created_at: status.map(|status| status.created_at),
        }
    }
}

fn view(spec: &WorkloadSpec, containers: &EngineContainers) -> ContainerView {
    let Some(wanted) = spec.container() else { return ContainerView::NotUsed };
    if let Err(reason) = containers {
        return ContainerView::Unreachable(reason.clone());
    }
    match find(wanted, containers).map(|container| container.state) {
        None => ContainerView::Gone,
        Some(ContainerState::Running) => ContainerView::Running,
        Some(ContainerState::Created) => ContainerView::Exited(None),
        Some(ContainerState::Exited(exit)) => ContainerView::Exited(Some(exit.code)),
    }
}

fn find<'a>(wanted: &ContainerSpec, containers: &'a EngineContainers) -> Option<&'a ContainerInfo> {
    let all = containers.as_ref().ok()?;
    all.iter().find(|container| container.name == wanted.name && belongs_to(container, wanted))
}
