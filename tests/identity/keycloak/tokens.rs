//! Checks that callers with tokens of Keycloak are allowed as long as their tokens are valid and, with introspection,
//! their Keycloak sessions exist.

use std::{sync::Arc, time::Duration};

use mcpm::ProxyBuilder;
use mcpm_tests::harness::{http::Http, with_timeout};
use serde_json::json;

use super::{Keycloak, Realm, status_and_reason};
use crate::{
    outgoing::{self, Browser},
    protected_server::ProtectedServer,
};

/// Validates signed tokens.
fn with_jwks(realm: &Realm<'_>) -> impl FnOnce(ProxyBuilder) -> ProxyBuilder {
    let issuer = realm.issuer();
    |proxy| proxy.oidc_issuer(issuer).oidc_audience("front")
}

/// Introspects each token.
fn with_introspection(realm: &Realm<'_>, secret: &str) -> impl FnOnce(ProxyBuilder) -> ProxyBuilder {
    let (endpoint, secret) = (realm.endpoint("token/introspect"), secret.to_owned());
    |proxy| {
        let proxy = proxy.oidc_introspection_url(endpoint).oidc_audience("front");
        proxy.oidc_client_id("front").oidc_client_secret(secret)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: Keycloak takes a minute to start"]
async fn keycloak_tokens_are_accepted_until_revoked() {
    let mut keycloak = Keycloak::start().await;
    let realm = keycloak.realm("team").await;
    signed_tokens_are_checked_with_the_keys_of_their_realm(&realm).await;
    a_token_of_a_new_key_is_taken_at_once(&realm).await;
    policies_go_by_groups_and_roles(&realm).await;
    a_proxy_logs_in_on_its_pages(&realm).await;
    whoever_is_logged_out_or_disabled_is_out_where_tokens_are_asked_about(&realm).await;

    // With cached keys, the provider is not needed; without them, every caller is denied.
    let knows = ProtectedServer::start(with_jwks(&realm)).await;
    let asks = ProtectedServer::start(with_introspection(&realm, "hush-front")).await;
    let (token, issuer) = (realm.token("desktop", "bob").await, realm.issuer());
    keycloak.end().await;
    let fresh = ProtectedServer::start(|proxy| proxy.oidc_issuer(issuer).oidc_audience("front")).await;
    assert_eq!(status_and_reason(knows.proxy.address().unwrap(), &token).await.0, 200);
    for served in [&fresh, &asks] {
        assert_eq!(
            status_and_reason(served.proxy.address().unwrap(), &token).await,
            (503, json!("auth.provider_unavailable"))
        );
    }
}

/// The login in the browser that the proxy opens, and in a browser on another device.
async fn a_proxy_logs_in_on_its_pages(realm: &Realm<'_>) {
    let served = ProtectedServer::start(with_jwks(realm)).await;
    for user in [Browser::Here, Browser::Elsewhere] {
        let home = tempfile::tempdir().unwrap();
        let proxy = outgoing::proxy(served.proxy.url(), home.path(), Some(Arc::new(user)))
            .remote_auth_client_id("desktop")
            .remote_auth_timeout(Duration::from_secs(120))
            .build()
            .unwrap();
        let proxy = with_timeout("the login", proxy.start()).await.unwrap();
        assert_eq!(outgoing::list(Http(proxy.address().unwrap())).await.status, 200, "{user:?}");
    }
}

async fn signed_tokens_are_checked_with_the_keys_of_their_realm(realm: &Realm<'_>) {
    let other = realm.keycloak.realm("other").await;
    let served = ProtectedServer::start(with_jwks(realm)).await;
    let token = realm.token("desktop", "ann").await;
    for caller in served.callers(&token).await {
        assert!(caller.tools().await.contains(&"test_simple_text".to_owned()));
    }
    let strange = ProtectedServer::start(|proxy| {
        // The keys of one realm, with the issuer of the other.
        proxy.oidc_issuer(other.issuer()).oidc_jwks_url(realm.endpoint("certs")).oidc_audience("front")
    })
    .await;
    for (served, token, reason) in [
        (&served, realm.token("elsewhere", "ann").await, "auth.wrong_audience"),
        (&served, realm.token("slow", "ann").await, "auth.token_expired"),
        (&served, other.token("desktop", "ann").await, "auth.unknown_key"),
        (&strange, token, "auth.wrong_issuer"),
    ] {
        assert_eq!(status_and_reason(served.proxy.address().unwrap(), &token).await, (401, json!(reason)));
    }
}

async fn a_token_of_a_new_key_is_taken_at_once(realm: &Realm<'_>) {
    let served = ProtectedServer::start(with_jwks(realm)).await;
    let before = realm.token("desktop", "ann").await;
    assert_eq!(status_and_reason(served.proxy.address().unwrap(), &before).await.0, 200);
    let key = json!({
        "name": "new", "providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider",
        "config": { "priority": ["200"] },
    });
    assert_eq!(realm.administer("POST", "components", key).await.status, 201);
    let after = realm.token("desktop", "ann").await;
    let header = |token: &str| token.split('.').next().map(str::to_owned);
    assert_ne!(header(&before), header(&after), "it is signed with the new key");
    assert_eq!(status_and_reason(served.proxy.address().unwrap(), &after).await.0, 200);
    assert_eq!(
        status_and_reason(served.proxy.address().unwrap(), &before).await.0,
        200,
        "the old key is still among the realm's"
    );
}

async fn policies_go_by_groups_and_roles(realm: &Realm<'_>) {
    const POLICIES: &str = r#"{
        "version": "1.0", "type": "cedarv1",
        "cedar": {
            "role_claim_name": "realm_access.roles",
            "policies": [
                "permit(principal in McpmGroup::\"staff\", action == Action::\"call_tool\", resource == Tool::\"test_image_content\");",
                "permit(principal in McpmGroup::\"reader\", action == Action::\"call_tool\", resource == Tool::\"test_simple_text\");",
                "permit(principal, action == Action::\"get_prompt\", resource) when { principal.claim_preferred_username == \"bob\" };"
            ]
        }
    }"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policies.json");
    std::fs::write(&file, POLICIES).unwrap();
    let keys = with_jwks(realm);
    let served = ProtectedServer::start(|proxy| keys(proxy).authz_config(file)).await;
    let call = |tool: &str| json!({ "name": tool, "arguments": {} });
    let denied = || (403, json!("authorization.denied"));
    for (user, tools, image) in
        [("ann", &["test_image_content", "test_simple_text"][..], 200), ("bob", &["test_simple_text"], 403)]
    {
        for caller in served.callers(&realm.token("desktop", user).await).await {
            assert_eq!(caller.tools().await, tools, "{user}");
            assert_eq!(caller.ask("tools/call", call("test_simple_text")).await.0, 200, "{user}");
            let answer = caller.ask("tools/call", call("test_image_content")).await;
            assert_eq!(answer.0, image, "{user}");
            assert!(image == 200 || answer == denied(), "{answer:?}");
            assert_eq!(caller.ask("tools/call", call("test_error_handling")).await, denied());
            let prompts = caller.listed("prompts/list", "prompts", "name").await;
            assert_eq!(prompts.is_empty(), user == "ann", "{user}: {prompts:?}");
        }
    }
}

async fn whoever_is_logged_out_or_disabled_is_out_where_tokens_are_asked_about(realm: &Realm<'_>) {
    let asks = ProtectedServer::start(with_introspection(realm, "hush-front")).await;
    let inactive = || (401, json!("auth.token_inactive"));
    for caller in asks.callers(&realm.token("desktop", "ann").await).await {
        assert!(caller.tools().await.contains(&"test_simple_text".to_owned()));
    }
    // For a token with another audience, Keycloak's introspection returns the same as for an invalid token.
    for token in [realm.token("elsewhere", "ann").await, realm.token("slow", "ann").await, "nonsense".into()]
    {
        assert_eq!(status_and_reason(asks.proxy.address().unwrap(), &token).await, inactive());
    }
    let user = format!("users/{}", realm.user("ann").await);
    let token = realm.token("desktop", "ann").await;
    assert_eq!(realm.administer("POST", &format!("{user}/logout"), json!({})).await.status, 204);
    assert_eq!(status_and_reason(asks.proxy.address().unwrap(), &token).await, inactive(), "logged out");
    let token = realm.token("desktop", "ann").await;
    assert_eq!(realm.administer("PUT", &user, json!({ "enabled": false })).await.status, 204);
    assert_eq!(status_and_reason(asks.proxy.address().unwrap(), &token).await, inactive(), "disabled");
    // A signed token does not contain this information, and tokens are not introspected if keys are known.
    let served = ProtectedServer::start(with_jwks(realm)).await;
    assert_eq!(status_and_reason(served.proxy.address().unwrap(), &token).await.0, 200);

    let wrong = ProtectedServer::start(with_introspection(realm, "wrong")).await;
    let token = realm.token("desktop", "bob").await;
    assert_eq!(
        status_and_reason(wrong.proxy.address().unwrap(), &token).await,
        (503, json!("auth.provider_unavailable"))
    );
}
