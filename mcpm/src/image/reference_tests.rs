//! Tests of image references.

use super::*;

fn parse(text: &str) -> ImageReference {
    ImageReference::parse(text).unwrap()
}

#[test]
fn parses_registry_repository_tag_and_digest() {
    let digest = format!("sha256:{}", "ab".repeat(32));
    let cases = [
        ("alpine", "docker.io", "library/alpine", None, None),
        ("alpine:3.20", "docker.io", "library/alpine", Some("3.20"), None),
        ("grafana/mcp-grafana", "docker.io", "grafana/mcp-grafana", None, None),
        ("index.docker.io/alpine", "docker.io", "library/alpine", None, None),
        ("docker.io/library/alpine:latest", "docker.io", "library/alpine", Some("latest"), None),
        ("localhost/server", "localhost", "server", None, None),
        ("localhost:5000/server", "localhost:5000", "server", None, None),
        ("127.0.0.1:5000/a/b:1", "127.0.0.1:5000", "a/b", Some("1"), None),
        ("[::1]:5000/a", "[::1]:5000", "a", None, None),
        ("ghcr.io/org/team/server:v1.2_x-y", "ghcr.io", "org/team/server", Some("v1.2_x-y"), None),
        (&format!("ghcr.io/o/s@{digest}"), "ghcr.io", "o/s", None, Some(digest.as_str())),
        (&format!("o/s:1@{digest}"), "docker.io", "o/s", Some("1"), Some(digest.as_str())),
        ("UPPER/server", "UPPER", "server", None, None),
        ("a__b/c---d.e_f", "docker.io", "a__b/c---d.e_f", None, None),
    ];
    for (text, registry, repository, tag, digest) in cases {
        let reference = parse(text);
        assert_eq!(reference.registry(), registry, "{text}");
        assert_eq!(reference.repository(), repository, "{text}");
        assert_eq!(reference.tag(), tag, "{text}");
        assert_eq!(reference.digest(), digest, "{text}");
        assert_eq!(reference.to_string(), text);
    }
}

#[test]
fn bad_references_are_refused_with_their_reason() {
    let long = "a".repeat(300);
    let id = "0".repeat(64);
    let cases = [
        ("", "empty"),
        ("https://ghcr.io/o/s", "scheme"),
        ("Alpine", "lower case"),
        ("ghcr.io/Org/server", "lower case"),
        ("a//b", "empty"),
        ("a/b/", "empty"),
        ("/a", "empty"),
        ("ghcr.io/", "missing"),
        ("a..b", "joined by"),
        ("a___b", "joined by"),
        ("-a", "joined by"),
        ("a b", "joined by"),
        ("a\nb", "joined by"),
        ("a:", "tag"),
        ("a:-x", "tag"),
        ("a:b:c", "joined by"),
        ("a@sha256:abc", "digest"),
        ("a@", "digest"),
        ("host:99999/a", "registry"),
        ("-host.example/a", "registry"),
        (&long, "255"),
        (&id, "image id"),
        (
            "h.example/mcp?key=canary",
            "`h.example/mcp` is not an image reference: an image reference has neither",
        ),
        ("h.example/mcp?key=canary&u=https://x", "`h.example/mcp` is not an image reference"),
        ("h.example:1/mcp?next=https://canary", "an image reference has neither a query"),
        ("me:canary@h.example/mcp", "`…@h.example/mcp` is not an image reference"),
        ("me:canary@shared.example/mcp", "`…@shared.example/mcp` is not an image reference"),
        ("me:can@ary?canary@h", "`…@h` is not an image reference"),
        ("a:1@sha256:abc", "`a:1@sha256:abc` is not an image reference"),
    ];
    for (text, why) in cases {
        let error = ImageReference::parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{text}");
        assert!(error.to_string().contains(why) && !error.to_string().contains("canary"), "{text}: {error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn the_same_image_is_equal_however_it_is_written() {
    assert_eq!(parse("alpine"), parse("docker.io/library/alpine:latest"));
    assert_eq!(parse("o/s:1"), parse("index.docker.io/o/s:1"));
    assert_ne!(parse("o/s:1"), parse("ghcr.io/o/s:1"));
    assert_ne!(parse("o/s:1"), parse("o/s:2"));
    assert!(parse("o/s:1").same_repository(&parse("docker.io/o/s:2")));
}

#[test]
fn only_a_movable_reference_is_latest() {
    let digest = format!("a@sha256:{}", "0".repeat(64));
    assert!(parse("a").is_latest());
    assert!(parse("a:latest").is_latest());
    assert!(!parse("a:1").is_latest());
    assert!(!parse(&digest).is_latest());
}

#[test]
fn familiar_names_leave_out_what_is_implied() {
    assert_eq!(parse("docker.io/library/alpine:3").familiar_name(), "alpine");
    assert_eq!(parse("docker.io/o/s").familiar_name(), "o/s");
    assert_eq!(parse("ghcr.io/o/s:1").familiar_name(), "ghcr.io/o/s");
    assert_eq!(parse("localhost/library/s").familiar_name(), "localhost/library/s");
    // If these were shortened and parsed again, they would name another registry, or be invalid.
    assert_eq!(parse("docker.io/ghcr.io/o/s").familiar_name(), "docker.io/ghcr.io/o/s");
    assert_eq!(parse("docker.io/localhost/s").familiar_name(), "docker.io/localhost/s");
    let id = "0".repeat(64);
    assert_eq!(parse(&format!("docker.io/{id}")).familiar_name(), format!("docker.io/library/{id}"));
}

#[test]
fn workloads_are_named_after_namespace_and_repository() {
    let long = format!("{}/{}", "n".repeat(40), "r".repeat(40));
    let cases = [
        ("ghcr.io/org/team/server:v1", "team-server"),
        ("grafana/mcp-grafana", "grafana-mcp-grafana"),
        ("alpine:3", "alpine"),
        ("docker.io/library/alpine", "alpine"),
        ("localhost:5000/my_server", "my_server"),
    ];
    for (text, name) in cases {
        assert_eq!(parse(text).workload_name(), name);
    }
    assert_eq!(parse(&long).workload_name().len(), 63);
}

#[test]
fn a_reference_is_stored_as_text() {
    let stored = serde_json::to_string(&parse("alpine:3")).unwrap();
    assert_eq!(stored, "\"alpine:3\"");
    assert_eq!(serde_json::from_str::<ImageReference>(&stored).unwrap(), parse("alpine:3"));
    assert!(serde_json::from_str::<ImageReference>("\"A\"").is_err());
}
