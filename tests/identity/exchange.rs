//! Checks that the exchanged token reaches the server, and that the caller's token and other credentials do not.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use futures_util::future::join_all;
use mcpm::ProxyBuilder;
use mcpm_tests::harness::{
    http::{Http, Response},
    mcp::{LEGACY, initialize},
    upstream::{ReceivedRequest, Upstream, UpstreamResponse},
};
use serde_json::{Value, json};

use crate::{
    exchange_provider::ExchangeProvider,
    provider::{IdentityProvider, ProtectedProxy, protected_proxy, reason},
};

const ACCESS_TOKEN_TYPE: &str = "urn:ietf:params:oauth:token-type:access_token";

/// The credentials of an exchange request, and its form.
type PostedTokenRequest = (String, Vec<(String, String)>);

/// A token exchange endpoint that responds as the test wants, and records its requests.
struct ExchangeEndpoint {
    url: String,
    asked: Arc<Mutex<Vec<PostedTokenRequest>>>,
}

impl ExchangeEndpoint {
    /// Responds to the request with this number, counted from one, with a status and a body.
    async fn start(answer: impl Fn(usize) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let endpoint = Upstream::listen().await;
        let url = endpoint.uri("/token");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let keeps = Arc::clone(&asked);
        endpoint.serve(move |received| {
            let number = {
                let mut asked = keeps.lock().unwrap();
                asked.push(parse_token_request(received));
                asked.len()
            };
            let (status, body) = answer(number);
            UpstreamResponse {
                status: format!("{status} Said"),
                headers: "Content-Type: application/json\r\n".to_owned(),
                body: body.to_string(),
            }
        });
        Self { url, asked }
    }

    fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// The client credentials, and the form that was posted.
fn parse_token_request(received: &ReceivedRequest) -> PostedTokenRequest {
    assert!(received.line.starts_with("POST /token "), "{}", received.line);
    let who = received.headers.get("authorization").unwrap_or_default().to_owned();
    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let [first, more @ ..] = rest {
            rest = more;
            match (first, more) {
                (b'%', [high, low, more @ ..]) => {
                    let digits = [*high, *low];
                    let digits = std::str::from_utf8(&digits).unwrap();
                    bytes.push(u8::from_str_radix(digits, 16).unwrap());
                    rest = more;
                }
                (b'+', _) => bytes.push(b' '),
                (byte, _) => bytes.push(*byte),
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    let body = String::from_utf8(received.body.clone()).unwrap();
    let pairs = body.split('&').map(|pair| pair.split_once('=').unwrap());
    (who, pairs.map(|(name, value)| (decode(name), decode(value))).collect())
}

fn token_response(token: &str) -> (u16, Value) {
    let body = json!({ "access_token": token, "token_type": "Bearer", "issued_token_type": ACCESS_TOKEN_TYPE,
                       "expires_in": 300 });
    (200, body)
}

async fn proxy_with_exchange(
    provider: &IdentityProvider,
    url: &str,
    change: impl FnOnce(ProxyBuilder) -> ProxyBuilder,
) -> ProtectedProxy {
    protected_proxy(provider, |proxy| change(proxy.token_exchange_url(url))).await
}

/// The lines of a request's head that contain a text.
fn lines<'a>(head: &'a str, text: &str) -> Vec<&'a str> {
    let text = text.to_lowercase();
    head.split([',', '\n']).filter(|line| line.to_lowercase().contains(&text)).collect()
}

async fn status_and_reason(response: Response) -> (u16, Value) {
    (response.status, reason(response).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_request_follows_the_options() {
    let provider = IdentityProvider::start().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "hush:2\n").unwrap();
    let endpoint = ExchangeEndpoint::start(|_| token_response("other")).await;
    let exact = |token: &str, kind: &str, more: &[(&str, &str)]| {
        let begin = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("subject_token", token),
            ("subject_token_type", kind),
            ("requested_token_type", ACCESS_TOKEN_TYPE),
        ];
        let all = begin.iter().chain(more);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>()
    };
    let last = || endpoint.asked.lock().unwrap().last().cloned().unwrap();

    let mut plain = proxy_with_exchange(&provider, &endpoint.url, |proxy| proxy).await;
    let token = provider.token("robot", plain.resource()).await;
    assert_eq!(plain.send(&token).await.status, 200);
    assert_eq!(last(), (String::new(), exact(&token, ACCESS_TOKEN_TYPE, &[])));
    let head = plain.forwarded_heads.recv().await.unwrap();
    assert_eq!(lines(&head, "bearer").len(), 1, "{head}");
    assert!(!lines(&head, "authorization").is_empty() && !head.contains(&token), "{head}");

    let mut full = proxy_with_exchange(&provider, &endpoint.url, |proxy| {
        let proxy =
            proxy.token_exchange_audience("https://notes.example/a b").token_exchange_client_id("me&");
        let proxy = proxy.token_exchange_client_secret_file(&file).token_exchange_header_name("X-Token");
        proxy.token_exchange_scopes("read").token_exchange_scopes("write")
    })
    .await;
    let token = provider.token("robot", full.resource()).await;
    let request = full.http.post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let request = request.header("Authorization", &format!("Bearer {token}"));
    assert_eq!(request.header("X-Token", "Bearer mine").send().await.status, 200);
    let more = [("audience", "https://notes.example/a b"), ("scope", "read write")];
    // `me%26:hush%3A2`
    assert_eq!(last(), ("Basic bWUlMjY6aHVzaCUzQTI=".to_owned(), exact(&token, ACCESS_TOKEN_TYPE, &more)));
    let head = full.forwarded_heads.recv().await.unwrap();
    assert_eq!(lines(&head, "bearer").len(), 1, "{head}");
    assert!(head.to_lowercase().contains("x-token"), "{head}");
    for never in [&token[..], "mine", "authorization", "hush"] {
        assert!(!head.to_lowercase().contains(&never.to_lowercase()), "{never}: {head}");
    }
    // The file is read again.
    std::fs::write(&file, "new").unwrap();
    let other = provider.token("other", full.resource()).await;
    assert_eq!(full.send(&other).await.status, 200);
    assert_eq!(last().0, "Basic bWUlMjY6bmV3");

    // A client without a secret, and ID tokens.
    let public = proxy_with_exchange(&provider, &endpoint.url, |proxy| {
        let proxy = proxy.token_exchange_client_id("me");
        proxy.token_exchange_subject_token_type(mcpm::options::SubjectTokenType::IdToken)
    })
    .await;
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let claims = json!({ "iss": provider.issuer, "sub": "ann", "aud": public.resource(), "nonce": "n",
                         "exp": now + 600, "iat": now, "at_hash": "h" });
    let token = provider.mint(json!({ "alg": "RS256", "kid": "RS256-1" }), claims, "").await;
    assert_eq!(public.send(&token).await.status, 200);
    let kind = "urn:ietf:params:oauth:token-type:id_token";
    assert_eq!(last(), (String::new(), exact(&token, kind, &[("client_id", "me")])));
    assert_eq!(
        status_and_reason(plain.send(&token).await).await.0,
        401,
        "elsewhere, ID tokens let nobody in"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_exchanged_once_for_each_caller() {
    let provider = IdentityProvider::start().await;
    let endpoint = ExchangeEndpoint::start(|number| token_response(&format!("other-{number}"))).await;
    let mut guarded = proxy_with_exchange(&provider, &endpoint.url, |proxy| proxy).await;
    let one = provider.token("robot", guarded.resource()).await;
    let two = provider.token("other", guarded.resource()).await;
    for (token, expected) in [(&one, "other-1"), (&one, "other-1"), (&two, "other-2"), (&one, "other-1")] {
        let response = guarded.send(token).await;
        assert_eq!(response.status, 200);
        let shown = format!("{:?} ", response.headers) + &response.text().await;
        assert!(!shown.contains("other-"), "{shown}");
        let head = guarded.forwarded_heads.recv().await.unwrap();
        assert_eq!(lines(&head, expected).len(), 1, "{head}");
    }
    assert_eq!(endpoint.count(), 2);
    // All other requests of a client use the same token.
    let with = |request: mcpm_tests::harness::http::Request| {
        request.header("Authorization", &format!("Bearer {one}")).send()
    };
    let opened = with(guarded.http.post("/mcp", initialize(LEGACY, json!({})).to_string())).await;
    let id = opened.headers.get("mcp-session-id").unwrap().to_owned();
    for method in ["GET", "DELETE"] {
        with(guarded.http.request(method, "/mcp").header("Mcp-Session-Id", &id)).await;
    }
    for method in ["POST", "GET", "DELETE"] {
        let head = guarded.forwarded_heads.recv().await.unwrap();
        assert!(head.starts_with(method) && !head.contains(&one), "{head}");
        assert_eq!(lines(&head, "other-1").len(), 1, "{head}");
    }
    assert_eq!(endpoint.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callers_share_one_exchange() {
    let provider = IdentityProvider::start().await;
    let endpoint = Upstream::listen().await;
    let guarded = proxy_with_exchange(&provider, &endpoint.uri("/token"), |proxy| proxy).await;
    let token = provider.token("robot", guarded.resource()).await;
    let all = join_all((0..20).map(|_| guarded.send(&token)));
    let answer = async {
        let (mut connection, _) = endpoint.request().await;
        connection.answer("200 OK", "", &token_response("other").1.to_string()).await;
        connection
    };
    let (all, _connection) = tokio::join!(all, answer);
    assert!(all.iter().all(|response| response.status == 200));
    assert!(endpoint.try_accept().await.is_none(), "nobody else has asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_exchange_denies_the_request() {
    let provider = IdentityProvider::start().await;
    let of =
        |status: u16, code: &str| (status, json!({ "error": code, "error_description": "secret words" }));
    let changed = |name: &str, value: Value| {
        let (status, mut body) = token_response("other");
        body[name] = value;
        (status, body)
    };
    for (said, status, id) in [
        (of(400, "invalid_grant"), 401, "exchange.token_not_accepted"),
        (of(400, "invalid_request"), 403, "exchange.refused"),
        (of(400, "invalid_target"), 403, "exchange.refused"),
        (of(401, "invalid_client"), 503, "exchange.client_refused"),
        (of(400, "unauthorized_client"), 503, "exchange.client_refused"),
        (of(500, "server_error"), 503, "exchange.provider_unavailable"),
        (of(302, ""), 503, "exchange.provider_unavailable"),
        ((200, json!("nothing")), 503, "exchange.unusable_token"),
        (changed("token_type", json!("N_A")), 503, "exchange.unusable_token"),
        (changed("issued_token_type", Value::Null), 503, "exchange.unusable_token"),
        (changed("access_token", json!("a\r\nb: c")), 503, "exchange.unusable_token"),
    ] {
        let endpoint = ExchangeEndpoint::start(move |_| said.clone()).await;
        let mut guarded = proxy_with_exchange(&provider, &endpoint.url, |proxy| proxy).await;
        let token = provider.token("robot", guarded.resource()).await;
        for _ in 0..2 {
            let response = guarded.send(&token).await;
            assert_eq!(response.status, status, "{id}");
            let challenge = response.headers.get("www-authenticate").unwrap_or_default().to_owned();
            assert_eq!(challenge.contains("invalid_token"), status == 401, "{id}: {challenge}");
            assert_eq!(response.headers.get("retry-after").is_some(), status == 503, "{id}");
            let body = response.json().await;
            assert_eq!(body["error"]["data"]["reason"], id);
            let said = body.to_string();
            assert!(!said.contains(&token) && !said.contains("secret words"), "{said}");
            assert!(!said.contains(&endpoint.url), "{said}");
        }
        assert!(guarded.forwarded_heads.try_recv().is_err(), "{id}: something came through");
        if id != "exchange.provider_unavailable" {
            assert_eq!(endpoint.count(), 1, "{id}: what failed is not repeated at once");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_echoes_the_callers_token_is_rejected() {
    let provider = IdentityProvider::start().await;
    let echo = Upstream::listen().await;
    let url = echo.uri("/token");
    echo.serve(|received| {
        let (_, form) = parse_token_request(received);
        let (_, subject) = form.iter().find(|(name, _)| name == "subject_token").unwrap();
        let (_, body) = token_response(subject);
        UpstreamResponse { status: "200 OK".to_owned(), headers: String::new(), body: body.to_string() }
    });
    let mut guarded = proxy_with_exchange(&provider, &url, |proxy| proxy).await;
    let token = provider.token("robot", guarded.resource()).await;
    assert_eq!(status_and_reason(guarded.send(&token).await).await, (503, json!("exchange.unusable_token")));
    assert!(guarded.forwarded_heads.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_away_or_silent_lets_nobody_through_until_it_is_back() {
    let provider = IdentityProvider::start().await;
    let endpoint = Upstream::listen().await;
    let mut guarded = proxy_with_exchange(&provider, &endpoint.uri("/token"), |proxy| proxy).await;
    let token = provider.token("robot", guarded.resource()).await;
    let (refused, connection) = tokio::join!(guarded.send(&token), endpoint.request());
    assert_eq!(status_and_reason(refused).await, (503, json!("exchange.provider_unavailable")));
    drop(connection);
    // A request that waits behind one without a response is not forwarded either.
    assert!(guarded.forwarded_heads.try_recv().is_err());
    let answer = async {
        let (mut connection, _) = endpoint.request().await;
        connection.answer("200 OK", "", &token_response("other").1.to_string()).await;
        connection
    };
    // Until the pause after the failure has ended, the proxy requests no token.
    let again = async {
        loop {
            let response = guarded.send(&token).await;
            if response.status == 200 {
                break;
            }
            assert_eq!(status_and_reason(response).await, (503, json!("exchange.provider_unavailable")));
        }
    };
    let ((), _connection) = tokio::join!(again, answer);

    let nobody = Upstream::listen().await.uri("/token");
    let mut guarded = proxy_with_exchange(&provider, &nobody, |proxy| proxy).await;
    let token = provider.token("robot", guarded.resource()).await;
    assert_eq!(
        status_and_reason(guarded.send(&token).await).await,
        (503, json!("exchange.provider_unavailable"))
    );
    assert!(guarded.forwarded_heads.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_server_does_not_take_is_not_used_again() {
    let provider = IdentityProvider::start().await;
    let endpoint = ExchangeEndpoint::start(|number| token_response(&format!("other-{number}"))).await;
    let server = Upstream::listen().await;
    let uri = server.uri("/mcp");
    server.serve(|received| {
        let taken = received.headers.get("authorization") == Some("Bearer other-2");
        let status = if taken { "200 OK" } else { "401 Unauthorized" };
        let challenge = "WWW-Authenticate: Bearer resource_metadata=\"http://server.example/m\"\r\n";
        UpstreamResponse { status: status.to_owned(), headers: challenge.to_owned(), body: "{}".to_owned() }
    });
    let proxy = mcpm::Proxy::builder("guarded", uri).jwks_allow_private_ip(true);
    let proxy = proxy.oidc_issuer(provider.issuer.clone()).token_exchange_url(endpoint.url.clone());
    let proxy = proxy.build().unwrap().start().await.unwrap();
    let token = provider.token("robot", proxy.url()).await;
    let send = || {
        let request = Http(proxy.address().unwrap()).post("/mcp", "{}");
        request.header("Authorization", &format!("Bearer {token}")).send()
    };
    let refused = send().await;
    assert_eq!(refused.headers.get("www-authenticate"), None, "the client's token is good");
    assert_eq!(status_and_reason(refused).await, (502, json!("exchange.not_taken_by_server")));
    assert_eq!(send().await.status, 200);
    assert_eq!(endpoint.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn server_errors_about_its_token_are_never_recorded() {
    let provider = IdentityProvider::start().await;
    let endpoint = ExchangeEndpoint::start(|_| token_response("canary-exchanged")).await;
    let server = Upstream::listen().await;
    let uri = server.uri("/mcp");
    server.serve(|received| {
        let token = received.headers.get("authorization").unwrap().trim_start_matches("Bearer ");
        let error =
            json!({ "code": -32000, "message": format!("{token} may not"), "data": { "its": token } });
        UpstreamResponse {
            status: "200 OK".to_owned(),
            headers: "Content-Type: application/json\r\n".to_owned(),
            body: json!({ "jsonrpc": "2.0", "id": 1, "error": error }).to_string(),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let (log, config) = (folder.path().join("audit.jsonl"), folder.path().join("config.json"));
    std::fs::write(&config, json!({ "logFile": log, "includeResponseData": true }).to_string()).unwrap();
    let proxy = mcpm::Proxy::builder("guarded", uri).jwks_allow_private_ip(true).audit_config(config);
    let proxy = proxy.oidc_issuer(provider.issuer.clone()).token_exchange_url(endpoint.url.clone());
    let proxy = proxy.build().unwrap().start().await.unwrap();
    let token = provider.token("robot", proxy.url()).await;
    let request = Http(proxy.address().unwrap()).post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    let response = request.header("Authorization", &format!("Bearer {token}")).send().await;
    assert!(response.text().await.contains("canary-exchanged"), "it is the server's to say");
    proxy.stop().await;
    let written = std::fs::read_to_string(log).unwrap();
    assert!(!written.contains("canary") && !written.contains(&token), "{written}");
    let event: Value = serde_json::from_str(&written).unwrap();
    let extra = &event["metadata"]["extra"];
    assert_eq!(extra["jsonrpc_error_message"], "[redacted] may not");
    assert_eq!(extra["credential"], "exchanged");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_tokens_of_its_own_alone_is_reached_through_a_real_exchange() {
    let issuer = ExchangeProvider::start().await;
    let seen = Arc::new(AtomicUsize::new(0));
    let server = Upstream::listen().await;
    let uri = server.uri("/mcp");
    let count = Arc::clone(&seen);
    server.serve(move |received| {
        assert_eq!(received.headers.get("authorization"), None);
        count.fetch_add(1, Relaxed);
        UpstreamResponse {
            status: "200 OK".to_owned(),
            headers: "Content-Type: application/json\r\n".to_owned(),
            body: crate::provider::ANSWER.to_owned(),
        }
    });
    // The server is another proxy, which validates the token.
    let behind = mcpm::Proxy::builder("behind", uri).jwks_allow_private_ip(true);
    let behind = behind.oidc_issuer(issuer.url.clone()).oidc_audience("behind");
    let behind = behind.build().unwrap().start().await.unwrap();
    let front = mcpm::Proxy::builder("front", behind.url()).jwks_allow_private_ip(true);
    let front = front.oidc_issuer(issuer.url.clone()).oidc_audience("front");
    let front = front.token_exchange_url(issuer.endpoint()).token_exchange_audience("behind");
    let front = front.token_exchange_client_id("front").token_exchange_client_secret("hush");
    let front = front.build().unwrap().start().await.unwrap();
    let send = async |to: std::net::SocketAddr, token: &str| {
        let request = Http(to).post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        request.header("Authorization", &format!("Bearer {token}")).send().await
    };
    let token = issuer.token("app", "front").await;
    assert_eq!(
        status_and_reason(send(behind.address().unwrap(), &token).await).await,
        (401, json!("auth.wrong_audience"))
    );
    for _ in 0..3 {
        assert_eq!(send(front.address().unwrap(), &token).await.status, 200);
    }
    assert_eq!(seen.load(Relaxed), 3);
    // A token for the server is not valid at the proxy in front of it.
    let other = issuer.token("app", "behind").await;
    assert_eq!(
        status_and_reason(send(front.address().unwrap(), &other).await).await,
        (401, json!("auth.wrong_audience"))
    );
}
