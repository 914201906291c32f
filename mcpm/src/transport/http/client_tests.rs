use std::{
    convert::Infallible,
    error::Error as StdError,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt as _};
use http_body_util::BodyExt as _;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::{super::error::BodyError, *};

async fn listener() -> (TcpListener, Http1Client) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, Http1Client::new(Address { host: "127.0.0.1".to_owned(), port, tls: false }))
}

/// A body of unknown length.
struct ChunkedBody(Pin<Box<dyn Stream<Item = Bytes> + Send>>);

impl RequestBody for ChunkedBody {
    fn size(&self) -> Option<u64> {
        None
    }

    fn take_full(&mut self) -> Option<Bytes> {
        None
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        self.0.poll_next_unpin(cx).map(|chunk| chunk.map(Ok))
    }
}

fn post<B>(body: B) -> Request<B> {
    Request::post("/mcp").header("host", "server").body(body).expect("a request")
}

async fn exchange(client: &Http1Client, body: impl RequestBody) -> Bytes {
    let response = client.send(post(body)).await.expect("an answer");
    response.into_body().collect().await.expect("a body").to_bytes()
}

#[tokio::test]
async fn a_connection_is_used_again_until_the_server_closes_it() {
    let (listener, client) = listener().await;
    let (close, closed) = tokio::sync::oneshot::channel();
    let server = tokio::spawn(async move {
        let mut served = Vec::new();
        let mut close = Some(close);
        for requests in [2, 1] {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            for _ in 0..requests {
                let read = stream.read(&mut [0; 4096]).await.expect("a request");
                served.push(read > 0);
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("written");
            }
            drop(stream);
            if let Some(close) = close.take() {
                close.send(()).expect("somebody waits");
            }
        }
        served
    });
    for _ in 0..2 {
        assert_eq!(exchange(&client, Bytes::from_static(b"{}")).await, "ok");
    }
    closed.await.expect("closed");
    // The runtime polls the system only now and then, and has to notice that the connection was closed.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(exchange(&client, Bytes::from_static(b"{}")).await, "ok");
    assert_eq!(server.await.expect("no panic"), [true; 3]);
}

#[tokio::test]
async fn a_get_is_sent_again_to_a_server_that_closes_without_notice() {
    let (listener, client) = listener().await;
    let server = tokio::spawn(async move {
        let mut served = 0;
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            for answers in [true, false] {
                // The server closes the connection only when the next request has arrived, so the client cannot notice
                // it earlier.
                if stream.read(&mut [0; 4096]).await.expect("a request") == 0 || !answers {
                    break;
                }
                served += 1;
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("written");
                if served == 4 {
                    return;
                }
            }
        }
    });
    let get = || Request::get("/mcp").header("host", "server").body(Bytes::new()).expect("a request");
    assert_eq!(exchange(&client, Bytes::from_static(b"{}")).await, "ok");
    // The first of these requests arrives on the connection that the server is about to close; later requests use new
    // connections.
    for request in [get(), post(Bytes::new()), post(Bytes::from_static(b"{}"))] {
        let response = client.send(request).await.expect("an answer");
        assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "ok");
    }
    server.await.expect("no panic");
}

#[tokio::test]
async fn a_malformed_chunk_behind_the_head_fails_before_the_status_is_passed_on() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    for rest in ["zz\r\n", "2\r\nokx", "2\r\nok\r\nzz\r\n"] {
        let (listener, client) = listener().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
            stream.write_all(format!("{head}{rest}").as_bytes()).await.expect("written");
            stream
        };
        let (_stream, answer) = tokio::join!(server, client.send(post(Bytes::new())));
        assert!(said(&answer.expect_err(rest)).contains("invalid response"), "{rest}");
    }
}

/// Returns the body that a client reads from a response, and whether the connection is kept.
async fn exchange_result(answer: &str) -> Result<(String, bool), String> {
    let (listener, client) = listener().await;
    let server = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
        // The client may close the connection before the whole response is written.
        let _ = stream.write_all(answer.as_bytes()).await;
        // The connection stays open until the client has read the response, unless closing it ends the body.
        (!answer.contains("closed")).then_some(stream)
    };
    let asked = async {
        let response = client.send(post(Bytes::new())).await.map_err(|error| said(&error))?;
        assert!(!response.headers().contains_key("transfer-encoding"));
        assert!(response.headers().get_all("content-length").iter().all(|length| length != "2, 2"));
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
        Ok((String::from_utf8(body.to_bytes().to_vec()).expect("text"), client.pool.take().is_some()))
    };
    // The stream stays open until both futures have completed.
    let (_stream, outcome) = tokio::join!(server, asked);
    outcome
}

/// A server that closes each connection immediately.
#[derive(Debug)]
struct ClosingServer;

#[async_trait::async_trait]
impl Dial for ClosingServer {
    async fn dial(&self) -> io::Result<LocalStream> {
        LocalStream::pair().map(|(ours, _)| ours)
    }
}

#[tokio::test]
async fn a_request_of_which_nothing_was_sent_did_not_reach_the_server() {
    let address = Address { host: "server".to_owned(), port: 80, tls: false };
    let error = Http1Client::with_dialer(Arc::new(ClosingServer), address).send(post(Bytes::new())).await;
    let error = error.expect_err("nobody listens");
    assert_eq!(error.message(), "cannot reach the server at `server:80`");
    let cause = StdError::source(&error);
    assert!(cause.is_some_and(|cause| cause.is::<io::Error>()), "so that clients are told to try again");
}

fn said(error: &Error) -> String {
    StdError::source(error).map(ToString::to_string).unwrap_or_default()
}

#[tokio::test]
async fn a_response_body_ends_where_its_framing_says() {
    for (answer, body, kept) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok", true),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\na: b\r\n\r\nHTTP/1.1 204 x\r\n\r\n", "", true),
        ("HTTP/1.1 304 x\r\n\r\n", "", true),
        ("HTTP/1.1 304 x\r\ncontent-length: 5\r\n\r\n", "", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: x, Close\r\n\r\nok", "ok", false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2, 2\r\ncontent-length: 2\r\n\r\nok", "ok", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok, and more", "ok", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", "ok", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nok", "ok", true),
        ("HTTP/1.1 200 OK\r\n\r\nuntil closed", "until closed", false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", true),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 9\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            "ok",
            false,
        ),
    ] {
        assert_eq!(exchange_result(answer).await, Ok((body.to_owned(), kept)), "{answer:?}");
    }
}

#[tokio::test]
async fn malformed_responses_are_rejected() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(129));
    let large = format!("HTTP/1.1 200 OK\r\na: {}", "b".repeat(70_000));
    for (answer, reason) in [
        ("SSH-2.0-OpenSSH\r\n\r\n", "not HTTP/1.1"),
        ("HTTP/2.0 200 OK\r\n\r\n", "not HTTP/1.1"),
        ("HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n", "not HTTP/1.1"),
        ("HTTP/1.1 101 x\r\n\r\n", "switches the protocol"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok", "invalid `Content-Length`"),
        ("HTTP/1.1 200 OK\r\ncontent-length: +2\r\n\r\nok", "invalid `Content-Length`"),
        ("HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\nok", "invalid `Content-Length`"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", "transfer coding"),
        ("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", "transfer coding"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nz\r\n", "chunk"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nclosed", "was closed"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n20\r\nclosed", "was closed"),
        ("HTTP/1.1 200 OK\r\na: closed", "was closed"),
        (&many, "too many headers"),
        (&large, "too large"),
    ] {
        let refused = exchange_result(answer).await.expect_err(answer);
        assert!(refused.contains(reason), "{answer:?}: {refused}");
    }
}

#[tokio::test]
async fn an_answer_that_comes_before_the_body_has_gone_out_is_passed_on() {
    let (listener, client) = listener().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
        stream.write_all(b"HTTP/1.1 413 x\r\ncontent-length: 3\r\n\r\nbig").await.expect("written");
        stream
    });
    let chunks = futures_util::stream::once(async { Bytes::from_static(&[0; 1000]) });
    // The body never ends.
    let body = ChunkedBody(Box::pin(chunks.chain(futures_util::stream::pending())));
    let response = client.send(post(body)).await.expect("an answer");
    assert_eq!(response.status(), 413);
    assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "big");
    assert!(client.pool.take().is_none(), "a connection on which a body is still sent");
    drop(server.await);
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
    let mut body = client.send(post(Bytes::new())).await.expect("an answer").into_body();
    let frame = body.frame().await.expect("a frame").expect("no error");
    assert_eq!(frame.into_data().expect("data"), "part");
    drop(body);
    assert_eq!(server.await.expect("no panic"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_stream_both_ways_at_once() {
    const CHUNKS: usize = 200;
    let (listener, client) = listener().await;
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        // The response is the request's own body, so it begins before the request has ended.
        let echo = service_fn(|request: Request<hyper::body::Incoming>| async move {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        });
        // The connection ends when the client closes it.
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), echo).await;
    });
    let chunk = |number: usize| Bytes::from(vec![u8::try_from(number).expect("a small number"); 50_000]);
    for _ in 0..2 {
        let body = ChunkedBody(Box::pin(futures_util::stream::iter((0..CHUNKS).map(chunk))));
        let echoed = exchange(&client, body).await;
        assert_eq!(echoed.len(), CHUNKS * 50_000);
        assert!(echoed.chunks(50_000).enumerate().all(|(number, data)| *data == chunk(number)));
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
    let error = client.send(post(Bytes::new())).await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Upstream);
    server.await.expect("no panic");
}

#[tokio::test]
async fn a_closed_connection_is_not_reused_when_the_coop_budget_is_used_up() {
    let (listener, client) = listener().await;
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        assert!(stream.read(&mut [0; 4096]).await.expect("a request") > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.expect("written");
    });
    assert_eq!(exchange(&client, Bytes::from_static(b"{}")).await, "ok");
    server.await.expect("no panic");
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    while tokio::task::coop::has_budget_remaining() {
        tokio::task::coop::consume_budget().await;
    }
    assert!(client.pool.take().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_silent_tls_handshake_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let client = Http1Client::new(Address { host: "127.0.0.1".to_owned(), port, tls: true });
    let accepted = async {
        let silent = listener.accept().await;
        std::future::pending::<()>().await;
        drop(silent);
    };
    tokio::select! {
        error = client.send(post(Bytes::new())) => {
            assert_eq!(said(&error.expect_err("no handshake")), "timed out");
        }
        () = accepted => {}
    }
}
