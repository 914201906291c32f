//! Tests with the cases in `tests/data/policy`, and of invalid configurations.

use std::path::PathBuf;

use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::*;
use crate::ErrorKind;

/// Maximum number of argument values that policies see.
const MOST_VALUES: usize = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// A configuration file.
    config: PathBuf,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    about: String,
    /// The claims of the caller; without them, there is no authentication.
    claims: Option<Map<String, Value>>,
    tool: Option<String>,
    prompt: Option<String>,
    resource: Option<String>,
    template: Option<String>,
    annotations: Option<Map<String, Value>>,
    arguments: Option<Value>,
    /// `allow`, or the expected content of the denial: ids of policies, `nothing` or `undecided`.
    expect: String,
}

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/data/policy")
}

fn caller(claims: Option<&Map<String, Value>>) -> Caller {
    let claims = claims.cloned().unwrap_or_default();
    Caller { subject: claims.get("sub").and_then(Value::as_str).map(str::to_owned), claims }
}

#[test]
fn cases() {
    let text = std::fs::read_to_string(data().join("cedar.json")).expect("cases");
    let tables: Vec<Table> = serde_json::from_str(&text).expect("tables");
    for table in tables {
        let spec = read(&data().join(&table.config)).expect("a configuration");
        let authorization = Arc::new(Authorization::new(&spec, "weather-server").expect("policies"));
        for case in table.cases {
            let about = format!("{}: {}", table.config.display(), case.about);
            let resource = match (&case.tool, &case.prompt, &case.resource, &case.template) {
                (Some(name), ..) => AccessedEntity::Tool(name, case.annotations.as_ref()),
                (_, Some(name), ..) => AccessedEntity::Prompt(name),
                (_, _, Some(uri), _) => AccessedEntity::Resource(uri),
                (.., Some(uri)) => AccessedEntity::Template(uri),
                _ => panic!("{about}: nothing is used"),
            };
            let arguments = case.arguments.as_ref().map(|given| authorization.arguments(&given.to_string()));
            let authorizer = authorization.for_caller(&caller(case.claims.as_ref()));
            let decision = match arguments.transpose() {
                Ok(arguments) => authorizer.decide(&resource, arguments.as_ref()),
                Err(ArgumentsError::Unclear(reason)) => Decision::Unclear(reason),
                Err(ArgumentsError::Undecided(reason)) => Decision::Undecided(reason),
            };
            let got = match decision {
                Decision::Allowed => "allow".to_owned(),
                Decision::Denied(rules) if rules.is_empty() => "nothing".to_owned(),
                Decision::Denied(rules) => rules.join(", "),
                Decision::Undecided(_) => "undecided".to_owned(),
                Decision::Unclear(_) => "unclear".to_owned(),
            };
            assert_eq!(got, case.expect, "{about}");
        }
    }
}

#[test]
fn json_and_yaml_say_the_same() {
    let json = read(&data().join("weather.json")).expect("JSON");
    assert_eq!(read(&data().join("weather.yaml")).expect("YAML"), json);
}

#[test]
fn what_is_wrong_with_a_configuration_is_said_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("authz.json");
    let permit = r#""policies": ["permit(principal, action, resource);"]"#;
    for (text, kind, expected) in [
        (
            "{",
            ErrorKind::InvalidOption,
            "is not a valid authorization configuration: EOF while parsing an object at line 1",
        ),
        ("", ErrorKind::InvalidOption, "is not a valid authorization configuration"),
        ("version: [", ErrorKind::InvalidOption, "is not a valid authorization configuration"),
        (r#"{"version":"1.0","type":"cedarv1","x":1}"#, ErrorKind::InvalidOption, "unknown field `x`"),
        (
            r#"{"type":"cedarv1","cedar":{"policies":[]}}"#,
            ErrorKind::InvalidOption,
            "missing field `version`",
        ),
        (
            r#"{"version":"","type":"cedarv1","cedar":{"policies":[]}}"#,
            ErrorKind::InvalidOption,
            "`version` is empty",
        ),
        (r#"{"version":"1.0","type":"cedarv1"}"#, ErrorKind::InvalidOption, "the section `cedar` is missing"),
        (r#"{"version":"1.0","type":"x"}"#, ErrorKind::InvalidOption, "the type `x` is unknown"),
        (r#"{"version":"1.0","type":"httpv1","pdp":{"http":{}}}"#, ErrorKind::Unsupported, "`httpv1`"),
        (
            r#"{"version":"1.0","type":"cedarv1","cedar":{"policies":[]}}"#,
            ErrorKind::InvalidOption,
            "has no policies",
        ),
        (
            r#"{"version":"1.0","type":"cedarv1","cedar":{"policies":["permit(principal, action, resource);","permit(principal,\n  action resource);"]}}"#,
            ErrorKind::InvalidOption,
            "`policies[1]` cannot be parsed at line 2, column 10",
        ),
        (
            r#"{"version":"1.0","type":"cedarv1","cedar":{"policies":["permit(principal == ?principal, action, resource);"]}}"#,
            ErrorKind::InvalidOption,
            "`policies[0]` cannot be parsed",
        ),
        (
            &format!(r#"{{"version":"1.0","type":"cedarv1","cedar":{{{permit},"entities_json":"[{{]"}}}}"#),
            ErrorKind::InvalidOption,
            "`entities_json` is invalid",
        ),
        (
            &format!(
                r#"{{"version":"1.0","type":"cedarv1","cedar":{{{permit},"group_entity_type":"a b"}}}}"#
            ),
            ErrorKind::InvalidOption,
            "`a b` is not a valid Cedar entity type",
        ),
        (
            &format!(
                r#"{{"version":"1.0","type":"cedarv1","cedar":{{{permit},"primary_upstream_provider":"x"}}}}"#
            ),
            ErrorKind::Unsupported,
            "`primary_upstream_provider` is not supported",
        ),
    ] {
        std::fs::write(&path, text).expect("a file");
        let error = read(&path).expect_err(text);
        let shown = error.to_string();
        assert_eq!(error.kind(), kind, "{shown}");
        assert!(shown.contains(expected) && shown.contains("authz.json") && !shown.contains('\n'), "{shown}");
    }
    let error = read(&folder.path().join("absent")).expect_err("no file");
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn policies_that_name_what_no_request_has_are_refused() {
    let permit = "permit(principal, action, resource)";
    for (policy, says) in [
        (
            r#"permit(principal, action == Action::"calltool", resource);"#.to_owned(),
            "`policies[1]` can never apply: no request has the action `calltool`; did you mean `call_tool`?",
        ),
        (
            r#"@id("no x") forbid(principal, action in [Action::"call_tool", Action::"list_tools"], resource);"#
                .to_owned(),
            "`policies[1]` (no x) can never apply: no request has the action `list_tools`; \
             known names: call_tool, get_prompt, read_resource, use",
        ),
        (
            r#"forbid(principal, action, resource == Tol::"x");"#.to_owned(),
            "no request has the entity type `Tol`; did you mean `Tool`?",
        ),
        (
            r#"permit(principal in McpGroup::"staff", action, resource);"#.to_owned(),
            "no request has the entity type `McpGroup`; did you mean `McpmGroup`?",
        ),
        (format!("{permit} when {{ resource is tool }};"), "the entity type `tool`; did you mean `Tool`?"),
        (
            format!("{permit} unless {{ [Ressource::\"a\"].contains(resource) }};"),
            "the entity type `Ressource`; did you mean `Resource`?",
        ),
        (format!("{permit} when {{ principal is Person in Team::\"x\" }};"), "the entity type `Person`"),
    ] {
        let spec = AuthorizationSpec {
            policies: vec![format!("{permit};"), policy.clone()],
            entities: Some(
                r#"[{"uid":{"type":"Action","id":"call_tool"},"attrs":{},"parents":[{"type":"Action","id":"use"}]},
                    {"uid":{"type":"Client","id":"a"},"attrs":{},"parents":[{"type":"Team","id":"x"}]}]"#
                    .to_owned(),
            ),
            ..AuthorizationSpec::default()
        };
        let error = Authorization::new(&spec, "s").expect_err(&policy);
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{policy}");
        assert!(error.to_string().contains(says), "{policy}: {error}");
        // Names from the configuration are known; text in records and strings is not checked.
        for policy in [
            r#"permit(principal in Team::"x", action in Action::"use", resource);"#.to_owned(),
            format!("{permit} when {{ context == {{\"type\": \"Tol\", \"id\": \"x\"}} }};"),
        ] {
            let spec = AuthorizationSpec { policies: vec![policy.clone()], ..spec.clone() };
            Authorization::new(&spec, "s").expect(&policy);
        }
    }
}

#[test]
fn arguments_that_can_be_read_in_two_ways_are_refused() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"path":"/a","Path":"/b"}"#,
        r#"{"a":[{"b":1,"B":2}]}"#,
        "[]",
        &format!("{}{}", r#"{"a":"#.repeat(40), "}".repeat(40)),
    ] {
        assert!(
            matches!(Arguments::read(text, &ContextAttributes::All), Err(ArgumentsError::Unclear(_))),
            "{text}"
        );
    }
    assert!(Arguments::read(r#"{"a":{"b":[1,2.5,null,"x",true]}}"#, &ContextAttributes::All).is_ok());
}

#[test]
fn what_policies_read_of_the_context_is_known() {
    const PERMIT: &str = "permit(principal, action, resource) when";
    let all = &["?"][..];
    for (condition, read) in [
        ("true", &[][..]),
        ("resource.name == \"context\"", &[]),
        ("context.arg_a > 5 || context has arg_b", &["arg_a", "arg_b"]),
        ("context[\"arg_a b\"].deep.context == 1", &["arg_a b"]),
        ("context has \"arg_a\" && context.arg_a like \"x*\"", &["arg_a"]),
        ("context has arg_a.b.c", &["arg_a"]),
        ("[context.arg_a].contains({\"b\": context.arg_b})", &["arg_a", "arg_b"]),
        ("(if true then context.arg_a else context.arg_b) == decimal(\"1.0\")", &["arg_a", "arg_b"]),
        ("context == {}", all),
        ("{\"a\": context}.a.arg_b == 1", all),
        ("(if true then context else {}).arg_a == 1", all),
        ("[context].contains({})", all),
    ] {
        let authorization = of(&[&format!("{PERMIT} {{ {condition} }};")]);
        let expected = match read {
            ["?"] => ContextAttributes::All,
            names => ContextAttributes::Only(names.iter().map(|name| (*name).to_owned()).collect()),
        };
        assert_eq!(authorization.context_attributes, expected, "{condition}");
    }
}

#[test]
fn large_arguments_pass_where_no_policy_reads_them_and_are_not_decided_about_where_one_does() {
    let of_a =
        of(&["permit(principal, action, resource) unless { context has arg_a && context.arg_a == 1 };"]);
    let whole = of(&["permit(principal, action, resource) when { context != {\"arg_a\": 1} };"]);
    let many = format!("[{}1]", "1,".repeat(MOST_VALUES));
    let long = format!("\"{}\"", "x".repeat(256 << 10));
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    for (value, undecided) in [("1".to_owned(), false), (many, true), (long, true), (deep.clone(), false)] {
        let read = |authorization: &Authorization, name: &str| {
            authorization.arguments(&format!("{{\"{name}\":{value}}}"))
        };
        let shown = &value[..value.len().min(20)];
        assert!(read(&of_a, "b").is_ok(), "{shown}");
        assert_eq!(matches!(read(&of_a, "a"), Err(ArgumentsError::Undecided(_))), undecided, "{shown}");
        assert_eq!(matches!(read(&whole, "b"), Err(ArgumentsError::Undecided(_))), undecided, "{shown}");
    }
    assert!(matches!(of_a.arguments(&format!("{{\"a\":{deep}}}")), Err(ArgumentsError::Unclear(_))));
}

#[test]
fn an_attribute_of_the_request_goes_before_one_of_the_configuration() {
    let spec = AuthorizationSpec {
        policies: vec![r#"permit(principal, action, resource) when { resource.team == "red" && resource.feature == "tool" };"#.to_owned()],
        entities: Some(
            r#"[{"uid":{"type":"Tool","id":"a"},"attrs":{"team":"red","feature":"none"},"parents":[]}]"#.to_owned(),
        ),
        ..AuthorizationSpec::default()
    };
    let authorization = Arc::new(Authorization::new(&spec, "s").expect("policies"));
    let authorizer = authorization.for_caller(&Caller::default());
    assert_eq!(authorizer.decide(&AccessedEntity::Tool("a", None), None), Decision::Allowed);
    assert_eq!(authorizer.decide(&AccessedEntity::Tool("b", None), None), Decision::Denied(Vec::new()));
}

fn of(policies: &[&str]) -> Arc<Authorization> {
    let policies = policies.iter().map(|one| (*one).to_owned()).collect();
    let spec = AuthorizationSpec { policies, ..AuthorizationSpec::default() };
    Arc::new(Authorization::new(&spec, "s").expect("policies"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Uris {
    about: String,
    policies: Vec<String>,
    #[serde(default)]
    allowed: Vec<String>,
    #[serde(default)]
    refused: Vec<String>,
    /// URIs that are rejected as ambiguous.
    #[serde(default)]
    unclear: Vec<String>,
}

#[test]
fn every_form_of_a_uri_is_decided() {
    let text = std::fs::read_to_string(data().join("uris.json")).expect("cases");
    let tables: Vec<Uris> = serde_json::from_str(&text).expect("tables");
    for Uris { about, policies, allowed, refused, unclear } in tables {
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        let authorizer = of(&policies).for_caller(&Caller::default());
        for (uris, expected) in [(allowed, "allowed"), (refused, "refused"), (unclear, "unclear")] {
            for uri in uris {
                for used in [AccessedEntity::Resource(&uri), AccessedEntity::Template(&uri)] {
                    let got = match authorizer.decide(&used, None) {
                        Decision::Allowed => "allowed",
                        Decision::Unclear(_) => "unclear",
                        Decision::Denied(_) | Decision::Undecided(_) => "refused",
                    };
                    assert_eq!(got, expected, "{about}: {uri:?}");
                }
            }
        }
    }
}

#[test]
fn what_is_added_to_permit_a_uri_permits_it() {
    for uri in ["file:///a b", "CONFIG://secret", "http://EXAMPLE.com:80/%61", "note://k\u{e4}se"] {
        let nothing =
            of(&["permit(principal, action, resource == Tool::\"x\");"]).for_caller(&Caller::default());
        let used = AccessedEntity::Resource(uri);
        let policies = nothing.suggested_policies(&used);
        let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
        assert_eq!(nothing.decide(&used, None), Decision::Denied(Vec::new()), "{uri}");
        assert_eq!(
            of(&policies).for_caller(&Caller::default()).decide(&used, None),
            Decision::Allowed,
            "{uri}"
        );
    }
}

proptest! {
    #[test]
    fn what_is_permitted_below_a_path_leads_nowhere_else(
        parts in prop::collection::vec(
            prop::sample::select(vec!["a", ".", "..", "/", "\\", "%2e", "%2F", "%5c", "%25", "25", "2e", "%00", "\t", " ", ";", "?", "#", "%", "\u{e4}"]),
            0..10,
        ),
    ) {
        const BELOW: &str = "file:///handbook/";
        let authorizer = of(&["permit(principal, action, resource) when { resource.uri like \"file:///handbook/*\" };"])
            .for_caller(&Caller::default());
        let uri = format!("{BELOW}{}", parts.concat());
        if authorizer.decide(&AccessedEntity::Resource(&uri), None) != Decision::Allowed {
            return Ok(());
        }
        // Simulates servers that parse the URI, decode it, or do both in any order.
        let mut read = vec![uri];
        for _ in 0..4 {
            let parsed: Vec<String> = read.iter().filter_map(|uri| url::Url::parse(uri).ok()).map(String::from).collect();
            let decoded = read.iter().map(|uri| {
                url::form_urlencoded::parse(uri.replace(['&', '+', '='], "-").as_bytes()).map(|(text, _)| text.into_owned()).collect()
            });
            read = parsed.iter().cloned().chain(decoded).chain(read.iter().cloned()).collect();
            for uri in &read {
                prop_assert!(uri.starts_with(BELOW), "{uri:?}");
                prop_assert!(!uri.split(['/', '\\']).any(|part| part == ".."), "{uri:?}");
            }
        }
    }
}
