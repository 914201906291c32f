//! Finds a container engine.
//!
//! The user's settings come first, in this order: `DOCKER_HOST`, the Docker context, `CONTAINER_HOST`. If the engine
//! that a setting selects does not respond, that is an error: no container may end up in another engine. Without a
//! setting, the usual sockets are tried in turn.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    EngineName, Runtime,
    docker::{Docker, EngineEndpoint},
};
use crate::{
    Error, ErrorKind, Result,
    environment::{EngineSettings, Platform},
    image::credentials::CredentialStore,
    redact::url::redact_url_text,
};

mod context;

/// The hint if the user wants another kind of engine than the one that was set.
const OTHER_ENGINE_HINT: &str = "leave out `runtime`";

/// Finds an engine and connects to it; `wanted` restricts the search to one kind of engine.
///
/// # Errors
/// `EngineUnavailable` lists every address that was tried with the reason; `Unsupported` if mcpm does not support the
/// kind of address that was set.
pub async fn discover(settings: &EngineSettings, wanted: Option<EngineName>) -> Result<Arc<dyn Runtime>> {
    let found = search(settings, wanted, &well_known(settings, wanted)).await?;
    Ok(Arc::new(found))
}

/// Tells whether the user has configured an engine, so that no other may be used.
pub fn is_configured(settings: &EngineSettings) -> bool {
    // A setting that cannot be read is an error of `discover`.
    configured_engine(settings, None).map_or(true, |candidate| candidate.is_some())
}

/// Connects to an engine that was used before, regardless of the current settings.
///
/// # Errors
/// `EngineUnavailable` if it does not respond; `InvalidOption` if `address` is invalid.
pub async fn connect_to(settings: &EngineSettings, address: &str) -> Result<Arc<dyn Runtime>> {
    let endpoint = EngineEndpoint::parse(address)?;
    match Docker::connect(&endpoint, CredentialStore::new(settings)).await {
        Ok(found) => Ok(Arc::new(found)),
        Err(failure) => {
            let hint = failure.next_step().unwrap_or("restart the container engine and try again").to_owned();
            Err(Error::new(failure.kind(), format!("cannot use the engine at `{endpoint}`"))
                .source(reason(&failure))
                .hint(hint))
        }
    }
}

/// A possible address of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    endpoint: EngineEndpoint,
    /// The setting that named it; `None` for a well-known socket.
    set_by: Option<String>,
}

async fn search(
    settings: &EngineSettings,
    wanted: Option<EngineName>,
    sockets: &[PathBuf],
) -> Result<Docker> {
    let credentials = CredentialStore::new(settings);
    if let Some(candidate) = configured_engine(settings, wanted)? {
        return match attempt(&candidate, wanted, &credentials).await {
            Ok(found) => Ok(found),
            Err(failure) => Err(set_engine_failed(&candidate, &failure)),
        };
    }
    let mut tried = Vec::new();
    for socket in distinct(sockets) {
        let candidate = Candidate { endpoint: EngineEndpoint::Unix(socket), set_by: None };
        match attempt(&candidate, wanted, &credentials).await {
            Ok(found) => return Ok(found),
            Err(failure) => tried.push((candidate.endpoint, failure)),
        }
    }
    Err(nothing_found(wanted, &tried))
}

async fn attempt(
    candidate: &Candidate,
    wanted: Option<EngineName>,
    logins: &CredentialStore,
) -> Result<Docker> {
    let found = Docker::connect(&candidate.endpoint, logins.clone()).await?;
    match wanted {
        Some(wanted) if found.name() != wanted => {
            Err(Error::new(ErrorKind::EngineUnavailable, "cannot use the engine")
                .source(format!("it is {}, not {wanted}", found.name()))
                .hint(OTHER_ENGINE_HINT))
        }
        _ => Ok(found),
    }
}

/// Returns the engine that the user set. A setting for the tools of one engine is ignored if the other engine is
/// wanted.
fn configured_engine(settings: &EngineSettings, wanted: Option<EngineName>) -> Result<Option<Candidate>> {
    let candidate = |set_by: &str, address: &str| {
        let endpoint = EngineEndpoint::parse(address).map_err(|error| error.with("set by", set_by))?;
        Ok(Some(Candidate { endpoint, set_by: Some(set_by.to_owned()) }))
    };
    if wanted != Some(EngineName::Podman) {
        if let Some(address) = &settings.docker_host {
            if settings.docker_tls_verify {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!("cannot reach `{}`: TLS is not supported yet", redact_url_text(address)),
                )
                .with("set by", "DOCKER_TLS_VERIFY")
                .hint("use the engine's `unix://` address"));
            }
            return candidate("DOCKER_HOST", address);
        }
        if let Some(context) = context::current(settings)? {
            return candidate(&context.set_by, &context.address);
        }
    }
    match &settings.container_host {
        Some(address) if wanted != Some(EngineName::Docker) => candidate("CONTAINER_HOST", address),
        _ => Ok(None),
    }
}

/// Returns the sockets that engines usually use, the wanted engine's first.
fn well_known(settings: &EngineSettings, wanted: Option<EngineName>) -> Vec<PathBuf> {
    let below_home = |path: &str| settings.home.as_ref().map(|home| home.join(path));
    let below_config = |path: &str| settings.config_home.as_ref().map(|config| config.join(path));
    let below_runtime = |path: &str| settings.runtime_dir.as_ref().map(|dir| dir.join(path));
    let docker = [
        Some(PathBuf::from("/var/run/docker.sock")),
        below_runtime("docker.sock"),
        below_home(".docker/run/docker.sock"),
        below_home(".docker/desktop/docker.sock"),
        below_home(".colima/default/docker.sock"),
        below_config("colima/default/docker.sock"),
        below_home(".rd/docker.sock"),
        below_home(".orbstack/run/docker.sock"),
    ];
    let podman = [below_runtime("podman/podman.sock"), Some(PathBuf::from("/run/podman/podman.sock"))];
    let docker = docker.into_iter().flatten();
    let temp_dirs = settings.runtime_dir.iter().chain(&settings.private_temp_dir);
    let machines = temp_dirs.flat_map(|dir| machine_sockets(&dir.join("podman")));
    let podman = podman.into_iter().flatten().chain(machines);
    let podman = podman.chain(below_home(".local/share/containers/podman/machine/podman.sock"));
    match wanted {
        Some(EngineName::Podman) => podman.chain(docker).collect(),
        Some(EngineName::Docker | EngineName::Builtin) | None => docker.chain(podman).collect(),
    }
}

/// Returns the sockets of Podman's virtual machines in a folder, that of the default one first.
fn machine_sockets(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sockets: Vec<_> =
        entries.filter(|path| path.as_os_str().as_encoded_bytes().ends_with(b"-api.sock")).collect();
    sockets.sort();
    sockets.sort_by_key(|path| !path.ends_with("podman-machine-default-api.sock"));
    sockets
}

/// Removes sockets that are the same file as an earlier one under another path.
fn distinct(sockets: &[PathBuf]) -> Vec<PathBuf> {
    let mut seen = Vec::new();
    let is_new = |socket: &&PathBuf| {
        let real = socket.canonicalize().unwrap_or_else(|_| (*socket).clone());
        let is_new = !seen.contains(&real);
        seen.push(real);
        is_new
    };
    sockets.iter().filter(is_new).cloned().collect()
}

/// Returns the innermost cause, the part that differs between addresses.
fn reason(failure: &Error) -> String {
    std::error::Error::source(failure).map_or_else(|| failure.message().to_owned(), ToString::to_string)
}

fn set_engine_failed(candidate: &Candidate, failure: &Error) -> Error {
    let set_by = candidate.set_by.as_deref().unwrap_or("the settings");
    let hint = match failure.next_step() {
        Some(step) => format!("{step}, or change `{set_by}`"),
        None => format!("restart the engine, or change `{set_by}`"),
    };
    Error::new(failure.kind(), format!("cannot use the engine at `{}`", candidate.endpoint))
        .with("set by", set_by)
        .source(reason(failure))
        .hint(hint)
}

fn nothing_found(wanted: Option<EngineName>, tried: &[(EngineEndpoint, Error)]) -> Error {
    let engine = wanted.map_or_else(|| "container engine".to_owned(), |wanted| format!("{wanted} engine"));
    let places: Vec<_> =
        tried.iter().map(|(endpoint, failure)| format!("`{endpoint}`: {}", reason(failure))).collect();
    // A socket that exists gives a more useful hint than the many that do not exist.
    let hint = tried.iter().find_map(|(endpoint, failure)| match endpoint {
        EngineEndpoint::Unix(path) if path.exists() => {
            failure.next_step().filter(|step| *step != OTHER_ENGINE_HINT).map(str::to_owned)
        }
        _ => None,
    });
    Error::new(ErrorKind::EngineUnavailable, format!("no {engine} responds ({})", places.join("; ")))
        .hint(hint.unwrap_or_else(|| how_to_start(wanted, Platform::CURRENT).to_owned()))
}

/// Returns a hint on how to get an engine. On macOS, every engine runs in a virtual machine. On Windows, mcpm does not
/// connect to named pipes.
fn how_to_start(wanted: Option<EngineName>, platform: Platform) -> &'static str {
    match (platform, wanted) {
        (Platform::Linux, None | Some(EngineName::Builtin)) => "install Docker Engine or Podman and start it",
        (Platform::Linux, Some(EngineName::Docker)) => "install Docker Engine and start it",
        (Platform::Linux, Some(EngineName::Podman)) => {
            "install Podman and start it with `systemctl --user start podman.socket`"
        }
        (Platform::MacOs, None | Some(EngineName::Builtin)) => {
            "start Docker Desktop, OrbStack, Colima or Rancher Desktop, or Podman with `podman machine start`"
        }
        (Platform::MacOs, Some(EngineName::Docker)) => {
            "start Docker Desktop, OrbStack, Colima or Rancher Desktop"
        }
        (Platform::MacOs, Some(EngineName::Podman)) => {
            "install Podman and start its virtual machine with `podman machine start`"
        }
        (Platform::Windows, _) => {
            "let Docker or Podman listen on TCP, and set `DOCKER_HOST` or `CONTAINER_HOST` to its address (`tcp://..`)"
        }
    }
}

#[cfg(test)]
#[path = "discover_tests.rs"]
mod tests;
