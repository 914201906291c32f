//! Checks that the headers of stateless requests must match the body.

use mcpm_tests::harness::{
    http::{Http, Request},
    mcp::{MODERN, Modern, Session, initialize, request, tool},
    with_timeout,
};
use serde_json::{Value, json};

use crate::{legacy, modern, script};

/// Sends a request, and returns the status and the error code.
async fn refused(request: Request) -> (u16, Value) {
    let response = request.send().await;
    (response.status, response.json().await["error"]["code"].clone())
}

fn call(http: Http, name: &str) -> Request {
    Modern(http).prepare("h", "tools/call", tool(name, json!({})))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_contradicts_the_body_is_refused() {
    let mut bridge = modern().await;
    let call = || call(bridge.http, "echo");
    bridge.process.drain_received().await;
    for (what, request) in [
        ("version missing", call().remove_header("MCP-Protocol-Version")),
        ("version", call().header("MCP-Protocol-Version", "2099-01-01")),
        ("method missing", call().remove_header("Mcp-Method")),
        ("method", call().header("Mcp-Method", "tools/list")),
        ("method in capitals", call().header("Mcp-Method", "TOOLS/CALL")),
        ("name missing", call().remove_header("Mcp-Name")),
        ("name", call().header("Mcp-Name", "other")),
        ("name in capitals", call().header("Mcp-Name", "Echo")),
        ("name twice", call().add_header("Mcp-Name", "echo")),
        ("method twice", call().add_header("mcp-method", "tools/call")),
        ("bad padding", call().header("Mcp-Name", "=?base64?ZWNobw?=")),
        ("bad characters", call().header("Mcp-Name", "=?base64?ZWN!bw==?=")),
        ("marker in capitals", call().header("Mcp-Name", "=?BASE64?ZWNobw==?=")),
        ("other name in base64", call().header("Mcp-Name", "=?base64?b3RoZXI=?=")),
    ] {
        assert_eq!(refused(request).await, (400, json!(-32020)), "{what}");
    }
    let seen = bridge.process.drain_received().await;
    assert!(seen.is_empty(), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_found_in_any_case_and_decoded() {
    let bridge = modern().await;
    let plain = || call(bridge.http, "echo");
    assert_eq!(plain().header("Mcp-Name", "=?base64?ZWNobw==?=").send().await.status, 200);
    assert_eq!(plain().remove_header("Mcp-Name").header("MCP-NAME", "  echo \t").send().await.status, 200);
    let wide = call(bridge.http, "工具 👩‍💻").header("Mcp-Name", "=?base64?5bel5YW3IPCfkanigI3wn5K7?=");
    let response = wide.send().await;
    assert_eq!(
        (response.status, response.json().await["error"]["message"].clone()),
        (400, json!("no such tool"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_argument_that_is_mirrored_is_checked() {
    let bridge = modern().await;
    let call = |region: Value| {
        Modern(bridge.http).prepare(1, "tools/call", tool("regional", json!({ "region": region })))
    };
    assert_eq!(call(json!("eu")).header("Mcp-Param-Region", "eu").send().await.status, 200);
    assert_eq!(call(json!("eu")).header("mcp-param-REGION", "=?base64?ZXU=?=").send().await.status, 200);
    assert_eq!(call(Value::Null).send().await.status, 200);
    for (what, request) in [
        ("missing", call(json!("eu"))),
        ("other", call(json!("eu")).header("Mcp-Param-Region", "us")),
        ("too much", call(Value::Null).header("Mcp-Param-Region", "eu")),
        ("broken", call(json!("eu")).header("Mcp-Param-Region", "=?base64?Z?=")),
    ] {
        assert_eq!(refused(request).await, (400, json!(-32020)), "{what}");
    }
    // A header that no tool names is not checked.
    let unknown = call(json!("eu")).header("Mcp-Param-Region", "eu").header("Mcp-Param-Other", "x");
    assert_eq!(unknown.send().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_request_without_its_meta_is_refused() {
    let bridge = modern().await;
    let lacking = |field: &str| {
        let mut params = Modern::params(tool("echo", json!({})));
        params["_meta"].as_object_mut().unwrap().remove(&format!("io.modelcontextprotocol/{field}"));
        let body = request("m", "tools/call", params).to_string();
        call(bridge.http, "echo").body(body)
    };
    assert_eq!(refused(lacking("protocolVersion")).await, (400, json!(-32602)));
    assert_eq!(refused(lacking("clientCapabilities")).await, (400, json!(-32602)));
    let bare =
        call(bridge.http, "echo").body(request("m", "tools/call", tool("echo", json!({}))).to_string());
    assert_eq!(refused(bare).await, (400, json!(-32602)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_request_to_a_session_server_gets_a_fallback_error() {
    let mut bridge = legacy().await;
    bridge.process.drain_received().await;
    assert_eq!(refused(call(bridge.http, "echo")).await, (404, json!(-32601)));
    let discover = Modern(bridge.http).prepare("d", "server/discover", json!({}));
    assert_eq!(refused(discover).await, (404, json!(-32601)));
    assert!(bridge.process.drain_received().await.is_empty());
    let session = Session::open(bridge.http).await;
    assert_eq!(session.call(1, "echo", json!({})).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_server_choose_the_status_in_the_stateless_era_only() {
    let bridge = modern().await;
    let client = Modern(bridge.http);
    for (code, status) in
        [(-32601, 404), (-32602, 400), (-32020, 400), (-32021, 400), (-32022, 400), (-5, 200)]
    {
        let response = client.request("e", "tools/call", tool("error", json!({ "code": code }))).await;
        assert_eq!(response.status, status, "{code}");
        let answer = response.json().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("e"), &json!(code)));
    }
    let session = Session::open(bridge.http).await;
    let response = session.request("e", "tools/call", tool("error", json!({ "code": -32601 }))).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.json().await["error"]["code"], -32601);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_eras_are_served_side_by_side() {
    let bridge = modern().await;
    let client = Modern(bridge.http);
    let session = Session::open(bridge.http).await;
    for id in 0..3 {
        assert_eq!(client.call(id, "echo", json!({ "era": "new" })).await["result"]["echo"]["era"], "new");
        assert_eq!(session.call(id, "echo", json!({ "era": "old" })).await["result"]["echo"]["era"], "old");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_methods_are_not_served_in_the_stateless_era() {
    let bridge = modern().await;
    let client = Modern(bridge.http);
    for method in ["ping", "logging/setLevel", "resources/subscribe", "initialize"] {
        let request = client.prepare("o", method, json!({}));
        assert_eq!(refused(request).await, (404, json!(-32601)), "{method}");
    }
    for method in ["GET", "DELETE"] {
        let request = bridge.http.request(method, "/mcp").header("MCP-Protocol-Version", MODERN);
        assert_eq!(request.send().await.status, 405, "{method}");
    }
    // Headers that belong to sessions are neither read nor sent.
    let request = call(bridge.http, "echo").header("Mcp-Session-Id", "x").header("Last-Event-ID", "1.1");
    let response = request.send().await;
    assert_eq!((response.status, response.headers.get("mcp-session-id")), (200, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_sessions_says_so_to_initialize() {
    let bridge = script().await.start(&["--modern-only"]).await;
    let body = initialize("2025-11-25", json!({})).to_string();
    let response = bridge.http.post("/mcp", body).send().await;
    assert_eq!((response.status, response.headers.get("mcp-session-id")), (400, None));
    let answer = response.json().await;
    assert_eq!(answer["error"]["code"], -32022);
    assert_eq!(answer["error"]["data"]["supported"], json!(["2026-07-28"]));
    assert_eq!(Modern(bridge.http).call(1, "echo", json!({})).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_tool_list_delays_calls_briefly() {
    let mut bridge = script().await.start(&["--modern", "--hold-tools"]).await;
    let client = Modern(bridge.http);
    let calls = (0..5).map(|id| client.call(id, "echo", json!({})));
    let answers = with_timeout("the calls without the list", futures_util::future::join_all(calls)).await;
    assert!(answers.iter().enumerate().all(|(id, answer)| answer["id"] == id), "{answers:?}");
    let seen = bridge.process.drain_received().await;
    let lists = seen.iter().filter(|message| message["method"] == "tools/list").count();
    assert_eq!(lists, 1, "one asks for all, and not again at once");
}
