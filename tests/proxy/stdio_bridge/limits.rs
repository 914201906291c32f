//! Tests messages that the stdio bridge does not send or forward: invalid, late, cancelled or oversized messages.

use std::time::Duration;

use mcpm::{ErrorKind, StdioBridge, options::ProxyMode, stdio_bridge::StdioBridgeBuilder};
use mcpm_tests::harness::{
    mcp::{notification, request},
    upstream::Upstream,
};
use serde_json::{Value, json};

use super::{Client, JSON, end_session, expect, handshake, result};

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_cannot_be_sent_ends_the_request_of_the_server() {
    let upstream = Upstream::listen().await;
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/mcp")));
    // The ids of the client and of the server are independent.
    client.send(request(9, "ping", json!({}))).await;
    let (mut pinged, _) = expect(&upstream, "ping").await;
    for text in [
        format!(r#"{{"jsonrpc":"2.0","id":9,"result":"{}"}}"#, "x".repeat(33 << 20)),
        r#"{"jsonrpc":"1.0","id":9,"result":{}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":9,"result":{"#.to_owned(),
    ] {
        client.write(&format!("{text}\n")).await;
        let (mut connection, received) = expect(&upstream, "POST").await;
        let sent: Value = serde_json::from_slice(&received.body).unwrap();
        assert!(sent["id"] == 9 && sent["error"]["message"].is_string(), "{sent}");
        connection.answer("202 Accepted", "Connection: close\r\n", "").await;
        let answer = client.receive().await;
        assert!(answer["id"].is_null() && answer["error"].is_object(), "{answer}");
    }
    pinged.answer("200 OK", JSON, &result(json!(9), json!({}))).await;
    assert_eq!(client.receive().await, json!({ "jsonrpc": "2.0", "id": 9, "result": {} }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_notification_delays_neither_responses_nor_reading() {
    let upstream = Upstream::listen().await;
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/mcp")));
    client.send(notification("slow", json!({}))).await;
    let (mut slow, _) = expect(&upstream, "slow").await;
    // More messages than can wait.
    for _ in 0..300 {
        client.send(notification("waiting", json!({}))).await;
    }
    client.send(json!({ "jsonrpc": "2.0", "id": "s", "result": {} })).await;
    let (mut connection, received) = expect(&upstream, "POST").await;
    assert_eq!(serde_json::from_slice::<Value>(&received.body).unwrap()["id"], "s");
    connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    client.send(request(1, "initialize", json!({}))).await;
    let rejected = client.receive().await;
    assert!(rejected["id"] == 1 && rejected["error"].is_object(), "{rejected}");
    let finishing = tokio::spawn(client.finish());
    slow.answer("202 Accepted", "Connection: close\r\n", "").await;
    for _ in 0..256 {
        let (mut connection, _) = expect(&upstream, "waiting").await;
        connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    }
    let (last, outcome) = finishing.await.unwrap();
    assert!(last.is_empty() && outcome.is_ok(), "{last:?}, {outcome:?}");
    assert!(upstream.try_accept().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_cancelled_before_it_is_sent_is_not_sent() {
    let upstream = Upstream::listen().await;
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/mcp")));
    handshake(&mut client, &upstream).await;
    client.send(notification("slow", json!({}))).await;
    let (mut slow, _) = expect(&upstream, "slow").await;
    client.send(request(1, "tools/list", json!({}))).await;
    client.send(notification("notifications/cancelled", json!({ "requestId": 1 }))).await;
    client.send(request(2, "ping", json!({}))).await;
    // The bridge has read everything before this.
    client.write("{\n").await;
    assert_eq!(client.receive().await["error"]["code"], -32700);
    slow.answer("202 Accepted", "Connection: close\r\n", "").await;
    let (mut connection, _) = expect(&upstream, "ping").await;
    connection.answer("200 OK", JSON, &result(json!(2), json!({}))).await;
    assert_eq!(client.receive().await["id"], 2);
    // The server is notified of the cancellation of a request that it has, to which it may still respond.
    client.send(request(3, "tools/list", json!({}))).await;
    let (mut listed, _) = expect(&upstream, "tools/list").await;
    client.send(notification("notifications/cancelled", json!({ "requestId": 3 }))).await;
    let (mut connection, _) = expect(&upstream, "notifications/cancelled").await;
    connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    listed.answer("200 OK", JSON, &result(json!(3), json!({}))).await;
    assert_eq!(client.receive().await["id"], 3);
    end_session(client, &upstream, "one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn input_that_does_not_fit_in_memory_is_rejected() {
    let upstream = Upstream::listen().await;
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/mcp")));
    let large = |id: u64| request(id, "ping", json!({ "x": "x".repeat(30 << 20) }));
    client.send(large(1)).await;
    let (mut connection, _) = expect(&upstream, "ping").await;
    client.send(large(2)).await;
    let rejected = client.receive().await;
    assert_eq!(rejected["id"], 2, "{rejected}");
    assert_eq!(
        rejected["error"]["message"],
        "the memory budget has no room for the message; try again later"
    );
    connection.answer("200 OK", JSON, &result(json!(1), json!({}))).await;
    assert_eq!(client.receive().await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_redirects_on_the_same_server_are_followed() {
    let (upstream, other) = (Upstream::listen().await, Upstream::listen().await);
    let bridge = StdioBridge::builder(upstream.uri("/mcp")).header(("Authorization", "Bearer hush"));
    let mut client = Client::start(bridge);
    for (status, location) in [
        ("307 Temporary Redirect", "/v2/mcp?a=1".to_owned()),
        ("308 Permanent Redirect", upstream.uri("/v2/mcp?a=1")),
    ] {
        client.send(request(1, "ping", json!({ "a": 1 }))).await;
        let (mut connection, first) = expect(&upstream, "ping").await;
        connection.answer(status, &format!("Connection: close\r\nLocation: {location}\r\n"), "").await;
        let (mut connection, received) = expect(&upstream, "ping").await;
        assert_eq!(received.line, "POST /v2/mcp?a=1 HTTP/1.1");
        assert_eq!(received.headers.get("authorization"), Some("Bearer hush"));
        assert_eq!(received.body, first.body);
        connection.answer("200 OK", JSON, &result(json!(1), json!({}))).await;
        assert_eq!(client.receive().await["result"], json!({}));
    }
    let elsewhere = format!("Connection: close\r\nLocation: {}\r\n", other.uri("/mcp"));
    client.send(request(2, "ping", json!({}))).await;
    let (mut connection, _) = expect(&upstream, "ping").await;
    connection.answer("307 Temporary Redirect", &elsewhere, "").await;
    assert!(client.receive().await["error"]["message"].as_str().unwrap().contains("HTTP 307"));
    assert!(other.try_accept().await.is_none());
    client.send(request(3, "ping", json!({}))).await;
    for _ in 0..4 {
        let (mut connection, _) = expect(&upstream, "ping").await;
        let back = "Connection: close\r\nLocation: /mcp\r\n";
        connection.answer("307 Temporary Redirect", back, "").await;
    }
    let answer = client.receive().await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("more than 3 times"), "{answer}");
}

#[test]
fn contradictory_headers_are_rejected() {
    let builder = || StdioBridge::builder("https://mcp.example/mcp").header(("Authorization", "Bearer a"));
    let error = |builder: StdioBridgeBuilder| {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        error.to_string()
    };
    let twice = error(builder().header(("authorization", "Bearer b")));
    assert!(twice.contains("twice"), "{twice}");
    let stored = builder().set("remote_forward_headers_secret", "AUTHORIZATION=name").unwrap();
    assert!(error(stored).contains("twice"));
    let both = error(builder().set("remote_auth", "true").unwrap());
    assert!(both.contains("cannot be combined"), "{both}");
    assert!(builder().set("port", "1").is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_gets_one_response_over_the_deprecated_transport() {
    let upstream = Upstream::listen().await;
    let bridge = StdioBridge::builder(upstream.uri("/sse")).mode(ProxyMode::Sse);
    let mut client = Client::start(bridge.response_timeout(Duration::from_millis(100)));
    client.send(request(1, "ping", json!({}))).await;
    let (mut stream, _) = expect(&upstream, "GET").await;
    stream.begin_events().await;
    stream.chunk("event: endpoint\ndata: messages?s=1\n\n").await;
    let (mut connection, _) = expect(&upstream, "ping").await;
    connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    assert!(client.receive().await["error"].is_object());
    let event = |id: u64| format!("data: {}\n\n", result(json!(id), json!({})));
    stream.chunk(&event(1)).await;
    client.send(request(2, "ping", json!({}))).await;
    let (mut connection, _) = expect(&upstream, "ping").await;
    stream.chunk(&event(2).repeat(2)).await;
    connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    assert_eq!(client.receive().await, json!({ "jsonrpc": "2.0", "id": 2, "result": {} }));
    stream.chunk(&format!("data: {}\n\n", notification("last", json!({})))).await;
    assert_eq!(client.receive().await["method"], "last");
}
