//! Tests of the comparison of versions, the detection of Podman, and the version in requests.

use bollard::models::SystemVersionComponents;

use super::*;

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
