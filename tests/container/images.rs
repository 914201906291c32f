//! Images that are here, missing, or in a real registry that asks for a login.
//!
//! The registry is the `docker-registry` program, on loopback, where Docker takes it without TLS. Podman must
//! be told: set `MCPM_TEST_REGISTRY_PORT`, name that port in its registries and run one test at a time.

use std::{path::Path, process::Command};

use mcpm::{
    ErrorKind, Result,
    environment::EngineSettings,
    image::{
        ImageReference,
        credentials::CredentialStore,
        pull::{self, PulledImage},
    },
    runtime::{
        Runtime,
        docker::{Docker, EngineEndpoint},
    },
};

use mcpm_tests::harness::registry::ImageRegistry;

use super::support::{Engine, LIMIT, docker, endpoint, shell, shell_image, unique};

/// Puts the test image into a registry and takes it away from the engine.
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

async fn ensure(reference: &ImageReference, login: Option<&Path>) -> Result<PulledImage> {
    let settings =
        EngineSettings { docker_config_dir: login.map(Path::to_owned), ..EngineSettings::default() };
    let engine =
        Docker::connect(&EngineEndpoint::parse(&endpoint())?, CredentialStore::new(&settings)).await?;
    tokio::time::timeout(LIMIT, pull::ensure(&engine, reference, &|_| ())).await.unwrap()
}

#[tokio::test]
async fn a_private_image_is_pulled_with_the_stored_login_only() {
    let registry = ImageRegistry::start();
    let reference = push_image(&registry, "mcpm/server:1");

    let error = ensure(&reference, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable);
    let step = format!("run `docker login {}`", registry.address());
    assert!(error.to_string().contains(&step), "{error}");

    let pulled = ensure(&reference, Some(&registry.login())).await.unwrap();
    assert_eq!((pulled.warning, pulled.info.exposed_ports.as_slice()), (None, [80, 8080].as_slice()));
    let digest = ImageReference::parse(&pulled.info.digest.unwrap()).unwrap();
    assert!(digest.same_repository(&reference) && digest.digest().is_some());

    docker(&["rmi", &reference.to_string()]);
    let by_digest = ensure(&digest, Some(&registry.login())).await.unwrap();
    assert_eq!(by_digest.info.id, pulled.info.id);
    let both = format!("{reference}@{}", digest.digest().unwrap());
    let by_both = ensure(&ImageReference::parse(&both).unwrap(), Some(&registry.login())).await.unwrap();
    assert_eq!(by_both.info.id, pulled.info.id);
    // Podman knows no name of its own for a digest.
    let _ = Command::new("docker").args(["--host", &endpoint(), "rmi", &digest.to_string()]).output();

    let missing = ImageReference::parse(&format!("{}/mcpm/server:2", registry.address())).unwrap();
    let error = ensure(&missing, Some(&registry.login())).await.unwrap_err();
    assert!(error.to_string().contains("check the name and the tag for typos"), "{error}");
}

#[tokio::test]
async fn a_movable_image_is_used_when_its_registry_went_away() {
    let registry = ImageRegistry::start();
    let reference = push_image(&registry, "mcpm/server:latest");
    let fresh = ensure(&reference, Some(&registry.login())).await.unwrap();
    assert_eq!(fresh.warning, None);
    let name = registry.address().to_owned();
    drop(registry);
    let stale = ensure(&reference, None).await.unwrap();
    docker(&["rmi", &reference.to_string()]);
    assert_eq!(stale.info.id, fresh.info.id);
    assert!(stale.warning.is_some_and(|warning| warning.contains(&format!("reaches `{name}`"))));
}

#[tokio::test]
async fn a_missing_image_is_named() {
    let engine = Engine::connect().await;
    let missing = ImageReference::parse("127.0.0.1:1/mcpm-rt/missing:1").unwrap();
    assert_eq!(engine.image(&missing).await.unwrap(), None);
    let mut spec = shell(&unique("missing"), "true");
    spec.image = missing.to_string();
    let error = Runtime::create(&*engine, &spec).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{error}");
    let error = pull::ensure(&*engine, &missing, &|_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{error}");
    let message = error.to_string();
    assert!(
        message.contains("127.0.0.1:1/mcpm-rt/missing:1") && message.contains("reaches `127.0.0.1:1`"),
        "{message}"
    );
}

#[tokio::test]
async fn a_local_image_is_described_and_used_without_its_registry() {
    let engine = Engine::connect().await;
    let reference = ImageReference::parse(shell_image()).unwrap();
    let pulled = pull::ensure(&*engine, &reference, &|_| ()).await.unwrap();
    assert_eq!(pulled.warning, None);
    assert_eq!(pulled.info.exposed_ports, [80, 8080]);
    assert_eq!(pulled.info.entrypoint, ["/busybox", "sh", "-c"]);
    assert_eq!(pulled.info.command, ["true"]);
    docker(&["tag", shell_image(), "127.0.0.1:1/mcpm-rt/stale:latest"]);
    let stale = ImageReference::parse("127.0.0.1:1/mcpm-rt/stale").unwrap();
    let pulled = pull::ensure(&*engine, &stale, &|_| ()).await.unwrap();
    let warning = pulled.warning.unwrap();
    assert!(warning.contains("the copy on this machine is used"), "{warning}");
    docker(&["rmi", "127.0.0.1:1/mcpm-rt/stale:latest"]);
}
