//! Checks for problems that would prevent workloads from running on this machine, and removes leftover containers.

mod finding;
mod network;

use std::{fs, io, net::TcpListener, path::Path, sync::Arc, time::Duration};

use tokio::time::timeout;

pub use finding::{Finding, Severity};

use super::{Workloads, engine};
use crate::{
    Environment, Error, ErrorKind, Result,
    blocking::run_blocking,
    registry::Registry,
    runtime::{
        ContainerId, ContainerState, Runtime, builtin,
        discover::{discover, is_configured},
        labels,
    },
    secrets::{Provider, Secrets, StoreConfig, check_keyring},
    state::WorkloadState,
};

/// Timeout of one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of the engine, after which the built-in runtime is still checked.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(15);
/// Free space below which there is a warning, in bytes.
#[cfg(unix)]
const LOW_SPACE: u64 = 1 << 30;

/// Checks this machine, the settings and the recorded workloads, and returns what was found: runtimes, folders, ports,
/// the clock, the secret store, the registry, workloads, the network in their containers, and containers that are left
/// over. Nothing is changed. No check takes longer than 20 s, and those that wait run at the same time.
pub async fn diagnose(environment: &Environment) -> Vec<Finding> {
    let (engines, clock, store, keyring, registry, workloads, network, left) = tokio::join!(
        limited("runtime.engine", Severity::Error, async || runtimes(environment).await),
        limited("clock", Severity::Ok, async || vec![network::clock().await]),
        limited("secrets.store", Severity::Warning, async || vec![secret_store(environment).await]),
        limited("secrets.keyring", Severity::Warning, async || vec![keyring(environment).await]),
        limited("registry.reach", Severity::Warning, async || vec![registry(environment).await]),
        limited("workloads.state", Severity::Error, async || workloads(environment).await),
        limited("containers.dns", Severity::Warning, async || network::containers(environment).await),
        limited("containers.leftover", Severity::Warning, async || leftovers(environment).await),
    );
    let fixed = folders(environment).into_iter().chain([loopback()]);
    let waited = [clock, store, keyring, registry, workloads, network, left];
    engines.into_iter().chain(fixed).chain(waited.into_iter().flatten()).collect()
}

/// Removes containers that belong to no recorded workload and do not run. Returns what was done, and the first error of
/// the engine or the state folder.
pub async fn repair(environment: &Environment) -> (Vec<String>, Option<Error>) {
    let (runtime, left) = match leftover_containers(environment).await {
        Ok(found) => found,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let (mut done, mut failed) = (Vec::new(), None);
    for (id, name) in left {
        match runtime.remove(&id).await {
            Ok(()) => done.push(format!("removed the container `{name}`")),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    (done, failed)
}

/// Runs checks with a timeout; if they exceed it, that is a finding of this severity.
async fn limited(
    id: &'static str,
    severity: Severity,
    check: impl AsyncFnOnce() -> Vec<Finding>,
) -> Vec<Finding> {
    timeout(CHECK_TIMEOUT, Box::pin(check())).await.unwrap_or_else(|_| {
        let message = format!("no response within {} s", CHECK_TIMEOUT.as_secs());
        let fix =
            if id.starts_with("runtime.") || id.starts_with("workloads.") || id.starts_with("containers.") {
                "restart the container engine"
            } else if id.starts_with("secrets.") {
                "check that the keyring is unlocked"
            } else {
                "check the network connection and try again"
            };
        vec![Finding { severity, ..Finding::warning(id, message, fix) }]
    })
}

/// Checks the engine and the built-in runtime, one of which is sufficient. Without an engine, also checks the optional
/// features of the built-in runtime.
async fn runtimes(environment: &Environment) -> Vec<Finding> {
    let description = async { discover(&environment.engine, None).await?.engine().await };
    let engine = timeout(ENGINE_TIMEOUT, description).await.unwrap_or_else(|_| {
        let message = format!("the container engine does not respond within {} s", ENGINE_TIMEOUT.as_secs());
        Err(Error::new(ErrorKind::EngineUnavailable, message).hint("restart the container engine"))
    });
    let own = match builtin::open(environment) {
        Ok(own) => own.engine().await,
        Err(error) => Err(error),
    };
    let engine_severity =
        if is_configured(&environment.engine) || own.is_err() { Severity::Error } else { Severity::Warning };
    let engine_finding = match &engine {
        Ok(info) => {
            let place =
                if info.reaches_container_addresses { "" } else { ", rootless or in a virtual machine" };
            Finding::ok(
                "runtime.engine",
                format!("{} {} at {}{place}", info.name, info.version, info.endpoint),
            )
        }
        Err(error) => Finding::of_error("runtime.engine", engine_severity, error),
    };
    let own_finding = match &own {
        Ok(_) => Finding::ok("runtime.builtin", "the built-in runtime can be used"),
        Err(error) => Finding::of_error("runtime.builtin", Severity::Warning, error),
    };
    let mut findings = vec![engine_finding, own_finding];
    // A user who has an engine does not need these features.
    if own.is_ok() && engine.is_err() {
        match run_blocking(|| Ok(builtin::features())).await {
            Ok(features) => findings.extend(features.into_iter().map(|(id, feature)| match feature {
                Ok(text) => Finding::ok(id, text),
                Err(error) => Finding::of_error(id, Severity::Warning, &error),
            })),
            Err(error) => findings.push(Finding::of_error("runtime.features", Severity::Warning, &error)),
        }
    }
    findings
}

fn folders(environment: &Environment) -> Vec<Finding> {
    let folders = [
        ("folders.state", &environment.state_dir),
        ("folders.cache", &environment.cache_dir),
        ("folders.config", &environment.config_dir),
    ];
    folders.into_iter().map(|(id, folder)| check_folder(id, folder)).collect()
}

/// Checks that files can be created in a folder or, if it does not exist, in the nearest existing folder above it.
fn check_folder(id: &'static str, folder: &Path) -> Finding {
    let there = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    let shown = folder.display();
    if let Err(error) = is_writable(there) {
        let message = format!("`{shown}` cannot be written: {error}");
        let fix = format!("make `{}` writable for this user", there.display());
        return Finding { severity: Severity::Error, ..Finding::warning(id, message, fix) };
    }
    #[cfg(unix)]
    if let Ok(free) = rustix::fs::statvfs(there)
        && free.f_bavail.saturating_mul(free.f_frsize) < LOW_SPACE
    {
        let mebibytes = free.f_bavail.saturating_mul(free.f_frsize) >> 20;
        return Finding::warning(id, format!("`{shown}` has {mebibytes} MiB left"), "make room on the disk");
    }
    Finding::ok(id, format!("`{shown}` can be written"))
}

fn is_writable(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!(".mcpm-doctor-{}", std::process::id()));
    fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    fs::remove_file(path)
}

fn loopback() -> Finding {
    match TcpListener::bind("127.0.0.1:0") {
        Ok(_) => Finding::ok("network.loopback", "ports of 127.0.0.1 can be used"),
        Err(error) => Finding {
            severity: Severity::Error,
            ..Finding::warning(
                "network.loopback",
                format!("no port of 127.0.0.1 can be used: {error}"),
                "set up the loopback interface (`ip link set lo up`)",
            )
        },
    }
}

async fn secret_store(environment: &Environment) -> Finding {
    let list = async {
        let secrets = Secrets::open(environment)?;
        Ok((secrets.place(), secrets.list().await?.len()))
    };
    match list.await {
        Ok((place, count)) => Finding::ok("secrets.store", format!("{count} secrets in {place}")),
        Err(error) => Finding::of_error("secrets.store", Severity::Warning, &error),
    }
}

async fn keyring(environment: &Environment) -> Finding {
    const ID: &str = "secrets.keyring";
    let is_used = StoreConfig::load(environment)
        .is_ok_and(|config| config.provider == Provider::Keyring || config.password_in_keyring);
    match check_keyring(environment).await {
        Ok(place) => Finding::ok(ID, format!("{place} can be used")),
        Err(error) if is_used => Finding::of_error(ID, Severity::Warning, &error),
        Err(error) => Finding::ok(ID, format!("not used, and not available: {}", error.message())),
    }
}

async fn registry(environment: &Environment) -> Finding {
    let read = async {
        let registry = Registry::open(environment, None)?;
        Ok((registry.source().to_string(), registry.list(&|_| {}).await?.len()))
    };
    match read.await {
        Ok((source, count)) => Finding::ok("registry.reach", format!("{count} servers in {source}")),
        Err(error) => Finding::of_error("registry.reach", Severity::Warning, &error),
    }
}

async fn workloads(environment: &Environment) -> Vec<Finding> {
    const ID: &str = "workloads.state";
    let all = match Workloads::new(environment.clone()).list().await {
        Ok(all) => all,
        Err(error) => return vec![Finding::of_error(ID, Severity::Error, &error)],
    };
    let count = all.len();
    let bad = all.into_iter().filter_map(|workload| {
        let name = &workload.name;
        let fix = match workload.status {
            WorkloadState::Orphaned => format!("`mcpm restart {name}` gives it a proxy again"),
            WorkloadState::Failed => {
                format!("`mcpm logs {name}` shows why, `mcpm start {name}` starts it again")
            }
            WorkloadState::Unknown if workload.transport.is_none() || workload.created_at.is_none() => {
                format!("repair the file, or remove the workload with `mcpm rm {name}`")
            }
            WorkloadState::Unknown => "start the container engine".to_owned(),
            _ => return None,
        };
        // The error of a damaged record contains the same next step.
        let reason = workload.reason.unwrap_or_default();
        let reason = reason.strip_suffix(&format!("; {fix}")).unwrap_or(&reason);
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        Some(Finding::warning(ID, format!("`{name}` is {}{reason}", workload.status.as_str()), fix))
    });
    let bad: Vec<Finding> = bad.collect();
    if bad.is_empty() { vec![Finding::ok(ID, format!("{count} recorded, no problem found"))] } else { bad }
}

async fn leftovers(environment: &Environment) -> Vec<Finding> {
    // An engine that cannot be used is reported by another check.
    let Ok((_, left)) = leftover_containers(environment).await else { return Vec::new() };
    let finding = |(_, name)| Finding {
        can_repair: true,
        ..Finding::warning(
            "containers.leftover",
            format!("the container `{name}` belongs to no recorded workload"),
            "`mcpm doctor --fix` removes it",
        )
    };
    left.into_iter().map(finding).collect()
}

/// Returns the containers with the label of this state folder that belong to no recorded workload and do not run.
async fn leftover_containers(
    environment: &Environment,
) -> Result<(Arc<dyn Runtime>, Vec<(ContainerId, String)>)> {
    let runtime = engine::runtime(environment, None).await?;
    let own = environment.state_dir.to_string_lossy();
    let containers = timeout(CHECK_TIMEOUT, runtime.list())
        .await
        .map_err(|_| Error::new(ErrorKind::EngineUnavailable, "the container engine does not respond"))??;
    // A workload is recorded before its container is created. The containers were listed first, so a listed container
    // that has no record now belongs to no workload.
    let recorded = Workloads::new(environment.clone()).names()?;
    let left = containers.into_iter().filter(|container| {
        let label = |key: &str| container.labels.get(key).map(String::as_str);
        label(labels::STATE) == Some(&*own)
            && !matches!(container.state, ContainerState::Running)
            && label(labels::NAME).is_some_and(|name| !recorded.iter().any(|known| known.as_str() == name))
    });
    let left = left.map(|container| (container.id, container.name)).collect();
    Ok((runtime, left))
}
