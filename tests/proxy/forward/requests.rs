//! Tests single requests and responses.

use mcpm_tests::harness::mcp::request;
use serde_json::json;

use super::ForwardFixture;

const BODY: &str =
    "{ \"id\":1.0,\"jsonrpc\" : \"2.0\",\n\"unknown\":[1E+2,-0,\"\\u00e9\\/　👩‍👩‍👧‍👦\"],\"method\":\"x\"}";

#[tokio::test(flavor = "multi_thread")]
async fn bodies_pass_byte_for_byte_both_ways() {
    let front = ForwardFixture::of("/").await;
    let (received, response) = front.exchange(front.http.post("/mcp", BODY), "200 OK", "", BODY).await;
    assert_eq!((received.line.as_str(), received.body.as_slice()), ("POST /mcp HTTP/1.1", BODY.as_bytes()));
    assert_eq!((response.status, response.text().await.as_str()), (200, BODY));
    for size in [200 << 10, 5 << 20] {
        let text = "x".repeat(size);
        let (received, response) =
            front.exchange(front.http.post("/mcp", text.clone()), "200 OK", "", &text).await;
        assert_eq!(received.headers.get("content-length"), Some(size.to_string().as_str()));
        assert!(received.body == text.as_bytes() && response.text().await == text);
    }
    let chunked = front.http.post("/mcp", BODY).chunked();
    let (received, _) = front.exchange(chunked, "200 OK", "", "").await;
    assert!(String::from_utf8_lossy(&received.body).contains(BODY));
    let raw = [b'{', 0xff, 0x00, b'}'];
    let (received, _) = front.exchange(front.http.post("/mcp", raw), "200 OK", "", "").await;
    assert_eq!(received.body, raw, "a forwarding proxy is no judge of bodies");
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_pass_both_ways() {
    let front = ForwardFixture::of("/").await;
    let there = [
        ("Mcp-Session-Id", "s-1!~"),
        ("MCP-Protocol-Version", "2025-11-25"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "=?base64?ZWNobw==?="),
        ("Mcp-Param-Region", "eu"),
        ("Last-Event-ID", "3_7:x"),
        ("Authorization", "Bearer t"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", "a=b"),
        ("baggage", "k=v"),
        ("Accept", "application/json, text/event-stream"),
        ("Accept-Encoding", "gzip"),
        ("User-Agent", "agent/1"),
        ("X-Own", "  kept  "),
    ];
    let mut asked = front.http.post("/mcp", BODY);
    for (name, value) in there {
        asked = asked.header(name, value);
    }
    asked = asked.add_header("X-Twice", "1").add_header("X-Twice", "2");
    let back = [
        ("Mcp-Session-Id", "s-2"),
        ("WWW-Authenticate", "Bearer resource_metadata=\"http://x/\""),
        ("Content-Type", "application/json; charset=utf-8"),
        ("Retry-After", "7"),
        ("X-Accel-Buffering", "no"),
        ("Set-Cookie", "a=b"),
        ("Date", "Mon, 01 Jan 2024 00:00:00 GMT"),
    ];
    let lines: String = back.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let (received, response) = front.exchange(asked, "200 OK", &lines, "{}").await;
    for (name, value) in there {
        assert_eq!(received.headers.get(name), Some(value.trim()), "{name}");
    }
    let twice: Vec<_> = received
        .headers
        .0
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("x-twice"))
        .map(|(_, value)| value.as_str())
        .collect();
    assert_eq!(twice, ["1", "2"]);
    assert_eq!(received.headers.get("host"), Some(front.upstream.authority().as_str()));
    for (name, value) in back {
        assert_eq!(response.headers.get(name), Some(value), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_concerns_one_connection_stays_on_it() {
    let front = ForwardFixture::of("/").await;
    let asked = front
        .http
        .post("/mcp", BODY)
        .header("Connection", "keep-alive, X-One")
        .add_header("Connection", "x-two")
        .header("X-One", "1")
        .header("X-Two", "2")
        .header("X-Three", "3")
        .header("Keep-Alive", "timeout=5")
        .header("Proxy-Connection", "keep-alive")
        .header("Proxy-Authorization", "Basic eDp5")
        .header("TE", "trailers")
        .header("Upgrade", "h2c");
    let back = "Connection: x-back\r\nConnection: x-more\r\nX-Back: 1\r\nX-More: 1\r\nX-Stays: 1\r\nKeep-Alive: timeout=9\r\n";
    let (received, response) = front.exchange(asked, "200 OK", back, "{}").await;
    for name in [
        "connection",
        "x-one",
        "x-two",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "upgrade",
    ] {
        assert_eq!(received.headers.get(name), None, "{name}");
    }
    assert_eq!(received.headers.get("x-three"), Some("3"));
    for name in ["x-back", "x-more", "keep-alive", "connection"] {
        assert_eq!(response.headers.get(name), None, "{name}");
    }
    assert_eq!(response.headers.get("x-stays"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_trusted_proxy_says_where_a_request_came_from() {
    let front = ForwardFixture::of("/").await;
    let names = [
        "Forwarded",
        "X-Forwarded-For",
        "X-Forwarded-Host",
        "X-Forwarded-Port",
        "X-Forwarded-Prefix",
        "X-Forwarded-Proto",
    ];
    let mut asked = front.http.post("/mcp", BODY);
    for name in names {
        asked = asked.header(name, "evil");
    }
    let (received, _) = front.exchange(asked, "200 OK", "", "{}").await;
    for name in names {
        assert_eq!(received.headers.get(name), None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn underscore_variants_of_reserved_headers_are_not_forwarded() {
    let front = ForwardFixture::of("/").await;
    let disguised = ["Mcp_Session_Id", "Mcp-Session_Id", "X_Forwarded_For", "Proxy_Authorization"];
    let harmless = ["X_Other", "Mcp-Param-the_region"];
    let mut asked = front.http.post("/mcp", BODY);
    for name in harmless {
        asked = asked.header(name, "1");
    }
    for name in disguised {
        asked = asked.header(name, "evil");
    }
    let (received, _) = front.exchange(asked, "200 OK", "", "{}").await;
    for name in disguised {
        assert_eq!(received.headers.get(name), None, "{name}");
    }
    for name in harmless {
        assert_eq!(received.headers.get(name), Some("1"), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_that_are_about_the_connection_are_not_forwarded() {
    let front = ForwardFixture::of("/").await;
    for (method, target) in [("TRACE", "/mcp"), ("CONNECT", "elsewhere.example:443")] {
        let response = front.http.request(method, target).send().await;
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.headers.get("allow"), Some("GET, HEAD, POST, DELETE, OPTIONS"), "{method}");
    }
    assert!(front.upstream.try_accept().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_pass_unchanged() {
    let front = ForwardFixture::of("/").await;
    for (status, body) in [
        ("202 Accepted", ""),
        ("400 Bad Request", "{\"error\":1}"),
        ("401 Unauthorized", "no"),
        ("403 Forbidden", ""),
        ("404 Not Found", "{}"),
        ("405 Method Not Allowed", ""),
        ("429 Too Many Requests", ""),
        ("500 Internal Server Error", "x"),
        ("503 Service Unavailable", "y"),
        ("307 Temporary Redirect", ""),
    ] {
        let (_, response) =
            front.exchange(front.http.post("/mcp", BODY), status, "Location: /else\r\n", body).await;
        assert_eq!(response.status.to_string(), status[..3]);
        assert_eq!(response.text().await, body, "{status}");
    }
    let delete = front.http.request("DELETE", "/mcp");
    let (received, response) = front.exchange(delete, "204 No Content", "", "").await;
    assert_eq!((received.line.as_str(), response.status), ("DELETE /mcp HTTP/1.1", 204));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_and_a_query_of_the_target_are_not_doubled() {
    for (target, asked, sent) in [
        ("/", "/mcp", "/mcp"),
        ("/", "/a/b?c=%20d&e", "/a/b?c=%20d&e"),
        ("/v1/mcp", "/mcp", "/v1/mcp"),
        ("/v1/mcp", "/v1/mcp?a=1", "/v1/mcp?a=1"),
        ("/v1/mcp?key=k", "/mcp?a=1", "/v1/mcp?key=k&a=1"),
        ("/mcp", "/mcp", "/mcp"),
        ("/sse", "/messages?session_id=1", "/messages?session_id=1"),
        ("/v1/mcp", "http://elsewhere.example/mcp", "/v1/mcp"),
    ] {
        let front = ForwardFixture::of(target).await;
        let (received, _) = front.exchange(front.http.post(asked, BODY), "200 OK", "", "{}").await;
        assert_eq!(received.line, format!("POST {sent} HTTP/1.1"), "{target} {asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_used_again() {
    let front = ForwardFixture::of("/").await;
    let post = |id: u8| front.http.post("/mcp", request(id, "x", json!({})).to_string());
    let (response, mut connection, _) = front.begin(post(1)).await;
    connection.answer("200 OK", "", "{}").await;
    assert_eq!(response.await.unwrap().text().await, "{}");
    let response = tokio::spawn(post(2).send());
    let received = connection.request().await;
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&received.body).unwrap()["id"], 2);
    connection.answer("200 OK", "", "{}").await;
    assert_eq!(response.await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_beyond_the_limit_are_413() {
    let front = ForwardFixture::of("/").await;
    let body = format!(r#"{{"id":1,"x":"{}"}}"#, "x".repeat(16 << 20));
    let response = front.http.post("/mcp", body.clone()).send().await;
    assert_eq!(response.status, 413);
    assert_eq!(response.json().await["id"], 1);
    assert!(front.upstream.try_accept().await.is_none());
    // If a body does not announce its size, the server receives a part of it and no end.
    let response = tokio::spawn(front.http.post("/mcp", body).chunked().send());
    let mut connection = front.upstream.accept().await;
    connection.closed().await;
    let response = response.await.unwrap();
    assert_eq!(response.status, 413);
    assert_eq!(response.json().await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_on_its_way_is_its_clients_fault() {
    let front = ForwardFixture::of("/").await;
    let begun = format!(r#"{{"id":"b","x":"{}"#, "x".repeat(70 << 10));
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    let text = format!("{head}{:x}\r\n{begun}\r\nzz\r\n", begun.len());
    let http = front.http;
    let response = tokio::spawn(async move { http.raw(text.as_bytes()).await });
    let mut connection = front.upstream.accept().await;
    connection.closed().await;
    let response = response.await.unwrap();
    assert_eq!(response.status, 400);
    let answer = response.json().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&"b".into(), &(-32700).into()));
}
