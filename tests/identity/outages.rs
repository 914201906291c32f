//! Tests what happens when the identity provider rotates its keys, is down, does not respond, sends too much, or names
//! another issuer in its metadata; and which tokens are introspected.

use mcpm::Proxy;
use mcpm_tests::harness::{
    http::{Http, Response},
    with_timeout,
};
use serde_json::{Value, json};

use crate::provider::{IdentityProvider, protected_proxy, reason};

async fn status_and_reason(response: Response) -> (u16, Value) {
    (response.status, reason(response).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn new_keys_are_fetched_and_unknown_ones_rate_limited() {
    let provider = IdentityProvider::start().await;
    let guarded = protected_proxy(&provider, |proxy| proxy).await;
    let before = provider.token("robot", guarded.resource()).await;
    assert_eq!(guarded.send(&before).await.status, 200);
    provider.control(json!({ "rotate": true })).await;
    let after = provider.token("robot", guarded.resource()).await;
    assert_eq!(guarded.send(&after).await.status, 200);
    assert_eq!(status_and_reason(guarded.send(&before).await).await, (401, json!("auth.unknown_key")));
    for number in 0..20 {
        let header = json!({ "alg": "ES256", "kid": format!("strange-{number}") });
        let strange = provider.mint(header, json!({}), "stranger").await;
        assert_eq!(status_and_reason(guarded.send(&strange).await).await, (401, json!("auth.unknown_key")));
    }
    assert_eq!(provider.request_count("/jwks").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_provider_rejects_unverifiable_tokens() {
    let provider = IdentityProvider::start().await;
    for mode in ["down", "silent", "huge"] {
        // A failure is cached for a moment, so each proxy is a new one. Its start already requests the keys.
        let token = provider.token("robot", "https://mcp.example/mcp").await;
        provider.mode(mode).await;
        let guarded =
            protected_proxy(&provider, |proxy| proxy.oidc_audience("https://mcp.example/mcp")).await;
        let response = guarded.send(&token).await;
        assert_eq!(response.headers.get("retry-after"), Some("1"), "{mode}");
        assert_eq!(response.headers.get("www-authenticate"), None, "{mode}");
        let health = guarded.http.get("/health").send().await.json().await;
        assert_eq!(health["authentication"], json!({ "available": false }), "{mode}");
        let said = response.json().await.to_string();
        assert!(said.contains("auth.provider_unavailable") && !said.contains("127.0.0.1"), "{mode}: {said}");
        provider.mode("up").await;
    }
    let guarded = protected_proxy(&provider, |proxy| proxy).await;
    let token = provider.token("robot", guarded.resource()).await;
    assert_eq!(guarded.send(&token).await.status, 200);
    // With cached keys, the provider is not needed.
    provider.mode("down").await;
    assert_eq!(guarded.send(&token).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_introspection_endpoint_that_is_away_is_told_at_the_start() {
    let proxy = Proxy::builder("p", "http://127.0.0.1:1/mcp")
        .oidc_introspection_url("http://127.0.0.1:1/ask")
        .oidc_client_id("me")
        .oidc_insecure_allow_http(true)
        .jwks_allow_private_ip(true);
    let proxy = with_timeout("the proxy to start", proxy.build().unwrap().start()).await.unwrap();
    let is_told = |warning: &String| warning.contains("callers cannot be authenticated now");
    assert!(proxy.warnings().iter().any(is_told), "{:?}", proxy.warnings());
    let health = Http(proxy.address().unwrap()).get("/health").send().await.json().await;
    assert_eq!(health, json!({ "status": "unhealthy", "authentication": { "available": false } }));
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_introspection_names_the_url_without_its_query() {
    let provider = IdentityProvider::start().await;
    let missing = format!("{}/missing", provider.issuer);
    let guarded = protected_proxy(&provider, |_| {
        let proxy = Proxy::builder("p", "http://127.0.0.1:1/mcp").jwks_allow_private_ip(true);
        let proxy = proxy.oidc_client_id("proxy").oidc_client_secret("proxy-secret");
        proxy.oidc_introspection_url(format!("{missing}?key=canary")).oidc_audience("http://p.example/mcp")
    })
    .await;
    let warning = guarded.proxy.warnings().concat();
    assert!(warning.contains("token introspection failed: the response has status 404"), "{warning}");
    assert!(warning.contains(&format!("(url: {missing})")) && !warning.contains("canary"), "{warning}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_issuer_in_the_metadata_must_match() {
    let provider = IdentityProvider::start().await;
    let other = IdentityProvider::start().await;
    // The metadata comes from the provider, but the name of the issuer differs slightly.
    let guarded =
        protected_proxy(&provider, |proxy| proxy.oidc_issuer(format!("{}/", provider.issuer))).await;
    let warning = guarded.proxy.warnings().concat();
    let url = format!("(url: {}/.well-known/openid-configuration)", provider.issuer);
    assert!(warning.contains("the document is for another issuer") && warning.contains(&url), "{warning}");
    let token = provider.token("robot", guarded.resource()).await;
    assert_eq!(
        status_and_reason(guarded.send(&token).await).await,
        (503, json!("auth.provider_unavailable"))
    );
    // If the JWKS URL is configured, no metadata is needed, and keys of another provider are not used.
    let keys = format!("{}/jwks", other.issuer);
    let guarded = protected_proxy(&provider, |proxy| proxy.oidc_jwks_url(keys)).await;
    let token = provider.token("robot", guarded.resource()).await;
    assert_eq!(status_and_reason(guarded.send(&token).await).await.0, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_provider_address_is_not_contacted_by_default() {
    let provider = IdentityProvider::start().await;
    let guarded = protected_proxy(&provider, |proxy| proxy.jwks_allow_private_ip(false)).await;
    let token = provider.token("robot", guarded.resource()).await;
    assert_eq!(
        status_and_reason(guarded.send(&token).await).await,
        (503, json!("auth.provider_unavailable"))
    );
    assert_eq!(provider.request_count("/.well-known/openid-configuration").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_opaque_tokens_are_introspected() {
    let provider = IdentityProvider::start().await;
    let endpoint = format!("{}/token/introspection", provider.issuer);
    let client = |proxy: mcpm::ProxyBuilder| proxy.oidc_client_id("proxy").oidc_client_secret("proxy-secret");
    // The endpoint is the one in the metadata.
    let found = protected_proxy(&provider, client).await;
    let opaque = provider.token("opaque", found.resource()).await;
    assert!(!opaque.contains('.'));
    for _ in 0..3 {
        assert_eq!(found.send(&opaque).await.status, 200);
    }
    let signed = provider.token("robot", found.resource()).await;
    assert_eq!(found.send(&signed).await.status, 200);
    assert_eq!(provider.request_count("/token/introspection").await, 1, "what was said holds for a while");
    let other = provider.token("opaque", "http://127.0.0.1:1/mcp").await;
    assert_eq!(status_and_reason(found.send(&other).await).await, (401, json!("auth.wrong_audience")));
    assert_eq!(status_and_reason(found.send("nonsense").await).await, (401, json!("auth.token_inactive")));

    // Only the endpoint is known, and no other URL is requested.
    let before = provider.request_count("/.well-known/openid-configuration").await;
    let named = endpoint.clone();
    let alone = protected_proxy(&provider, |_| {
        let proxy = Proxy::builder("alone", "http://127.0.0.1:1/mcp").jwks_allow_private_ip(true);
        client(proxy.oidc_introspection_url(named).oidc_audience("http://alone.example/mcp"))
    })
    .await;
    let opaque = provider.token("opaque", "http://alone.example/mcp").await;
    // No server is behind this proxy: an allowed caller gets an error for that.
    assert_eq!(status_and_reason(alone.send(&opaque).await).await, (503, Value::Null));
    assert_eq!(status_and_reason(alone.send("nonsense").await).await, (401, json!("auth.token_inactive")));
    assert_eq!(provider.request_count("/.well-known/openid-configuration").await, before);

    // A cached result is used while the provider is unreachable; other callers are denied.
    provider.mode("down").await;
    assert_eq!(found.send(&format!("{opaque}x")).await.status, 503);
    let wrong = protected_proxy(&provider, |proxy| {
        proxy.oidc_client_id("proxy").oidc_client_secret("wrong").oidc_introspection_url(endpoint)
    })
    .await;
    provider.mode("up").await;
    let opaque = provider.token("opaque", wrong.resource()).await;
    let refused = status_and_reason(wrong.send(&opaque).await).await;
    assert_eq!(
        refused,
        (503, json!("auth.provider_unavailable")),
        "a secret that the provider does not take"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_key_during_an_outage_is_503() {
    let provider = IdentityProvider::start().await;
    let guarded = protected_proxy(&provider, |proxy| proxy).await;
    let token = provider.token("robot", guarded.resource()).await;
    assert_eq!(guarded.send(&token).await.status, 200);
    provider.mode("down").await;
    for kid in ["new-1", "new-2"] {
        let strange = provider.mint(json!({ "alg": "ES256", "kid": kid }), json!({}), "stranger").await;
        assert_eq!(
            status_and_reason(guarded.send(&strange).await).await,
            (503, json!("auth.provider_unavailable"))
        );
    }
    assert_eq!(guarded.send(&token).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_is_asked_at_the_start_and_callers_are_told_by_health_when_it_is_away() {
    let provider = IdentityProvider::start().await;
    let guarded = protected_proxy(&provider, |proxy| proxy).await;
    assert_eq!(provider.request_count("/jwks").await, 1, "it is asked before anybody calls");
    let token = provider.token("robot", guarded.resource()).await;
    let header = json!({ "alg": "ES256", "kid": "strange" });
    let strange = provider.mint(header, json!({}), "stranger").await;
    let health = async |token: Option<&str>| {
        let request = guarded.http.get("/health");
        let request = match token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")),
            None => request,
        };
        request.send().await.json().await
    };
    let details = health(Some(&token)).await;
    assert_eq!(details["authentication"], json!({ "available": true, "error": null }), "{details}");
    assert_eq!(details["mcp"]["available"], true, "{details}");
    // The keys are cached, and a token with an unknown key makes the proxy request them again.
    provider.mode("down").await;
    assert_eq!(
        status_and_reason(guarded.send(&strange).await).await,
        (503, json!("auth.provider_unavailable"))
    );
    let details = health(Some(&token)).await;
    assert_eq!(details["authentication"]["available"], false, "{details}");
    assert!(details["authentication"]["error"].is_string(), "{details}");
    for other in [None, Some(strange.as_str()), Some("x")] {
        assert_eq!(health(other).await, json!({ "status": "healthy" }), "{other:?}");
    }
}
