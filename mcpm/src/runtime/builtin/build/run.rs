//! Runs the programs of a build, each in a sandbox with limits and a network policy.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    net::Ipv4Addr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::{FutureExt as _, StreamExt as _};

use super::{BuildFolder, Stage, StageLayers, proxies::UpstreamProxies};
use crate::{
    Error, ErrorKind, Result,
    blocking::run_blocking,
    image::store::{ImageStore, flatten_into_layer, is_whole_root},
    isolation::{EgressDecision, HostMap, Isolation, IsolationSpec, MOUNT_POINT, Upstream},
    permission::Outbound,
    runtime::{
        BuildProgress, BuildRequest,
        build_log::BuildLog,
        builtin::{
            control_group::{self, GroupLimits, RemoveOnDrop},
            disk_limit::{self, DiskLimit},
            plan::{self, RootOverlay},
            sandbox::{
                self, MountOperation, SandboxCommand, SandboxNetwork, SandboxPlan, SandboxStream,
                SandboxStreams,
            },
            streams,
            user::ImageUser,
        },
    },
    state::{file::file_error, remove_tree::remove_tree},
};

/// The slot of the only container.
const SLOT: usize = 0;
/// The name of the folder with the shim and its socket.
const LINK_FOLDER: &str = "link";
/// Tells scripts that they may not change the owners of files.
const SINGLE_USER_VARIABLE: &str = "MCPM_SINGLE_USER";

/// Runs a program in the layer of a stage, as the stage's user.
pub(super) async fn run(
    images: &ImageStore,
    request: &BuildRequest,
    folder: &Arc<BuildFolder>,
    stage: &Stage,
    command: &[String],
    log: &mut BuildLog,
    progress: &(dyn Fn(BuildProgress) + Send + Sync),
) -> Result<()> {
    let outbound = match &request.hosts {
        Some(hosts) => Outbound { allow_host: hosts.clone(), ..Outbound::default() },
        None => Outbound { insecure_allow_all: true, ..Outbound::default() },
    };
    let link = folder.subfolder(LINK_FOLDER)?;
    let spec = IsolationSpec { command: command.to_vec(), outbound, runtime_gateway: false, learn: None };
    let denied = Arc::new(Mutex::new(BTreeSet::new()));
    let denials = Arc::clone(&denied);
    let on_decision = Arc::new(move |decision| {
        if let EgressDecision::Denied(denial) = decision {
            // No code panics while it holds the lock.
            denials.lock().unwrap_or_else(PoisonError::into_inner).insert(denial.host.to_string());
        }
    });
    let folder_of_shim = Some((link.as_path(), std::env::consts::ARCH));
    let proxies = UpstreamProxies::from_variables(&request.args)?;
    let upstream: Upstream = Arc::new(move |host, port| {
        proxies.connect(&host.to_string(), port).map(|connecting| connecting.boxed())
    });
    let isolation =
        Isolation::start(folder_of_shim, &spec, None, Vec::new(), on_decision, None, Some(upstream))?;
    let env = environment(stage, &spec);
    isolation.set_config(SLOT, &env)?;
    let plan = async |is_copied: bool| {
        let (images, folder, stage) = (images.clone(), Arc::clone(folder), stage.clone());
        run_blocking(move || {
            if is_copied {
                copy_root(&folder, &stage)?;
            }
            let plan = sandbox_plan(&images, &folder, &stage)?;
            let disk = plan::disk_limit(&plan, &stage.split_layers()?.lower).map(DiskLimit::of_build);
            Ok((plan, disk))
        })
        .await
    };
    let _groups = RemoveOnDrop(folder.0.path().to_owned());
    let spawn = async |plan: SandboxPlan| {
        let streams = SandboxStreams {
            stdin: SandboxStream::Null,
            stdout: SandboxStream::Piped,
            stderr: SandboxStream::Piped,
        };
        let exit_path = folder.path("exit");
        let options = File::options().read(true).write(true).create(true).truncate(true).to_owned();
        let exit_file = options.open(&exit_path).map_err(|error| file_error("write", &exit_path, error))?;
        sandbox::spawn(&plan, streams, exit_file).await
    };
    let (sandbox, mut disk) = plan(false).await?;
    let mut process = match spawn(sandbox).await {
        Err(error) if sandbox::is_overlay_failure(&error) => {
            tracing::warn!(%error, "overlays cannot be mounted on this machine, so the layers of the image are copied");
            let sandbox;
            (sandbox, disk) = plan(true).await?;
            spawn(sandbox).await?
        }
        spawned => spawned?,
    };
    let mut output = streams::output(process.stdout.take(), process.stderr.take());
    let logged = async {
        while let Some(chunk) = output.next().await {
            log.push(&String::from_utf8_lossy(&chunk?.bytes), progress);
        }
        Ok(())
    };
    let limited = async { Ok(disk_limit::enforce(disk, &mut process).await) };
    let ((), exceeded_disk_limit) = tokio::try_join!(logged, limited)?;
    let exit = process
        .wait()
        .await
        .map_err(|error| Error::new(ErrorKind::Io, "cannot wait for a step of the build").source(error))?;
    if exceeded_disk_limit {
        let message = "the build uses more than 32 GiB, a million files, or half of the free disk space";
        return Err(Error::new(ErrorKind::ImageUnavailable, message)
            .hint("free disk space, or use a smaller package"));
    }
    if exit.code == 0 {
        return Ok(());
    }
    log.push("\n", progress);
    let error = log.build_error(&format!("exit status {}", exit.code));
    let denied: Vec<String> = denied.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
    Err(if denied.is_empty() { error } else { error.with("denied hosts", denied.join(", ")) })
}

/// Returns the variables of a program: those of the image, the arguments of the build, and those for mcpm's own proxy,
/// which connects through the configured proxies.
fn environment(stage: &Stage, spec: &IsolationSpec) -> BTreeMap<String, String> {
    let mut env = stage.variables();
    env.extend(stage.args.clone());
    let proxy = HostMap::from_outbound(&spec.outbound, None).proxy_variables();
    env.extend(proxy.into_iter().map(|(name, value)| (name.to_owned(), value)));
    env.insert(SINGLE_USER_VARIABLE.to_owned(), "1".to_owned());
    env
}

/// Makes the layer of a stage a copy of its whole root, for file systems on which overlays cannot be mounted.
fn copy_root(folder: &BuildFolder, stage: &Stage) -> Result<()> {
    let StageLayers { own, lower } = stage.split_layers()?;
    let copy = folder.subfolder("copy")?;
    let all: Vec<PathBuf> = lower.into_iter().chain([own.clone()]).collect();
    flatten_into_layer(&all, &copy)?;
    remove_tree(&own)
        .and_then(|()| fs::rename(&copy, &own))
        .map_err(|error| file_error("replace", &own, error))
}

/// Returns the sandbox of a step.
fn sandbox_plan(images: &ImageStore, folder: &BuildFolder, stage: &Stage) -> Result<SandboxPlan> {
    let link = folder.subfolder(LINK_FOLDER)?;
    let layers = stage.split_layers()?;
    let user = ImageUser::find(&stage.config.user, &layers.lower)?;
    let limits = control_group::limit(folder.0.path(), &GroupLimits::of_build(), user.user)?;
    let (root, overlay) = match is_whole_root(&layers.own) {
        true => (layers.own, None),
        false => {
            let work = folder.subfolder("work")?;
            let overlay = RootOverlay { layers: layers.lower, upper: layers.own, work };
            (folder.subfolder("root")?, Some(overlay))
        }
    };
    let mut mounts = plan::root_mounts(images, stage.base.as_ref(), overlay)?;
    mounts.push(MountOperation::File {
        path: "/etc/resolv.conf".to_owned(),
        content: format!("nameserver {}\n", Ipv4Addr::LOCALHOST).into_bytes(),
        mode: 0o644,
    });
    mounts.push(plan::bind(link, MOUNT_POINT, true));
    Ok(SandboxPlan {
        ids: plan::ids(&user)?,
        network: SandboxNetwork::Private,
        hostname: "build".to_owned(),
        root,
        mounts,
        user: user.user,
        group: user.group,
        groups: Vec::new(),
        working_dir: "/".to_owned(),
        command: SandboxCommand::Isolated { slot: SLOT.to_string() },
        env: plan::default_environment(&user),
        limits,
        writable: vec!["/".to_owned()],
        program_folder: folder.0.path().to_owned(),
    })
}
