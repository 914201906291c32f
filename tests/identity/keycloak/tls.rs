//! Tests Keycloak over TLS, with a certificate of a private authority.

use std::{path::Path, process::Command};

use serde_json::{Value, json};

use super::Keycloak;
use crate::{certificate_authority::UnknownAuthority, protected_server::ProtectedServer};

/// Posts a form over TLS.
fn post(authority: &Path, url: &str, form: &str) -> Value {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--noproxy", "*", "--cacert"]).arg(authority);
    let output = curl.args(["--data", form, url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: Keycloak takes a minute to start"]
async fn a_keycloak_with_an_authority_of_its_own_is_trusted_when_that_is_named() {
    let authority = UnknownAuthority::new();
    let option = |name: &str, file: &Path| format!("--https-{name}={}", file.display());
    let options = [
        option("certificate-file", &authority.certificate()),
        option("certificate-key-file", &authority.key()),
        "--https-port=0".to_owned(),
    ];
    let (keycloak, places) = Keycloak::start_with(&options).await;
    keycloak.realm("team").await;
    let secure = places.split(' ').find(|place| place.starts_with("https://")).unwrap();
    let issuer = format!("{secure}/realms/team");
    let authority = authority.bundle();
    let endpoint = |name: &str| format!("{issuer}/protocol/openid-connect/{name}");
    let form = "grant_type=password&scope=openid&client_id=desktop&username=ann&password=ann-password";
    let given = post(&authority, &endpoint("token"), form);
    let token = given["access_token"].as_str().unwrap_or_else(|| panic!("{given}"));

    for (bundle, status) in [(Some(&authority), 200), (None, 503)] {
        let trusts = |proxy: mcpm::ProxyBuilder| match bundle {
            Some(bundle) => proxy.mcpm_ca_bundle(bundle).oidc_audience("front"),
            None => proxy.oidc_audience("front"),
        };
        let by_keys = ProtectedServer::start(|proxy| trusts(proxy).oidc_issuer(issuer.clone())).await;
        let by_asking = ProtectedServer::start(|proxy| {
            let proxy = trusts(proxy).oidc_introspection_url(endpoint("token/introspect"));
            proxy.oidc_client_id("front").oidc_client_secret("hush-front")
        })
        .await;
        for served in [by_keys, by_asking] {
            let (told, said) = served.modern(token).ask("tools/list", json!({})).await;
            assert_eq!(told, status, "{said}");
            assert!(status == 200 || said == "auth.provider_unavailable", "{said}");
        }
    }
}
