//! Checks that event streams are forwarded without delay, and end when their client leaves.

use mcpm_tests::harness::mcp::request;
use serde_json::json;

use super::ForwardFixture;

#[tokio::test(flavor = "multi_thread")]
async fn each_event_is_passed_before_the_next_is_written() {
    for method in ["POST", "GET"] {
        let front = ForwardFixture::of("/").await;
        let asked = match method {
            "POST" => front.http.post("/mcp", request(1, "x", json!({})).to_string()),
            _ => front.http.get("/mcp"),
        };
        let (response, mut connection, _) = front.begin(asked).await;
        connection.begin_events().await;
        let mut response = response.await.unwrap();
        assert!(response.is_events());
        for text in
            [": a comment\n\n", "id: 1\ndata: {}\n\n", "retry: 5\nid: 2\n\n", "data: a\ndata: b\n\n", ":\n\n"]
        {
            connection.chunk(text).await;
            assert_eq!(response.chunk().await.unwrap().unwrap(), text.as_bytes(), "{method}");
        }
        connection.write("0\r\n\r\n").await;
        assert_eq!(response.chunk().await, Ok(None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_stream_is_passed_as_it_comes() {
    let front = ForwardFixture::of("/").await;
    let (response, mut connection, _) =
        front.begin(front.http.get("/mcp").header("Accept-Encoding", "gzip")).await;
    connection
        .write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let mut response = response.await.unwrap();
    connection.chunk("\u{1f}\u{8}x").await;
    assert_eq!(response.chunk().await.unwrap().unwrap(), "\u{1f}\u{8}x".as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_closes_the_connection_to_the_server() {
    // Before the head of the response, with a silent stream, and with an active stream.
    for begun in [false, true] {
        for method in ["POST", "GET"] {
            let front = ForwardFixture::of("/").await;
            let asked = match method {
                "POST" => front.http.post("/mcp", request(1, "x", json!({})).to_string()),
                _ => front.http.get("/mcp"),
            };
            // No timer of the proxy ends either of them within the time limit of this wait.
            if begun {
                let (response, mut connection, _) = front.begin(asked).await;
                connection.begin_events().await;
                connection.chunk("data: {}\n\n").await;
                let mut response = response.await.unwrap();
                response.event().await.unwrap();
                drop(response);
                connection.closed().await;
            } else {
                let client = asked.send_only().await;
                let (mut connection, _) = front.upstream.request().await;
                drop(client);
                connection.closed().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_endpoint_event_points_to_the_proxy() {
    let front = ForwardFixture::of("/sse").await;
    let own = front.upstream.authority();
    for (said, seen) in [
        ("/messages?session_id=1".to_owned(), "/messages?session_id=1"),
        (format!("http://{own}/messages?session_id=1"), "/messages?session_id=1"),
        ("messages".to_owned(), "messages"),
        ("http://elsewhere.example/messages".to_owned(), "http://elsewhere.example/messages"),
    ] {
        let (response, mut connection, received) = front.begin(front.http.get("/sse")).await;
        assert_eq!(received.line, "GET /sse HTTP/1.1");
        connection.begin_events().await;
        let mut response = response.await.unwrap();
        // In two parts, the first of which contains no complete event.
        connection.chunk("event: endpoint\r\n").await;
        connection.chunk(&format!("data: {said}\r\n\r\n")).await;
        let event = response.event().await.unwrap();
        assert_eq!((event.name.as_deref(), event.data.as_str()), (Some("endpoint"), seen), "{said}");
        // A message that looks like an event is a message.
        let other = format!("event: endpoint\ndata: http://{own}/other\n\n");
        connection.chunk(&other).await;
        assert_eq!(response.chunk().await.unwrap().unwrap(), other.as_bytes());
    }
}
