//! Tests of when an image is pulled.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream::BoxStream;

use super::*;
use crate::runtime::{
    Attachment, BuildProgress, BuildRequest, ContainerId, ContainerInfo, ContainerSpec, EngineInfo, Exit,
    LogChunk, LogOptions, UntaggedImage,
};

/// A runtime that only has images: optionally one on this machine, and optionally one in the registry.
#[derive(Debug)]
struct Images {
    here: bool,
    registry: Result<(), ErrorKind>,
    pulls: AtomicU32,
}

fn described(id: &str) -> ImageInfo {
    let empty = Vec::new;
    ImageInfo {
        id: id.to_owned(),
        digest: None,
        exposed_ports: Vec::new(),
        entrypoint: empty(),
        command: empty(),
        labels: std::collections::BTreeMap::new(),
    }
}

#[async_trait]
impl Runtime for Images {
    async fn image(&self, _: &ImageReference) -> Result<Option<ImageInfo>> {
        Ok(self.here.then(|| described("here")))
    }

    async fn pull(&self, _: &ImageReference, _: &(dyn Fn(PullProgress) + Send + Sync)) -> Result<ImageInfo> {
        self.pulls.fetch_add(1, Ordering::Relaxed);
        self.registry.map(|()| described("pulled")).map_err(|kind| Error::new(kind, "no"))
    }

    async fn engine(&self) -> Result<EngineInfo> {
        unreachable!()
    }

    async fn build(&self, _: BuildRequest, _: &(dyn Fn(BuildProgress) + Send + Sync)) -> Result<String> {
        unreachable!()
    }

    async fn untagged_images(&self, _: &str) -> Result<Vec<UntaggedImage>> {
        unreachable!()
    }

    async fn remove_image(&self, _: &str) -> Result<()> {
        unreachable!()
    }

    async fn upload(&self, _: &ContainerId, _: &str, _: &str, _: &[u8]) -> Result<()> {
        unreachable!()
    }

    async fn execute(&self, _: &ContainerId, _: &[String]) -> Result<Attachment> {
        unreachable!()
    }

    async fn gateways(&self) -> Result<Vec<std::net::IpAddr>> {
        unreachable!()
    }

    async fn network_exists(&self, _: &str) -> Result<bool> {
        unreachable!()
    }

    async fn create(&self, _: &ContainerSpec) -> Result<ContainerId> {
        unreachable!()
    }

    async fn attach(&self, _: &ContainerId) -> Result<Attachment> {
        unreachable!()
    }

    async fn start(&self, _: &ContainerId) -> Result<()> {
        unreachable!()
    }

    async fn wait(&self, _: &ContainerId) -> Result<Exit> {
        unreachable!()
    }

    async fn inspect(&self, _: &str) -> Result<Option<ContainerInfo>> {
        unreachable!()
    }

    async fn list(&self) -> Result<Vec<ContainerInfo>> {
        unreachable!()
    }

    async fn logs(&self, _: &ContainerId, _: LogOptions) -> Result<BoxStream<'static, Result<LogChunk>>> {
        unreachable!()
    }

    async fn stop(&self, _: &ContainerId, _: Duration) -> Result<()> {
        unreachable!()
    }

    async fn remove(&self, _: &ContainerId) -> Result<()> {
        unreachable!()
    }
}

/// Returns the image that is used, whether there is a warning, and how often the image was pulled.
async fn run_ensure(
    text: &str,
    here: bool,
    registry: Result<(), ErrorKind>,
) -> (Result<(String, bool)>, u32) {
    let images = Images { here, registry, pulls: AtomicU32::new(0) };
    let reference = ImageReference::parse(text).unwrap();
    let pulled = ensure(&images, &reference, &|_| ()).await;
    (pulled.map(|pulled| (pulled.info.id, pulled.warning.is_some())), images.pulls.into_inner())
}

#[tokio::test]
async fn a_fixed_image_that_is_here_is_used_without_its_registry() {
    let digest = format!("a@sha256:{}", "0".repeat(64));
    for text in ["a:1", &digest] {
        let (used, pulls) = run_ensure(text, true, Ok(())).await;
        assert_eq!((used.unwrap(), pulls), (("here".to_owned(), false), 0));
    }
}

#[tokio::test]
async fn an_image_that_is_not_here_is_pulled() {
    for text in ["a:1", "a"] {
        let (used, pulls) = run_ensure(text, false, Ok(())).await;
        assert_eq!((used.unwrap(), pulls), (("pulled".to_owned(), false), 1));
        let (used, _) = run_ensure(text, false, Err(ErrorKind::ImageUnavailable)).await;
        assert_eq!(used.unwrap_err().kind(), ErrorKind::ImageUnavailable);
    }
}

#[tokio::test]
async fn a_movable_image_is_pulled_first_and_the_copy_is_used_with_a_warning() {
    for text in ["a", "a:latest"] {
        let (used, pulls) = run_ensure(text, true, Ok(())).await;
        assert_eq!((used.unwrap(), pulls), (("pulled".to_owned(), false), 1));
        let (used, _) = run_ensure(text, true, Err(ErrorKind::ImageUnavailable)).await;
        assert_eq!(used.unwrap(), ("here".to_owned(), true));
    }
}

#[tokio::test]
async fn an_unavailable_engine_is_an_error_and_not_a_stale_copy() {
    let (used, _) = run_ensure("a", true, Err(ErrorKind::EngineUnavailable)).await;
    assert_eq!(used.unwrap_err().kind(), ErrorKind::EngineUnavailable);
}
