//! Tests which permission profiles are accepted, and how they are interpreted.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::{ErrorKind, options::PermissionProfile};

fn samples(kind: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/permission/samples").join(kind);
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

fn outbound(json: &str) -> Outbound {
    Profile::from_json(&format!("{{\"network\": {{\"outbound\": {json}}}}}")).unwrap().outbound
}

fn host(text: &str) -> Host {
    text.parse().unwrap()
}

#[test]
fn valid_samples_are_read_and_written_back() {
    for (path, text) in samples("valid") {
        let profile = Profile::from_json(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let again = Profile::from_json(&profile.to_json().unwrap()).unwrap();
        assert_eq!(profile, again, "{}", path.display());
    }
}

#[test]
fn invalid_samples_are_refused_in_one_line() {
    for (path, text) in samples("invalid") {
        let error = Profile::from_json(&text).expect_err(&path.display().to_string());
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{}", path.display());
        assert!(!error.to_string().contains(['\n', '\0']), "{}: {error}", path.display());
    }
}

#[test]
fn the_layout_of_others_is_read() {
    let sample = samples("valid").into_iter().find(|(path, _)| path.ends_with("reference.json")).unwrap();
    let profile = Profile::from_json(&sample.1).unwrap();
    let mounts: Vec<_> = profile.mounts.iter().map(|mount| (mount.to_string(), mount.read_only)).collect();
    let expected = [("/etc/hostname", true), ("/srv/data:/data", true), ("/srv/out:/out", false)];
    assert_eq!(mounts, expected.map(|(text, read_only)| (text.to_owned(), read_only)));
    assert_eq!(profile.network_mode.as_deref(), Some("bridge"));
    assert_eq!(profile.inbound, ["localhost", "127.0.0.1"]);
    assert!(profile.outbound.is_limited() && !profile.privileged);
}

#[test]
fn what_is_not_mentioned_is_not_allowed() {
    for text in ["{}", "{\"network\": {}}", "{\"network\": {\"outbound\": {}}}"] {
        assert!(Profile::from_json(text).unwrap().outbound.is_nothing(), "{text}");
    }
    assert!(Profile::none().outbound.is_nothing());
    assert!(!Profile::network().outbound.is_nothing() && !Profile::network().outbound.is_limited());
}

#[test]
fn hosts_and_ports_are_decided_in_order() {
    use OutboundDenial::{Host as ByHost, NoNetwork, Port};
    let both = r#"{"allow_host": ["a.example", "b.example:22"], "allow_port": [443, "8000-8001"]}"#;
    let cases = [
        ("{}", "a.example", 443, Err(NoNetwork)),
        (r#"{"insecure_allow_all": true}"#, "a.example", 1, Ok(())),
        (r#"{"allow_port": [443]}"#, "any.example", 443, Ok(())),
        (r#"{"allow_port": [443]}"#, "any.example", 80, Err(Port)),
        (r#"{"allow_host": ["a.example"]}"#, "a.example", 22, Ok(())),
        (r#"{"allow_host": ["a.example"]}"#, "b.example", 22, Err(ByHost)),
        (both, "a.example", 443, Ok(())),
        (both, "a.example", 8001, Ok(())),
        (both, "a.example", 22, Err(Port)),
        (both, "b.example", 22, Ok(())),
        (both, "b.example", 443, Err(Port)),
        (both, "c.example", 443, Err(ByHost)),
    ];
    for (rules, name, port, expected) in cases {
        assert_eq!(outbound(rules).decide(&host(name), port), expected, "{rules} {name}:{port}");
    }
}

#[test]
fn patterns_name_what_they_say_and_no_more() {
    let cases: [(&str, &[&str], &[&str]); 6] = [
        (
            "a.example",
            &["a.example", "A.EXAMPLE", "a.example."],
            &["b.a.example", "xa.example", "a.example.org"],
        ),
        (".a.example", &["a.example", "b.a.example", "c.b.a.example"], &["xa.example", "example"]),
        ("*.a.example", &["b.a.example", "c.b.a.example"], &["a.example", "xa.example", "b.xa.example"]),
        ("10.0.0.0/8", &["10.1.2.3", "::ffff:10.1.2.3", "0x0a.1"], &["11.0.0.1", "10.example"]),
        ("192.0.2.1", &["192.0.2.1", "3221225985"], &["192.0.2.2"]),
        ("[2001:db8::]:443", &["2001:db8::", "[2001:db8::]"], &["2001:db8::1"]),
    ];
    for (rule, named, others) in cases {
        let parsed: HostRule = rule.parse().unwrap();
        assert_eq!(parsed.to_string().parse::<HostRule>().unwrap(), parsed, "{rule}");
        named.iter().for_each(|name| assert!(parsed.matches(&host(name)), "{rule} {name}"));
        others.iter().for_each(|name| assert!(!parsed.matches(&host(name)), "{rule} {name}"));
    }
}

#[test]
fn invalid_hosts_are_rejected() {
    for text in
        ["", ".", "a..b", "a b", "a%2eb", "a/b", "[::1", "1.2.3.4.5", "a:80", "*.a", &"a".repeat(64), "é\n"]
    {
        assert!(text.parse::<Host>().is_err(), "{text:?}");
    }
    assert_eq!(host("BÜCHER.example").to_string(), "xn--bcher-kva.example");
}

#[test]
fn mounts_are_cleaned_and_begin_in_the_working_folder() {
    let places = |text: &str| MountRule::parse(text, true).unwrap().paths(Path::new("/work"));
    assert_eq!(places("/a/../b"), ("/b".into(), "/b".to_owned()));
    assert_eq!(places("data:/data/./x"), ("/work/data".into(), "/data/x".to_owned()));
    assert_eq!(places("../data"), ("/data".into(), "/data".to_owned()));
    assert_eq!(places("/../etc:/../e"), ("/etc".into(), "/e".to_owned()));
}

#[test]
fn a_file_that_is_missing_or_too_large_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    let load = || Profile::load(&PermissionProfile::File("profile.json".into()), folder.path()).unwrap_err();
    assert_eq!(load().kind(), ErrorKind::NotFound);
    std::fs::write(&path, " ".repeat(1024 * 1024 + 1)).unwrap();
    assert!(load().to_string().contains("1 MiB"));
    std::fs::write(&path, [0xff]).unwrap();
    assert_eq!(load().kind(), ErrorKind::Io);
    assert!(load().to_string().contains(path.to_str().unwrap()));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_fail_other_than_by_refusal(text in "\\PC*") {
        let _ = Profile::from_json(&text);
        let _ = text.parse::<HostRule>();
        let _ = text.parse::<Host>();
        let _ = text.parse::<PortRange>();
        let _ = text.parse::<Tmpfs>();
        let _ = MountRule::parse(&text, true);
    }

    #[test]
    fn a_rule_that_is_read_is_written_the_same_way(text in "(\\*?\\.)?[a-z0-9:\\[\\]./-]{1,20}(:[0-9-]{1,9})?") {
        if let Ok(rule) = text.parse::<HostRule>() {
            prop_assert_eq!(rule.to_string().parse::<HostRule>().unwrap(), rule);
        }
    }

    #[test]
    fn a_profile_with_any_entries_is_read_or_refused_and_never_widened(
        hosts in prop::collection::vec("[a-z*.]{1,9}(:[0-9]{1,5})?", 0..4),
        ports in prop::collection::vec(any::<u32>(), 0..3),
    ) {
        let text = serde_json::json!({"network": {"outbound": {"allow_host": hosts, "allow_port": ports}}});
        if let Ok(profile) = Profile::from_json(&text.to_string()) {
            prop_assert!(!profile.outbound.insecure_allow_all);
            prop_assert_eq!(profile.outbound.allow_host.len(), hosts.len());
            prop_assert_eq!(profile.outbound.allow_port.len(), ports.len());
            prop_assert_eq!(&Profile::from_json(&profile.to_json().unwrap()).unwrap(), &profile);
        }
    }
}
