//! Tests images that exist, are missing, or are in a real registry that requires a login.
//!
//! The registry is the program `docker-registry`, on a loopback address, where Docker uses it without TLS. For Podman,
//! set `MCPM_TEST_REGISTRY_PORT`, add that port to Podman's insecure registries, and run one test at a time.

use std::{path::Path, process::Command, sync::Arc};

use mcpm::{
    ErrorKind, Result,
    environment::EngineSettings,
    image::{
        ImageReference,
        credentials::CredentialStore,
        pull::{self, PulledImage},
        store::ImagesInUse,
    },
    runtime::{
        Runtime,
        docker::{Docker, EngineEndpoint},
    },
};
use mcpm_tests::harness::registry::ImageRegistry;
use tempfile::TempDir;

use super::support::{
    Engine, LIMIT, SHELL_IMAGE, builtin_in, docker, endpoint, image_store_in, shell, shell_image, unique,
};

/// Pushes the test image to a registry and removes it from the engine.
fn push_image(registry: &ImageRegistry, name: &str) -> ImageReference {
    let name = format!("{}/{name}", registry.address());
    docker(&["tag", shell_image(), &name]);
    let login = registry.login().display().to_string();
    let mut push = Command::new("docker");
    push.args(["--config", &login, "--host", &endpoint(), "push", &name]);
    let output = push.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    docker(&["rmi", &name]);
    ImageReference::parse(&name).unwrap()
}

/// The runtime under test, with other registry credentials.
struct Puller<'a> {
    engine: &'a Engine,
    /// The images of the built-in runtime.
    folder: TempDir,
}

impl<'a> Puller<'a> {
    fn new(engine: &'a Engine) -> Self {
        Self { engine, folder: tempfile::tempdir().unwrap() }
    }

    async fn ensure(&self, reference: &ImageReference, login: Option<&Path>) -> Result<PulledImage> {
        let settings =
            EngineSettings { docker_config_dir: login.map(Path::to_owned), ..EngineSettings::default() };
        let runtime: Arc<dyn Runtime> = if self.engine.is_builtin() {
            builtin_in(self.folder.path(), settings)
        } else {
            let endpoint = EngineEndpoint::parse(&endpoint())?;
            Arc::new(Docker::connect(&endpoint, CredentialStore::new(&settings)).await?)
        };
        tokio::time::timeout(LIMIT, pull::ensure(&*runtime, reference, &|_| ())).await.unwrap()
    }

    fn remove(&self, name: &str) {
        if self.engine.is_builtin() {
            image_store_in(self.folder.path()).remove(name, || Ok(ImagesInUse::default())).unwrap();
        } else {
            docker(&["rmi", name]);
        }
    }
}

pub(crate) async fn a_private_image_is_pulled_with_the_stored_login_only(engine: &Engine) {
    let registry = ImageRegistry::start();
    let reference = push_image(&registry, "mcpm/server:1");
    let puller = Puller::new(engine);

    let error = puller.ensure(&reference, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable);
    let step = format!("`docker login {}`", registry.address());
    assert!(error.to_string().contains(&step), "{error}");

    let pulled = puller.ensure(&reference, Some(&registry.login())).await.unwrap();
    assert_eq!((pulled.warning, pulled.info.exposed_ports.as_slice()), (None, [80, 8080].as_slice()));
    let digest = ImageReference::parse(&pulled.info.digest.unwrap()).unwrap();
    assert!(digest.same_repository(&reference) && digest.digest().is_some());

    puller.remove(&reference.to_string());
    let by_digest = puller.ensure(&digest, Some(&registry.login())).await.unwrap();
    assert_eq!(by_digest.info.id, pulled.info.id);
    let both = format!("{reference}@{}", digest.digest().unwrap());
    let by_both =
        puller.ensure(&ImageReference::parse(&both).unwrap(), Some(&registry.login())).await.unwrap();
    assert_eq!(by_both.info.id, pulled.info.id);
    // This fails with Podman, which has no separate name for a digest, and with the built-in runtime, which has another
    // store.
    let _ = Command::new("docker").args(["--host", &endpoint(), "rmi", &digest.to_string()]).output();

    let missing = ImageReference::parse(&format!("{}/mcpm/server:2", registry.address())).unwrap();
    let error = puller.ensure(&missing, Some(&registry.login())).await.unwrap_err();
    let message = error.to_string();
    let steps = ["check the name and the tag", "check its name and tag"];
    assert!(steps.iter().any(|step| message.contains(step)), "{message}");
}

pub(crate) async fn a_movable_image_is_used_when_its_registry_went_away(engine: &Engine) {
    let registry = ImageRegistry::start();
    let reference = push_image(&registry, "mcpm/server:latest");
    let puller = Puller::new(engine);
    let fresh = puller.ensure(&reference, Some(&registry.login())).await.unwrap();
    assert_eq!(fresh.warning, None);
    let name = registry.address().to_owned();
    drop(registry);
    let stale = puller.ensure(&reference, None).await.unwrap();
    puller.remove(&reference.to_string());
    assert_eq!(stale.info.id, fresh.info.id);
    assert!(stale.warning.is_some_and(|warning| names_unreachable(&warning, &name)));
}

pub(crate) async fn a_missing_image_is_named(engine: &Engine) {
    let missing = ImageReference::parse("127.0.0.1:1/mcpm-rt/missing:1").unwrap();
    assert_eq!(engine.image(&missing).await.unwrap(), None);
    let mut spec = shell(&unique("missing"), "true");
    spec.image = missing.to_string();
    let error = engine.runtime().create(&spec).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{error}");
    let error = pull::ensure(engine.runtime(), &missing, &|_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{error}");
    let message = error.to_string();
    assert!(message.contains("127.0.0.1:1/mcpm-rt/missing:1"), "{message}");
    assert!(names_unreachable(&message, "127.0.0.1:1"), "{message}");
}

/// Returns whether a message names the registry that cannot be reached.
fn names_unreachable(message: &str, registry: &str) -> bool {
    ["can reach", "cannot connect to"].iter().any(|words| message.contains(&format!("{words} `{registry}`")))
}

pub(crate) async fn a_local_image_is_described_and_used_without_its_registry(engine: &Engine) {
    let reference = ImageReference::parse(SHELL_IMAGE).unwrap();
    let pulled = pull::ensure(engine.runtime(), &reference, &|_| ()).await.unwrap();
    assert_eq!(pulled.warning, None);
    assert_eq!(pulled.info.exposed_ports, [80, 8080]);
    assert_eq!(pulled.info.entrypoint, ["/busybox", "sh", "-c"]);
    assert_eq!(pulled.info.command, ["true"]);
    let name = "127.0.0.1:1/mcpm-rt/stale:latest";
    engine.tag(name);
    let stale = ImageReference::parse(name).unwrap();
    let pulled = pull::ensure(engine.runtime(), &stale, &|_| ()).await.unwrap();
    let warning = pulled.warning.unwrap();
    assert!(warning.contains("the copy on this machine is used"), "{warning}");
    if !engine.is_builtin() {
        docker(&["rmi", name]);
    }
}
