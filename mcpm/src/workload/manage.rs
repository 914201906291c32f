//! Stops, removes and exports recorded workloads, reads their specs, secrets and logs, and provides their stdio
//! bridges, tunnel targets and client targets.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    WorkloadName, WorkloadSpec,
    container::Containers,
    engine::{runtime, runtime_of},
    export, ignore, remote_login, secret_delivery,
    server_output::{self, Logs, ServerLogOptions},
};
use crate::{
    Environment, Error, ErrorKind, Result,
    clients::{ClientTarget, Clients},
    image::{ImageReference, store::ImagesInUse},
    options::{ProxyMode, Transport},
    runtime::{ContainerState, Runtime, builtin, labels},
    secrets::SecretValues,
    state::{Document, Groups, Phase, ProcessId, Status, Store, WorkloadState, replace_file},
    stdio_bridge::{StdioBridge, StdioBridgeBuilder},
    tunnel::TunnelTarget,
};

/// The recorded workloads of this machine.
#[derive(Debug, Clone)]
pub struct Workloads {
    pub(super) environment: Environment,
    pub(super) store: Store,
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

    /// Returns the spec of a workload.
    ///
    /// # Errors
    /// `NotFound`; `CorruptState` when the record is damaged.
    pub fn spec(&self, name: &str) -> Result<WorkloadSpec> {
        self.store.load(&self.find(name)?, Document::Spec)
    }

    /// Returns the images of all recorded workloads, running or not, and of the containers of the built-in runtime. An
    /// image store must not remove these images.
    ///
    /// # Errors
    /// `Io`; `CorruptState` when a record is damaged, since the workload's image is then unknown.
    pub fn images_in_use(&self) -> Result<ImagesInUse> {
        let mut references = Vec::new();
        for name in self.store.names()? {
            let spec: WorkloadSpec = self.store.load(&name, Document::Spec)?;
            if let Some(container) = spec.container() {
                references.push(ImageReference::parse(&container.image)?);
            }
        }
        Ok(ImagesInUse { references, ids: builtin::images_in_use(&self.environment)? })
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

    /// Returns the description of a running workload for the configuration of a client.
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
        let info = self.info(name).await?;
        if info.url.is_none() && info.status == WorkloadState::Running {
            let message = format!("`{name}` has no port: only the program that started it can use it");
            return Err(Error::new(ErrorKind::Upstream, message));
        }
        info.url.ok_or_else(|| {
            let status = info.status.as_str();
            Error::new(ErrorKind::Upstream, format!("`{name}` is not running (status: {status})"))
                .hint(format!("`mcpm start {name}` starts it"))
        })
    }

    /// Stops a workload, whichever process runs it; its server gets `grace` to exit by itself. Does nothing if it has
    /// stopped already.
    ///
    /// # Errors
    /// `NotFound`; `EngineUnavailable` when its container cannot be reached.
    pub async fn stop(&self, name: &str, grace: Duration) -> Result<()> {
        self.stop_for(name, grace, None).await
    }

    /// Stops a workload as [`stop`](Self::stop) does. Readers that follow its logs wait for this process, which is
    /// about to start the workload again.
    ///
    /// # Errors
    /// As for [`stop`](Self::stop).
    pub async fn stop_to_restart(&self, name: &str, grace: Duration) -> Result<()> {
        self.stop_for(name, grace, Some(ProcessId::current())).await
    }

    async fn stop_for(&self, name: &str, grace: Duration, restarted_by: Option<ProcessId>) -> Result<()> {
        let name = self.find(name)?;
        // A workload in the foreground may have removed its record itself.
        let spec = self.store.load::<WorkloadSpec>(&name, Document::Spec);
        self.end_supervisor(&name, grace, restarted_by).await?;
        let spec = spec?;
        if let Some(containers) = self.containers_of(&spec).await.map_err(after_proxy)? {
            containers.stop_all(grace).await.map_err(after_proxy)?;
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
        self.end_supervisor(&name, grace, None).await?;
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
        let runtime = self.engine_of(spec.as_ref()).await.map_err(after_proxy)?;
        let state = self.environment.state_dir.to_string_lossy();
        for container in runtime.list().await.map_err(after_proxy)? {
            let says = |label, value: &str| container.labels.get(label).is_some_and(|label| label == value);
            if says(labels::NAME, name.as_str()) && says(labels::STATE, &state) {
                if container.state == ContainerState::Running {
                    runtime.stop(&container.id, grace).await.map_err(after_proxy)?;
                }
                runtime.remove(&container.id).await.map_err(after_proxy)?;
            }
        }
        secret_delivery::remove_leftover_files(&name, &self.environment);
        self.store.remove(&name)?;
        self.clients().remove_workload(name.as_str());
        Ok(())
    }

    /// Returns the output of a workload's server; with `follow`, the stream continues until the workload has ended. The
    /// output of a stdio server is what it writes to standard error.
    ///
    /// # Errors
    /// `NotFound` when there is no such workload, or when it is a remote server.
    pub async fn logs(&self, name: &str, follow: bool, tail: Option<usize>) -> Result<Logs> {
        self.logs_with(name, ServerLogOptions { follow, tail, ..ServerLogOptions::default() }).await
    }

    /// Returns the output of a workload's server, or its messages.
    ///
    /// # Errors
    /// As for [`logs`](Self::logs); `InvalidOption` for the messages of a server that speaks HTTP.
    pub async fn logs_with(&self, name: &str, options: ServerLogOptions) -> Result<Logs> {
        let spec = self.spec(name)?;
        if spec.container().is_none() {
            return Err(no_logs(name));
        }
        if options.protocol && spec.transport != Transport::Stdio {
            let message = format!("`{name}` speaks HTTP: only messages of stdio servers can be shown");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        server_output::read(&self.store, &spec.name, options).await
    }

    /// Writes the options of a workload to a file for `from_config`. Secrets are left out.
    ///
    /// # Errors
    /// `NotFound`; `Io` when the file cannot be written.
    pub fn export(&self, name: &str, path: &Path) -> Result<()> {
        let text = export::render(&self.spec(name)?)?;
        // The file contains values of variables, so only its owner may read it. If the path is a pipe or a device, it
        // is written to directly.
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

    /// Returns the engine of a workload; the default engine if the workload's record is damaged.
    pub(super) async fn engine_of(&self, spec: Option<&WorkloadSpec>) -> Result<Arc<dyn Runtime>> {
        match spec {
            Some(spec) => runtime_of(&self.environment, spec).await,
            None => runtime(&self.environment, None).await,
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

/// Returns the error for a request for a remote server's output.
pub(super) fn no_logs(name: &str) -> Error {
    let message = format!("`{name}` is a remote server, whose output mcpm cannot read");
    Error::new(ErrorKind::NotFound, message)
        .hint(format!("`mcpm logs --proxy {name}` shows the log of its proxy"))
}

/// Adds to the error of an engine that does not respond that the proxy of the workload has ended, although its
/// container remains.
fn after_proxy(error: Error) -> Error {
    if error.kind() == ErrorKind::EngineUnavailable {
        error.with("done so far", "the workload's proxy has ended")
    } else {
        error
    }
}
