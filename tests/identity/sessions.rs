//! Checks that a session belongs to the caller who opened it: other callers with its id and their own token get 404.

use mcpm::{Proxy, options::ProxyMode, proxy::StdioProxy, stdio::LocalProcess};
use mcpm_tests::harness::{
    http::{Http, Request},
    mcp::{LEGACY, initialize, request},
    with_timeout,
};
use serde_json::json;

use crate::provider::{IdentityProvider, protected_proxy, reason};

fn with(request: Request, token: &str) -> Request {
    request.header("Authorization", &format!("Bearer {token}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_is_not_found() {
    let provider = IdentityProvider::start().await;
    let mut guarded = protected_proxy(&provider, |proxy| proxy).await;
    let one = provider.token("robot", guarded.resource()).await;
    let again = provider.token("robot", guarded.resource()).await;
    let other = provider.token("other", guarded.resource()).await;
    let opened = guarded.http.post("/mcp", initialize(LEGACY, json!({})).to_string());
    let opened = with(opened, &one).send().await;
    let id = opened.headers.get("mcp-session-id").unwrap().to_owned();
    guarded.forwarded_heads.recv().await.unwrap();
    let mut ask = async |method: &str, id: &str, token: &str| {
        let request = guarded.http.request(method, "/mcp").header("Mcp-Session-Id", id);
        let request = if method == "POST" { request.body("{}") } else { request };
        let response = with(request, token).send().await;
        let came_through = guarded.forwarded_heads.try_recv().is_ok();
        assert_eq!(came_through, response.status == 200, "{method} {id}");
        response
    };
    for method in ["POST", "GET"] {
        assert_eq!(ask(method, &id, &one).await.status, 200, "{method}");
        assert_eq!(ask(method, &id, &again).await.status, 200, "{method}: a new token of the same principal");
    }
    for method in ["POST", "GET", "DELETE"] {
        let response = ask(method, &id, &other).await;
        let unknown = ask(method, "never-was", &one).await;
        assert_eq!((response.status, unknown.status), (404, 404), "{method}");
        let (mut response, mut unknown) = (response.json().await, unknown.json().await);
        for said in [&mut response, &mut unknown] {
            // Each denial has a different id.
            assert!(said["error"]["data"]["refusal"].take().is_string());
        }
        assert_eq!(response, unknown, "one that is another's looks like one that never was");
        assert_eq!(response["error"]["code"], -32001);
    }
    let twice =
        guarded.http.post("/mcp", "{}").add_header("Mcp-Session-Id", &id).add_header("Mcp-Session-Id", "x");
    let twice = with(twice, &one).send().await;
    assert_eq!((twice.status, reason(twice).await), (404, json!("session.unknown")));
    assert_eq!(guarded.http.request("DELETE", "/mcp").header("Mcp-Session-Id", &id).send().await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_the_deprecated_transport_is_its_openers_too() {
    let provider = IdentityProvider::start().await;
    let server = LocalProcess::new(env!("CARGO_BIN_EXE_scripted-server"), [""; 0]);
    let server = StdioProxy::new("server", server).mode(ProxyMode::Sse);
    let server = with_timeout("the server", server.start(drop)).await.unwrap();
    let target = server.proxy().url().strip_suffix("/sse").unwrap().to_owned();
    let proxy = Proxy::builder("guarded", target).jwks_allow_private_ip(true);
    let proxy = proxy.oidc_issuer(provider.issuer.clone()).resource_url("http://sse.example/sse");
    let proxy = proxy.build().unwrap().start().await.unwrap();
    let http = Http(proxy.address().unwrap());
    let one = provider.token("robot", "http://sse.example/sse").await;
    let other = provider.token("other", "http://sse.example/sse").await;
    let mut stream = with(http.get("/sse"), &one).send().await;
    assert_eq!(stream.status, 200);
    let place = stream.event().await.unwrap().data;
    let post = |token: &str, place: &str| {
        let request = http.post(place, initialize(LEGACY, json!({})).to_string());
        with(request, token).send()
    };
    let refused = post(&other, &place).await;
    assert_eq!((refused.status, reason(refused).await), (404, json!("session.unknown")));
    assert_eq!(post(&other, &format!("{place}&x=1")).await.status, 404);
    for name in ["sessionId=", "SESSION_ID=", "session_id[]="] {
        assert_eq!(post(&other, &place.replace("session_id=", name)).await.status, 404, "{name}");
    }
    // A caller can resume only their own stream, and not another caller's.
    let mut second = with(http.get("/sse"), &other).send().await;
    let own = second.event().await.unwrap().data;
    assert_eq!(post(&other, &own).await.status, 202);
    assert_eq!(post(&other, &place).await.status, 404);
    assert_eq!(post(&one, &place).await.status, 202);
    assert_eq!(stream.message().await.unwrap()["result"]["protocolVersion"], LEGACY);
    let call = with(http.post(&place, request(1, "tools/list", json!({})).to_string()), &one).send().await;
    assert_eq!(call.status, 202);
    assert!(stream.message().await.unwrap()["result"]["tools"].is_array());
    proxy.stop().await;
}
