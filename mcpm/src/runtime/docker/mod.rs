//! Docker Engine, and Podman through its Docker-compatible API, as a [`Runtime`].
//!
//! `endpoint` parses the address of an engine, `connect` connects to it, `capabilities` determines which features it
//! has. `create_body` creates the request for a new container; `container` creates, finds, starts, stops and removes
//! containers; `streams` attaches to them and reads their logs; `exec` copies a program into them and runs programs in
//! them. `image` finds, pulls and removes images, `build` builds them. `raw_get` and `inspect` fetch and parse
//! descriptions of containers, `errors` classifies failed requests.

use std::{net::IpAddr, time::Duration};

use async_trait::async_trait;
use futures_util::stream::BoxStream;

use self::{capabilities::EngineCapabilities, errors::api_error};
use super::{
    Attachment, BuildProgress, BuildRequest, ContainerId, ContainerInfo, ContainerSpec, EngineInfo,
    EngineName, Exit, ImageInfo, LogChunk, LogOptions, PullProgress, Runtime, UntaggedImage,
};
use crate::{
    Result,
    image::{ImageReference, credentials::CredentialStore},
};

mod build;
mod capabilities;
mod connect;
mod container;
mod create_body;
mod endpoint;
mod errors;
mod exec;
mod image;
mod inspect;
mod raw_get;
mod streams;

pub use endpoint::EngineEndpoint;

/// A connection to an engine that speaks Docker's API, 1.41 or newer.
#[derive(Debug, Clone)]
pub struct Docker {
    api: bollard::Docker,
    endpoint: EngineEndpoint,
    engine: EngineInfo,
    capabilities: EngineCapabilities,
    credentials: CredentialStore,
}

impl Docker {
    /// Returns the name of the engine.
    pub fn name(&self) -> EngineName {
        self.engine.name
    }

    /// Returns the address of the engine.
    pub fn endpoint(&self) -> &EngineEndpoint {
        &self.endpoint
    }
}

#[async_trait]
impl Runtime for Docker {
    async fn engine(&self) -> Result<EngineInfo> {
        let operation = format!("cannot use the engine at `{}`", self.engine.endpoint);
        self.api.ping().await.map_err(|error| api_error(&error, operation))?;
        Ok(self.engine.clone())
    }

    async fn image(&self, reference: &ImageReference) -> Result<Option<ImageInfo>> {
        self.find_image(reference).await
    }

    async fn pull(
        &self,
        reference: &ImageReference,
        progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<ImageInfo> {
        self.pull_image(reference, progress).await
    }

    async fn build(
        &self,
        request: BuildRequest,
        progress: &(dyn Fn(BuildProgress) + Send + Sync),
    ) -> Result<String> {
        self.build_image(request, progress).await
    }

    async fn untagged_images(&self, label: &str) -> Result<Vec<UntaggedImage>> {
        self.list_untagged(label).await
    }

    async fn remove_image(&self, id: &str) -> Result<()> {
        self.remove_unused_image(id).await
    }

    async fn network_exists(&self, name: &str) -> Result<bool> {
        self.find_network(name).await
    }

    async fn gateways(&self) -> Result<Vec<IpAddr>> {
        self.find_gateways().await
    }

    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId> {
        self.create_container(spec).await
    }

    async fn attach(&self, id: &ContainerId) -> Result<Attachment> {
        self.attach_container(id).await
    }

    async fn start(&self, id: &ContainerId) -> Result<()> {
        self.start_container(id).await
    }

    async fn wait(&self, id: &ContainerId) -> Result<Exit> {
        self.wait_container(id).await
    }

    async fn inspect(&self, id_or_name: &str) -> Result<Option<ContainerInfo>> {
        let Some(mut found) = self.find_managed(id_or_name).await? else { return Ok(None) };
        if let Some(other) = found.network_container()
            && let Some(other) = self.find_any(other).await?
        {
            found = found.with_network_of(other);
        }
        found.info(self.capabilities.same_kernel).map(Some)
    }

    async fn list(&self) -> Result<Vec<ContainerInfo>> {
        self.list_containers().await
    }

    async fn upload(&self, id: &ContainerId, folder: &str, name: &str, program: &[u8]) -> Result<()> {
        self.upload_program(id, folder, name, program).await
    }

    async fn execute(&self, id: &ContainerId, command: &[String]) -> Result<Attachment> {
        self.execute_in(id, command).await
    }

    async fn logs(
        &self,
        id: &ContainerId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogChunk>>> {
        self.container_logs(id, options).await
    }

    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<()> {
        self.stop_container(id, grace).await
    }

    async fn remove(&self, id: &ContainerId) -> Result<()> {
        self.remove_container(id).await
    }
}
