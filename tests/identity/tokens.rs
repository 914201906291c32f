//! Tests which tokens are accepted, and which responses callers with other tokens get.

use std::time::SystemTime;

use mcpm_tests::harness::{
    http::{Http, Response},
    mcp::request,
    upstream::Upstream,
    with_timeout,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

use crate::provider::{IdentityProvider, protected_proxy, reason};

fn challenge(response: &Response) -> String {
    response.headers.get("www-authenticate").unwrap_or_default().to_owned()
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_token_is_accepted_and_not_forwarded() {
    let provider = IdentityProvider::start().await;
    let mut guarded = protected_proxy(&provider, |proxy| proxy).await;
    let token = provider.token("robot", guarded.resource()).await;
    assert_eq!(guarded.send(&token).await.status, 200);
    let through = guarded.forwarded_heads.recv().await.unwrap();
    assert!(!through.contains(&token) && !through.to_lowercase().contains("authorization"), "{through}");
    // The same token, with a different spelling of the scheme.
    let request = guarded.http.post("/mcp", "{}").header("Authorization", &format!("bearer  {token}"));
    assert_eq!(request.send().await.status, 200);
    // A token for another resource, of the same provider and client.
    let other = provider.token("robot", "http://127.0.0.1:1/mcp").await;
    let refused = guarded.send(&other).await;
    assert_eq!((refused.status, reason(refused).await), (401, json!("auth.wrong_audience")));
    assert_eq!(provider.request_count("/jwks").await, 1, "keys are fetched once");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_challenge_names_the_token_error() {
    let provider = IdentityProvider::start().await;
    let mut guarded =
        protected_proxy(&provider, |proxy| proxy.oidc_scopes("mcp").oidc_required_scopes("mcp")).await;
    let resource = guarded.resource().to_owned();
    let claims = |changes: Value| {
        let mut claims = json!({
            "iss": provider.issuer, "sub": "ann", "aud": resource, "scope": "mcp",
            "exp": now() + 600, "iat": now(),
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    };
    let header = |alg: &str| json!({ "alg": alg, "kid": format!("{alg}-1") });
    let rs256 = || header("RS256");
    let past = json!({ "exp": now() - 600 });
    let table = [
        ("RS256", rs256(), json!({}), "", 200, ""),
        ("PS256", header("PS256"), json!({}), "", 200, ""),
        ("ES256", header("ES256"), json!({}), "", 200, ""),
        ("ES384", header("ES384"), json!({}), "", 200, ""),
        ("EdDSA", header("EdDSA"), json!({}), "", 200, ""),
        ("several audiences", rs256(), json!({ "aud": ["x", resource] }), "", 200, ""),
        (
            "a clock that is a little off",
            rs256(),
            json!({ "exp": now() - 20, "nbf": now() + 20 }),
            "",
            200,
            "",
        ),
        ("expired", rs256(), past, "", 401, "auth.token_expired"),
        ("no end", rs256(), json!({ "exp": null }), "", 401, "auth.token_expired"),
        ("not yet", rs256(), json!({ "nbf": now() + 600 }), "", 401, "auth.token_not_yet_valid"),
        ("another issuer", rs256(), json!({ "iss": "https://evil.example" }), "", 401, "auth.wrong_issuer"),
        ("a slash", rs256(), json!({ "iss": format!("{}/", provider.issuer) }), "", 401, "auth.wrong_issuer"),
        ("another audience", rs256(), json!({ "aud": "https://x.example" }), "", 401, "auth.wrong_audience"),
        ("no audience", rs256(), json!({ "aud": null }), "", 401, "auth.wrong_audience"),
        (
            "half an audience",
            rs256(),
            json!({ "aud": format!("{resource}/x") }),
            "",
            401,
            "auth.wrong_audience",
        ),
        ("nobody", rs256(), json!({ "sub": null }), "", 401, "auth.no_subject"),
        ("too little", rs256(), json!({ "scope": "openid mcpx" }), "", 403, "auth.insufficient_scope"),
        ("a stranger's key", rs256(), json!({}), "stranger", 401, "auth.bad_signature"),
        ("no signature", json!({ "alg": "none" }), json!({}), "nothing", 401, "auth.algorithm_not_allowed"),
        ("a signature that is empty", rs256(), json!({}), "nothing", 401, "auth.bad_signature"),
        (
            "HMAC with the public key",
            json!({ "alg": "HS256", "kid": "RS256-1" }),
            json!({}),
            "public",
            401,
            "auth.algorithm_not_allowed",
        ),
        (
            "the key of another algorithm",
            json!({ "alg": "RS256", "kid": "ES256-1" }),
            json!({}),
            "",
            401,
            "auth.algorithm_not_allowed",
        ),
    ];
    for (label, header, changes, with, status, id) in table {
        let token = provider.mint(header, claims(changes), with).await;
        let response = guarded.send(&token).await;
        assert_eq!(response.status, status, "{label}");
        if status == 200 {
            guarded.forwarded_heads.recv().await.unwrap();
            continue;
        }
        let said = challenge(&response);
        let error = if status == 403 { "insufficient_scope" } else { "invalid_token" };
        assert!(said.contains(&format!("error=\"{error}\"")), "{label}: {said}");
        assert!(said.contains("resource_metadata=\"http://127.0.0.1:"), "{label}: {said}");
        assert!(said.contains("scope=\"mcp\""), "{label}: {said}");
        assert!(!said.contains(&token), "{label}");
        let refusal = response.headers.get("mcpm-refusal").unwrap().to_owned();
        let answer = response.json().await;
        assert_eq!(answer["error"]["data"]["reason"], id, "{label}");
        let explained = guarded.proxy.explain(&refusal).unwrap().refusal.unwrap();
        let of_token = explained.inputs.iter().filter(|(name, _)| name.starts_with("token_"));
        let of_token: Vec<_> = of_token.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        match label {
            "expired" | "not yet" => {
                let [(name, time)] = of_token[..] else { panic!("{explained:?}") };
                assert_eq!(name, if label == "expired" { "token_expires" } else { "token_begins" });
                assert_eq!(time < explained.inputs["now"].as_str(), label == "expired", "{explained:?}");
            }
            "no end" => assert_eq!(of_token, [("token_expires", "none")]),
            "another issuer" => assert_eq!(of_token, [("token_issuer", "https://evil.example")]),
            "another audience" => {
                assert_eq!(of_token, [("token_audience", "https://x.example")]);
                assert!(explained.inputs["audience"].contains(&resource), "{explained:?}");
                let fix = format!("request a token with the audience `{resource}` from the issuer");
                assert_eq!(explained.fix, fix);
            }
            "no audience" => assert_eq!(of_token, [("token_audience", "none")]),
            "too little" => assert_eq!(explained.inputs["missing_scopes"], "mcp"),
            // The explanation contains nothing from a token that anyone may have made.
            _ if with == "stranger" || with == "nothing" || with == "public" => assert_eq!(of_token, []),
            _ => {}
        }
        // The client gets no details.
        let shown = format!("{said} {answer}");
        assert!(!shown.contains("x.example") && !shown.contains("evil.example"), "{shown}");
    }
    assert!(guarded.forwarded_heads.try_recv().is_err(), "nothing that was refused came through");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_comes_in_the_header_and_nowhere_else() {
    let provider = IdentityProvider::start().await;
    let mut guarded = protected_proxy(&provider, |proxy| proxy).await;
    let token = provider.token("robot", guarded.resource()).await;
    let bearer = format!("Bearer {token}");
    for (target, headers, status, id) in [
        ("/mcp".to_owned(), vec![], 401, "auth.token_missing"),
        ("/mcp".to_owned(), vec!["Basic dTpw"], 401, "auth.token_missing"),
        (format!("/mcp?access_token={token}"), vec![], 401, "auth.token_in_query"),
        (format!("/mcp?access_token={token}"), vec![&bearer[..]], 400, "auth.malformed_request"),
        ("/mcp".to_owned(), vec!["Bearer"], 400, "auth.malformed_request"),
        ("/mcp".to_owned(), vec!["Bearer a b"], 400, "auth.malformed_request"),
        ("/mcp".to_owned(), vec![&bearer[..], &bearer[..]], 400, "auth.malformed_request"),
        ("/mcp".to_owned(), vec!["Bearer opaque"], 401, "auth.token_malformed"),
        ("/nowhere".to_owned(), vec![], 401, "auth.token_missing"),
    ] {
        for method in ["POST", "GET", "DELETE", "OPTIONS"] {
            let mut request = guarded.http.request(method, &target);
            for header in &headers {
                request = request.add_header("Authorization", header);
            }
            let response = request.send().await;
            assert_eq!(response.status, status, "{method} {target} {headers:?}");
            let said = challenge(&response);
            assert!(said.starts_with("Bearer resource_metadata="), "{said}");
            // A caller without a token has made no error, so the response contains none.
            let silent = matches!(id, "auth.token_missing" | "auth.token_in_query");
            assert_eq!(said.contains("error="), !silent, "{said}");
            assert_eq!(reason(response).await, id, "{method} {target} {headers:?}");
        }
    }
    assert!(guarded.forwarded_heads.try_recv().is_err());
    // A health probe has no token, and gets no more information than it needs.
    let health = guarded.http.request("GET", "/health").send().await;
    assert_eq!((health.status, health.json().await), (200, json!({ "status": "healthy" })));
}

#[tokio::test(flavor = "multi_thread")]
async fn cors_exposes_the_denial_to_browsers() {
    const PAGE: &str = "http://localhost:6274";
    let provider = IdentityProvider::start().await;
    let mut guarded = protected_proxy(&provider, |proxy| proxy).await;
    let token = provider.token("robot", guarded.resource()).await;
    // A browser sends preflight requests without credentials; they do not reach the server.
    for path in ["/mcp", "/nowhere", "/.well-known/oauth-protected-resource"] {
        let preflight = guarded.http.request("OPTIONS", path).header("Origin", PAGE);
        let preflight = preflight.header("Access-Control-Request-Method", "POST");
        let preflight = preflight.header("Access-Control-Request-Headers", "authorization,mcp-session-id");
        let answer = preflight.clone().send().await;
        assert_eq!(answer.status, 204, "{path}");
        let said = |name: &str| answer.headers.get(name).unwrap_or_default().to_owned();
        assert_eq!(said("access-control-allow-origin"), PAGE);
        assert_eq!(said("access-control-allow-headers"), "authorization,mcp-session-id");
        assert!(said("access-control-allow-methods").contains("DELETE"), "{path}");
        assert!(said("vary").contains("Origin"), "{path}");
        let strange = preflight.header("Origin", "https://evil.example").send().await;
        assert_eq!((strange.status, strange.headers.get("access-control-allow-origin")), (403, None));
    }
    assert!(guarded.forwarded_heads.try_recv().is_err(), "nothing of it came through");
    // A page can read every response, and learn from it where to log in.
    let page = |path: &str| guarded.http.post(path, "{}").header("Origin", PAGE);
    let bearer = format!("Bearer {token}");
    for (request, status) in [
        (page("/mcp"), 401),
        (page("/mcp").header("Authorization", "Bearer x"), 401),
        (page("/mcp").header("Authorization", &bearer), 200),
        (page("/health"), 405),
        (page("/mcp").header("Authorization", &bearer).header("Mcp-Session-Id", "x"), 404),
    ] {
        let answer = request.send().await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers.get("access-control-allow-origin"), Some(PAGE), "{status}");
        let exposed = answer.headers.get("access-control-expose-headers").unwrap_or_default();
        assert!(exposed.contains("WWW-Authenticate") && exposed.contains("Mcp-Session-Id"), "{exposed}");
    }
    // A client that is not a page gets no CORS headers.
    let plain = guarded.http.post("/mcp", "{}").send().await;
    assert_eq!(plain.headers.get("access-control-allow-origin"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_token_expires() {
    let provider = IdentityProvider::start().await;
    let server = Upstream::listen().await;
    let proxy = mcpm::Proxy::builder("guarded", server.uri("/mcp")).jwks_allow_private_ip(true);
    let proxy = proxy.oidc_issuer(provider.issuer.clone()).build().unwrap().start().await.unwrap();
    // Of the tolerance of 60 s for differing clocks, 50 s are used.
    let claims = json!({ "iss": provider.issuer, "sub": "ann", "aud": proxy.url(), "exp": now() - 50 });
    let token = provider.mint(json!({ "alg": "RS256", "kid": "RS256-1" }), claims, "").await;
    let request =
        Http(proxy.address().unwrap()).get("/mcp").header("Authorization", &format!("Bearer {token}"));
    let serving = async {
        let (mut connection, _) = server.request().await;
        connection.begin_events().await;
        connection.chunk("data: 1\n\n").await;
        connection
    };
    let (mut stream, mut connection) = tokio::join!(request.send(), serving);
    assert_eq!(stream.event().await.unwrap().data, "1");
    assert_eq!(stream.bytes().await.unwrap(), b"", "it ends, and does not break off");
    connection.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jwks_url_alone_accepts_any_issuer() {
    let provider = IdentityProvider::start().await;
    let keys = format!("{}/jwks", provider.issuer);
    let proxy = mcpm::Proxy::builder("keys", "http://127.0.0.1:1/mcp").jwks_allow_private_ip(true);
    let proxy = proxy.oidc_jwks_url(keys).oidc_audience("me").build().unwrap().start().await.unwrap();
    for (issuer, audience, id) in [
        (json!("https://any.example"), "me", Value::Null),
        (json!("https://any.example"), "other", json!("auth.wrong_audience")),
        (Value::Null, "me", json!("auth.wrong_issuer")),
    ] {
        let claims = json!({ "iss": issuer, "sub": "ann", "aud": audience, "exp": now() + 60 });
        let token = provider.mint(json!({ "alg": "RS256", "kid": "RS256-1" }), claims, "").await;
        let request = Http(proxy.address().unwrap()).post("/mcp", "{}");
        let response = request.header("Authorization", &format!("Bearer {token}")).send().await;
        // No server is behind this proxy: an allowed caller gets an error for that.
        assert_eq!(response.status, if id.is_null() { 503 } else { 401 });
        assert_eq!(reason(response).await, id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_says_who_issues_its_tokens() {
    let provider = IdentityProvider::start().await;
    let local =
        protected_proxy(&provider, |proxy| proxy.oidc_scopes("mcp").oidc_scopes("offline_access")).await;
    for suffix in ["", "/mcp"] {
        let path = format!("/.well-known/oauth-protected-resource{suffix}");
        let document = local.http.request("GET", &path).send().await;
        assert_eq!(document.status, 200);
        assert_eq!(
            document.json().await,
            json!({
                "resource": local.resource(), "resource_name": "guarded",
                "authorization_servers": [provider.issuer], "scopes_supported": ["mcp", "offline_access"],
                "bearer_methods_supported": ["header"],
            })
        );
    }
    let elsewhere = local.http.request("GET", "/.well-known/oauth-protected-resource/x").send().await;
    assert_eq!(elsewhere.status, 404);
    let posted = local.http.request("POST", "/.well-known/oauth-protected-resource").send().await;
    assert_eq!(posted.status, 405);

    let behind = protected_proxy(&provider, |proxy| {
        proxy.trust_proxy_headers(true).oidc_audience("https://mcp.example/team/mcp")
    })
    .await;
    let forwarded = |request: mcpm_tests::harness::http::Request| {
        let request = request.header("X-Forwarded-Host", "mcp.example").header("X-Forwarded-Proto", "https");
        request.header("X-Forwarded-Prefix", "/team")
    };
    let challenged = forwarded(behind.http.post("/mcp", "{}")).send().await;
    let place = "https://mcp.example/team/.well-known/oauth-protected-resource/mcp";
    assert!(challenge(&challenged).contains(place), "{}", challenge(&challenged));
    let document = behind.http.request("GET", "/.well-known/oauth-protected-resource/mcp");
    let document = forwarded(document).send().await.json().await;
    assert_eq!(document["resource"], "https://mcp.example/team/mcp");
    let token = provider.token("robot", "https://mcp.example/team/mcp").await;
    let request = behind.http.post("/mcp", "{}").header("Authorization", &format!("Bearer {token}"));
    assert_eq!(forwarded(request.clone()).send().await.status, 200);
    assert_eq!(request.send().await.status, 200, "what headers say has no part in it");
    let own = provider.token("robot", "https://evil.example/mcp").await;
    let request = behind.http.post("/mcp", "{}").header("Authorization", &format!("Bearer {own}"));
    let request = request.header("X-Forwarded-Host", "evil.example").header("X-Forwarded-Proto", "https");
    assert_eq!(request.send().await.status, 401, "a client does not choose whom its token is meant for");

    let told = protected_proxy(&provider, |proxy| proxy.resource_url("https://mcp.example/v1")).await;
    let challenged = told.http.post("/mcp", "{}").send().await;
    let place = "https://mcp.example/.well-known/oauth-protected-resource/v1";
    assert!(challenge(&challenged).contains(place), "{}", challenge(&challenged));
    let token = provider.token("robot", "https://mcp.example/v1").await;
    assert_eq!(told.send(&token).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_in_the_process_needs_a_token_too() {
    let provider = IdentityProvider::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (log, config) = (folder.path().join("audit.jsonl"), folder.path().join("audit.json"));
    std::fs::write(&config, json!({ "logFile": log }).to_string()).unwrap();
    let served = protected_proxy(&provider, |proxy| proxy.audit_config(config)).await;
    let token = provider.token("robot", served.resource()).await;
    for (bearer_token, allowed) in [(None, false), (Some(token.into()), true)] {
        let options = mcpm::ConnectOptions { bearer_token, ..mcpm::ConnectOptions::default() };
        let mut connection = tokio::io::BufReader::new(served.proxy.connect_with(options).unwrap());
        let message = format!("{}\n", request(1, "ping", json!({})));
        connection.write_all(message.as_bytes()).await.unwrap();
        let mut line = String::new();
        with_timeout("a response", connection.read_line(&mut line)).await.unwrap();
        let response: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(response["error"].is_null(), allowed, "{response}");
    }
    with_timeout("the proxy to stop", served.proxy.stop()).await;
    let text = std::fs::read_to_string(log).unwrap();
    let mut events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ping = events.find(|event| event["type"] == "mcp_ping").unwrap();
    assert_eq!(
        (&ping["subjects"]["user_id"], &ping["source"]["type"]),
        (&json!("robot"), &json!("in_process"))
    );
}
