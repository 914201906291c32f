//! Tests of pulling, from a registry on loopback.

use std::{fs, sync::Mutex};

use serde_json::{Value, json};
use tokio::sync::Barrier;

use super::*;
use crate::{
    environment::EngineSettings,
    image::pull,
    image::store::{
        ImagesInUse, PruneScope,
        archive_builder::{ArchiveBuilder, TestImage, gzip, index, zstd},
        registry_server::RegistryServer,
    },
    testing::with_timeout,
};

/// A store in a temporary folder, and a registry.
struct Fixture {
    folder: tempfile::TempDir,
    store: ImageStore,
    registry: RegistryServer,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = ImageStore::open(&folder.path().join("images")).unwrap();
        Self { folder, store, registry: RegistryServer::start().await }
    }

    fn credentials(&self) -> CredentialStore {
        let docker_config_dir = Some(self.folder.path().to_owned());
        CredentialStore::new(&EngineSettings { docker_config_dir, ..EngineSettings::default() })
    }

    async fn pull(&self, name: &str) -> Result<StoredImage> {
        let reference = self.registry.reference(name);
        with_timeout(self.store.pull(&reference, &self.credentials(), None, &|_| ())).await
    }

    /// Nothing is left of a failed pull.
    #[track_caller]
    fn check_is_empty(&self) {
        assert!(self.store.list().unwrap().is_empty());
        for folder in ["drafts", "layers"] {
            let left = fs::read_dir(self.store.folder().join(folder)).unwrap();
            let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.is_empty(), "{folder}: {left:?}");
        }
    }
}

fn layer(name: &str, data: &[u8]) -> Vec<u8> {
    ArchiveBuilder::default().file(name, data).finish()
}

/// Data that cannot be compressed.
fn noise(count: usize) -> Vec<u8> {
    let next = |state: &u32| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 17);
        Some(state ^ (state << 5))
    };
    std::iter::successors(Some(1), next).map(|state: u32| state as u8).take(count).collect()
}

/// An image of three layers, each compressed in another way.
fn image() -> (TestImage, Vec<Vec<u8>>) {
    let noise = noise(200_000);
    let layers = vec![layer("a", &noise), layer("b", b"2"), layer(".wh.a", b"")];
    let sent = vec![gzip(&layers[0]), zstd(&layers[1]), layers[2].clone()];
    (TestImage::new(layers), sent)
}

#[tokio::test]
async fn an_image_is_pulled_with_all_its_layers() {
    let fixture = Fixture::new().await;
    let (image, sent) = image();
    let manifest = fixture.registry.add_image(&image, &sent);
    fixture.registry.tag("1", &manifest);
    let progress = Mutex::new(Vec::new());
    let reference = fixture.registry.reference("team/server:1");
    let report = |step: PullProgress| progress.lock().unwrap().push(step);
    let pulled = fixture.store.pull(&reference, &fixture.credentials(), None, &report).await.unwrap();
    assert_eq!((&pulled.id, pulled.digest.as_ref()), (&image.id(), Some(&Digest::sha256(&manifest))));
    assert_eq!((pulled.layers.len(), pulled.size), (3, 200_001));
    assert_eq!(
        (pulled.config.entrypoint.as_slice(), pulled.config.exposed_ports.as_slice()),
        (&["/server".to_owned()][..], &[8080][..])
    );
    assert_eq!(pulled.created.as_deref(), Some("2026-01-02T03:04:05Z"));
    assert_eq!(fs::read(pulled.layers[1].join("b")).unwrap(), b"2");
    let total = sent.iter().map(|layer| layer.len() as u64).sum();
    let progress = progress.into_inner().unwrap();
    assert_eq!(progress.first(), Some(&PullProgress { current: 0, total }));
    assert_eq!(progress.last(), Some(&PullProgress { current: total, total }));
    assert_eq!(fixture.store.find(&reference).unwrap(), Some(pulled.clone()));
    assert_eq!(fs::read_dir(fixture.store.folder().join("drafts")).unwrap().count(), 0);
    // Layers that are in the store are not downloaded again.
    let before = fixture.registry.blob_ranges().len();
    fixture.registry.tag("2", &manifest);
    let again = fixture.pull("team/server:2").await.unwrap();
    assert_eq!((again.references.len(), fixture.registry.blob_ranges().len()), (2, before + 1));
}

#[tokio::test]
async fn layers_are_downloaded_at_the_same_time() {
    let fixture = Fixture::new().await;
    let (image, sent) = image();
    fixture.registry.tag("1", &fixture.registry.add_image(&image, &sent));
    // The registry sends no layer before all of them were requested.
    let barrier = Arc::new(Barrier::new(sent.len()));
    fixture.registry.change(|state| {
        state.barriers.extend(sent.iter().map(|layer| (Digest::sha256(layer).to_string(), barrier.clone())));
    });
    assert_eq!(fixture.pull("server:1").await.unwrap().layers.len(), sent.len());
}

#[tokio::test]
async fn a_download_that_breaks_off_is_resumed() {
    let fixture = Fixture::new().await;
    let (image, sent) = image();
    fixture.registry.tag("1", &fixture.registry.add_image(&image, &sent));
    fixture.registry.change(|state| state.breaks.push_back(50_000));
    let pulled = fixture.pull("server:1").await.unwrap();
    assert_eq!(pulled.id, image.id());
    assert!(fixture.registry.blob_ranges().iter().flatten().any(|at| *at > 0 && *at <= 50_000));
}

#[tokio::test]
async fn layers_of_a_failed_pull_are_not_downloaded_again() {
    let fixture = Fixture::new().await;
    let (image, sent) = image();
    fixture.registry.tag("1", &fixture.registry.add_image(&image, &sent));
    let last = Digest::sha256(&sent[2]).to_string();
    let barrier = Arc::new(Barrier::new(2));
    fixture.registry.change(|state| state.barriers.insert(last.clone(), Arc::clone(&barrier)));
    let diff_ids: Vec<Digest> = image.layers.iter().map(|layer| Digest::sha256(layer)).collect();
    let chain = chain_ids(&diff_ids);
    // The transfer of the last layer breaks off when the others are in the store, and cannot be resumed.
    let breaking = async {
        while fixture.store.layers.get(&chain[1]).unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        fixture.registry.change(|state| state.breaks.push_back(100));
        barrier.wait().await;
        while !fixture.registry.requested_blobs().contains(&last) {
            tokio::task::yield_now().await;
        }
        fixture.registry.change(|state| state.content.remove(&last));
        barrier.wait().await;
    };
    let (pulled, ()) = tokio::join!(fixture.pull("server:1"), with_timeout(breaking));
    let error = pulled.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{error}");
    let before = fixture.registry.requested_blobs().len();
    fixture.registry.change(|state| {
        state.barriers.clear();
        state.content.insert(last.clone(), sent[2].clone());
    });
    assert_eq!(fixture.pull("server:1").await.unwrap().id, image.id());
    assert_eq!(fixture.registry.requested_blobs().split_off(before), [image.id().to_string(), last]);
}

#[tokio::test]
async fn a_registry_without_ranges_sends_the_blob_again() {
    let fixture = Fixture::new().await;
    let noise = noise(100_000);
    let image = TestImage::new(vec![layer("a", &noise)]);
    let sent = image.layers.clone();
    fixture.registry.tag("1", &fixture.registry.add_image(&image, &sent));
    fixture.registry.change(|state| {
        state.has_no_ranges = true;
        state.breaks.extend([30_000, 60_000]);
    });
    let pulled = fixture.pull("server:1").await.unwrap();
    assert!(fs::read(pulled.layers[0].join("a")).unwrap() == noise);
}

#[tokio::test]
#[ignore = "nightly: it waits between the attempts"]
async fn a_registry_that_always_breaks_off_is_given_up() {
    let fixture = Fixture::new().await;
    let image = TestImage::new(vec![layer("a", &[1; 20_000])]);
    let sent = image.layers.clone();
    fixture.registry.tag("1", &fixture.registry.add_image(&image, &sent));
    fixture.registry.change(|state| state.breaks.extend([1000; 50]));
    let error = fixture.pull("server:1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable);
    assert!(error.to_string().contains("attempts: 6"), "{error}");
    assert_eq!(fixture.registry.blob_ranges().len(), 7);
    fixture.check_is_empty();
}

#[tokio::test]
async fn content_with_another_digest_is_rejected() {
    let fixture = Fixture::new().await;
    let (image, sent) = image();
    let manifest = fixture.registry.add_image(&image, &sent);
    fixture.registry.tag("1", &manifest);
    let swap = |digest: Digest, content: Vec<u8>| {
        fixture.registry.change(|state| state.content.insert(digest.to_string(), content));
    };
    let mut other = sent[0].clone();
    *other.last_mut().unwrap() ^= 1;
    for content in [other, [&sent[0][..], b"more"].concat()] {
        swap(Digest::sha256(&sent[0]), content);
        let error = fixture.pull("server:1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{error}");
        fixture.check_is_empty();
    }
    swap(Digest::sha256(&sent[0]), sent[0].clone());
    swap(image.id(), b"{}".to_vec());
    assert!(fixture.pull("server:1").await.unwrap_err().to_string().contains("does not match the digest"));
    swap(image.id(), image.config.clone());
    let digest = Digest::sha256(&manifest);
    fixture.pull(&format!("server@{digest}")).await.unwrap();
    swap(digest.clone(), b"{}".to_vec());
    fixture.pull(&format!("other@{digest}")).await.unwrap_err();
}

#[tokio::test]
async fn a_layer_that_the_configuration_does_not_name_is_rejected() {
    let fixture = Fixture::new().await;
    let image = TestImage::new(vec![layer("a", b"1")]);
    let other = gzip(&layer("a", b"2"));
    fixture.registry.tag("1", &fixture.registry.add_image(&image, &[other]));
    let error = fixture.pull("server:1").await.unwrap_err().to_string();
    assert!(error.contains("in the image configuration"), "{error}");
    fixture.check_is_empty();
    let bomb = gzip(&ArchiveBuilder::default().file("../escaped", b"x").finish());
    let image = TestImage::new(vec![ArchiveBuilder::default().file("../escaped", b"x").finish()]);
    fixture.registry.tag("1", &fixture.registry.add_image(&image, &[bomb]));
    let error = fixture.pull("server:1").await.unwrap_err().to_string();
    assert!(error.contains("`../escaped`"), "{error}");
    fixture.check_is_empty();
}

#[tokio::test]
async fn the_image_for_this_machine_is_selected() {
    let fixture = Fixture::new().await;
    let ours = TestImage::new(vec![layer("a", b"1")]);
    let other = TestImage::for_architecture("mips", vec![layer("a", b"2")]);
    let sent = |image: &TestImage| image.layers.clone();
    let [ours_manifest, other_manifest] =
        [&ours, &other].map(|image| fixture.registry.add_image(image, &sent(image)));
    let platform = |name: &str| json!({"os": "linux", "architecture": name});
    let here = MachinePlatform::current();
    let both = index(&[
        (&other_manifest, platform("mips"), Value::Null),
        (&ours_manifest, platform(here.architecture()), Value::Null),
    ]);
    fixture.registry.tag("1", &both);
    let pulled = fixture.pull("server:1").await.unwrap();
    assert_eq!((&pulled.id, pulled.digest), (&ours.id(), Some(Digest::sha256(&both))));
    let by_manifest = fixture.registry.reference(&format!("server@{}", Digest::sha256(&ours_manifest)));
    assert!(fixture.store.find(&by_manifest).unwrap().is_some());
    fixture.registry.tag("2", &index(&[(&other_manifest, platform("mips"), Value::Null)]));
    fixture.registry.tag("3", &other_manifest);
    for name in ["server:2", "server:3"] {
        let error = fixture.pull(name).await.unwrap_err().to_string();
        assert!(error.contains("linux/mips"), "{error}");
    }
    fixture.registry.tag("4", &index(&[(b"absent", platform(here.architecture()), Value::Null)]));
    fixture.pull("server:4").await.unwrap_err();
    let error = fixture.pull("server:5").await.unwrap_err().to_string();
    assert!(error.contains("does not exist"), "{error}");
}

#[tokio::test]
async fn the_login_of_docker_is_used() {
    let fixture = Fixture::new().await;
    let (image, sent) = image();
    fixture.registry.tag("1", &fixture.registry.add_image(&image, &sent));
    fixture.registry.change(|state| state.authorization = Some("Basic bWNwbTpzZWNyZXQ=".to_owned()));
    let error = fixture.pull("server:1").await.unwrap_err().to_string();
    assert!(error.contains("docker login"), "{error}");
    let config = json!({"auths": {fixture.registry.address(): {"auth": "bWNwbTpzZWNyZXQ="}}});
    fs::write(fixture.folder.path().join("config.json"), config.to_string()).unwrap();
    assert_eq!(fixture.pull("server:1").await.unwrap().id, image.id());
}

#[tokio::test]
async fn a_newer_image_takes_the_name() {
    let fixture = Fixture::new().await;
    let images = ["1", "2"].map(|data| TestImage::new(vec![layer("a", data.as_bytes())]));
    for image in &images {
        fixture.registry.tag("1", &fixture.registry.add_image(image, &image.layers));
        fixture.pull("server:1").await.unwrap();
    }
    let old = fixture.store.get(&images[0].id()).unwrap().unwrap();
    assert!(old.references.is_empty());
    let reference = fixture.registry.reference("server:1");
    assert_eq!(fixture.store.find(&reference).unwrap().unwrap().id, images[1].id());
}

#[tokio::test]
async fn a_cancelled_pull_leaves_nothing() {
    let fixture = Fixture::new().await;
    let (image, sent) = image();
    fixture.registry.tag("1", &fixture.registry.add_image(&image, &sent));
    let started = tokio::sync::Notify::new();
    let (reference, credentials) = (fixture.registry.reference("server:1"), fixture.credentials());
    let report = |_| started.notify_one();
    tokio::select! {
        biased;
        () = started.notified() => {}
        pulled = fixture.store.pull(&reference, &credentials, None, &report) => drop(pulled),
    }
    // A blocking writer may still hold the draft, and thus the lock, for a moment.
    let store = fixture.store.clone();
    with_timeout(run_blocking(move || store.prune(PruneScope::Unused, || Ok(ImagesInUse::default()))))
        .await
        .unwrap();
    fixture.check_is_empty();
}

#[tokio::test]
async fn only_what_was_not_received_counts_as_unavailable() {
    let fixture = Fixture::new().await;
    let (image, sent) = image();
    let manifest = fixture.registry.add_image(&image, &sent);
    fixture.registry.tag("1", &manifest);
    let is_unavailable = async |name: &str| pull::is_unavailable(&fixture.pull(name).await.unwrap_err());
    assert!(is_unavailable("server:missing").await);
    // No login is stored.
    fixture.registry.change(|state| state.authorization = Some("Basic bWNwbTpzZWNyZXQ=".to_owned()));
    assert!(!is_unavailable("server:1").await);
    fixture.registry.change(|state| state.authorization = None);
    let swap = |digest: &Digest, content: &[u8]| {
        fixture.registry.change(|state| state.content.insert(digest.to_string(), content.to_vec()));
    };
    swap(&Digest::sha256(&sent[0]), &vec![0; sent[0].len()]);
    assert!(!is_unavailable("server:1").await);
    swap(&image.id(), b"{}");
    assert!(!is_unavailable("server:1").await);
    let digest = Digest::sha256(&manifest);
    swap(&digest, b"{}");
    assert!(!is_unavailable(&format!("server@{digest}")).await);
    fixture.registry.tag("1", b"{}");
    assert!(!is_unavailable("server:1").await);
    // Nobody listens on the port of a registry that is gone.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let reference = ImageReference::parse(&format!("{gone}/server:1")).unwrap();
    let error = with_timeout(fixture.store.pull(&reference, &fixture.credentials(), None, &|_| ())).await;
    assert!(pull::is_unavailable(&error.unwrap_err()));
}
