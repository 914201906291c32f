//! Provides an HTTP server whose test sees each received byte and controls each sent byte.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{
    http::{Headers, read_head},
    with_timeout,
};

/// A server whose responses the test writes.
#[derive(Debug)]
pub struct Upstream(TcpListener);

/// A connection of a client to the server.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request as it was received.
#[derive(Debug)]
pub struct ReceivedRequest {
    /// The request line.
    pub line: String,
    /// The headers.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
}

/// A response of the server.
#[derive(Debug, Clone, Default)]
pub struct UpstreamResponse {
    /// Status code and reason.
    pub status: String,
    /// Header lines, each with its line break.
    pub headers: String,
    /// The body.
    pub body: String,
}

impl Upstream {
    /// Listens on a free port.
    pub async fn listen() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Its URI with a path.
    pub fn uri(&self, path: &str) -> String {
        format!("http://{}{path}", self.authority())
    }

    /// Its address and port.
    pub fn authority(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }

    /// Waits for a connection.
    pub async fn accept(&self) -> Connection {
        let (stream, _) = with_timeout("a connection to the upstream", self.0.accept()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Connection { stream, buffer: Vec::new() }
    }

    /// Waits for a connection and the request on it.
    pub async fn request(&self) -> (Connection, ReceivedRequest) {
        let mut connection = self.accept().await;
        let received = connection.request().await;
        (connection, received)
    }

    /// Responds to every request with the result of `answer`, on any number of connections, until the test ends.
    pub fn serve(self, answer: impl Fn(&ReceivedRequest) -> UpstreamResponse + Send + Sync + 'static) {
        let answer = std::sync::Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = self.0.accept().await {
                let answer = std::sync::Arc::clone(&answer);
                tokio::spawn(async move {
                    let mut connection = Connection { stream, buffer: Vec::new() };
                    while let Some(received) = connection.read_request().await {
                        let UpstreamResponse { status, headers, body } = answer(&received);
                        connection.answer(&status, &headers, &body).await;
                    }
                });
            }
        });
    }

    /// Accepts a connection that is already waiting, if there is one.
    pub async fn try_accept(&self) -> Option<Connection> {
        tokio::select! {
            biased;
            accepted = self.0.accept() => accepted.ok().map(|(stream, _)| Connection { stream, buffer: Vec::new() }),
            () = tokio::task::yield_now() => None,
        }
    }
}

impl Connection {
    /// Waits for the next request on this connection.
    pub async fn request(&mut self) -> ReceivedRequest {
        with_timeout("a request at the upstream", self.read_request()).await.unwrap()
    }

    /// Waits for the head of the next request, and leaves the rest unread.
    pub async fn head(&mut self) {
        let head = read_head(&mut self.stream, &mut self.buffer);
        with_timeout("the head of a request at the upstream", head).await.unwrap();
    }

    async fn read_request(&mut self) -> Option<ReceivedRequest> {
        let (line, headers) = read_head(&mut self.stream, &mut self.buffer).await?;
        let chunked = headers.get("transfer-encoding").is_some();
        let length = headers.read("content-length").unwrap_or(0);
        let whole = |buffer: &[u8]| {
            if chunked { buffer.ends_with(b"0\r\n\r\n") } else { buffer.len() >= length }
        };
        while !whole(&self.buffer) {
            self.buffer.reserve(64 << 10);
            if self.stream.read_buf(&mut self.buffer).await.ok()? == 0 {
                return None;
            }
        }
        Some(ReceivedRequest { line, headers, body: std::mem::take(&mut self.buffer) })
    }

    /// Sends bytes.
    pub async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a response with a status line, headers and a body of known size.
    pub async fn answer(&mut self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        self.write(&format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}")).await;
    }

    /// Starts a chunked response that is a stream of events.
    pub async fn begin_events(&mut self) {
        self.write(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        )
        .await;
    }

    /// Sends one chunk.
    pub async fn chunk(&mut self, text: &str) {
        self.write(&format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    /// Waits until the peer has closed the connection.
    pub async fn closed(&mut self) {
        let closed =
            async { while self.stream.read_buf(&mut self.buffer).await.is_ok_and(|count| count > 0) {} };
        with_timeout("the connection to the upstream to be closed", closed).await;
    }

    /// Aborts the connection: the peer gets a reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}
