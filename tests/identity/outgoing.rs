//! Tests a proxy that logs in to the server behind it: with a real provider, and with a provider whose renewals and
//! rejections the test controls.

use std::{
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use mcpm::{
    Environment, ErrorKind, Proxy, ProxyBuilder, Result, Workload,
    options::Secret,
    user_prompt::{LoginPrompt, UserPrompt},
    workload::{WorkloadEvent, Workloads},
};
use mcpm_tests::{
    harness::{
        http::{Http, Response},
        mcp::{LEGACY, Modern},
        testbed,
        upstream::{ReceivedRequest, Upstream, UpstreamResponse},
        with_timeout,
    },
    root,
};
use serde_json::{Value, json};
use tokio::process::Command;
use url::Url;

use crate::{
    protected_server::ProtectedServer,
    provider::IdentityProvider,
    support::{Home, PseudoTerminal},
};

/// A user who logs in with a real browser, on this machine or on another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Browser {
    Here,
    Elsewhere,
}

#[async_trait]
impl UserPrompt for Browser {
    async fn ask_secret(&self, _: &str) -> Result<Option<Secret>> {
        Ok(None)
    }

    async fn show_login(&self, login: &LoginPrompt) -> Result<()> {
        let mut browser = Command::new(testbed::path("MCPM_TEST_NODE"));
        browser.arg(root().join("tests/identity/browser.mjs")).stdin(Stdio::null());
        match (self, &login.device) {
            (Self::Here, _) => browser.arg(&login.url),
            (Self::Elsewhere, device) => {
                let device = device.as_ref().unwrap();
                assert!(login.has_redirect);
                browser.args([&device.url, &device.code])
            }
        };
        // The login continues meanwhile.
        let mut browser = browser.kill_on_drop(true).spawn().unwrap();
        tokio::spawn(async move { browser.wait().await });
        Ok(())
    }
}

/// A user whose login the authorization server approves at once.
#[derive(Debug)]
pub(crate) struct Approved;

#[async_trait]
impl UserPrompt for Approved {
    async fn ask_secret(&self, _: &str) -> Result<Option<Secret>> {
        Ok(None)
    }

    async fn show_login(&self, login: &LoginPrompt) -> Result<()> {
        let url = Url::parse(&login.url).unwrap();
        let parameter = |name| {
            let mut pairs = url.query_pairs();
            pairs.find(|(other, _)| other == name).unwrap().1.into_owned()
        };
        assert_eq!(parameter("code_challenge_method"), "S256");
        let redirect = Url::parse(&parameter("redirect_uri")).unwrap();
        let http = Http(format!("127.0.0.1:{}", redirect.port().unwrap()).parse().unwrap());
        let path = format!("/callback?code=c&state={}", parameter("state"));
        tokio::spawn(async move { http.get(&path).send().await });
        Ok(())
    }
}

/// A prompt with a defect.
#[derive(Debug)]
struct Defective;

#[async_trait]
impl UserPrompt for Defective {
    async fn ask_secret(&self, _: &str) -> Result<Option<Secret>> {
        Ok(None)
    }

    async fn show_login(&self, _: &LoginPrompt) -> Result<()> {
        panic!("a defect")
    }
}

/// A store for logins, and its user.
fn environment(folder: &Path, user: Option<Arc<dyn UserPrompt>>) -> Environment {
    let mut environment = Environment::from_lookup(|_| None);
    environment.state_dir = folder.join("state");
    environment.config_dir = folder.join("config");
    environment.secrets.password = Some(Secret::from("a password"));
    environment.user_prompt = user;
    environment
}

/// Starts a proxy in front of `url` that logs in to the server.
pub(crate) fn proxy(url: &str, folder: &Path, user: Option<Arc<dyn UserPrompt>>) -> ProxyBuilder {
    let builder = Proxy::builder("remote", url).remote_auth(true).remote_auth_callback_port(0_u16);
    builder.environment(environment(folder, user))
}

pub(crate) async fn list(http: Http) -> Response {
    Modern(http).request(1, "tools/list", json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_on_the_pages_of_a_provider_outlives_the_proxy() {
    let provider = IdentityProvider::start().await;
    let server = ProtectedServer::start(|proxy| {
        proxy.oidc_issuer(provider.issuer.clone()).oidc_scopes("openid").oidc_scopes("mcp")
    })
    .await;
    let home = tempfile::tempdir().unwrap();
    let starting = proxy(server.proxy.url(), home.path(), Some(Arc::new(Browser::Here)))
        .remote_auth_timeout(Duration::from_secs(120))
        .build()
        .unwrap()
        .start();
    let outer = with_timeout("the login", starting).await.unwrap();
    let listed = list(Http(outer.address().unwrap())).await;
    assert_eq!(listed.status, 200);
    assert!(!listed.json().await["result"]["tools"].as_array().unwrap().is_empty());
    outer.stop().await;
    // No user is available for a login any more, and the provider is unreachable.
    provider.control(json!({ "mode": "down" })).await;
    let again =
        with_timeout("the proxy", proxy(server.proxy.url(), home.path(), None).build().unwrap().start());
    let again = again.await.unwrap();
    assert_eq!(list(Http(again.address().unwrap())).await.status, 200);
    // The stored login is encrypted.
    let mut files = vec![home.path().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            assert!(!text.contains("access_token") && !text.contains("eyJ"), "{}", path.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_known_by_its_metadata_document() {
    let provider = IdentityProvider::start().await;
    let server = ProtectedServer::start(|proxy| {
        proxy.oidc_issuer(provider.issuer.clone()).oidc_scopes("openid").oidc_scopes("mcp")
    })
    .await;
    let home = tempfile::tempdir().unwrap();
    let starting = proxy(server.proxy.url(), home.path(), Some(Arc::new(Browser::Here)))
        .remote_auth_client_metadata_url("https://mcpm.example/client.json")
        .remote_auth_timeout(Duration::from_secs(120))
        .build()
        .unwrap()
        .start();
    let outer = with_timeout("the login", starting).await.unwrap();
    assert_eq!(list(Http(outer.address().unwrap())).await.status, 200);
    assert_eq!(provider.request_count("/reg").await, 0, "no client is registered");
}

/// A server that is its own authorization server.
#[derive(Debug, Default)]
pub(crate) struct Issuer {
    /// The only valid access token and refresh token.
    pub(crate) valid: Option<u32>,
    pub(crate) issued: u32,
    pub(crate) refreshes: u32,
    /// The token endpoint responds with this status.
    token_status: Option<&'static str>,
    /// The token endpoint rejects refresh tokens.
    pub(crate) rejects: bool,
    /// The token requests.
    pub(crate) forms: Vec<String>,
    /// The authorization requests.
    authorizations: Vec<String>,
    /// A scope that the server requires.
    pub(crate) scope: Option<&'static str>,
    /// A scope that the authorization server does not know.
    pub(crate) unknown_scope: Option<&'static str>,
    /// The server responds with 503 to everything.
    pub(crate) is_down: bool,
}

impl Issuer {
    fn accepts(&self, request: &ReceivedRequest) -> bool {
        let valid = self.valid.map(|number| format!("Bearer access-{number}"));
        valid.is_some() && request.headers.get("authorization") == valid.as_deref()
    }

    fn respond(&mut self, request: &ReceivedRequest, origin: &str, metadata: &Value) -> UpstreamResponse {
        let path = request.line.split(' ').nth(1).unwrap();
        let form = String::from_utf8_lossy(&request.body);
        if self.is_down {
            return json_response("503 Service Unavailable", &json!({}));
        }
        if let Some(query) = path.strip_prefix("/authorize?") {
            self.authorizations.push(query.to_owned());
            let url = Url::parse(&format!("{origin}{path}")).unwrap();
            let parameter = |name| url.query_pairs().find(|(other, _)| other == name).unwrap().1.into_owned();
            let outcome = match self.unknown_scope.is_some_and(|scope| query.contains(scope)) {
                true => "error=invalid_scope",
                false => "code=c",
            };
            let location = format!("{}?{outcome}&state={}", parameter("redirect_uri"), parameter("state"));
            return UpstreamResponse {
                status: "302 Found".to_owned(),
                headers: format!("Location: {location}\r\n"),
                body: String::new(),
            };
        }
        let has_scope = |scope: &&str| self.authorizations.last().is_some_and(|query| query.contains(*scope));
        let missing = self.scope.filter(|scope| !has_scope(scope));
        match path {
            "/.well-known/oauth-protected-resource/mcp" => json_response(
                "200 OK",
                &json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [origin] }),
            ),
            "/.well-known/oauth-authorization-server" => json_response("200 OK", metadata),
            "/device/rare" => json_response(
                "200 OK",
                &json!({ "device_code": "d", "user_code": "u", "expires_in": 600, "interval": u64::MAX,
                    "verification_uri": format!("{origin}/enter") }),
            ),
            "/register" => json_response("201 Created", &json!({ "client_id": "registered" })),
            "/device" => json_response(
                "200 OK",
                &json!({ "device_code": "d", "user_code": "WDJB-MJHT", "interval": 1, "expires_in": 60,
                    "verification_uri": format!("{origin}/enter") }),
            ),
            "/token" if self.token_status.is_some() => {
                json_response(self.token_status.unwrap(), &json!({ "error": "invalid_grant" }))
            }
            "/token" => {
                self.forms.push(form.clone().into_owned());
                if form.contains("grant_type=refresh_token") {
                    self.refreshes += 1;
                    let current = format!("refresh_token=refresh-{}", self.issued);
                    if self.rejects || !form.split('&').any(|field| field == current) {
                        return json_response("400 Bad Request", &json!({ "error": "invalid_grant" }));
                    }
                }
                self.issued += 1;
                self.valid = Some(self.issued);
                json_response(
                    "200 OK",
                    &json!({ "access_token": format!("access-{}", self.issued), "token_type": "Bearer",
                        "refresh_token": format!("refresh-{}", self.issued), "expires_in": 3600 }),
                )
            }
            "/mcp" if self.accepts(request) && missing.is_some() => UpstreamResponse {
                status: "403 Forbidden".to_owned(),
                headers: format!(
                    "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"{}\"\r\n",
                    missing.unwrap()
                ),
                body: String::new(),
            },
            "/mcp" if self.accepts(request) && form.contains("\"initialize\"") => {
                let result = json!({ "protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {} });
                let body = json!({ "jsonrpc": "2.0", "id": 0, "result": result });
                let mut response = json_response("200 OK", &body);
                response.headers += "Mcp-Session-Id: one\r\n";
                response
            }
            "/mcp" if self.accepts(request) => {
                json_response("200 OK", &json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": [] } }))
            }
            "/mcp" => {
                let place = format!("{origin}/.well-known/oauth-protected-resource/mcp");
                UpstreamResponse {
                    status: "401 Unauthorized".to_owned(),
                    headers: format!("WWW-Authenticate: Bearer resource_metadata=\"{place}\"\r\n"),
                    body: String::new(),
                }
            }
            _ => json_response("404 Not Found", &json!({})),
        }
    }
}

pub(crate) fn json_response(status: &str, body: &Value) -> UpstreamResponse {
    UpstreamResponse {
        status: status.to_owned(),
        headers: "Content-Type: application/json\r\n".to_owned(),
        body: body.to_string(),
    }
}

fn metadata(origin: &str) -> Value {
    json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "code_challenge_methods_supported": ["S256"],
        "response_types_supported": ["code"],
    })
}

/// Starts the server; `change` changes its metadata.
pub(crate) async fn issuer(change: impl FnOnce(&mut Value)) -> (String, Arc<Mutex<Issuer>>) {
    let upstream = Upstream::listen().await;
    let (origin, url) = (upstream.uri(""), upstream.uri("/mcp"));
    let mut metadata = metadata(&origin);
    change(&mut metadata);
    let issuer = Arc::new(Mutex::new(Issuer::default()));
    let state = Arc::clone(&issuer);
    upstream.serve(move |request| state.lock().unwrap().respond(request, &origin, &metadata));
    (url, issuer)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_panics_undoes_the_start() {
    let (url, issuer) = issuer(|_| {}).await;
    let home = tempfile::tempdir().unwrap();
    let workload = |user: Arc<dyn UserPrompt>| {
        let builder = Workload::builder(&url).name("remote").remote_auth_callback_port(0_u16);
        builder.environment(environment(home.path(), Some(user))).in_process_only().build().unwrap()
    };
    let defective = workload(Arc::new(Defective));
    let mut events = defective.events();
    let panicked = tokio::spawn(defective.start()).await.unwrap_err().into_panic();
    assert_eq!(panicked.downcast_ref::<&str>(), Some(&"a defect"));
    // The workload was on record when the prompt was called.
    while !matches!(events.next().await.unwrap(), WorkloadEvent::Starting { .. }) {}
    assert_eq!(Workloads::new(environment(home.path(), None)).list().await.unwrap().len(), 0);
    let running = workload(Arc::new(Approved)).start().await.unwrap();
    assert_eq!(issuer.lock().unwrap().issued, 1);
    running.stop(Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_proxies_share_one_renewal() {
    let (url, issuer) = issuer(|_| {}).await;
    let home = tempfile::tempdir().unwrap();
    let user: Arc<dyn UserPrompt> = Arc::new(Approved);
    let first = proxy(&url, home.path(), Some(user)).build().unwrap().start().await.unwrap();
    let second = proxy(&url, home.path(), None).build().unwrap().start().await.unwrap();
    assert_eq!(list(Http(first.address().unwrap())).await.status, 200);
    assert_eq!(list(Http(second.address().unwrap())).await.status, 200);
    assert_eq!(issuer.lock().unwrap().issued, 1, "the second proxy has the login of the first");
    // The token is revoked, and only a refresh token returns a new one.
    issuer.lock().unwrap().valid = None;
    let calls = [first.address().unwrap(), second.address().unwrap()]
        .repeat(8)
        .into_iter()
        .map(|address| list(Http(address)));
    for response in futures_util::future::join_all(calls).await {
        assert_eq!(response.status, 200);
    }
    assert_eq!(issuer.lock().unwrap().refreshes, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_costs_no_login_and_a_rejection_does() {
    let (url, issuer) = issuer(|_| {}).await;
    let home = tempfile::tempdir().unwrap();
    let user: Arc<dyn UserPrompt> = Arc::new(Approved);
    let first = proxy(&url, home.path(), Some(user)).build().unwrap().start().await.unwrap();
    assert_eq!(list(Http(first.address().unwrap())).await.status, 200);
    first.stop().await;
    let restarted = async || proxy(&url, home.path(), None).build().unwrap().start().await.unwrap();
    // The body of an error response may look like a rejection.
    issuer.lock().unwrap().valid = None;
    issuer.lock().unwrap().token_status = Some("503 Service Unavailable");
    let proxy = restarted().await;
    let response = list(Http(proxy.address().unwrap())).await;
    assert_eq!((response.status, response.headers.get("www-authenticate")), (503, None));
    assert!(response.headers.get("retry-after").is_some());
    assert_eq!(response.json().await["error"]["data"]["reason"], "outgoing.not_renewed");
    proxy.stop().await;
    issuer.lock().unwrap().token_status = None;
    let proxy = restarted().await;
    assert_eq!(list(Http(proxy.address().unwrap())).await.status, 200, "the refresh token was kept");
    proxy.stop().await;
    issuer.lock().unwrap().valid = None;
    issuer.lock().unwrap().rejects = true;
    let proxy = restarted().await;
    let response = list(Http(proxy.address().unwrap())).await;
    assert_eq!((response.status, response.headers.get("www-authenticate")), (503, None));
    assert_eq!(response.json().await["error"]["data"]["reason"], "outgoing.login_required");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_logs_in_on_another_device() {
    let provider = IdentityProvider::start().await;
    let server = ProtectedServer::start(|proxy| {
        proxy.oidc_issuer(provider.issuer.clone()).oidc_scopes("openid").oidc_scopes("mcp")
    })
    .await;
    let home = tempfile::tempdir().unwrap();
    let starting = proxy(server.proxy.url(), home.path(), Some(Arc::new(Browser::Elsewhere)))
        .remote_auth_timeout(Duration::from_secs(120))
        .build()
        .unwrap()
        .start();
    let outer = with_timeout("the login", starting).await.unwrap();
    assert_eq!(list(Http(outer.address().unwrap())).await.status, 200);
    assert!(provider.request_count("/token").await > 1, "it polled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_gets_tokens_for_itself_where_nobody_can_log_in() {
    let (url, issuer) = issuer(|metadata| {
        metadata["grant_types_supported"] = json!(["client_credentials"]);
        metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
    })
    .await;
    let home = tempfile::tempdir().unwrap();
    let unnamed = proxy(&url, home.path(), Some(Arc::new(Approved))).build().unwrap().start().await;
    let error = unnamed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("`remote_auth_client_id`"), "{error}");
    let proxy = proxy(&url, home.path(), None).remote_auth_client_id("robot");
    let proxy = proxy.remote_auth_client_secret(Secret::from("hush")).build().unwrap();
    let proxy = proxy.start().await.unwrap();
    assert_eq!(list(Http(proxy.address().unwrap())).await.status, 200);
    // The next token is requested in the same way.
    issuer.lock().unwrap().valid = None;
    assert_eq!(list(Http(proxy.address().unwrap())).await.status, 200);
    let forms = std::mem::take(&mut issuer.lock().unwrap().forms);
    assert_eq!(forms.len(), 2);
    for form in forms {
        for part in
            ["grant_type=client_credentials", "client_id=robot", "client_secret=hush", "resource=http"]
        {
            assert!(form.contains(part), "{part}: {form}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_another_machine_is_pasted() {
    let (url, issuer) = issuer(|_| {}).await;
    let home = Home::without_engine();
    home.set("MCPM_SECRETS_PASSWORD", "a password");
    let options = "--remote-auth --remote-auth-skip-browser --remote-auth-callback-port 0";
    let line = format!(
        "trap : INT; {} proxy far --target-uri {url} {options} --remote-auth-timeout 2m; echo code=$?; stty -a",
        home.program()
    );
    let typing = tokio::task::spawn_blocking(move || {
        let mut typing = PseudoTerminal::spawn(home.command("script"), &line);
        let shown = typing.expect("or paste the URL").to_owned();
        assert!(shown.contains("Log in to 127.0.0.1 within 120 s") && shown.contains(" s left"), "{shown}");
        let parameter =
            |name: &str| shown.split(&format!("{name}=")).nth(1).unwrap().split(['&', '\r']).next();
        let (state, redirect) = (parameter("state").unwrap(), parameter("redirect_uri").unwrap());
        let redirect = redirect.replace("%3A", ":").replace("%2F", "/");
        typing.expect_then_type("", "https://elsewhere.example/?code=x\r");
        typing.expect("this is not the redirect URL");
        typing.expect_then_type(
            "shows after the login\r\n\r\u{1b}[K1",
            &format!("{redirect}?code=canary&state={state}\r"),
        );
        typing.expect_then_type("/mcp", "");
        typing.expect_then_type("far", "\u{3}");
        typing.wait().1
    });
    let shown = with_timeout("the terminal", typing).await.unwrap();
    assert!(shown.contains(" echo ") && !shown.contains("canary"), "{shown}");
    assert_eq!(issuer.lock().unwrap().issued, 1);
}
