//! Tests of addresses and of what an engine says of itself.

use bollard::models::SystemVersionComponents;

use super::*;

#[test]
fn addresses_are_read() {
    for (text, endpoint) in [
        ("unix:///var/run/docker.sock", "unix:///var/run/docker.sock"),
        ("/run/podman/podman.sock", "unix:///run/podman/podman.sock"),
        ("tcp://127.0.0.1:4000", "tcp://127.0.0.1:4000"),
        ("tcp://engine.example/", "tcp://engine.example:2375"),
        ("http://[::1]:2375", "tcp://[::1]:2375"),
    ] {
        assert_eq!(EngineEndpoint::parse(text).unwrap().to_string(), endpoint);
    }
}

#[test]
fn unsupported_addresses_differ_from_invalid_ones() {
    for text in ["ssh://host", "https://host:2376", "tcp://host:2376", "npipe:////./pipe/docker_engine"] {
        let error = EngineEndpoint::parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
        assert!(error.to_string().contains("not supported yet"), "{error}");
    }
    for text in
        ["", "unix://relative", "docker", "tcp://", "tcp://user@host:1", "ftp://host", "tcp://host/path"]
    {
        assert_eq!(EngineEndpoint::parse(text).unwrap_err().kind(), ErrorKind::InvalidOption, "{text}");
    }
}

#[test]
fn versions_are_compared_as_numbers() {
    for (version, new_enough) in [
        ("1.41", true),
        ("1.53", true),
        ("2.0", true),
        ("1.40", false),
        ("1.5", false),
        ("", false),
        ("x", false),
    ] {
        assert_eq!(is_new_enough(version), new_enough, "{version}");
    }
}

#[test]
fn podman_is_known_by_its_components() {
    let part =
        |name: &str| SystemVersionComponents { name: name.to_owned(), ..SystemVersionComponents::default() };
    let version = |names: &[&str]| SystemVersion {
        components: Some(names.iter().map(|name| part(name)).collect()),
        ..SystemVersion::default()
    };
    assert_eq!(engine_name(&version(&["Engine", "containerd"])), EngineName::Docker);
    assert_eq!(engine_name(&version(&["Podman Engine", "Conmon"])), EngineName::Podman);
    assert_eq!(engine_name(&SystemVersion::default()), EngineName::Docker);
}

#[test]
fn same_kernel_needs_a_unix_socket_and_this_kernel() {
    let socket = EngineEndpoint::Unix("/s".into());
    let tcp = EngineEndpoint::Tcp("127.0.0.1:1".to_owned());
    let kernel = rustix::system::uname().release().to_str().unwrap().to_owned();
    let here = SystemInfo { kernel_version: kernel, ..SystemInfo::default() };
    let in_a_machine = SystemInfo { kernel_version: "6.6.6-linuxkit".to_owned(), ..SystemInfo::default() };
    let near = |endpoint, info| EngineCapabilities::detect(EngineName::Docker, endpoint, info).same_kernel;
    assert_eq!(near(&socket, &here), cfg!(target_os = "linux"));
    assert!(!near(&tcp, &here) && !near(&socket, &in_a_machine) && !near(&socket, &SystemInfo::default()));
}

#[test]
fn missing_capabilities_are_not_requested() {
    let socket = EngineEndpoint::Unix("/s".into());
    let json = r#"{"InitCommit":{"ID":"N/A","Expected":"x"},"LoggingDriver":"journald"}"#;
    let info: SystemInfo = serde_json::from_str(json).unwrap();
    let docker = EngineCapabilities::detect(EngineName::Docker, &socket, &info);
    assert_eq!((docker.init, docker.bounded_log_driver.as_deref()), (false, None));
    assert_eq!(
        EngineCapabilities::detect(EngineName::Podman, &socket, &info).bounded_log_driver.as_deref(),
        Some("k8s-file")
    );
}

#[test]
fn requests_name_the_version_once() {
    let pin = pin_version("1.41");
    for (uri, pinned) in [
        ("unix://2f73/containers/create?name=x", "unix://2f73/v1.41/containers/create?name=x"),
        ("http://h:1/v1.41/info", "http://h:1/v1.41/info"),
    ] {
        let request = http::Request::get(uri).body(bollard::body_full(bytes::Bytes::new())).unwrap();
        assert_eq!(pin(request).uri().to_string(), pinned);
    }
}

#[test]
fn detects_rootless_mode_of_both_engines() {
    for (json, rootless) in [
        (r#"{"SecurityOptions":["name=seccomp,profile=default","name=rootless"]}"#, true),
        (r#"{"SecurityOptions":["name=seccomp,profile=default"],"Rootless":true}"#, true),
        (r#"{"SecurityOptions":null}"#, false),
    ] {
        assert_eq!(serde_json::from_str::<SystemInfo>(json).unwrap().is_rootless(), rootless, "{json}");
    }
}
