//! Checks that each request to a faulty server gets a response, which may break off, and that, after a lost connection,
//! the proxy sends a request again only if no part of it was sent, or if it is idempotent and has no body.

use std::time::Duration;

use mcpm::proxy::Proxy;
use mcpm_tests::harness::{
    http::{BodyTruncated, Http, Response},
    mcp::request,
    upstream::Upstream,
    with_timeout,
};
use serde_json::{Value, json};

use super::ForwardFixture;

fn body(id: Value) -> String {
    request(id, "tools/call", json!({ "name": "x" })).to_string()
}

async fn error(response: Response, status: u16, id: Value) {
    assert_eq!(response.status, status);
    let retry = response.headers.get("retry-after").is_some();
    assert_eq!(retry, status == 503, "only what was not sent may be sent again");
    let answer = response.json().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32603)), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_503_with_the_id_of_the_request() {
    let gone = Upstream::listen().await;
    let uri = gone.uri("/");
    drop(gone);
    let proxy = Proxy::builder("gone", uri).build().unwrap();
    let running = with_timeout("the proxy to start", proxy.start()).await.unwrap();
    let http = Http(running.address().unwrap());
    for id in [json!(1), json!("1")] {
        error(http.post("/mcp", body(id.clone())).send().await, 503, id).await;
    }
    // In a large body, the id is found only if it is near the beginning.
    let large = |first: &str| format!(r#"{{{first}"params":"{}"}}"#, "x".repeat(1 << 20));
    error(http.post("/mcp", large(r#""id":"early","#)).send().await, 503, json!("early")).await;
    error(http.post("/mcp", large(r#""id":7,"#)).chunked().send().await, 503, json!(7)).await;
    error(http.post("/mcp", large("")).send().await, 503, Value::Null).await;
    error(http.get("/mcp").send().await, 503, Value::Null).await;
    let health = http.get("/health").send().await;
    assert_eq!(health.status, 503);
    assert_eq!(health.json().await["mcp"]["available"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_lost_before_the_response_is_502_without_retry() {
    for reset in [false, true] {
        let front = ForwardFixture::of("/").await;
        let (response, connection, _) = front.begin(front.http.post("/mcp", body(json!("b")))).await;
        if reset {
            connection.reset();
        } else {
            drop(connection);
        }
        error(response.await.unwrap(), 502, json!("b")).await;
        assert!(front.upstream.try_accept().await.is_none(), "the request was sent twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_on_a_connection_that_breaks_off_is_not_sent_again() {
    let front = ForwardFixture::of("/").await;
    let (response, mut connection, _) = front.begin(front.http.post("/mcp", body(json!(1)))).await;
    connection.answer("200 OK", "", "{}").await;
    assert_eq!(response.await.unwrap().text().await, "{}");
    // The same connection is used for the second request, and then closes.
    let response = tokio::spawn(front.http.post("/mcp", body(json!(2))).send());
    connection.request().await;
    drop(connection);
    error(response.await.unwrap(), 502, json!(2)).await;
    assert!(front.upstream.try_accept().await.is_none(), "the request was sent twice");
    // The next request is sent on a new connection.
    let (_, response) = front.exchange(front.http.post("/mcp", body(json!(3))), "200 OK", "", "{}").await;
    assert_eq!(response.status, 200);
}

// RFC 9110 section 9.2.2.
#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_request_without_a_body_is_sent_again() {
    for method in ["GET", "DELETE"] {
        let front = ForwardFixture::of("/").await;
        let (response, mut connection, _) = front.begin(front.http.post("/mcp", body(json!(1)))).await;
        connection.answer("200 OK", "", "{}").await;
        assert_eq!(response.await.unwrap().text().await, "{}");
        // The same connection is used for the second request, and then closes.
        let response = tokio::spawn(front.http.request(method, "/mcp").send());
        connection.request().await;
        drop(connection);
        let (mut connection, _) = front.upstream.request().await;
        connection.answer("200 OK", "", "again").await;
        assert_eq!(response.await.unwrap().text().await, "again", "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pooled_connection_is_replaced() {
    let front = ForwardFixture::of("/").await;
    for id in 0..5 {
        let (response, mut connection, _) = front.begin(front.http.post("/mcp", body(json!(id)))).await;
        connection.answer("200 OK", "", "{}").await;
        assert_eq!(response.await.unwrap().status, 200);
        drop(connection);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_breaks_off_breaks_off_for_the_client_too() {
    let front = ForwardFixture::of("/").await;
    let (response, mut connection, _) = front.begin(front.http.post("/mcp", body(json!(1)))).await;
    connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\":").await;
    let mut response = response.await.unwrap();
    drop(connection);
    assert_eq!(response.bytes().await, Err(BodyTruncated));

    let (response, mut connection, _) = front.begin(front.http.get("/mcp")).await;
    connection.begin_events().await;
    connection.chunk("data: {}\n\n").await;
    let mut response = response.await.unwrap();
    assert_eq!(response.event().await.unwrap().data, "{}");
    drop(connection);
    assert_eq!(response.bytes().await, Err(BodyTruncated));
    // The listener still works.
    let (_, response) = front.exchange(front.http.post("/mcp", body(json!(2))), "200 OK", "", "{}").await;
    assert_eq!(response.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_http_is_502() {
    let front = ForwardFixture::of("/").await;
    let (response, mut connection, _) = front.begin(front.http.post("/mcp", body(json!(1)))).await;
    connection.write("SSH-2.0-OpenSSH_9\r\n\r\n").await;
    error(response.await.unwrap(), 502, json!(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_before_it_has_read_the_request_is_believed() {
    let front = ForwardFixture::of("/").await;
    let large = front.http.post("/mcp", "x".repeat(4 << 20));
    let response = tokio::spawn(large.send());
    let mut connection = front.upstream.accept().await;
    // Without this, the response would come before any request.
    connection.head().await;
    connection.answer("401 Unauthorized", "Connection: close\r\n", "no").await;
    assert_eq!(response.await.unwrap().status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_streams_after_a_short_time() {
    let front = ForwardFixture::of("/").await;
    let (response, mut connection, _) = front.begin(front.http.get("/mcp")).await;
    connection.begin_events().await;
    let mut response = response.await.unwrap();
    let (stopped, end) =
        tokio::join!(tokio::time::timeout(Duration::from_secs(5), front.running.stop()), response.chunk());
    stopped.unwrap();
    assert_eq!(end, Err(BodyTruncated));
    connection.closed().await;
}
