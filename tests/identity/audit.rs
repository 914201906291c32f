//! Tests the events in the audit log about callers that a real identity provider authenticates, and about callers
//! without a valid token.

use std::fs;

use mcpm_tests::harness::{mcp::initialize, with_timeout};
use serde_json::{Value, json};

use crate::{
    protected_server::ProtectedServer,
    provider::{IdentityProvider, protected_proxy},
};

/// Texts that no line may contain; the test also looks for tokens.
const CANARY: &str = "canary-of-a-claim";

fn extra<'a>(event: &'a Value, name: &str) -> &'a Value {
    &event["metadata"]["extra"][name]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_is_recorded_with_its_principal_and_without_what_proves_it() {
    let provider = IdentityProvider::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (log, config) = (folder.path().join("audit.jsonl"), folder.path().join("audit.json"));
    let text = json!({ "logFile": log, "includeRequestData": true, "includeResponseData": true });
    fs::write(&config, text.to_string()).unwrap();
    let served = ProtectedServer::start(|proxy| {
        let proxy = proxy.oidc_issuer(provider.issuer.clone()).audit_config(config);
        let proxy = proxy.oidc_client_id("proxy").oidc_client_secret("proxy-secret");
        proxy.oidc_required_scopes("mcp")
    })
    .await;
    let resource = served.proxy.url().to_owned();
    let mut tokens = Vec::new();
    // Signed and opaque tokens, of a caller with a name and of a caller without one.
    for who in ["robot", "other", "opaque"] {
        let token = provider.token(who, &resource).await;
        for caller in served.callers(&token).await {
            // A token in the arguments must not be recorded either.
            let name = format!("ann {token}");
            let arguments = json!({ "name": name, "phone": "1", "contactMethod": "phone" });
            let call = json!({ "name": "json_schema_2020_12_tool", "arguments": arguments });
            assert_eq!(caller.ask("tools/call", call).await.0, 200, "{who}");
        }
        tokens.push(token);
    }
    // Denied callers are recorded, too: with the principal of the token, if the token is valid and only lacks a scope.
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let mint = async |changes: Value, with: &str| {
        let mut claims = json!({ "iss": provider.issuer, "sub": "ann", "aud": resource, "exp": now + 600,
                                 "scope": "mcp", "name": "Ann", "badge": CANARY });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        provider.mint(json!({ "alg": "RS256", "kid": "RS256-1" }), claims, with).await
    };
    let refusals = [
        ("nonsense".to_owned(), 401, "auth.token_inactive"),
        (mint(json!({ "exp": now - 600 }), "").await, 401, "auth.token_expired"),
        (mint(json!({}), "stranger").await, 401, "auth.bad_signature"),
        (mint(json!({ "scope": "openid" }), "").await, 403, "auth.insufficient_scope"),
        (provider.token("robot", "http://127.0.0.1:1/mcp").await, 401, "auth.wrong_audience"),
    ];
    for (token, status, reason) in &refusals {
        assert_eq!(served.modern(token).ask("tools/list", json!({})).await, (*status, json!(reason)));
    }
    let http = mcpm_tests::harness::http::Http(served.proxy.address().unwrap());
    let query = format!("/mcp?access_token={}", tokens[0]);
    let opens = initialize(mcpm_tests::harness::mcp::LEGACY, json!({})).to_string();
    assert_eq!(http.post(&query, opens).send().await.status, 401);
    with_timeout("the proxy to stop", served.proxy.stop()).await;

    let text = fs::read_to_string(log).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let calls: Vec<_> = events.iter().filter(|event| event["type"] == "mcp_tool_call").collect();
    assert_eq!(calls.len(), 6, "{text}");
    for (number, call) in calls.iter().enumerate() {
        let who = ["robot", "other", "opaque"][number / 2];
        let name = if who == "other" { "other" } else { "Robbie" };
        let mut subjects =
            json!({ "user": name, "user_id": who, "issuer": provider.issuer, "client_id": who });
        // A client sends its name with each request, or when it opens its session.
        let session = extra(call, "session");
        let opens = |event: &&Value| event["type"] == "mcp_initialize" && extra(event, "session") == session;
        let says = events.iter().find(opens).filter(|_| !session.is_null());
        assert_eq!(says.is_some(), number % 2 == 0, "{call}");
        if says.is_some() {
            assert_eq!(call["subjects"], subjects, "{call}");
        }
        (subjects["client_name"], subjects["client_version"]) = (json!("test"), json!("1"));
        assert_eq!(says.unwrap_or(call)["subjects"], subjects, "{call}");
        assert_eq!(call["outcome"], "success", "{call}");
        assert_eq!(call["data"]["request"]["name"], "json_schema_2020_12_tool", "{call}");
    }
    let failures: Vec<_> = events.iter().filter(|event| event["type"] == "auth_failure").collect();
    let expected = refusals.iter().map(|(_, status, reason)| (*status, *reason));
    let expected: Vec<_> = expected.chain([(401, "auth.token_in_query")]).collect();
    assert_eq!(failures.len(), expected.len(), "{text}");
    for (event, (status, reason)) in failures.iter().zip(expected) {
        assert_eq!(event["outcome"], "denied", "{event}");
        assert_eq!((extra(event, "http_status"), extra(event, "reason")), (&json!(status), &json!(reason)));
        assert!(extra(event, "refusal").is_string(), "{event}");
        let known = status == 403;
        assert_eq!(event["subjects"]["user"], if known { "Ann" } else { "anonymous" }, "{event}");
        assert_eq!(event["subjects"].get("user_id"), known.then_some(&json!("ann")), "{event}");
        assert_eq!(event["source"]["value"], "127.0.0.1", "{event}");
    }
    let never = tokens.iter().chain(refusals.iter().map(|(token, ..)| token)).filter(|token| token.len() > 9);
    // Nor the part of a token that proves its validity.
    let proofs = never.clone().filter_map(|token| token.rsplit_once('.').map(|(_, proof)| proof));
    for secret in never.map(String::as_str).chain(proofs).chain([CANARY, "proxy-secret", "robbie@"]) {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

/// Every event in the log and in the rotated files, the oldest first.
fn rotated(log: &std::path::Path) -> Vec<Value> {
    let older = (1..10).rev().map(|number| format!("{}.{number}", log.display()));
    let files = older.chain([log.display().to_string()]);
    let text: String = files.filter_map(|file| fs::read_to_string(file).ok()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_callers_rotate_no_events_of_authenticated_ones_away() {
    const UNAUTHENTICATED_REQUESTS: u64 = 400;
    let provider = IdentityProvider::start().await;
    for fail_closed in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (log, config) = (folder.path().join("audit.jsonl"), folder.path().join("audit.json"));
        // Much less than the events of the flood would need.
        let text =
            json!({ "logFile": log, "rotateSize": 32768, "rotateCount": 1, "failClosed": fail_closed });
        fs::write(&config, text.to_string()).unwrap();
        let guarded = protected_proxy(&provider, |proxy| proxy.audit_config(config)).await;
        let token = provider.token("robot", guarded.resource()).await;
        assert_eq!(guarded.send(&token).await.status, 200);
        for number in 0..UNAUTHENTICATED_REQUESTS {
            let ping = guarded.http.post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
            let response = match number % 2 {
                0 => ping.send().await,
                _ => ping.header("Origin", "https://evil.example").send().await,
            };
            assert_eq!(response.status, if number % 2 == 0 { 401 } else { 403 }, "{number}");
        }
        assert_eq!(guarded.send(&token).await.status, 200);
        with_timeout("the proxy to stop", guarded.proxy.stop()).await;
        let events = rotated(&log);
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        let per_call = if fail_closed { 2 } else { 1 };
        assert_eq!(of("mcp_ping"), 2 * per_call, "{events:?}");
        let one_by_one = of("auth_failure") + of("mcp_request");
        assert!(one_by_one > 0, "{events:?}");
        let suppressed: Vec<_> = events.iter().filter(|event| event["type"] == "events_suppressed").collect();
        let counted = suppressed.iter().map(|event| extra(event, "events").as_u64().unwrap()).sum::<u64>();
        assert_eq!(one_by_one as u64 + counted, UNAUTHENTICATED_REQUESTS, "{events:?}");
        assert_eq!(extra(suppressed[0], "cause"), "unauthenticated");
    }
}
