//! Creates the plan of a container's sandbox: its root from the layers of the image, its mounts, user and program.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::{
    container::{ContainerFolder, Record},
    control_group::{self, GroupLimits},
    disk_limit::DiskLimit,
    host_image,
    sandbox::{
        BindMount, IdMap, MountOperation, SandboxCommand, SandboxLimits, SandboxNetwork, SandboxPlan,
        TmpfsMount, standard_mounts,
    },
    subordinate_ids::SubordinateIds,
    user::ImageUser,
};
use crate::{
    Error, ErrorKind, Result,
    image::store::{ImageStore, StoredImage, flatten},
    name::shortened,
    platform::set_mode,
    runtime::{ContainerSpec, Mount, Network},
    state::file::file_error,
};

/// The default of `PATH`, as container engines have it.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Most open files, as container engines have it.
const MAX_OPEN_FILES: u64 = 1 << 20;
/// The folder of a container with a copy of its image, if overlays cannot be mounted.
const COPY_FOLDER: &str = "copy";
/// Longest host name, as in the kernel.
const MAX_HOST_NAME_LENGTH: usize = 64;
const HOSTS: &str = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";

/// Returns the sandbox of a container and the limit of its disk space.
///
/// # Errors
/// `ImageUnavailable` if the image names a user that it does not have; `InvalidOption` if there is nothing to run;
/// `Io`.
pub(super) fn of_container(
    images: &ImageStore,
    folder: &ContainerFolder,
    record: &Record,
    image: &StoredImage,
) -> Result<(SandboxPlan, Option<DiskLimit>)> {
    let spec = &record.spec;
    let user = ImageUser::find(&image.config.user, &image.layers)?;
    let copy = folder.file(COPY_FOLDER);
    let (root, overlay) = match copy.is_dir() {
        true => (copy, None),
        false => (folder.subfolder("root")?, Some(overlay(folder, image)?)),
    };
    let mut mounts = root_mounts(images, Some(image), overlay)?;
    mounts.extend(network_files(spec));
    mounts.extend(volumes(spec));
    let working_dir = working_dir(image);
    mounts.push(MountOperation::Folder { path: working_dir.clone(), mode: 0o755 });
    let writable = match spec.confinement.read_only_root {
        true => {
            mounts.push(MountOperation::ReadOnly { target: "/".to_owned() });
            writable_mounts(spec)
        }
        false => vec!["/".to_owned()],
    };
    let limits = control_group::limit(folder.path(), &GroupLimits::of_container(spec), user.user)?;
    let plan = SandboxPlan {
        ids: ids(&user)?,
        network: if spec.network == Network::Host { SandboxNetwork::Host } else { SandboxNetwork::Private },
        hostname: host_name(spec).to_owned(),
        root,
        mounts,
        user: user.user,
        group: user.group,
        groups: Vec::new(),
        working_dir,
        command: command(spec, image)?,
        env: environment(image, &spec.env, &user),
        limits: SandboxLimits { open_files: Some(MAX_OPEN_FILES), ..limits },
        writable,
        program_folder: folder.path().to_owned(),
    };
    let disk = disk_limit(&plan, &image.layers);
    Ok((plan, disk))
}

/// Returns the mounts of folders in memory and of volumes, and the mounts that hide parts of them. A folder comes
/// before the folders in it, so that no mount hides another one.
fn volumes(spec: &ContainerSpec) -> impl Iterator<Item = MountOperation> {
    let tmpfs = spec.confinement.tmpfs.iter().map(|(target, size)| {
        let mount = TmpfsMount { target: target.clone(), size: *size, mode: 0o1777, no_exec: true };
        (target.clone(), MountOperation::Tmpfs(mount))
    });
    let volume =
        |mount: &Mount| (mount.target.clone(), bind(mount.source.clone(), &mount.target, mount.read_only));
    let mut all: Vec<_> = tmpfs.chain(spec.mounts.iter().map(volume)).collect();
    all.sort_by_key(|(target, _)| Path::new(target).components().count());
    all.into_iter().chain(spec.overlays.iter().map(volume)).map(|(_, operation)| operation)
}

/// Returns the layers of the image below a folder of the container.
fn overlay(folder: &ContainerFolder, image: &StoredImage) -> Result<RootOverlay> {
    let upper = folder.subfolder("upper")?;
    // The root gets the mode of this folder.
    set_mode(&upper, 0o755).map_err(|error| file_error("change", &upper, error))?;
    Ok(RootOverlay { layers: image.layers.clone(), upper, work: folder.subfolder("work")? })
}

/// Returns the limit of the disk space for changes of the root; `None` if the root is read-only. A root without an
/// overlay is a copy of `layers`.
pub(super) fn disk_limit(plan: &SandboxPlan, layers: &[PathBuf]) -> Option<DiskLimit> {
    let is_writable = plan.writable.iter().any(|path| path == "/");
    let changes = plan.mounts.iter().find_map(|mount| match mount {
        MountOperation::Overlay { writable: Some((upper, _)), .. } => Some(upper.clone()),
        _ => None,
    });
    is_writable.then(|| match changes {
        Some(upper) => DiskLimit::new(upper, Vec::new()),
        None => DiskLimit::new(plan.root.clone(), layers.to_vec()),
    })
}

/// Copies the image of a container. The copy becomes its root, for file systems on which overlays cannot be mounted.
///
/// # Errors
/// `Io`.
pub(super) fn copy_image(folder: &ContainerFolder, image: &StoredImage) -> Result<()> {
    let (draft, copy) = (folder.subfolder("copy.new")?, folder.file(COPY_FOLDER));
    flatten(image, &draft)?;
    fs::rename(&draft, &copy).map_err(|error| file_error("move", &draft, error))
}

/// Layers, lowest first, below a folder for changes.
pub(super) struct RootOverlay {
    pub(super) layers: Vec<PathBuf>,
    pub(super) upper: PathBuf,
    pub(super) work: PathBuf,
}

/// Returns the mounts of the root: an overlay, unless the root folder itself contains all files; the system folders, if
/// the image is based on them; process files and devices.
///
/// # Errors
/// `Io`.
pub(super) fn root_mounts(
    images: &ImageStore,
    image: Option<&StoredImage>,
    overlay: Option<RootOverlay>,
) -> Result<Vec<MountOperation>> {
    let mut mounts = Vec::new();
    if let Some(RootOverlay { layers, upper, work }) = overlay {
        let lower = layers.into_iter().rev().collect();
        mounts.push(MountOperation::Overlay { target: "/".to_owned(), lower, writable: Some((upper, work)) });
    }
    if let Some(image) = image {
        mounts.extend(host_image::system_mounts(images, image)?);
    }
    mounts.extend(standard_mounts());
    Ok(mounts)
}

/// Returns the host name: that of the container, truncated to what the kernel allows.
fn host_name(spec: &ContainerSpec) -> &str {
    shortened(&spec.name, MAX_HOST_NAME_LENGTH)
}

/// Returns the mount of a file or folder of this machine.
pub(super) fn bind(source: PathBuf, target: &str, read_only: bool) -> MountOperation {
    MountOperation::Bind(BindMount { source, target: target.to_owned(), read_only, ..BindMount::default() })
}

/// Returns the paths of a container with a read-only root that its program may write to.
fn writable_mounts(spec: &ContainerSpec) -> Vec<String> {
    let mounts = spec.mounts.iter().filter(|mount| !mount.read_only).map(|mount| mount.target.clone());
    spec.confinement.tmpfs.keys().cloned().chain(mounts).collect()
}

/// Maps the users of a container. For root, all users are mapped to themselves; for an ordinary user, the image's user
/// is mapped to this process's user, and all others to the ids that are reserved for this user.
pub(super) fn ids(user: &ImageUser) -> Result<IdMap> {
    let (own_user, own_group) = (rustix::process::geteuid(), rustix::process::getegid());
    if own_user.is_root() {
        return IdMap::identity().map_err(|error| {
            Error::new(ErrorKind::Io, "cannot read the id maps of this process").source(error)
        });
    }
    let (own_user, own_group) = (own_user.as_raw(), own_group.as_raw());
    let map = IdMap::single(user.user, own_user, user.group, own_group);
    Ok(match SubordinateIds::find() {
        Ok(SubordinateIds { users, groups }) => IdMap {
            privileged_users: Some(users.map_around(user.user, own_user)),
            privileged_groups: Some(groups.map_around(user.group, own_group)),
            ..map
        },
        Err(missing) => {
            tracing::debug!(missing, "the container has a single user");
            map
        }
    })
}

/// Returns the files with the host names and the name servers.
fn network_files(spec: &ContainerSpec) -> Vec<MountOperation> {
    let file = |name: &str, content: String| MountOperation::File {
        path: format!("/etc/{name}"),
        content: content.into_bytes(),
        mode: 0o644,
    };
    let hostname = file("hostname", format!("{}\n", host_name(spec)));
    if spec.network == Network::Host {
        let files = ["/etc/hosts", "/etc/resolv.conf"].into_iter().filter(|name| Path::new(name).exists());
        return files.map(|name| bind(PathBuf::from(name), name, true)).chain([hostname]).collect();
    }
    let servers = spec.entry.as_ref().map(|entry| format!("nameserver {}\n", entry.name_server));
    let hosts = format!("{HOSTS}127.0.0.1\t{}\n", host_name(spec));
    vec![hostname, file("hosts", hosts), file("resolv.conf", servers.unwrap_or_default())]
}

/// Returns the working folder of the program, which is created if the image lacks it.
fn working_dir(image: &StoredImage) -> String {
    match image.config.working_dir.as_str() {
        "" => "/".to_owned(),
        folder => folder.to_owned(),
    }
}

fn command(spec: &ContainerSpec, image: &StoredImage) -> Result<SandboxCommand> {
    if let Some(entry) = &spec.entry {
        // The shim is the first process already; the last argument is the slot of the container.
        let slot = entry.command.last().cloned().unwrap_or_default();
        return Ok(SandboxCommand::Isolated { slot });
    }
    let args = if spec.args.is_empty() { &image.config.command } else { &spec.args };
    let args: Vec<String> = image.config.entrypoint.iter().chain(args).cloned().collect();
    if args.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOption, "the image specifies no command")
            .hint("specify one with `args`"));
    }
    Ok(SandboxCommand::Program { args })
}

/// Returns the variables of the image and of the container; the container's take precedence.
fn environment(
    image: &StoredImage,
    given: &BTreeMap<String, String>,
    user: &ImageUser,
) -> BTreeMap<String, String> {
    let mut env = default_environment(user);
    let of_image = image.config.env.iter().filter_map(|variable| variable.split_once('='));
    env.extend(of_image.map(|(name, value)| (name.to_owned(), value.to_owned())));
    env.extend(given.clone());
    env
}

/// Returns the variables that every program has.
pub(super) fn default_environment(user: &ImageUser) -> BTreeMap<String, String> {
    let home = user.home.clone().unwrap_or_else(|| "/".to_owned());
    BTreeMap::from([("HOME".to_owned(), home), ("PATH".to_owned(), DEFAULT_PATH.to_owned())])
}
