//! Checks that the signature of an image is verified before the image runs.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use mcpm_tests::harness::{
    registry::{ImageRegistry, LOGIN},
    testbed,
};

use super::server::{IMAGE, open_to_all};
use crate::support::{Home, Session, docker, engine_variable};

fn signer(args: &[&str]) {
    let output = Command::new(testbed::path("MCPM_TEST_SIGNER")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Pushes the image of the server, and removes it from the engine; returns its name and its digest.
fn push(registry: &ImageRegistry, repository: &str) -> (String, String) {
    let name = format!("{}/{repository}:1", registry.address());
    docker(&["tag", IMAGE, &name]);
    let login = registry.login().display().to_string();
    let said = docker(&["--config", &login, "push", &name]);
    docker(&["rmi", &name]);
    let digest = said.split_whitespace().find(|word| word.starts_with("sha256:")).unwrap().to_owned();
    (name, digest)
}

pub(super) fn a_signed_image_runs_and_an_unsigned_one_does_not(home: &Home) {
    let registry = ImageRegistry::start();
    let (keys, login) = (home.text("keys"), home.path("login"));
    fs::create_dir(&keys).unwrap();
    signer(&["make", &keys]);
    fs::create_dir(&login).unwrap();
    fs::copy(registry.login().join("config.json"), login.join("config.json")).unwrap();
    open_to_all(&login);
    let key = format!("{keys}/signing.pub");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    home.set("DOCKER_CONFIG", login.to_str().unwrap());
    let (signed, digest) = push(&registry, "team/signed");
    let (unsigned, _) = push(&registry, "team/unsigned");
    let repository = ["--repository", "team/signed", "--digest", &digest, "--key", "signing"];
    signer(&[&["sign", &keys, "--registry", registry.address(), "--login", LOGIN][..], &repository].concat());
    let name = home.name("verified");
    let options = ["--image-verification", "enabled", "--image-verification-key", &key, "--name", &name];
    let options = [&options[..], &["--transport", "stdio"]].concat();
    let refused = home.run(&[&["run", &unsigned][..], &options].concat());
    assert!(refused.code != Some(0) && refused.stderr.contains("sign"), "{refused:?}");
    home.assert_nothing_left();
    let url = home.run(&[&["run", &signed][..], &options].concat()).succeeded().url();
    assert!(!Session::open(&url).tools().is_empty());
    let status = home.status(&name);
    assert!(status["image"].as_str().unwrap().ends_with(&digest), "{status}");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
    if !home.is_builtin() {
        // Podman keeps the image while a container uses the same image under another name.
        let name = format!("{}@{digest}", signed.trim_end_matches(":1"));
        let _ = Command::new("docker").args(["rmi", &name]).envs(engine_variable()).output();
    }
}
