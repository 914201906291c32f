//! Tests the rules for connections to an identity provider: plain HTTP, tokens for the key set, and trusted
//! certificates.

use std::fs;

use mcpm::Proxy;
use mcpm_tests::harness::http::Response;
use serde_json::{Value, json};

use crate::{
    certificate_authority::UnknownAuthority,
    provider::{IdentityProvider, protected_proxy, reason},
};

async fn status_and_reason(response: Response) -> (u16, Value) {
    (response.status, reason(response).await)
}

fn unavailable() -> (u16, Value) {
    (503, json!("auth.provider_unavailable"))
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_http_is_spoken_with_others_only_when_that_is_allowed() {
    let provider = IdentityProvider::start().await;
    // An address of this machine that does not look like a local address.
    let keys = format!("{}/jwks", provider.issuer).replace("127.0.0.1", "0.0.0.0");
    let refused = Proxy::builder("guarded", "http://127.0.0.1:1/mcp").oidc_issuer(provider.issuer.clone());
    let refused = refused.oidc_jwks_url(keys.clone()).jwks_allow_private_ip(true).build().err();
    let refused = refused.unwrap_or_else(|| panic!("it was built")).to_string();
    assert!(refused.contains(&keys) && refused.contains("`oidc_insecure_allow_http`"), "{refused}");
    for private in [false, true] {
        let guarded = protected_proxy(&provider, |proxy| {
            let proxy = proxy.oidc_jwks_url(keys.clone()).oidc_insecure_allow_http(true);
            proxy.jwks_allow_private_ip(private)
        })
        .await;
        let token = provider.token("robot", guarded.resource()).await;
        let response = guarded.send(&token).await;
        match private {
            true => assert_eq!(response.status, 200),
            // Allowing plain HTTP does not allow private addresses.
            false => assert_eq!(status_and_reason(response).await, unavailable()),
        }
    }
    assert_eq!(provider.request_count("/jwks").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_is_named_is_trusted() {
    let authority = UnknownAuthority::new();
    let provider = IdentityProvider::start_with(&[authority.certificate(), authority.key()]).await;
    let secure = provider.secure.clone().unwrap();
    let other = UnknownAuthority::new();
    for (bundle, trusted) in [(Some(authority.bundle()), true), (Some(other.bundle()), false), (None, false)]
    {
        let guarded = protected_proxy(&provider, |proxy| {
            let proxy = proxy.oidc_jwks_url(format!("{secure}/jwks"));
            let proxy = proxy.oidc_introspection_url(format!("{secure}/token/introspection"));
            let proxy = proxy.oidc_client_id("proxy").oidc_client_secret("proxy-secret");
            match bundle {
                Some(bundle) => proxy.mcpm_ca_bundle(bundle),
                None => proxy,
            }
        })
        .await;
        for client in ["robot", "opaque"] {
            let response = guarded.send(&provider.token(client, guarded.resource()).await).await;
            match trusted {
                true => assert_eq!(response.status, 200, "{client}"),
                false => assert_eq!(status_and_reason(response).await, unavailable(), "{client}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_wants_a_token_itself_gets_the_one_that_is_in_the_file_then() {
    let provider = IdentityProvider::start().await;
    provider.control(json!({ "wants": "first" })).await;
    let without = protected_proxy(&provider, |proxy| proxy).await;
    let token = provider.token("robot", without.resource()).await;
    assert_eq!(status_and_reason(without.send(&token).await).await, unavailable());

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "first\n").unwrap();
    let mut with = protected_proxy(&provider, |proxy| proxy.jwks_auth_token_file(&file)).await;
    let token = provider.token("robot", with.resource()).await;
    assert_eq!(with.send(&token).await.status, 200);
    assert!(!with.forwarded_heads.recv().await.unwrap().contains("first"), "the server sees nothing of it");
    // The certificate is renewed, and so are the keys.
    provider.control(json!({ "wants": "second", "rotate": true })).await;
    fs::write(&file, "second").unwrap();
    let token = provider.token("robot", with.resource()).await;
    assert_eq!(with.send(&token).await.status, 200);
}
