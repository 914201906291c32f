//! Starts the identity provider, and proxies that require its tokens.

use std::{path::PathBuf, process::Stdio};

use mcpm::{Proxy, ProxyBuilder, RunningProxy};
use mcpm_tests::{
    harness::{
        http::{Http, Response},
        testbed,
        upstream::{Upstream, UpstreamResponse},
        with_timeout,
    },
    root,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    sync::mpsc,
};

/// The response of the servers in these tests to every request.
pub(crate) const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// The provider of one test.
pub(crate) struct IdentityProvider {
    pub(crate) issuer: String,
    /// The process of the provider over TLS.
    pub(crate) secure: Option<String>,
    http: Http,
    _process: Child,
}

impl IdentityProvider {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts the provider with a certificate and its key.
    pub(crate) async fn start_with(files: &[PathBuf]) -> Self {
        let mut process = Command::new(testbed::path("MCPM_TEST_NODE"))
            .arg(root().join("tests/identity/provider.mjs"))
            .args(files)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = async {
            loop {
                let line = lines.next_line().await.unwrap().unwrap();
                // It may print warnings first.
                if let Ok(Value::Object(said)) = serde_json::from_str(&line) {
                    break said;
                }
            }
        };
        let said = with_timeout("the identity provider", said).await;
        let issuer = said["issuer"].as_str().unwrap().to_owned();
        let http = Http(issuer.strip_prefix("http://").unwrap().parse().unwrap());
        let secure = said.get("secure").and_then(Value::as_str).map(str::to_owned);
        Self { issuer, secure, http, _process: process }
    }

    /// Sends a control command to the provider.
    pub(crate) async fn control(&self, what: Value) -> Value {
        self.http.post("/control", what.to_string()).send().await.json().await
    }

    pub(crate) async fn mode(&self, mode: &str) {
        self.control(json!({ "mode": mode })).await;
    }

    /// Returns how often a path was requested.
    pub(crate) async fn request_count(&self, path: &str) -> u64 {
        self.control(json!({ "seen": path })).await.as_u64().unwrap()
    }

    /// Returns a token that a client got for a resource.
    pub(crate) async fn token(&self, client: &str, resource: &str) -> String {
        let form = format!(
            "grant_type=client_credentials&scope=mcp&client_id={client}&client_secret={client}-secret&resource={resource}"
        );
        let request = self.http.request("POST", "/token").body(form);
        let request = request.header("Content-Type", "application/x-www-form-urlencoded");
        let response = request.send().await.json().await;
        response["access_token"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    /// Returns a token with the claims and the signature that the test wants.
    pub(crate) async fn mint(&self, header: Value, claims: Value, with: &str) -> String {
        let minted =
            self.control(json!({ "mint": { "header": header, "claims": claims }, "with": with })).await;
        minted.as_str().unwrap_or_else(|| panic!("{minted}")).to_owned()
    }
}

/// A proxy that requires tokens, and the requests that its server receives.
pub(crate) struct ProtectedProxy {
    pub(crate) proxy: RunningProxy,
    pub(crate) http: Http,
    /// The heads of the forwarded requests, each as one text.
    pub(crate) forwarded_heads: mpsc::UnboundedReceiver<String>,
}

impl ProtectedProxy {
    /// The resource that its tokens must be for.
    pub(crate) fn resource(&self) -> &str {
        self.proxy.url()
    }

    /// Sends a message with a token.
    pub(crate) async fn send(&self, token: &str) -> Response {
        let request = self.http.post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        request.header("Authorization", &format!("Bearer {token}")).send().await
    }
}

/// Starts a proxy that requires tokens of a provider on this machine, unless `change` configures it differently.
pub(crate) async fn protected_proxy(
    provider: &IdentityProvider,
    change: impl FnOnce(ProxyBuilder) -> ProxyBuilder,
) -> ProtectedProxy {
    let server = Upstream::listen().await;
    let (tell, through) = mpsc::unbounded_channel();
    let uri = server.uri("/mcp");
    let calls = std::sync::atomic::AtomicUsize::new(0);
    server.serve(move |received| {
        // The receiver may be gone.
        let _ = tell.send(format!("{}\n{:?}", received.line, received.headers));
        let opens = String::from_utf8_lossy(&received.body).contains("initialize");
        let number = calls.fetch_add(usize::from(opens), std::sync::atomic::Ordering::Relaxed);
        let session = if opens { format!("Mcp-Session-Id: session-{number}\r\n") } else { String::new() };
        UpstreamResponse {
            status: "200 OK".to_owned(),
            headers: format!("Content-Type: application/json\r\n{session}"),
            body: ANSWER.to_owned(),
        }
    });
    let asks = Proxy::builder("guarded", uri).jwks_allow_private_ip(true);
    let asks = change(asks.oidc_issuer(provider.issuer.clone()));
    let proxy = asks.build().unwrap().start().await.unwrap();
    ProtectedProxy { http: Http(proxy.address().unwrap()), proxy, forwarded_heads: through }
}

/// Returns the reason in a denial.
pub(crate) async fn reason(response: Response) -> Value {
    response.json().await["error"]["data"]["reason"].clone()
}
