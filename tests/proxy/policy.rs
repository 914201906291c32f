//! Tests tool filters and policies: over the deprecated transport, in both eras, with other spellings of a URI, and for
//! paths of an HTTP server other than its endpoint.

use mcpm::{
    options::ProxyMode,
    policy::{AuthorizationSpec, PolicySpec},
    proxy::{Proxy, ProxySpec, StdioProxy},
    stdio::LocalProcess,
};
use mcpm_tests::{
    harness::{
        http::Http,
        mcp::{Modern, Session, initialize, notification, request, tool},
        scripted_server::ScriptedProxy,
        testbed,
        upstream::Upstream,
        with_timeout,
    },
    root,
};
use serde_json::json;

use crate::script;

async fn filtered(mode: ProxyMode, flags: &[&str], tools: &[&str]) -> ScriptedProxy {
    let script = script().await;
    let tools = tools.iter().map(|one| (*one).to_owned()).collect();
    let policy = PolicySpec { tools, ..PolicySpec::default() };
    let spec = ProxySpec { mode, policy, ..ProxySpec::default() };
    let proxy = StdioProxy::new("scripted", script.process(flags)).spec(spec);
    script.serve(proxy).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_the_deprecated_transport_is_filtered() {
    let bridge = filtered(ProxyMode::Sse, &[], &["echo"]).await;
    let mut stream = bridge.http.get("/sse").send().await;
    let endpoint = stream.event().await.unwrap().data;
    let post = async |message: serde_json::Value| {
        // As clients of this transport do, which expect no response here.
        bridge.http.post(&endpoint, message.to_string()).remove_header("Accept").send().await.status
    };
    assert_eq!(post(initialize("2024-11-05", json!({}))).await, 202);
    stream.event().await.unwrap();
    assert_eq!(post(notification("notifications/initialized", json!({}))).await, 202);
    assert_eq!(post(request(1, "tools/list", json!({}))).await, 202);
    let tools = stream.event().await.unwrap().json()["result"]["tools"].clone();
    assert_eq!(tools.as_array().unwrap().len(), 1, "{tools}");
    assert_eq!(tools[0]["name"], "echo");
    // Clients of this transport learn of a denial from the status, because responses come on the stream.
    assert_eq!(post(request(2, "tools/call", tool("regional", json!({})))).await, 400);
    assert_eq!(post(request(3, "tools/call", tool("echo", json!({})))).await, 202);
    assert_eq!(stream.event().await.unwrap().json()["id"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_eras_see_the_same_tools() {
    let bridge = filtered(ProxyMode::StreamableHttp, &["--modern"], &["!regional"]).await;
    let session = Session::open(bridge.http).await;
    let listed = session.ask("list", "tools/list", json!({})).await;
    let names = |answer: &serde_json::Value| {
        let tools = answer["result"]["tools"].as_array().unwrap().clone();
        tools.into_iter().map(|tool| tool["name"].clone()).collect::<Vec<_>>()
    };
    assert!(
        names(&listed).contains(&json!("echo")) && !names(&listed).contains(&json!("regional")),
        "{listed}"
    );
    let modern = Modern(bridge.http).request(7, "tools/list", json!({})).await.answer().await;
    assert_eq!(names(&modern), names(&listed));
    let refused = session.request("c", "tools/call", tool("regional", json!({}))).await;
    assert_eq!(refused.status, 200);
    let refused = refused.answer().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("c"), &json!(-32602)));
    let refused = Modern(bridge.http).request(8, "tools/call", tool("regional", json!({}))).await;
    assert_eq!(refused.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_disable_compression_and_otherwise_nothing_changes() {
    let list =
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[ {"name":"a"},{"name":"b"} ] ,"nextCursor":"x"}}"#;
    let ask = request(1, "tools/list", json!({})).to_string();
    for (tools, encoding, expected) in [
        (None, "gzip", list.to_owned()),
        (Some("b"), "identity", list.replace(r#"[ {"name":"a"},{"name":"b"} ]"#, r#"[{"name":"b"}]"#)),
    ] {
        let upstream = Upstream::listen().await;
        let mut proxy = Proxy::builder("up", upstream.uri("/mcp"));
        if let Some(tools) = tools {
            proxy = proxy.tools(tools);
        }
        let running = with_timeout("the proxy to start", proxy.build().unwrap().start()).await.unwrap();
        let http = Http(running.address().unwrap());
        let asking = http.post("/mcp", ask.clone()).header("accept-encoding", "gzip").send();
        let answering = async {
            let (mut connection, received) = upstream.request().await;
            connection.answer("200 OK", "content-type: application/json\r\n", list).await;
            received
        };
        let (received, response) = tokio::join!(answering, asking);
        assert_eq!(received.headers.get("accept-encoding"), Some(encoding));
        assert_eq!(response.text().await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_is_not_read_by_another_spelling_of_its_uri() {
    let policies = [
        r#"permit(principal, action, resource) when { resource.uri like "file:///handbook/*" };"#,
        "permit(principal, action, resource);",
        r#"forbid(principal, action, resource == Resource::"config://secret");"#,
    ];
    let serve = async |policies: &[&str]| {
        let policies: Vec<String> = policies.iter().map(|one| (*one).to_owned()).collect();
        let authorization = AuthorizationSpec { policies, ..AuthorizationSpec::default() };
        let authorization = (!authorization.policies.is_empty()).then_some(authorization);
        let node = testbed::path("MCPM_TEST_NODE");
        let server = LocalProcess::new(node, [root().join("tests/proxy/files_server.mjs")]);
        let policy = PolicySpec { authorization, ..PolicySpec::default() };
        let spec = ProxySpec { policy, ..ProxySpec::default() };
        let running = StdioProxy::new("files", server).spec(spec).start(|_| {});
        let running = with_timeout("the proxy to start", running).await.unwrap();
        let session = Session::open(Http(running.proxy().address().unwrap())).await;
        (running, session)
    };
    let read = async |session: &Session, uri: &str| {
        let answer = session.request("r", "resources/read", json!({ "uri": uri })).await;
        let status = answer.status;
        (status, answer.answer().await["result"]["contents"][0]["text"].clone())
    };
    let ((_open, open), (_closed, handbook), (_other, all_but_one)) =
        tokio::join!(serve(&[]), serve(&policies[..1]), serve(&policies[1..]));
    for uri in [
        "file:///secret.txt",
        "file:///handbook/../secret.txt",
        "file:///handbook/%2e%2e/secret.txt",
        "file:///handbook/.%2E/secret.txt",
        "file:///handbook/.\t./secret.txt",
        "file:///handbook\\..\\secret.txt",
        "file:///handbook/..%2fsecret.txt/../../secret.txt",
    ] {
        assert_eq!(read(&open, uri).await, (200, json!("hush")), "{uri:?}");
        assert_eq!(read(&handbook, uri).await, (403, json!(null)), "{uri:?}");
    }
    for uri in
        ["config://secret", "CONFIG://secret", " config://secret", "con\tfig://secret", "config://secret\n"]
    {
        assert_eq!(read(&open, uri).await, (200, json!("hush")), "{uri:?}");
        assert_eq!(read(&all_but_one, uri).await, (403, json!(null)), "{uri:?}");
    }
    for uri in ["file:///handbook/a.txt", "file:///handbook/a%20b.txt", "file:///handbook/a b.txt"] {
        assert_eq!(read(&handbook, uri).await, (200, json!("for all")), "{uri:?}");
    }
    let listed = handbook.ask("l", "resources/list", json!({})).await;
    let listed: Vec<_> =
        listed["result"]["resources"].as_array().unwrap().iter().map(|one| &one["uri"]).collect();
    assert_eq!(listed, ["file:///handbook/a.txt", "file:///handbook/a%20b.txt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_block_paths_other_than_the_endpoints() {
    let upstream = Upstream::listen().await;
    let proxy = Proxy::builder("up", upstream.uri("/sse")).tools("echo").build().unwrap();
    let running = with_timeout("the proxy to start", proxy.start()).await.unwrap();
    let http = Http(running.address().unwrap());
    let ping = request(1, "ping", json!({})).to_string();
    let form = "jsonrpc=2.0&method=tools/call&params[name]=hidden";
    let form_type = "application/x-www-form-urlencoded; x=application/json";
    for (asking, status) in [
        (http.request("DELETE", "/api/orders/1"), 403),
        (http.post("/api/orders/1/cancel", ping.clone()), 403),
        (http.post("/messages?session_id=a", ping.clone()), 403),
        (http.post("/sse", form).remove_header("Content-Type").header("Content-Type", form_type), 400),
    ] {
        let response = asking.send().await;
        assert_eq!(response.status, status);
        let answer = response.json().await;
        assert!(answer["error"]["data"]["reason"].as_str().unwrap().starts_with("reach."), "{answer}");
    }
    assert!(upstream.try_accept().await.is_none());
    // The server's metadata, and a message URL that the server has announced.
    let asking = tokio::spawn(http.get("/.well-known/oauth-authorization-server").send());
    let (mut connection, _) = upstream.request().await;
    connection.answer("200 OK", "content-type: application/json\r\n", "{}").await;
    assert_eq!(asking.await.unwrap().text().await, "{}");
    let asking = tokio::spawn(http.get("/sse").send());
    let received = connection.request().await;
    assert_eq!(received.line, "GET /sse HTTP/1.1");
    connection.begin_events().await;
    connection.chunk("event: endpoint\ndata: /messages?session_id=a\n\n").await;
    let mut stream = asking.await.unwrap();
    assert_eq!(stream.event().await.unwrap().data, "/messages?session_id=a");
    let asking = tokio::spawn(http.post("/messages?session_id=a", ping).send());
    let (mut posted, received) = upstream.request().await;
    assert_eq!(received.line, "POST /messages?session_id=a HTTP/1.1");
    posted.answer("202 Accepted", "", "").await;
    assert_eq!(asking.await.unwrap().status, 202);
}
