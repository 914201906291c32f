//! Tests which text forms are accepted and rejected, and that printing a parsed value restores its text.

use std::{net::Ipv6Addr, path::Path, time::Duration};

use super::*;

fn reason<T: OptionValue + std::fmt::Debug>(text: &str) -> String {
    T::parse(text).unwrap_err()
}

fn same_text<T: OptionValue>(texts: &[&str]) {
    for text in texts {
        assert_eq!(T::parse(text).unwrap().text().as_deref(), Some(*text));
    }
}

#[test]
fn text_forms_print_as_they_were_read() {
    same_text::<PublishSpec>(&[
        "80",
        "8080:80",
        "53:53/udp",
        "127.0.0.1:8080:80",
        "[::1]:8080:80/udp",
        "0.0.0.0::80",
        "[::]::80",
    ]);
    same_text::<VolumeSpec>(&["/a:/b", "./a:/b:ro", "a b:/c:Z", "/a:/b:ro,z", "C:\\x:/c", "/a:b:/c:ro"]);
    same_text::<KeyValue>(&["a=b", "a=", "a=b=c"]);
    same_text::<EnvVar>(&["A=b", "A=", "A=b=c\nd"]);
    same_text::<SecretRef>(&["github,target=GITHUB_TOKEN", "a=b,target=T"]);
    same_text::<HeaderSecret>(&["X-Key=key"]);
    same_text::<Attributes>(&["a=b", "a=b,c=d=e"]);
    same_text::<PermissionProfile>(&["none", "network", "./profile.json"]);
    same_text::<Duration>(&["30s", "1m30s", "1h", "250ms"]);
}

#[test]
fn a_published_port_has_typed_parts() {
    let spec = PublishSpec::parse("[::1]:8080:80/udp").unwrap();
    assert_eq!(spec.host_ip, Some(Ipv6Addr::LOCALHOST.into()));
    assert_eq!((spec.host_port, spec.container_port, spec.protocol), (Some(8080), 80, Protocol::Udp));
    assert_eq!(PublishSpec::parse("0:80").unwrap(), PublishSpec { host_port: None, ..PublishSpec::same(80) });
    assert_eq!(PublishSpec::parse("80:80/tcp").unwrap(), PublishSpec::same(80));
}

#[test]
fn ports_that_cannot_be_published_are_refused() {
    for text in [
        "",
        ":",
        "a",
        "80:",
        ":80",
        "-1:80",
        "80:80:",
        "1.2.3.4:80",
        "70000",
        "80:80/",
        "+80:80",
        " 80",
        "[::1]",
        "[::1]:80",
    ] {
        assert!(PublishSpec::parse(text).is_err(), "{text}");
    }
    assert_eq!(reason::<PublishSpec>("80:0"), "the container's port cannot be 0");
    assert_eq!(reason::<PublishSpec>("80:80/sctp"), "expected `tcp` or `udp`");
    assert_eq!(
        reason::<PublishSpec>("8000-8010:80"),
        "port ranges are not supported; repeat the option for each port"
    );
    assert_eq!(reason::<PublishSpec>("localhost:80:80"), "expected an IP address before the ports");
    assert_eq!(
        reason::<PublishSpec>("[1.2.3.4]:80:80"),
        "an IPv6 address must be in brackets, and an IPv4 address must not"
    );
}

#[test]
fn a_volume_has_typed_parts() {
    let volume = VolumeSpec::parse("data:/data:Z,ro").unwrap();
    assert_eq!((volume.host_path.as_path(), volume.container_path.as_str()), (Path::new("data"), "/data"));
    assert!(volume.read_only);
    assert_eq!(volume.relabel, Some(Relabel::Private));
    assert_eq!(VolumeSpec::parse("/a:/b:rw").unwrap(), VolumeSpec::new("/a", "/b"));
}

#[test]
fn volumes_that_cannot_be_mounted_are_refused() {
    for text in ["", "/a", ":/b", "/a:", "/a:b", "/a:/b:", "/a:/b:rx", "a:b:ro", "/a:/b/../c"] {
        assert!(VolumeSpec::parse(text).is_err(), "{text}");
    }
    let again = "the options after the container's path repeat or contradict each other";
    assert_eq!(reason::<VolumeSpec>("/a:/b:ro,rw"), again);
    assert_eq!(reason::<VolumeSpec>("/a:/b:z,Z"), again);
    assert_eq!(
        reason::<VolumeSpec>("/a:/b:ro,x"),
        "expected `ro`, `rw`, `z` or `Z` after the container's path"
    );
}

#[test]
fn secret_references_are_exactly_two_names() {
    for text in ["", "a", ",target=T", "a,target=", "a,target=T,x=y", "a,b,target=T", "a,target=A=B"] {
        assert!(SecretRef::parse(text).is_err(), "{text}");
    }
}

#[test]
fn headers_are_valid_and_their_refusal_does_not_show_them() {
    assert_eq!(
        Header::parse("Authorization=Bearer a=b").unwrap(),
        Header::from(("Authorization", "Bearer a=b"))
    );
    for text in ["hidden", "=hidden", "a b=hidden", "A=hidden\r\nB: c"] {
        let reason = reason::<Header>(text);
        assert!(!reason.contains("hidden"), "{reason}");
        let error = ProxyOptions::default().set("remote-forward-headers", text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hidden"), "{error}");
    }
}

#[test]
fn nothing_shows_a_secret() {
    let secret = Secret::from("hidden");
    assert_eq!(secret.expose(), "hidden");
    assert_eq!(
        format!("{secret:?} {:#?}", Header::from(("A", "hidden"))),
        "Secret(..) Header {\n    name: \"A\",\n    ..\n}"
    );
    assert_eq!(secret.text(), None);
    let error = secret.export(serde_json::value::Serializer).unwrap_err();
    assert!(!error.to_string().contains("hidden"));
    assert_eq!(format!("{:?}", EnvVar::from(("KEY", "hidden"))), r#"EnvVar { name: "KEY", .. }"#);
}

#[test]
fn secrets_are_equal_when_their_text_is() {
    assert_eq!(Secret::from("abc"), Secret::from(String::from("abc")));
    assert!(["abd", "ab", "abcd", ""].iter().all(|other| Secret::from("abc") != Secret::from(*other)));
    assert_eq!(reason::<Secret>(""), "the secret is empty");
}

#[test]
fn every_word_of_a_choice_is_read_and_explained() {
    for transport in Transport::ALL {
        assert_eq!(transport.as_str().parse::<Transport>().unwrap(), *transport);
    }
    for word in Transport::WORDS.iter().chain(ProxyMode::WORDS).chain(ImageVerification::WORDS) {
        assert!(!word.help().is_empty() && !word.help().ends_with('.'), "{}", word.text);
    }
    assert!("SSE".parse::<Transport>().is_err());
}

#[test]
fn text_forms_are_the_json_of_stored_types() {
    let spec: PublishSpec = serde_json::from_str(r#""8080:80""#).unwrap();
    assert_eq!(serde_json::to_string(&spec).unwrap(), r#""8080:80""#);
    assert!(
        serde_json::from_str::<Transport>(r#""http""#).unwrap_err().to_string().starts_with("expected `sse`")
    );
}
