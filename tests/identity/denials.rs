//! Checks the information that an operator gets about denied callers. After the change that this information names, the
//! callers are allowed.

use mcpm::{Environment, Explanation};
use mcpm_tests::harness::http::Response;
use serde_json::{Value, json};

use crate::provider::{IdentityProvider, ProtectedProxy, protected_proxy};

fn id(response: &Response) -> String {
    response.headers.get("mcpm-refusal").unwrap().to_owned()
}

/// Sends a request without a token.
async fn without_token(guarded: &ProtectedProxy) -> Response {
    guarded.http.post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).send().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_caller_is_explained_and_the_change_that_is_named_lets_them_in() {
    let provider = IdentityProvider::start().await;
    let folder = tempfile::tempdir().unwrap();
    let state_dir = folder.path().join("mcpm");
    let environment = Environment { state_dir: state_dir.clone(), ..Environment::from_process() };
    let of_proxy = environment.clone();
    let guarded =
        protected_proxy(&provider, |proxy| proxy.oidc_required_scopes("mcp").environment(of_proxy)).await;
    // As another process reads it.
    let explain = |response: &Response| -> Explanation {
        let explained = mcpm::explain(&id(response), &environment).unwrap();
        assert_eq!(explained.layer, "authenticate");
        let inputs = &explained.refusal.as_ref().unwrap().inputs;
        assert_eq!(inputs["issuer"], provider.issuer);
        assert!(inputs["audience"].split(' ').any(|audience| audience == guarded.resource()), "{inputs:?}");
        explained
    };

    let explained = explain(&without_token(&guarded).await);
    assert_eq!(explained.reason, "auth.token_missing");
    assert_eq!(explained.refusal.unwrap().fix, "send `Authorization: Bearer TOKEN`");
    let token = provider.token("robot", guarded.resource()).await;
    assert_eq!(guarded.send(&token).await.status, 200);

    let elsewhere = "http://127.0.0.1:1/mcp";
    let other = provider.token("robot", elsewhere).await;
    let explained = explain(&guarded.send(&other).await);
    assert_eq!(explained.reason, "auth.wrong_audience");
    assert!(!format!("{explained:?}").contains(&other), "{explained:?}");
    let refusal = explained.refusal.unwrap();
    let own = guarded.resource();
    assert_eq!(refusal.fix, format!("request a token with the audience `{own}` from the issuer"));
    let audience = refusal.inputs["audience"].split(' ').next().unwrap();
    let token = provider.token("robot", audience).await;
    assert_eq!(guarded.send(&token).await.status, 200);

    let mint = async |scope: &str| {
        let exp = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 600;
        let claims = json!({
            "iss": provider.issuer, "sub": "ann", "aud": guarded.resource(), "scope": scope, "exp": exp,
        });
        provider.mint(json!({ "alg": "RS256", "kid": "RS256-1" }), claims, "").await
    };
    let explained = explain(&guarded.send(&mint("openid").await).await);
    assert_eq!(explained.reason, "auth.insufficient_scope");
    let refusal = explained.refusal.unwrap();
    let scopes = refusal.fix.strip_prefix("request a token with the scopes `").unwrap().trim_end_matches('`');
    assert_eq!(refusal.rule.as_deref(), Some(scopes));
    assert_eq!(guarded.send(&mint(scopes).await).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn unauthenticated_denials_do_not_evict_authenticated_ones() {
    let provider = IdentityProvider::start().await;
    let guarded = protected_proxy(&provider, |proxy| proxy.tools("other")).await;
    let token = provider.token("robot", guarded.resource()).await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "hidden" } });
    let request = guarded.http.post("/mcp", call.to_string());
    let known = id(&request.header("Authorization", &format!("Bearer {token}")).send().await);
    let first = id(&without_token(&guarded).await);
    let mut last = first.clone();
    for _ in 0..256 {
        last = id(&without_token(&guarded).await);
    }
    let reason = |id: &str| guarded.proxy.explain(id).map(|explained| Value::from(explained.reason));
    assert_eq!(reason(&known).unwrap(), "tools.not_listed");
    assert_eq!(reason(&last).unwrap(), "auth.token_missing");
    reason(&first).expect_err("the last ones of strangers are kept, and no more");
}
