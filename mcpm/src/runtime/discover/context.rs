//! Reads Docker's contexts: named engines, one of which is current.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{Error, ErrorKind, Result, docker_config::read_json, environment::EngineSettings};

/// The name of the context that selects the default engine.
const DEFAULT_CONTEXT: &str = "default";

/// The engine of a context.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DockerContext {
    /// The setting that selected the context, for messages.
    pub(super) set_by: String,
    /// Its address.
    pub(super) address: String,
}

#[derive(Deserialize)]
struct DockerConfigFile {
    #[serde(default, rename = "currentContext")]
    current_context: String,
}

#[derive(Deserialize)]
struct ContextMetadata {
    #[serde(rename = "Name")]
    name: String,
    #[serde(default, rename = "Endpoints")]
    endpoints: BTreeMap<String, ContextEndpoint>,
}

#[derive(Deserialize)]
struct ContextEndpoint {
    #[serde(default, rename = "Host")]
    host: String,
}

/// Returns the current context, or `None` if it is the default one.
///
/// # Errors
/// `EngineUnavailable` if the current context does not exist, `CorruptState` or `Io` if a file of Docker's cannot be
/// read.
pub(super) fn current(settings: &EngineSettings) -> Result<Option<DockerContext>> {
    let Some(dir) = &settings.docker_config_dir else { return Ok(None) };
    let (name, set_by) = match &settings.docker_context {
        Some(name) => (name.clone(), "DOCKER_CONTEXT".to_owned()),
        None => {
            let path = dir.join("config.json");
            let Some(config) = read_json::<DockerConfigFile>(&path)? else { return Ok(None) };
            (config.current_context, format!("currentContext in {}", path.display()))
        }
    };
    if name.is_empty() || name == DEFAULT_CONTEXT {
        return Ok(None);
    }
    let unusable = |why: &str| {
        Error::new(ErrorKind::EngineUnavailable, format!("cannot use the Docker context `{name}`: {why}"))
            .with("set by", &set_by)
            .hint("list the contexts with `docker context ls`, and choose another one")
    };
    let Some((folder, meta)) = find(dir, &name)? else { return Err(unusable("it does not exist")) };
    let address = meta.endpoints.get("docker").map(|endpoint| endpoint.host.clone()).unwrap_or_default();
    if address.is_empty() {
        return Err(unusable("it has no Docker endpoint"));
    }
    if dir.join("contexts/tls").join(folder).exists() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!("cannot reach the Docker context `{name}`: TLS is not supported yet"),
        )
        .with("set by", &set_by)
        .hint("list the contexts with `docker context ls`, and choose another one"));
    }
    Ok(Some(DockerContext { set_by, address }))
}

/// Finds a context by the name in its file; the name of its folder is only a digest of that name.
fn find(dir: &Path, name: &str) -> Result<Option<(PathBuf, ContextMetadata)>> {
    let Ok(entries) = fs::read_dir(dir.join("contexts/meta")) else { return Ok(None) };
    for entry in entries.flatten() {
        if let Some(meta) = read_json::<ContextMetadata>(&entry.path().join("meta.json"))?
            && meta.name == name
        {
            return Ok(Some((PathBuf::from(entry.file_name()), meta)));
        }
    }
    Ok(None)
}
