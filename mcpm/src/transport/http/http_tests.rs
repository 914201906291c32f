use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{body::Frame, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{Address, Client};
use crate::transport::body::Body;

async fn listener() -> (TcpListener, Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, Client::new(Address { host: "127.0.0.1".to_owned(), port, tls: false }))
}

fn post(body: impl Into<Body>) -> Request<Body> {
    Request::post("/mcp").header("host", "server").body(body.into()).expect("a request")
}

async fn exchange(client: &Client, body: impl Into<Body>) -> Bytes {
    let response = client.send(post(body)).await.expect("an answer");
    response.into_body().collect().await.expect("a body").to_bytes()
}

#[tokio::test]
async fn a_connection_is_used_again_until_the_server_closes_it() {
    let (listener, client) = listener().await;
    let server = tokio::spawn(async move {
        let mut served = Vec::new();
        for requests in [2, 1] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            for _ in 0..requests {
                let read = stream.read(&mut [0; 4096]).await.expect("a request");
                served.push(read > 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("written");
            }
        }
        served
    });
    for _ in 0..2 {
        assert_eq!(exchange(&client, Bytes::from_static(b"{}")).await, "ok");
    }
    // The end of the connection has to arrive.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(exchange(&client, Bytes::from_static(b"{}")).await, "ok");
    assert_eq!(server.await.expect("no panic"), [true; 3]);
}

#[tokio::test]
async fn a_connection_whose_answer_is_not_wanted_is_closed() {
    let (listener, client) = listener().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart").await.expect("written");
        stream.read(&mut [0; 4096]).await.expect("the end")
    });
    let mut body = client.send(post(Body::empty())).await.expect("an answer").into_body();
    let piece = body.frame().await.expect("a piece").expect("no error");
    assert_eq!(piece.into_data().expect("data"), "part");
    drop(body);
    assert_eq!(server.await.expect("no panic"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_stream_both_ways_at_once() {
    const PIECES: usize = 200;
    let (listener, client) = listener().await;
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        // The answer is the request's own body, so it begins before that has ended.
        let echo = service_fn(|request: Request<hyper::body::Incoming>| async move {
            Ok::<_, Infallible>(http::Response::new(request.into_body()))
        });
        // The client closes it.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), echo).await;
    });
    let piece = |number: usize| Bytes::from(vec![u8::try_from(number).expect("a small number"); 50_000]);
    for _ in 0..2 {
        let pieces = (0..PIECES).map(move |number| Ok(Frame::data(piece(number))));
        let body = Body::stream(StreamBody::new(futures_util::stream::iter(pieces)));
        let echoed = exchange(&client, body).await;
        assert_eq!(echoed.len(), PIECES * 50_000);
        assert!(echoed.chunks(50_000).enumerate().all(|(number, chunk)| *chunk == piece(number)));
    }
    drop(client);
    server.await.expect("no panic");
}

#[tokio::test]
async fn a_request_that_nobody_answers_fails_with_its_connection() {
    let (listener, client) = listener().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
    });
    let error = client.send(post(Body::empty())).await.expect_err("no answer");
    assert_eq!(error.kind(), crate::ErrorKind::Upstream);
    server.await.expect("no panic");
}
