//! Checks that Keycloak exchanges the tokens of its users (RFC 8693) for tokens that the server behind the proxy
//! accepts.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use mcpm::{Proxy, ProxyBuilder};
use mcpm_tests::harness::upstream::{Upstream, UpstreamResponse};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Keycloak, Realm, status_and_reason};
use crate::{protected_server::ProtectedServer, provider::ANSWER};

/// Starts a proxy that exchanges the caller's token for one that the server accepts, unless `change` configures it
/// differently.
async fn front(
    realm: &Realm<'_>,
    target: &str,
    change: impl FnOnce(ProxyBuilder) -> ProxyBuilder,
) -> mcpm::RunningProxy {
    let proxy = Proxy::builder("front", target).jwks_allow_private_ip(true).oidc_issuer(realm.issuer());
    let proxy = proxy.oidc_audience("front").token_exchange_url(realm.endpoint("token"));
    let proxy = proxy.token_exchange_client_id("front").token_exchange_client_secret("hush-front");
    change(proxy.token_exchange_audience("behind")).build().unwrap().start().await.unwrap()
}

fn claims(token: &str) -> Value {
    let body = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(body).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: Keycloak takes a minute to start"]
async fn keycloak_exchanges_tokens_of_its_users_for_those_of_the_server() {
    let mut keycloak = Keycloak::start().await;
    let realm = keycloak.realm("team").await;
    let token = realm.token("desktop", "ann").await;

    // A server that accepts only tokens for its own audience: it rejects the caller's token.
    let issuer = realm.issuer();
    let behind = ProtectedServer::start(|proxy| proxy.oidc_issuer(issuer).oidc_audience("behind")).await;
    assert_eq!(
        status_and_reason(behind.proxy.address().unwrap(), &token).await,
        (401, json!("auth.wrong_audience"))
    );
    let through = front(&realm, behind.proxy.url(), |proxy| proxy).await;
    assert_eq!(status_and_reason(through.address().unwrap(), &token).await, (200, Value::Null));

    // The requests that this server receives.
    let server = Upstream::listen().await;
    let uri = server.uri("/mcp");
    let (tell, mut heads) = mpsc::unbounded_channel();
    server.serve(move |received| {
        // The receiver may be gone.
        let _ = tell.send(received.headers.clone());
        let headers = "Content-Type: application/json\r\n".to_owned();
        UpstreamResponse { status: "200 OK".to_owned(), headers, body: ANSWER.to_owned() }
    });
    let shown = front(&realm, &uri, |proxy| proxy).await;
    assert_eq!(status_and_reason(shown.address().unwrap(), &token).await, (200, Value::Null));
    let head = heads.recv().await.unwrap();
    assert!(
        !format!("{head:?}").contains(&token),
        "the caller's own token is not among what the server sees"
    );
    let exchanged = claims(head.get("authorization").unwrap().strip_prefix("Bearer ").unwrap());
    let own = claims(&token);
    assert_eq!((&exchanged["aud"], &exchanged["azp"]), (&json!("behind"), &json!("front")));
    assert_eq!((&own["aud"], &own["azp"]), (&json!("front"), &json!("desktop")));
    assert_eq!((&exchanged["sub"], &exchanged["iss"]), (&own["sub"], &own["iss"]));

    // A request whose exchange Keycloak rejects is not forwarded.
    let (no_scope, nobody) = ("exchange.refused", "exchange.client_refused");
    for (change, status, reason) in [
        (front(&realm, &uri, |proxy| proxy.token_exchange_audience("unrelated")).await, 403, no_scope),
        (front(&realm, &uri, |proxy| proxy.token_exchange_audience("no-client")).await, 503, nobody),
        (front(&realm, &uri, |proxy| proxy.token_exchange_scopes("no-scope")).await, 403, no_scope),
        (front(&realm, &uri, |proxy| proxy.token_exchange_client_secret("wrong")).await, 503, nobody),
        (
            front(&realm, &uri, |proxy| {
                proxy.token_exchange_client_id("plain").token_exchange_client_secret("hush-plain")
            })
            .await,
            403,
            no_scope,
        ),
    ] {
        assert_eq!(status_and_reason(change.address().unwrap(), &token).await, (status, json!(reason)));
    }
    // After a logout, the exchange rejects the user, although the token is still valid.
    let late = front(&realm, &uri, |proxy| proxy).await;
    let away = front(&realm, &uri, |proxy| proxy).await;
    assert_eq!(status_and_reason(away.address().unwrap(), &realm.token("desktop", "bob").await).await.0, 200);
    heads.recv().await.unwrap();
    let path = format!("users/{}/logout", realm.user("ann").await);
    assert_eq!(realm.administer("POST", &path, json!({})).await.status, 204);
    assert_eq!(status_and_reason(late.address().unwrap(), &token).await, (403, json!("exchange.refused")));

    let token = realm.token("desktop", "ann").await;
    keycloak.end().await;
    assert_eq!(
        status_and_reason(away.address().unwrap(), &token).await,
        (503, json!("exchange.provider_unavailable"))
    );
    assert!(heads.try_recv().is_err(), "nothing of these came through");
}
