//! Provides a published server behind a proxy that requires tokens, and callers of both eras with tokens.

use mcpm::{
    Proxy, ProxyBuilder, RunningProxy,
    proxy::{RunningStdioProxy, StdioProxy},
    stdio::LocalProcess,
};
use mcpm_tests::harness::{
    http::{Http, Request, Response},
    mcp::{LEGACY, Modern, initialize, notification, request},
    testbed, with_timeout,
};
use serde_json::{Value, json};

/// The server and the proxy.
pub(crate) struct ProtectedServer {
    pub(crate) proxy: RunningProxy,
    _server: RunningStdioProxy,
}

impl ProtectedServer {
    /// Starts both; `change` configures which tokens are accepted. The issuer is on this machine.
    pub(crate) async fn start(change: impl FnOnce(ProxyBuilder) -> ProxyBuilder) -> Self {
        let program = testbed::path("MCPM_TEST_EVERYTHING_SERVER");
        let server = StdioProxy::new("everything", LocalProcess::new(program, [""; 0]));
        let server = with_timeout("the server", server.start(drop)).await.unwrap();
        let proxy = Proxy::builder("served", server.proxy().url()).jwks_allow_private_ip(true);
        let proxy = with_timeout("the proxy", change(proxy).build().unwrap().start()).await.unwrap();
        Self { proxy, _server: server }
    }

    /// A caller of the stateless era.
    pub(crate) fn modern(&self, token: &str) -> Caller {
        Caller { http: Http(self.proxy.address().unwrap()), token: token.to_owned(), session: None }
    }

    /// A caller who has opened a session.
    pub(crate) async fn legacy(&self, token: &str) -> Caller {
        let mut caller = self.modern(token);
        let opens = caller.http.post("/mcp", initialize(LEGACY, json!({})).to_string());
        let opened = caller.with_token(opens).send().await;
        assert_eq!(opened.status, 200);
        caller.session = opened.headers.get("mcp-session-id").map(str::to_owned);
        assert!(caller.session.is_some());
        let ready =
            caller.http.post("/mcp", notification("notifications/initialized", json!({})).to_string());
        assert_eq!(caller.with_token(ready).send().await.status, 202);
        caller
    }

    /// One caller of each era.
    pub(crate) async fn callers(&self, token: &str) -> [Caller; 2] {
        [self.legacy(token).await, self.modern(token)]
    }
}

/// A caller with a token.
pub(crate) struct Caller {
    http: Http,
    token: String,
    session: Option<String>,
}

impl Caller {
    fn with_token(&self, request: Request) -> Request {
        let request = request.header("Authorization", &format!("Bearer {}", self.token));
        match &self.session {
            Some(id) => request.header("Mcp-Session-Id", id).header("MCP-Protocol-Version", LEGACY),
            None => request,
        }
    }

    pub(crate) async fn send(&self, method: &str, params: Value) -> Response {
        let message = match self.session {
            Some(_) => self.http.post("/mcp", request(1, method, params).to_string()),
            None => Modern(self.http).prepare(1, method, params),
        };
        self.with_token(message).send().await
    }

    /// The status, and the result or the reason for the denial.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> (u16, Value) {
        let response = self.send(method, params).await;
        let status = response.status;
        let answer = response.answer().await;
        let reason = &answer["error"]["data"]["reason"];
        (status, if reason.is_null() { answer["result"].clone() } else { reason.clone() })
    }

    /// Returns a field of each item of a list, from all pages.
    pub(crate) async fn listed(&self, method: &str, items: &str, shown: &str) -> Vec<String> {
        let mut all = Vec::new();
        let mut params = json!({});
        loop {
            let (status, result) = self.ask(method, params).await;
            assert_eq!(status, 200, "{result}");
            let page = result[items].as_array().unwrap();
            all.extend(page.iter().map(|item| item[shown].as_str().unwrap().to_owned()));
            match &result["nextCursor"] {
                Value::Null => return all,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
    }

    /// Returns the listed tools.
    pub(crate) async fn tools(&self) -> Vec<String> {
        self.listed("tools/list", "tools", "name").await
    }
}
