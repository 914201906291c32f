//! Tests of names and of error classification.

use super::*;
use crate::runtime::Network;

fn refusal(status_code: u16, message: &str) -> ApiError {
    ApiError::DockerResponseServerError { status_code, message: message.to_owned() }
}

#[test]
fn a_name_cannot_change_the_request_path() {
    for good in ["server", "0a", "a_b.c-d"] {
        assert!(is_valid_name(good), "{good}");
    }
    for bad in ["", "..", ".", "../images", "a/b", "a?b", "a#b", "a b", "-a", "a%2e"] {
        assert!(!is_valid_name(bad), "{bad}");
    }
}

#[test]
fn maps_create_errors() {
    let spec = ContainerSpec {
        name: "server".to_owned(),
        image: "image:1".to_owned(),
        args: Vec::new(),
        env: std::collections::BTreeMap::new(),
        labels: std::collections::BTreeMap::new(),
        mounts: Vec::new(),
        overlays: Vec::new(),
        network: Network::None,
        ports: Vec::new(),
        stdin: true,
        unlogged: false,
        pids_limit: 1,
        confinement: crate::runtime::Confinement::default(),
        entry: None,
    };
    let cases = [
        (
            409,
            "Conflict. The container name \"/server\" is already in use by container \"0\".",
            ErrorKind::NameTaken,
        ),
        (
            500,
            "creating container storage: the container name \"server\" is already in use by 0",
            ErrorKind::NameTaken,
        ),
        (404, "No such image: image:1", ErrorKind::ImageUnavailable),
        (404, "docker.io/library/image:1: no such image: image not known", ErrorKind::ImageUnavailable),
        (404, "network net not found", ErrorKind::NotFound),
        (500, "disk full", ErrorKind::Engine),
    ];
    for (status, why, kind) in cases {
        let error = creation_failed(&spec, &refusal(status, why));
        assert_eq!(error.kind(), kind, "{why}");
        assert!(error.to_string().contains("server") || kind == ErrorKind::ImageUnavailable, "{error}");
    }
}

#[test]
fn maps_start_errors() {
    let id = ContainerId("0".to_owned());
    let cases = [
        ("driver failed: Bind for 127.0.0.1:80 failed: port is already allocated", ErrorKind::PortTaken),
        (
            "cannot listen on the TCP port: listen tcp4 :80: bind: address already in use",
            ErrorKind::PortTaken,
        ),
        ("exec: \"x\": executable file not found in $PATH", ErrorKind::StartFailed),
        ("exec /x: exec format error", ErrorKind::StartFailed),
        ("cgroup trouble", ErrorKind::Engine),
    ];
    for (why, kind) in cases {
        assert_eq!(start_failed(&id, &refusal(500, why)).kind(), kind, "{why}");
    }
}
