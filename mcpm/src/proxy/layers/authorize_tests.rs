//! Tests of authorization in all forms of messages, of filtered lists, and of failing closed.

use serde_json::json;

use super::*;
use crate::{
    policy::AuthorizationSpec,
    proxy::layers::policy_tests::{Server, json_of, modern, post, run},
};

const LISTS: &str = r#"{"tools":[{"name":"a"},{"name":"b","annotations":{"destructiveHint":true}}],
"prompts":[{"name":"a"},{"name":"b"}],"resources":[{"uri":"file:///a"},{"uri":"file:///b"}],
"resourceTemplates":[{"uriTemplate":"file:///a/{x}"},{"uriTemplate":"file:///b/{x}"}],"n":1.0,"cacheScope":"public"}"#;

/// Permits everything called `a`, and everything to alice.
const POLICIES: [&str; 3] = [
    r#"permit(principal == Client::"alice", action, resource);"#,
    r#"permit(principal, action, resource) when { resource.name == "a" };"#,
    r#"permit(principal, action, resource) when { resource has uri && resource.uri like "file:///a*" };"#,
];

fn layer(policies: &[&str]) -> Authorize {
    let policies = policies.iter().map(|one| (*one).to_owned()).collect();
    let spec = AuthorizationSpec { policies, ..AuthorizationSpec::default() };
    let spec = crate::policy::PolicySpec { authorization: Some(spec), ..Default::default() };
    Authorize::new(spec.policy("server").expect("policies").authorization.expect("authorization"))
}

fn server() -> Server {
    Server::new(false, |message| match message.method() {
        method if method.ends_with("/list") => Some(LISTS.to_owned()),
        _ => None,
    })
}

fn of(subject: &str, mut request: Request) -> Request {
    let principal = Principal {
        issuer: "https://issuer".to_owned(),
        subject: subject.to_owned(),
        audience: Vec::new(),
        client_id: None,
        scopes: Vec::new(),
        claims: Map::from_iter([("sub".to_owned(), json!(subject))]),
        expires: std::time::SystemTime::UNIX_EPOCH,
        token: "token".into(),
    };
    request.extensions_mut().insert(Arc::new(principal));
    request
}

fn ask(method: &str, params: &Value) -> Request {
    post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string())
}

#[tokio::test]
async fn a_call_without_a_permit_is_denied_with_its_reason() {
    for (method, params, reason) in [
        ("tools/call", json!({ "name": "a" }), None),
        ("tools/call", json!({ "name": "b" }), Some("denied")),
        ("tools/call", json!({ "name": "a", "arguments": null }), None),
        ("tools/call", json!({ "name": "a", "arguments": [] }), Some("unclear")),
        ("tools/call", json!({}), Some("unclear")),
        ("prompts/get", json!({ "name": "a", "arguments": {} }), None),
        ("prompts/get", json!({ "name": "b" }), Some("denied")),
        ("resources/read", json!({ "uri": "file:///a" }), None),
        ("resources/read", json!({ "uri": "file:///b" }), Some("denied")),
        ("resources/subscribe", json!({ "uri": "file:///b" }), Some("denied")),
        ("resources/unsubscribe", json!({ "uri": "file:///b" }), None),
        ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "a" } }), None),
        ("completion/complete", json!({ "ref": { "type": "ref/prompt", "name": "b" } }), Some("denied")),
        ("completion/complete", json!({ "ref": { "type": "ref/resource", "uri": "file:///a/{x}" } }), None),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/resource", "uri": "file:///b/{x}" } }),
            Some("denied"),
        ),
        ("completion/complete", json!({ "ref": { "type": "ref/tool", "name": "a" } }), Some("unclear")),
        ("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }), None),
        (
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": ["file:///a"] } }),
            None,
        ),
        (
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": ["file:///a", "file:///b"] } }),
            Some("denied"),
        ),
        ("resources/read", json!({ "uri": "file:///a/../b" }), Some("unclear")),
        ("resources/read", json!({ "uri": "file:///a%2f..%2fb" }), Some("unclear")),
        ("resources/subscribe", json!({ "uri": "file:///a\t" }), Some("unclear")),
        (
            "completion/complete",
            json!({ "ref": { "type": "ref/resource", "uri": "file:///a/../{x}" } }),
            Some("unclear"),
        ),
        (
            "subscriptions/listen",
            json!({ "notifications": { "resourceSubscriptions": ["file:///a", "file:///a/%2e%2e/b"] } }),
            Some("unclear"),
        ),
        ("ping", json!({}), None),
        ("initialize", json!({}), None),
        ("tasks/get", json!({ "taskId": "x" }), None),
        ("tasks/list", json!({}), Some("unknown_method")),
        ("tools/invoke", json!({ "name": "a" }), Some("unknown_method")),
    ] {
        let shown = format!("{method} {params}");
        let server = server();
        let response = run(layer(&POLICIES), of("bob", ask(method, &params)), &server).await;
        let denial = response.extensions().get::<Denial>().cloned();
        let id = denial.as_ref().map(|denial| denial.reason.id());
        assert_eq!(id, reason.map(|reason| format!("authorization.{reason}")).as_deref(), "{shown}");
        let (status, answer) = json_of(response).await;
        assert_eq!(
            (status, answer["id"].clone()),
            (if reason.is_some() { 403 } else { 200 }, json!(1)),
            "{shown}"
        );
        assert_eq!(server.methods().is_empty(), reason.is_some(), "{shown}");
        if let Some(id) = id {
            assert_eq!(answer["error"]["data"]["reason"], json!(id), "{shown}");
        }
        // Even a caller who may do everything must not use unknown methods.
        let response = run(layer(&POLICIES), of("alice", ask(method, &params)), &server).await;
        assert_eq!(
            response.status().is_success(),
            !matches!(reason, Some("unclear" | "unknown_method")),
            "{shown}"
        );
    }
}

#[tokio::test]
async fn the_policy_that_forbids_is_named() {
    let policies = [
        "permit(principal, action, resource);",
        r#"@id("no b") forbid(principal, action, resource == Tool::"b");"#,
    ];
    let response = run(layer(&policies), ask("tools/call", &json!({ "name": "b" })), &server()).await;
    let denial = response.extensions().get::<Denial>().cloned().expect("a denial");
    assert_eq!(
        (denial.reason.id(), denial.rule.as_deref()),
        ("authorization.forbidden", Some("policy1 (no b)"))
    );
    let (_, answer) = json_of(response).await;
    assert_eq!(answer["error"]["message"], json!("not authorized"));
}

#[tokio::test]
async fn denials_contain_no_argument_values() {
    let number = "arguments";
    for (method, params) in [
        ("completion/complete", json!({ "ref": { "type": "canary" } })),
        ("subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": "canary" } })),
        ("tools/call", json!({ "name": "a", number: "canary" })),
        ("tools/call", json!({ "name": "a", number: { "n": 123_456_789_012_345_678_901_f64 } })),
    ] {
        let policies = ["permit(principal, action, resource) unless { context has arg_n };"];
        let response = run(layer(&policies), ask(method, &params), &server()).await;
        let denial = response.extensions().get::<Denial>().expect("a denial");
        let shown = format!("{denial:?}");
        assert!(!shown.contains("canary") && !shown.contains("1234567890"), "{shown}");
    }
}

#[tokio::test]
async fn a_denial_omits_the_query_and_its_fix_permits_the_resource() {
    let asked = ask("resources/read", &json!({ "uri": "file:///a*b?id=canary" }));
    let response =
        run(layer(&[r#"permit(principal, action, resource == Tool::"a");"#]), asked, &server()).await;
    let denial = response.extensions().get::<Denial>().cloned().expect("a denial");
    assert!(!format!("{denial:?}").contains("canary"), "{denial:?}");
    let refused = denial.to_record(&crate::explain::DenialLog::new("s", None));
    let policy = refused.fix.split('`').nth(1).expect("a policy").to_owned();
    let with_fix = |uri: &str| ask("resources/read", &json!({ "uri": uri }));
    for (uri, passes) in [("file:///a*b?id=other", true), ("file:///a*b", false), ("file:///aab?id=x", false)]
    {
        let response = run(layer(&[&policy]), with_fix(uri), &server()).await;
        assert_eq!(response.status().is_success(), passes, "{uri}: {policy}");
    }
}

#[tokio::test]
async fn a_call_without_an_id_is_a_call() {
    let server = server();
    let body = r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"b"}}"#;
    assert_eq!(run(layer(&POLICIES), post(body), &server).await.status(), 403);
    let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(run(layer(&POLICIES), post(body), &server).await.status(), 202);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"notifications/initialized"}"#;
    assert_eq!(run(layer(&POLICIES), post(body), &server).await.status(), 403);
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(run(layer(&POLICIES), post(body), &server).await.status(), 202);
    assert_eq!(server.methods().len(), 2);
}

#[tokio::test]
async fn lists_show_what_may_be_used_and_are_kept_out_of_shared_caches() {
    let lists = async |subject: &str| {
        let response = run(layer(&POLICIES), of(subject, ask("tools/list", &json!({}))), &server()).await;
        json_of(response).await.1["result"].clone()
    };
    assert_eq!(
        lists("bob").await,
        json!({
            "tools": [{ "name": "a" }], "prompts": [{ "name": "a" }], "resources": [{ "uri": "file:///a" }],
            "resourceTemplates": [{ "uriTemplate": "file:///a/{x}" }], "n": 1.0, "cacheScope": "private",
        })
    );
    let mut all: Value = serde_json::from_str(LISTS).expect("JSON");
    all["cacheScope"] = json!("private");
    assert_eq!(lists("alice").await, all);
}

#[tokio::test]
async fn a_decision_does_not_depend_on_who_has_listed_tools_before() {
    let policies = [
        "permit(principal, action, resource);",
        r"forbid(principal, action, resource) when { resource has destructiveHint && resource.destructiveHint };",
    ];
    for request in [ask("tools/call", &json!({ "name": "b" })), modern("tools/call", json!({ "name": "b" }))]
    {
        let server = server();
        let response = run(layer(&policies), request, &server).await;
        let denial = response.extensions().get::<Denial>().cloned().expect("a denial");
        assert_eq!(denial.rule.as_deref(), Some("policy1"));
        assert!(server.methods()[0].contains("tools/list") && server.methods().len() == 1);
    }
    // Without annotations the call is denied.
    let silent = Server::new(false, |_| None);
    let response = run(layer(&policies), ask("tools/call", &json!({ "name": "b" })), &silent).await;
    let denial = response.extensions().get::<Denial>().cloned().expect("a denial");
    assert_eq!(denial.reason.id(), "authorization.annotations_unknown");
}

#[tokio::test]
async fn resource_updates_are_sent_to_permitted_readers_only() {
    let authorizer = layer(&POLICIES).authorization.for_caller(&Caller::default());
    let hook = ResultFilter { authorizer, owner: None, annotations: Arc::default() };
    for (uri, verdict) in [
        ("file:///a", HookVerdict::Keep),
        ("file:///b", HookVerdict::Drop),
        ("file:///a/../b", HookVerdict::Drop),
    ] {
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#
        );
        let message = Message::parse(text.into()).expect("a notification");
        assert_eq!(
            hook.on_message(&ResponseMessage { message: &message, request: None, denial: None }),
            verdict
        );
    }
}
