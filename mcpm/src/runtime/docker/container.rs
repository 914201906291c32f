//! Finds, creates, starts, stops and removes containers, and looks up networks.
//!
//! Each change of an existing container first checks its labels and then uses the full id from that response, so that
//! mcpm never changes a container that it did not create, even one with the same name or a similar id.

use std::{net::IpAddr, time::Duration};

use bollard::{
    errors::Error as ApiError,
    query_parameters::{
        CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions,
        StopContainerOptionsBuilder, WaitContainerOptions, WaitContainerOptionsBuilder,
    },
};
use futures_util::StreamExt;

use super::{
    Docker,
    create_body::create_body,
    errors::EngineFailure,
    inspect::{Description, Summary},
    raw_get::{REQUEST_TIMEOUT, get_json},
};
use crate::{
    Error, ErrorKind, Result,
    runtime::{ContainerId, ContainerInfo, ContainerSpec, EngineName, Exit, missing_source},
};

/// The filter `{"label":["mcpm=true"]}`, encoded for a request.
const MANAGED_FILTER: &str = "%7B%22label%22%3A%5B%22mcpm%3Dtrue%22%5D%7D";
/// Timeout for a container that another client is removing.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(30);

impl Docker {
    /// Returns the container with exactly that name or full id, if mcpm created it.
    pub(super) async fn find_managed(&self, id_or_name: &str) -> Result<Option<Description>> {
        let found = self.find_any(id_or_name).await?;
        Ok(found.filter(Description::is_managed))
    }

    /// Returns the container with exactly that name or full id, whoever created it. The caller must only read it.
    pub(super) async fn find_any(&self, id_or_name: &str) -> Result<Option<Description>> {
        if !is_valid_name(id_or_name) {
            return Ok(None);
        }
        let path = format!("/v{}/containers/{id_or_name}/json", self.engine.api_version);
        match get_json::<Description>(&self.endpoint, &path).await {
            Ok(found) => Ok(Some(found).filter(|found| found.matches_name_or_id(id_or_name))),
            Err(EngineFailure::ErrorStatus(404, _)) => Ok(None),
            Err(failure) => Err(failure.into_error(format!("cannot inspect container `{id_or_name}`"))),
        }
    }

    /// Returns the container with that id, which mcpm must have created.
    pub(super) async fn require_managed(&self, id: &ContainerId) -> Result<Description> {
        let found = self.find_managed(&id.0).await?;
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("found no container `{id}` that mcpm created"))
        })
    }

    pub(super) async fn list_containers(&self) -> Result<Vec<ContainerInfo>> {
        let path = format!("/v{}/containers/json?all=true&filters={MANAGED_FILTER}", self.engine.api_version);
        let listed = get_json::<Vec<Summary>>(&self.endpoint, &path).await;
        let mut infos = Vec::new();
        // A list contains no exit codes, so each container is inspected. A container that is gone by then is left out.
        for summary in listed.map_err(|failure| failure.into_error("cannot list containers"))? {
            if let Some(found) = self.find_managed(&summary.id).await? {
                infos.push(found.info(self.capabilities.same_kernel)?);
            }
        }
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(infos)
    }

    pub(super) async fn create_container(&self, spec: &ContainerSpec) -> Result<ContainerId> {
        let mut body = create_body(spec, &self.capabilities)?;
        let options = || Some(CreateContainerOptionsBuilder::default().name(&spec.name).build());
        let mut created = self.api.create_container(options(), body.clone()).await;
        if created.as_ref().is_err_and(lacks_init) {
            tracing::warn!(container = %spec.name, "the engine has no init program, so the server runs without one");
            if let Some(host) = body.host_config.as_mut() {
                host.init = Some(false);
            }
            created = self.api.create_container(options(), body).await;
        }
        let created = created.map_err(|error| creation_failed(spec, &error))?;
        for warning in created.warnings {
            tracing::warn!(container = %spec.name, "the engine warns: {}", warning.trim());
        }
        Ok(ContainerId(created.id))
    }

    pub(super) async fn start_container(&self, id: &ContainerId) -> Result<()> {
        let ours = self.require_managed(id).await?;
        let started = self.api.start_container(&ours.id, None::<StartContainerOptions>).await;
        started.map_err(|error| start_failed(id, &error))
    }

    pub(super) async fn wait_container(&self, id: &ContainerId) -> Result<Exit> {
        let operation = || format!("cannot wait for container `{id}`");
        let ours = self.require_managed(id).await?;
        let mut answers = Box::pin(self.api.wait_container(&ours.id, None::<WaitContainerOptions>));
        let code = match answers.next().await {
            Some(Ok(answer)) => answer.status_code,
            // The client library returns an error for every exit code but zero.
            Some(Err(ApiError::DockerContainerWaitError { code, .. })) => code,
            Some(Err(error)) => return Err(waiting_failed(&error, operation())),
            None => {
                return Err(EngineFailure::ConnectionLost("it was closed before the response".to_owned())
                    .into_error(operation()));
            }
        };
        // Only the description of a container says whether it ran out of memory; for a removed container this is
        // unknown.
        let described = self.find_managed(&ours.id).await?;
        Ok(Exit {
            out_of_memory: described.is_some_and(|ours| ours.ran_out_of_memory()),
            ..Exit::with_code(code)
        })
    }

    pub(super) async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<()> {
        let Some(ours) = self.find_managed(&id.0).await? else { return Ok(()) };
        let seconds =
            i32::try_from(grace.as_secs() + u64::from(grace.subsec_nanos() > 0)).unwrap_or(i32::MAX);
        let options = StopContainerOptionsBuilder::default().t(seconds).build();
        // The response is sent when the container has ended.
        let api = self.api.clone().with_timeout(REQUEST_TIMEOUT.saturating_add(grace));
        match api
            .stop_container(&ours.id, Some(options))
            .await
            .map_err(|error| EngineFailure::from_api(&error))
        {
            Ok(()) | Err(EngineFailure::ErrorStatus(304 | 404, _)) => Ok(()),
            Err(failure) => Err(failure.into_error(format!("cannot stop container `{id}`"))),
        }
    }

    pub(super) async fn remove_container(&self, id: &ContainerId) -> Result<()> {
        let Some(ours) = self.find_managed(&id.0).await? else { return Ok(()) };
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match self
            .api
            .remove_container(&ours.id, Some(options))
            .await
            .map_err(|error| EngineFailure::from_api(&error))
        {
            Ok(()) | Err(EngineFailure::ErrorStatus(404, _)) => Ok(()),
            Err(EngineFailure::ErrorStatus(409, why)) if why.contains("in progress") => {
                self.wait_until_gone(&ours.id).await
            }
            Err(failure) => Err(failure.into_error(format!("cannot remove container `{id}`"))),
        }
    }

    /// Waits until another client has finished removing the container.
    async fn wait_until_gone(&self, id: &str) -> Result<()> {
        let options = WaitContainerOptionsBuilder::default().condition("removed").build();
        let mut answers = Box::pin(self.api.wait_container(id, Some(options)));
        match tokio::time::timeout(REMOVAL_TIMEOUT, answers.next()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(EngineFailure::TimedOut.into_error(format!("cannot remove container `{id}`"))),
        }
    }

    /// Returns the gateway of the default network.
    pub(super) async fn find_gateways(&self) -> Result<Vec<IpAddr>> {
        let name = match self.engine.name {
            EngineName::Podman => "podman",
            EngineName::Docker | EngineName::Builtin => "bridge",
        };
        match self.api.inspect_network(name, None).await {
            Ok(network) => {
                let configs = network.ipam.and_then(|ipam| ipam.config).into_iter().flatten();
                let gateways = configs.filter_map(|config| {
                    // Docker leaves out the first address of the network, which is the default.
                    let first = || config.subnet?.parse::<ipnet::IpNet>().ok()?.hosts().next();
                    config.gateway.and_then(|gateway| gateway.parse().ok()).or_else(first)
                });
                Ok(gateways.collect())
            }
            Err(error) => match EngineFailure::from_api(&error) {
                // The engine may have no such network.
                EngineFailure::ErrorStatus(404, _) => Ok(Vec::new()),
                failure => Err(failure.into_error(format!("cannot inspect network `{name}`"))),
            },
        }
    }

    pub(super) async fn find_network(&self, name: &str) -> Result<bool> {
        if !is_valid_name(name) {
            return Ok(false);
        }
        match self.api.inspect_network(name, None).await {
            Ok(network) => Ok(network.name.as_deref() == Some(name) || network.id.as_deref() == Some(name)),
            Err(error) => match EngineFailure::from_api(&error) {
                EngineFailure::ErrorStatus(404, _) => Ok(false),
                failure => Err(failure.into_error(format!("cannot inspect network `{name}`"))),
            },
        }
    }
}

/// Names become part of a request's path, where `..` or `?` would change the request.
fn is_valid_name(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

/// Podman looks for its init program only when a container is created.
fn lacks_init(error: &ApiError) -> bool {
    matches!(EngineFailure::from_api(error), EngineFailure::ErrorStatus(_, why) if why.contains("init binary") || why.contains("catatonit"))
}

fn creation_failed(spec: &ContainerSpec, error: &ApiError) -> Error {
    let (name, image) = (&spec.name, &spec.image);
    let failure = EngineFailure::from_api(error);
    if let EngineFailure::ErrorStatus(status, why) = &failure {
        if why.contains("already in use") && why.contains("name") {
            return Error::new(ErrorKind::NameTaken, format!("a container named `{name}` exists already"))
                .hint("choose another name, or remove that container");
        }
        if *status == 404 && why.to_ascii_lowercase().contains("no such image") {
            return Error::new(
                ErrorKind::ImageUnavailable,
                format!("image `{image}` is not on this machine"),
            );
        }
        let source_is_missing = why.contains("does not exist") || why.contains("no such file");
        let missing =
            spec.mounts.iter().filter_map(|mount| mount.source.to_str()).find(|path| why.contains(path));
        if let Some(path) = missing.filter(|_| source_is_missing) {
            return missing_source(path);
        }
    }
    failure.into_error(format!("cannot create container `{name}` from `{image}`"))
}

fn start_failed(id: &ContainerId, error: &ApiError) -> Error {
    let operation = format!("cannot start container `{id}`");
    let failure = EngineFailure::from_api(error);
    let EngineFailure::ErrorStatus(_, why) = &failure else { return failure.into_error(operation) };
    let why = why.to_ascii_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|text| why.contains(text));
    let kind = if says(&["port is already allocated", "address already in use"]) {
        ErrorKind::PortTaken
    } else if says(&[
        "executable file not found",
        "exec format error",
        "no such file or directory",
        "permission denied",
    ]) {
        ErrorKind::StartFailed
    } else {
        ErrorKind::Engine
    };
    Error::new(kind, operation).source(failure)
}

/// The error of a failed wait. If the engine is stopped meanwhile, its response ends as with a lost connection.
fn waiting_failed(error: &ApiError, operation: String) -> Error {
    match EngineFailure::from_api(error) {
        EngineFailure::InvalidResponse(why) => EngineFailure::ConnectionLost(why).into_error(operation),
        failure => failure.into_error(operation),
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
