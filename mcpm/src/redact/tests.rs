//! Tests of what is redacted in texts and values, and what is not.

use proptest::prelude::*;
use serde_json::json;

use super::{extended::ExtendedRedactor, *};

#[test]
fn what_has_the_form_of_a_credential_is_masked_and_the_rest_stays() {
    for (text, expected) in [
        ("Authorization: Bearer canary-1", "Authorization: Bearer [redacted]"),
        ("basic Y2FuYXJ5OmE=", "basic [redacted]"),
        ("failed for token=canary&x=1", "failed for token=[redacted]&x=1"),
        ("https://a.example/x?api_key=canary#y", "https://a.example/x?api_key=[redacted]"),
        ("https://user:canary@a.example/x", "https://[redacted]@a.example/x"),
        ("got eyJhbGciOiJub25lIn0.eyJzdWIiOiJjYW5hcnkifQ. from", "got [redacted] from"),
        ("ghp_canarycanarycanary", "[redacted]"),
        ("password:canary", "password:[redacted]"),
        ("{\"a\": \"sk-canarycanarycanary\"}", "{\"a\": \"[redacted]\"}"),
        ("x=https://u:canary@h", "x=https://[redacted]@h"),
        ("Invalid api_key: canary", "Invalid api_key: [redacted]"),
        ("client_secret = canary, x = 1", "client_secret = [redacted], x = 1"),
        (r#"sent {"password": "can ary", "a": "b"}"#, r#"sent {"password": "[redacted]", "a": "b"}"#),
        (r#"{"token":"canary","pin":1234,"a":1}"#, r#"{"token":"[redacted]","pin":[redacted],"a":1}"#),
        (r#"{\"token\":\"can ary\",\"a\":1}"#, r#"{\"token\":\"[redacted]\",\"a\":1}"#),
        ("authorization:Bearer canary", "authorization:Bearer [redacted]"),
        ("secret: [redacted] kept", "secret: [redacted] kept"),
        (r#"{"token": "", "a": "b"}"#, r#"{"token": "", "a": "b"}"#),
        ("no sk_live_canarycanary: x", "no [redacted]: x"),
    ] {
        assert_eq!(redact_credentials(text), expected, "{text}");
    }
    for text in ["", "weather in Berlin", "file:///a/b.txt", "no such tool: token_count", "1:2", "a=b", "ünï"]
    {
        assert!(matches!(redact_credentials(text), Cow::Borrowed(same) if same == text), "{text}");
    }
}

#[test]
fn a_text_of_any_length_and_form_is_looked_through() {
    let few = 128 << 10;
    for part in
        ["=", ":", "a=", "://", "@", "\\", "\"", "token", "token=", "token: ", "Bearer ", "{\"a\":", "?a="]
    {
        let text = part.repeat(few / part.len());
        assert!(redact_credentials(&text).len() <= 2 * text.len(), "{part}");
        assert_eq!(redact_credentials(&format!("{text} password=canary")).find("canary"), None, "{part}");
    }
}

#[test]
fn fields_are_masked_by_name_and_known_values_wherever_they_are() {
    let masks = Redactor::new([Secret::from("canary-value"), Secret::from("ab")], &["Ssn".to_owned()]);
    let mut value = json!({
        "city": "Berlin", "apiKey": "canary", "nested": [{"client_secret": {"a": "canary"}, "ab": 1}],
        "ssn": 17, "text": "it is canary-value!", "canary-value": true, "progressToken": 3, "cursor": "c",
        "requestState": "canary", "inputResponses": {"a": {"content": "canary"}}, "url": "https://a/b?canary",
    });
    masks.redact_json(&mut value);
    assert_eq!(
        value,
        json!({
            "city": "Berlin", "apiKey": MASK, "nested": [{"client_secret": MASK, "ab": 1}],
            "ssn": MASK, "text": "it is [redacted]!", "[redacted]": true, "progressToken": 3, "cursor": "c",
            "requestState": MASK, "inputResponses": MASK, "url": "https://a/b",
        })
    );
    assert_eq!(masks.redact("another-one"), "another-one");
    let secrets = ["another-one", "Bearer canary-value-and-more"].map(Secret::from);
    let more = ExtendedRedactor::new(&masks, [Some(&secrets[0]), Some(&secrets[1])]);
    for (text, expected) in [
        ("another-one", MASK),
        ("canary-value", MASK),
        ("canary-value-and-more!", "[redacted]!"),
        ("another-on", "another-on"),
    ] {
        assert_eq!(more.redact(text), expected, "{text}");
        assert_eq!(more.redact_with_urls(text), expected, "{text}");
        let mut value = json!({ "text": text });
        more.redact_json(&mut value);
        assert_eq!(value, json!({ "text": expected }));
    }
    let header = Redactor::new([Secret::from("Bearer opaque-1")], &[]);
    assert_eq!(header.redact("what is opaque-1?"), "what is [redacted]?");
    let values = ["canary", "canary, the long one", "a;b&c d,e"].map(Secret::from);
    let masks = Redactor::new(values, &[]);
    for (text, expected) in [
        ("it is canary, the long one!", "it is [redacted]!"),
        ("token=a;b&c d,e.", "token=[redacted]."),
        ("Bearer canary", "Bearer [redacted]"),
    ] {
        assert_eq!(masks.redact(text), expected, "{text}");
    }
}

#[test]
fn a_uri_loses_its_query_and_a_template_keeps_its_names() {
    for (uri, expected) in [
        ("file:///a", "file:///a"),
        ("db://a/b?id=canary#c", "db://a/b"),
        ("db://a#canary?x", "db://a"),
        ("db://a{?id,x}", "db://a{?id,x}"),
        ("db://a{?id}&x?canary", "db://a{?id}&x"),
    ] {
        assert_eq!(strip_query(uri), expected, "{uri}");
    }
}

#[test]
fn no_url_in_a_text_says_more_than_its_path() {
    let masks = Redactor::new([Secret::from("known/?value")], &[]);
    for (text, expected) in [
        ("https://a.example/x?state=canary#canary", "https://a.example/x"),
        ("see https://a.example?x=canary, then go on", "see https://a.example then go on"),
        (r#"{"url":"https://a.example/x?q=(canary,1);'canary"}"#, r#"{"url":"https://a.example/x"}"#),
        (r#"{\"url\":\"https://a.example/#canary\"}"#, r#"{\"url\":\"https://a.example/\"}"#),
        ("a://me&canary:x@b/c?canary d://e?canary", "a://[redacted]@b/c d://e"),
        ("https://a/known/?value?canary", "https://a/[redacted]"),
        ("https://[redacted]@a/b", "https://[redacted]@a/b"),
        ("db://a{?id}/x what? #1 a@b", "db://a{?id}/x what? #1 a@b"),
    ] {
        assert_eq!(masks.redact_with_urls(text), expected, "{text}");
    }
}

#[test]
fn a_text_is_cut_between_letters() {
    assert_eq!(
        (truncate("aü", 3), truncate("aü", 2), truncate("aü", 0)),
        ("aü".into(), "a…".into(), "…".into())
    );
    assert_eq!(hex(&[0, 255, 16]), "00ff10");
}

proptest! {
    #[test]
    fn a_credential_is_masked_whatever_stands_around_it(
        before in "[ -~]{0,20}[ \n]",
        form in prop::sample::select(vec![
            "Bearer X", "bearer X", "token=X", "api-key=X", "secret:X", "https://me:X@host/a", "eyJX.eyJX.X",
            "?access_token=X&a=b",
        ]),
        after in "([ \n][ -~]{0,20})?",
    ) {
        let text = format!("{before}{}{after}", form.replace('X', "canary7canary7canary7"));
        let plain = redact_credentials(&text);
        prop_assert!(!plain.contains("canary7"), "{plain}");
        prop_assert!(plain.contains(MASK));
    }

    #[test]
    fn text_without_secrets_is_not_touched(text in "[a-z]{1,8}( [a-z]{1,8}){0,5}") {
        prop_assume!(!text.contains("bearer ") && !text.contains("basic ") && !text.contains("dpop "));
        prop_assert_eq!(redact_credentials(&text), text.as_str());
    }
}
