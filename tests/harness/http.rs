//! Provides a low-level HTTP client: one connection per request, headers as written, bodies as they arrive.

use std::{net::SocketAddr, str::FromStr};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    sse::{Event, Events},
    with_timeout,
};

/// Buffer space for one read.
const READ_BUFFER_BYTES: usize = 64 << 10;

/// The address of the server.
#[derive(Debug, Clone, Copy)]
pub struct Http(pub SocketAddr);

/// A request that has not been sent yet.
#[derive(Debug, Clone)]
#[must_use = "nothing happens until it is sent"]
pub struct Request {
    to: SocketAddr,
    line: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    chunked: bool,
}

impl Http {
    /// Creates a request; `target` is the text in the request line.
    pub fn request(&self, method: &str, target: &str) -> Request {
        let line = format!("{method} {target} HTTP/1.1");
        let headers = vec![("Host".to_owned(), self.0.to_string())];
        Request { to: self.0, line, headers, body: None, chunked: false }
    }

    /// Creates a GET request that accepts events.
    pub fn get(&self, target: &str) -> Request {
        self.request("GET", target).header("Accept", "text/event-stream")
    }

    /// Creates a POST request with JSON that accepts both forms of a response.
    pub fn post(&self, target: &str, body: impl Into<Vec<u8>>) -> Request {
        self.request("POST", target)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .body(body)
    }

    /// Sends bytes that need not be valid HTTP, and reads the response.
    pub async fn raw(&self, bytes: &[u8]) -> Response {
        exchange(self.0, bytes).await
    }
}

impl Request {
    /// Sets a header, and replaces headers of that name.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self = self.remove_header(name);
        self.add_header(name, value)
    }

    /// Adds a header, and keeps headers of that name.
    pub fn add_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a header.
    pub fn remove_header(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sends the body in chunks, so that its size is not announced.
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// The bytes that are sent.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            out += &format!("{name}: {value}\r\n");
        }
        match &self.body {
            Some(_) if self.chunked => out += "Transfer-Encoding: chunked\r\n",
            Some(body) => out += &format!("Content-Length: {}\r\n", body.len()),
            None => {}
        }
        out += "\r\n";
        let mut out = out.into_bytes();
        let body = self.body.as_deref().unwrap_or_default();
        if self.chunked {
            for chunk in body.chunks(1 << 20) {
                out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                out.extend_from_slice(chunk);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"0\r\n\r\n");
        } else {
            out.extend_from_slice(body);
        }
        out
    }

    /// Sends the request and waits for the head of the response.
    pub async fn send(self) -> Response {
        let what = format!("an answer to {}", self.line);
        with_timeout(&what, exchange(self.to, &self.bytes())).await
    }

    /// Sends the request without waiting for a response.
    pub async fn send_only(self) -> TcpStream {
        let mut stream = with_timeout("a connection", TcpStream::connect(self.to)).await.unwrap();
        stream.write_all(&self.bytes()).await.unwrap();
        stream
    }
}

async fn exchange(to: SocketAddr, bytes: &[u8]) -> Response {
    let stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut read, mut write) = stream.into_split();
    let bytes = bytes.to_vec();
    let sending = async move {
        // A server may reject a request before it has read the whole request.
        let _ = write.write_all(&bytes).await;
        write
    };
    let mut buffer = Vec::new();
    let reading = async {
        let head = read_head(&mut read, &mut buffer).await;
        (head, read, buffer)
    };
    tokio::pin!(sending, reading);
    let (head, read, buffer, write) = tokio::select! {
        (head, read, buffer) = &mut reading => (head, read, buffer, None),
        write = &mut sending => {
            let (head, read, buffer) = reading.await;
            (head, read, buffer, Some(write))
        }
    };
    let (line, headers) = head.unwrap_or_else(|| panic!("the connection ended without an answer"));
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("`{line}` is no status line"));
    let framing = Framing::of(status, &headers);
    Response {
        status,
        headers,
        body: Body { read, _write: write, buffer, framing },
        events: Events::default(),
    }
}

/// Reads up to the empty line; the bytes after it stay in `buffer`. Returns `None` if the connection ends before.
pub(super) async fn read_head(
    read: &mut (impl tokio::io::AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> Option<(String, Headers)> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        buffer.reserve(READ_BUFFER_BYTES);
        if read.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let rest = buffer.split_off(end + 4);
    let head = String::from_utf8(std::mem::replace(buffer, rest)).unwrap();
    let mut lines = head.trim_end().split("\r\n").map(str::to_owned);
    let line = lines.next().unwrap_or_default();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_owned(), value.trim().to_owned())
    });
    Some((line, Headers(headers.collect())))
}

/// Headers in their order.
#[derive(Debug, Clone)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    /// The first header of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The first header of that name, parsed.
    pub fn read<T: FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }
}

/// How the end of a body is determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(usize),
    /// The remaining bytes of the current chunk, including its line break.
    Chunked(usize),
    UntilClose,
}

impl Framing {
    fn of(status: u16, headers: &Headers) -> Self {
        if status == 204 || status == 304 {
            return Self::Length(0);
        }
        if headers.get("transfer-encoding").is_some_and(|coding| coding.contains("chunked")) {
            return Self::Chunked(0);
        }
        headers.read("content-length").map_or(Self::UntilClose, Self::Length)
    }
}

/// A response whose body has not been read. Dropping it closes the connection.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: Headers,
    body: Body,
    events: Events,
}

#[derive(Debug)]
struct Body {
    read: tokio::net::tcp::OwnedReadHalf,
    /// Kept open, so that reading continues without closing the connection.
    _write: Option<tokio::net::tcp::OwnedWriteHalf>,
    buffer: Vec<u8>,
    framing: Framing,
}

impl Body {
    async fn fill_buffer(&mut self) -> Result<(), BodyTruncated> {
        self.buffer.reserve(READ_BUFFER_BYTES);
        match self.read.read_buf(&mut self.buffer).await {
            Ok(0) | Err(_) => Err(BodyTruncated),
            Ok(_) => Ok(()),
        }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, BodyTruncated> {
        loop {
            match self.framing {
                Framing::Length(0) => return Ok(None),
                Framing::Length(left) if !self.buffer.is_empty() => {
                    let rest = self.buffer.split_off(left.min(self.buffer.len()));
                    let piece = std::mem::replace(&mut self.buffer, rest);
                    self.framing = Framing::Length(left - piece.len());
                    return Ok(Some(piece));
                }
                Framing::Chunked(0) => {
                    let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") else {
                        self.fill_buffer().await?;
                        continue;
                    };
                    let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                    let size = std::str::from_utf8(&line[..end]).ok();
                    let size =
                        size.and_then(|size| usize::from_str_radix(size, 16).ok()).ok_or(BodyTruncated)?;
                    if size == 0 {
                        self.framing = Framing::Length(0);
                        return Ok(None);
                    }
                    self.framing = Framing::Chunked(size + 2);
                }
                Framing::Chunked(left) if left <= 2 && self.buffer.len() >= left => {
                    self.buffer.drain(..left);
                    self.framing = Framing::Chunked(0);
                }
                Framing::Chunked(left) if left > 2 && !self.buffer.is_empty() => {
                    let rest = self.buffer.split_off((left - 2).min(self.buffer.len()));
                    let piece = std::mem::replace(&mut self.buffer, rest);
                    self.framing = Framing::Chunked(left - piece.len());
                    return Ok(Some(piece));
                }
                Framing::UntilClose if !self.buffer.is_empty() => {
                    return Ok(Some(std::mem::take(&mut self.buffer)));
                }
                Framing::UntilClose => {
                    if self.fill_buffer().await.is_err() {
                        return Ok(None);
                    }
                }
                Framing::Length(_) | Framing::Chunked(_) => self.fill_buffer().await?,
            }
        }
    }
}

/// The connection ended inside a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyTruncated;

impl Response {
    /// Waits for the next part of the body; `None` at its end.
    ///
    /// # Errors
    /// If the connection ends inside the body.
    pub async fn chunk(&mut self) -> Result<Option<Vec<u8>>, BodyTruncated> {
        with_timeout("a piece of a body", self.body.next()).await
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// If the connection ends inside the body.
    pub async fn bytes(&mut self) -> Result<Vec<u8>, BodyTruncated> {
        let mut all = Vec::new();
        while let Some(piece) = self.chunk().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }

    /// Reads the whole body as text.
    pub async fn text(mut self) -> String {
        String::from_utf8(self.bytes().await.unwrap()).unwrap()
    }

    /// Reads the whole body as JSON.
    pub async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("`{text}` is not JSON"))
    }

    /// Returns whether the body is a stream of events.
    pub fn is_events(&self) -> bool {
        self.headers.get("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// Waits for the next event, and skips comments; `None` at the end of the stream or of the connection.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            while let Some(event) = self.events.take() {
                if !event.is_empty() {
                    return Some(event);
                }
            }
            let piece = self.chunk().await.ok().flatten()?;
            self.events.push(&piece);
        }
    }

    /// Waits for the next message in a stream of events, and skips empty events.
    pub async fn message(&mut self) -> Option<Value> {
        let text = self.message_text().await?;
        Some(serde_json::from_str(&text).unwrap_or_else(|_| panic!("`{text}` is not JSON")))
    }

    /// Waits for the next message, and returns its original text.
    pub async fn message_text(&mut self) -> Option<String> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some(event.data);
            }
        }
    }

    /// Reads all messages to the end, from JSON or from a stream of events.
    pub async fn messages(mut self) -> Vec<Value> {
        if !self.is_events() {
            return vec![self.json().await];
        }
        let mut messages = Vec::new();
        while let Some(message) = self.message().await {
            messages.push(message);
        }
        messages
    }

    /// Reads to the end and returns the last message, which is the response.
    pub async fn answer(self) -> Value {
        let status = self.status;
        self.messages().await.pop().unwrap_or_else(|| panic!("status {status} without an answer"))
    }
}
