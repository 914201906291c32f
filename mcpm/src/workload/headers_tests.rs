use std::collections::BTreeMap;

use super::*;
use crate::{proxy::target::Target, registry::RegistryInput};

fn url(text: &str) -> RemoteUrl {
    RemoteUrl::parse(text).unwrap()
}

fn input(name: &str, value: Option<&str>) -> RegistryInput {
    RegistryInput { name: name.to_owned(), default: value.map(str::to_owned), ..RegistryInput::default() }
}

async fn supplied(headers: Vec<RegistryInput>, at: &str) -> Result<RegistryValues> {
    let (way, mut supplied) = (RunMethod { headers, ..RunMethod::default() }, RegistryValues::default());
    resolve_headers(&way, &url(at), &[], &mut supplied, &InputMode::Interactive(None))
        .await
        .map(|()| supplied)
}

#[tokio::test]
async fn an_entry_cannot_set_reserved_headers() {
    for name in ["Host", "content-length", "Mcp-Session-Id", "a b", "", "x:y", "x!", "x\r\ny"] {
        let error = supplied(vec![input(name, Some("v"))], "https://example.com").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Registry, "{name}: {error}");
        assert!(!error.message().contains('\n'), "{error:?}");
    }
}

#[tokio::test]
async fn fixed_headers_are_sent_and_optional_ones_not_prompted_for() {
    let headers = vec![input("X-Level", Some("low")), input("x-level", Some("high")), input("X-Other", None)];
    let found = supplied(headers, "http://example.com").await.unwrap();
    let expected = [("X-Level".to_owned(), ("low".to_owned(), ValueOrigin::Registry))];
    assert_eq!(found.headers, BTreeMap::from(expected));
    let error = supplied(vec![input("X-Level", Some("a\r\nb"))], "https://example.com").await.unwrap_err();
    assert!(error.message().contains("contains a character that is not allowed in headers"), "{error}");
}

#[tokio::test]
async fn a_secret_header_needs_https_or_loopback() {
    let wanted = RegistryInput { required: true, secret: true, ..input("X-Key", None) };
    let error = supplied(vec![wanted], "http://example.com/mcp").await.unwrap_err();
    assert!(error.message().contains("would be sent unencrypted"), "before anybody is asked: {error}");
    let secret = SecretRef::in_header("key", "X-Key");
    for (at, fits) in [
        ("https://example.com", true),
        ("http://localhost:1", true),
        ("http://127.0.0.1:1", true),
        ("http://[::1]:1", true),
        ("http://example.com", false),
        ("http://localhost.example.com", false),
        ("http://10.0.0.1", false),
    ] {
        assert_eq!(check([&secret].into_iter(), &url(at)).is_ok(), fits, "{at}");
    }
}

#[test]
fn references_that_are_no_headers_to_set_are_refused() {
    let at = url("https://example.com");
    let reference = |target: &str| SecretRef::from(("key", target));
    for (targets, words) in [
        (&["KEY"][..], "`KEY` is for containers"),
        (&["file:/key"], "`file:/key` is for containers"),
        (&["header:Host"], "`Host` is not a header that can be set"),
        (&["header:X-Key", "header:x-key"], "two secrets"),
    ] {
        let references: Vec<SecretRef> = targets.iter().map(|target| reference(target)).collect();
        let error = check(references.iter(), &at).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(error.message().contains(words), "{error}");
    }
}

#[test]
fn a_header_that_is_set_replaces_those_of_a_client() {
    let headers = BTreeMap::from([("X-Level".to_owned(), "low".to_owned())]);
    let remote = RemoteSpec { url: "https://example.com".to_owned(), headers };
    let secrets = [SecretRef::in_header("key", "Authorization")];
    let missing = build_headers(&remote, &secrets, &SecretValues::default()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let values = |value: &str| [("key".to_owned(), Secret::from(value.to_owned()))].into_iter().collect();
    let broken = build_headers(&remote, &secrets, &values("canary\n")).unwrap_err();
    assert!(!format!("{broken:?}").contains("canary"), "{broken:?}");
    let set = build_headers(&remote, &secrets, &values("Bearer canary")).unwrap();
    assert!(!format!("{set:?}").contains("canary"), "{set:?}");
    let mut sent = HeaderMap::new();
    for (name, value) in
        [("authorization", "mine"), ("authorization", "more"), ("x-level", "high"), ("x-own", "1")]
    {
        sent.append(name, HeaderValue::from_static(value));
    }
    Target::parse(&remote.url).unwrap().with_headers(set).set_headers(&mut sent);
    let sent: Vec<_> = sent.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    for expected in [("authorization", "Bearer canary"), ("x-level", "low"), ("x-own", "1")] {
        assert!(sent.contains(&expected), "{sent:?}");
    }
    assert_eq!(sent.len(), 3, "{sent:?}");
}
