//! Containers that mcpm runs itself, without an engine, on Linux.
//!
//! A container is a [`sandbox`] on the layers of an image, with namespaces of its own and without capabilities. If an
//! ordinary user runs mcpm, the user of the image is mapped to that user. A container ends when the process that
//! started it ends.
//!
//! `support` checks whether this machine allows such containers. `container` records containers on disk, `plan` plans
//! the sandbox from the record and the image, `user` and `subordinate_ids` determine its users, `processes` starts and
//! stops containers, `streams` creates their standard streams. `control_group`, in the groups that `hierarchy` finds,
//! and `disk_limit` limit their resources. `build` builds the images of packages, and `host_image` provides a base
//! image that consists of the system folders of this machine.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use async_trait::async_trait;
use futures_util::stream::BoxStream;

use super::{
    Attachment, BuildProgress, BuildRequest, ContainerId, ContainerInfo, ContainerSpec, EngineInfo,
    EngineName, Exit, ImageInfo, LogChunk, LogOptions, PullProgress, Runtime, UntaggedImage,
    network_of_engines,
    output_log::{self, LogWriter},
};
use crate::{
    Environment, Error, ErrorKind, Result,
    blocking::run_blocking,
    image::{
        Digest, ImageReference,
        credentials::CredentialStore,
        store::{ImageStore, ImagesInUse, StoredImage},
    },
};

mod build;
mod container;
mod control_group;
mod disk_limit;
mod hierarchy;
mod host_image;
mod plan;
mod processes;
pub(crate) mod sandbox;
mod streams;
mod subordinate_ids;
mod support;
mod user;

pub(crate) use host_image::REFERENCE as HOST_IMAGE;
pub(crate) use support::shares_abstract_sockets;

use container::{ContainerFolder, Containers, Record};
use disk_limit::DiskLimit;
use hierarchy::Hierarchy;
use host_image::SystemState;
use processes::Processes;
use sandbox::SandboxPlan;
use subordinate_ids::SubordinateIds;

/// The address of this runtime in records.
pub(crate) const ENDPOINT: &str = "builtin:";

/// The built-in runtime of a user.
#[derive(Debug, Clone)]
struct Builtin {
    containers: Containers,
    images: ImageStore,
    system: SystemState,
    credentials: CredentialStore,
    /// A file with further certificate authorities for image registries.
    ca_bundle: Option<PathBuf>,
    processes: Processes,
}

/// Opens the built-in runtime with the state and cache folders of an environment. It needs Linux, and no engine.
///
/// # Errors
/// `EngineUnavailable` if this machine does not allow containers without an engine, with what to change.
pub fn open(environment: &Environment) -> Result<Arc<dyn Runtime>> {
    support::check()?;
    Ok(Arc::new(Builtin::new(environment)?))
}

/// Returns the ids of the images on which containers of an environment's user are based.
///
/// # Errors
/// `Io`; `CorruptState` for a container whose record is damaged.
pub(crate) fn images_in_use(environment: &Environment) -> Result<BTreeSet<Digest>> {
    Containers::new(&environment.state_dir).images()
}

/// Checks which optional features containers of this user can have. Each result has the name of its check; an error
/// says what an administrator can do. Blocks, because it runs the shim and `systemctl`.
pub(crate) fn features() -> [(&'static str, Result<&'static str>); 3] {
    let is_root = rustix::process::geteuid().is_root();
    let ids = match SubordinateIds::find() {
        Err(missing) if !is_root => {
            let message = "a container can have only a single user and group";
            let hint = match missing.contains("NoNewPrivileges") {
                true => "run mcpm without `NoNewPrivileges`, which a systemd unit or a container may set",
                false => {
                    "install the package `uidmap`, and reserve ids with `usermod --add-subuids 100000-165535 \
                     --add-subgids 100000-165535 USER` as root"
                }
            };
            Err(Error::new(ErrorKind::Unsupported, message).source(missing).hint(hint))
        }
        _ => Ok("a container can have a range of users and groups"),
    };
    let limits = match Hierarchy::of_this_user() {
        Some(_) => Ok("control groups can limit memory and processor time"),
        None => Err(control_group::no_groups("memory and processor time cannot be limited")),
    };
    let landlock = support::describe_landlock(sandbox::landlock_version());
    [("runtime.ids", ids), ("runtime.limits", limits), ("runtime.landlock", landlock)]
}

impl Builtin {
    fn new(environment: &Environment) -> Result<Self> {
        Ok(Self {
            containers: Containers::new(&environment.state_dir),
            images: ImageStore::open(&environment.image_store_dir())?,
            system: SystemState::default(),
            credentials: CredentialStore::new(&environment.engine),
            ca_bundle: None,
            processes: Processes::default(),
        })
    }

    /// Runs work on files and locks on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let runtime = self.clone();
        run_blocking(move || work(&runtime)).await
    }

    fn find_image(&self, reference: &ImageReference) -> Result<Option<StoredImage>> {
        match self.find_host_image(reference)? {
            Some(image) => Ok(Some(image)),
            None => self.images.find(reference),
        }
    }

    /// Returns the image of the system folders, if `reference` names it.
    fn find_host_image(&self, reference: &ImageReference) -> Result<Option<StoredImage>> {
        let is_host = reference.to_string() == HOST_IMAGE;
        is_host.then(|| host_image::ensure(&self.images, &self.system)).transpose()
    }

    /// Records a container, which keeps its image in the store.
    fn create_container(&self, spec: &ContainerSpec) -> Result<ContainerId> {
        let reference = ImageReference::parse(&spec.image)?;
        let missing =
            || Error::new(ErrorKind::ImageUnavailable, format!("image `{reference}` is not on this machine"));
        let image = self.find_image(&reference)?;
        // Until the container is recorded, nothing else prevents the removal of its image.
        let _kept = self.images.keep_all()?;
        let image = image.map_or(Ok(None), |image| self.images.get(&image.id))?.ok_or_else(missing)?;
        let record = Record { spec: spec.clone(), image: image.id.to_string() };
        self.containers.create(&record).map(|folder| folder.id())
    }

    /// Returns the folder of a container that does not run, its sandbox and the limit of its disk space; `None` if it runs.
    fn plan(&self, id: &ContainerId) -> Result<Option<(ContainerFolder, SandboxPlan, Option<DiskLimit>)>> {
        let folder = self.containers.require(id)?;
        if folder.running_process().is_some() {
            return Ok(None);
        }
        let record = folder.record()?;
        let image = self.image_of(&record)?;
        let (plan, disk) = plan::of_container(&self.images, &folder, &record, &image)?;
        Ok(Some((folder, plan, disk)))
    }

    /// Copies the image of a container, and returns the sandbox on that copy.
    fn plan_with_copy(&self, id: &ContainerId) -> Result<(SandboxPlan, Option<DiskLimit>)> {
        let folder = self.containers.require(id)?;
        let record = folder.record()?;
        let image = self.image_of(&record)?;
        plan::copy_image(&folder, &image)?;
        plan::of_container(&self.images, &folder, &record, &image)
    }

    fn image_of(&self, record: &Record) -> Result<StoredImage> {
        let gone = || {
            let message = format!("the image of container `{}` was removed", record.spec.name);
            Error::new(ErrorKind::ImageUnavailable, message)
        };
        Digest::parse(&record.image).map_or(Ok(None), |id| self.images.get(&id))?.ok_or_else(gone)
    }
}

#[async_trait]
impl Runtime for Builtin {
    async fn engine(&self) -> Result<EngineInfo> {
        Ok(EngineInfo {
            name: EngineName::Builtin,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            api_version: String::new(),
            endpoint: ENDPOINT.to_owned(),
            reaches_container_addresses: false,
            shares_sockets: true,
            architecture: std::env::consts::ARCH.to_owned(),
            connects_through_mcpm: true,
        })
    }

    async fn image(&self, reference: &ImageReference) -> Result<Option<ImageInfo>> {
        let name = reference.clone();
        let found = self.blocking(move |runtime| runtime.find_image(&name)).await?;
        Ok(found.map(|image| image_info(reference, &image)))
    }

    fn with_ca_bundle(&self, path: &Path) -> Option<Arc<dyn Runtime>> {
        Some(Arc::new(Self { ca_bundle: Some(path.to_owned()), ..self.clone() }))
    }

    async fn pull(
        &self,
        reference: &ImageReference,
        progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<ImageInfo> {
        // This image is made locally.
        let name = reference.clone();
        if let Some(image) = self.blocking(move |runtime| runtime.find_host_image(&name)).await? {
            return Ok(image_info(reference, &image));
        }
        let image =
            self.images.pull(reference, &self.credentials, self.ca_bundle.as_deref(), progress).await?;
        Ok(image_info(reference, &image))
    }

    async fn build(
        &self,
        request: BuildRequest,
        progress: &(dyn Fn(BuildProgress) + Send + Sync),
    ) -> Result<String> {
        build::run(self, request, progress).await
    }

    async fn untagged_images(&self, label: &str) -> Result<Vec<UntaggedImage>> {
        let all = self.blocking(|runtime| runtime.images.list()).await?;
        let untagged = all.into_iter().filter(|image| image.references.is_empty());
        Ok(untagged
            .filter_map(|image| {
                let label_value = image.config.labels.get(label)?.clone();
                let created = image.created.and_then(|time| humantime::parse_rfc3339(&time).ok());
                let since = created.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
                let created = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
                Some(UntaggedImage { id: image.id.to_string(), created, label_value })
            })
            .collect())
    }

    async fn remove_image(&self, id: &str) -> Result<()> {
        let id = id.to_owned();
        let remove = move |runtime: &Self| {
            let in_use = || Ok(ImagesInUse { ids: runtime.containers.images()?, ..ImagesInUse::default() });
            runtime.images.remove(&id, in_use)
        };
        // An image that is gone or in use is left as it is. With a damaged record, it may be in use.
        let left = [ErrorKind::NotFound, ErrorKind::NameTaken, ErrorKind::CorruptState];
        match self.blocking(remove).await {
            Err(error) if left.contains(&error.kind()) => Ok(()),
            removed => removed.map(drop),
        }
    }

    async fn network_exists(&self, name: &str) -> Result<bool> {
        Err(network_of_engines(name))
    }

    async fn gateways(&self) -> Result<Vec<IpAddr>> {
        Ok(Vec::new())
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId> {
        let spec = spec.clone();
        self.blocking(move |runtime| runtime.create_container(&spec)).await
    }

    async fn attach(&self, id: &ContainerId) -> Result<Attachment> {
        let id = id.clone();
        let (folder, log, stdin) = self
            .blocking(move |runtime| {
                let folder = runtime.containers.require(&id)?;
                if folder.running_process().is_some() {
                    let message =
                        format!("the container `{id}` is running, and its output already has a reader");
                    return Err(
                        Error::new(ErrorKind::Unsupported, message).hint("attach to it before it is started")
                    );
                }
                let stdin = folder.record()?.spec.stdin;
                LogWriter::open(folder.log()).map(|log| (folder, log, stdin))
            })
            .await?;
        self.processes.attach(&folder, log, stdin)
    }

    async fn start(&self, id: &ContainerId) -> Result<()> {
        let name = id.clone();
        // The lock prevents other processes from starting or removing the container meanwhile.
        let (_lock, planned) = self
            .blocking(move |runtime| {
                runtime.containers.require(&name)?;
                let lock = runtime.containers.lock(&name)?;
                runtime.plan(&name).map(|planned| (lock, planned))
            })
            .await?;
        let Some((folder, plan, disk)) = planned else { return Ok(()) };
        match self.processes.start(&folder, &plan, disk).await {
            Err(error) if sandbox::is_overlay_failure(&error) => {
                tracing::warn!(%error, container = %id, "overlays cannot be mounted, so the image is copied");
                let name = id.clone();
                let (plan, disk) = self.blocking(move |runtime| runtime.plan_with_copy(&name)).await?;
                self.processes.start(&folder, &plan, disk).await
            }
            outcome => outcome,
        }
    }

    async fn wait(&self, id: &ContainerId) -> Result<Exit> {
        Ok(self.processes.wait(&self.containers.require(id)?).await)
    }

    async fn inspect(&self, id_or_name: &str) -> Result<Option<ContainerInfo>> {
        let name = id_or_name.to_owned();
        self.blocking(move |runtime| runtime.containers.find(&name).map_or(Ok(None), |folder| folder.info()))
            .await
    }

    async fn list(&self) -> Result<Vec<ContainerInfo>> {
        // A container that is removed meanwhile is left out.
        let list = |runtime: &Self| {
            runtime.containers.all()?.iter().filter_map(|folder| folder.info().transpose()).collect()
        };
        self.blocking(list).await
    }

    async fn upload(&self, _id: &ContainerId, _folder: &str, _name: &str, _program: &[u8]) -> Result<()> {
        Err(not_needed("files are mounted"))
    }

    async fn execute(&self, _id: &ContainerId, _command: &[String]) -> Result<Attachment> {
        Err(not_needed("sockets are mounted"))
    }

    async fn logs(
        &self,
        id: &ContainerId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogChunk>>> {
        let folder = self.containers.require(id)?;
        let log = folder.log();
        if folder.has_exited() {
            // The log of a container that has exited is then complete.
            log.wait_for_writer().await;
        }
        let runner = move || folder.running_process().map(|process| process.monitor);
        output_log::read(log, options, None, runner).await
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<()> {
        let Some(folder) = self.containers.find(&id.0) else { return Ok(()) };
        let name = id.clone();
        // Waits for a start in progress, so that the started container is stopped as well.
        self.blocking(move |runtime| runtime.containers.lock(&name).map(drop)).await?;
        processes::stop(&folder, grace).await
    }

    async fn remove(&self, id: &ContainerId) -> Result<()> {
        let Some(folder) = self.containers.find(&id.0) else { return Ok(()) };
        let name = id.clone();
        let lock = self.blocking(move |runtime| runtime.containers.lock(&name)).await?;
        processes::stop(&folder, Duration::ZERO).await?;
        self.processes.forget(id);
        let name = id.clone();
        self.blocking(move |runtime| {
            control_group::remove(folder.path());
            runtime.containers.remove(&name, lock)
        })
        .await
    }
}

fn image_info(reference: &ImageReference, image: &StoredImage) -> ImageInfo {
    ImageInfo {
        id: image.id.to_string(),
        digest: image.digest.as_ref().map(|digest| format!("{}@{digest}", reference.familiar_name())),
        exposed_ports: image.config.exposed_ports.clone(),
        entrypoint: image.config.entrypoint.clone(),
        command: image.config.command.clone(),
        labels: image.config.labels.clone(),
    }
}

/// The error for operations of engines whose containers cannot share files and sockets with this process.
fn not_needed(instead: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("the built-in runtime does not need this operation: {instead}"),
    )
}

#[cfg(test)]
mod ordinary_user_tests;
#[cfg(test)]
#[path = "builtin_tests.rs"]
mod tests;
