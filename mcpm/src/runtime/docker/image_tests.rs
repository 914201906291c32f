//! Tests of errors and progress of image pulls.

use super::*;
use bollard::models::ProgressDetail;

#[test]
fn a_failed_pull_says_which_image_which_registry_and_what_to_do() {
    let reference = ImageReference::parse("ghcr.io/o/s:1").unwrap();
    let cases = [
        (
            "pull access denied for x, repository does not exist or may require 'docker login'",
            "typos, or run `docker login",
        ),
        ("manifest for ghcr.io/o/s:1 not found: manifest unknown", "check the name and the tag"),
        ("Get \"https://ghcr.io/v2/\": unauthorized: authentication required", "run `docker login ghcr.io`"),
        ("Head \"https://ghcr.io/v2/\": no basic auth credentials", "run `docker login ghcr.io`"),
        ("error from registry: denied", "run `docker login ghcr.io`"),
        ("toomanyrequests: You have reached your pull rate limit", "wait, or run"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "this platform"),
        ("Get \"https://ghcr.io/v2/\": dial tcp: lookup ghcr.io: no such host", "can reach `ghcr.io`"),
        (
            "Get \"https://ghcr.io/v2/\": net/http: request canceled (Client.Timeout exceeded)",
            "can reach `ghcr.io`",
        ),
        (
            "Get \"https://ghcr.io/v2/\": x509: certificate signed by unknown authority",
            "trust the certificate",
        ),
        ("http: server gave HTTP response to HTTPS client", "trust the certificate"),
        ("something new", "see the log of the container engine"),
    ];
    for (why, step) in cases {
        let error = pull_error(&reference, why, None);
        assert_eq!(error.kind(), ErrorKind::ImageUnavailable);
        let text = error.to_string();
        for part in ["`ghcr.io/o/s:1`", "registry: ghcr.io", why, step] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }
}

#[test]
fn a_failed_pull_reports_an_unreadable_login() {
    let reference = ImageReference::parse("o/s").unwrap();
    let problem =
        Error::new(ErrorKind::CorruptState, "credential helper `docker-credential-x` cannot be started");
    let text = pull_error(&reference, "unauthorized", Some(&problem)).to_string();
    assert!(text.contains("docker-credential-x") && text.contains("docker login docker.io"), "{text}");
}

#[test]
fn progress_sums_the_layers_and_never_goes_back() {
    let step = |id: &str, status: &str, bytes: Option<(i64, i64)>| CreateImageInfo {
        id: Some(id.to_owned()),
        status: Some(status.to_owned()),
        progress_detail: bytes
            .map(|(current, total)| ProgressDetail { current: Some(current), total: Some(total) }),
        ..CreateImageInfo::default()
    };
    let mut layers = LayerProgress::default();
    let mut seen = Vec::new();
    for step in [
        step("1.0", "Pulling from o/s", None),
        step("a", "Pulling fs layer", None),
        step("a", "Downloading", Some((10, 100))),
        step("b", "Downloading", Some((5, 50))),
        step("a", "Download complete", None),
        step("a", "Extracting", Some((1, 100))),
        step("a", "Pull complete", None),
        step("b", "Download complete", None),
    ] {
        seen.extend(layers.record(&step).map(|state| (state.current, state.total)));
    }
    assert_eq!(seen, [(10, 100), (15, 150), (105, 150), (150, 150)]);
}

#[test]
fn image_info_has_the_digest_of_its_own_repository() {
    let digest = |name: &str| format!("{name}@sha256:{}", "1".repeat(64));
    let found = ImageInspect {
        id: Some("sha256:0".to_owned()),
        repo_digests: Some(vec![digest("other/s"), digest("docker.io/o/s")]),
        config: Some(ImageConfig {
            exposed_ports: Some(["8080/tcp", "53/udp", "80"].map(str::to_owned).to_vec()),
            ..ImageConfig::default()
        }),
        ..ImageInspect::default()
    };
    let info = image_info(&ImageReference::parse("o/s:1").unwrap(), found);
    assert_eq!((info.digest, info.exposed_ports), (Some(digest("docker.io/o/s")), vec![80, 8080]));
}
