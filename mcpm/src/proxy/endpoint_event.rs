//! Rewrites the `endpoint` event of the deprecated SSE transport.
//!
//! The event names the URL to which clients post messages. The rewritten URL is on the proxy, below its external path
//! prefix. With a URL on the server's own host, clients would bypass the proxy. A relative URL without a leading slash,
//! or a URL on a third host, is not rewritten.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};

use super::{
    external_url::ExternalUrl,
    observe::Exchange,
    recoverable_sessions::MCP_SESSION_ID,
    respond::Request,
    session_owners::{EndpointRegistrar, EndpointRegistration},
};
use crate::proxy::body::BodyError;

/// A stream whose first event is not complete within this many bytes is passed on unchanged. If the endpoint has to be
/// registered, ignorable lines before the event are not counted, because an endpoint that was not found would have no
/// owner.
const MAX_PREFIX_BYTES: usize = 64 << 10;

/// An SSE body whose first event with data is rewritten if it is an `endpoint` event.
pub(super) struct EndpointRewritingBody<B> {
    body: B,
    external_url: ExternalUrl,
    /// The origin of the server, which is removed from the URL.
    origin: String,
    observers: EndpointObservers,
    /// The registered endpoint, as long as the stream exists.
    registration: Option<EndpointRegistration>,
    /// The unprocessed beginning of the stream; `None` after the first event.
    pending: Option<BytesMut>,
}

/// The components that are notified of the endpoint.
#[derive(Debug, Default)]
pub(super) struct EndpointObservers {
    /// Registers the owner of the endpoint.
    registrar: Option<EndpointRegistrar>,
    /// Finds out when a request that was posted to the endpoint has ended.
    exchange: Option<Exchange>,
    /// The path of the stream.
    path: String,
}

impl EndpointObservers {
    /// The observers for the stream that a request opens.
    pub(super) fn from_request(request: &Request) -> Self {
        // A request with a session id is streamable HTTP, which has no such endpoints.
        let in_none = !request.headers().contains_key(MCP_SESSION_ID);
        let opening = request.extensions().get().filter(|_| in_none).cloned();
        let exchange = Exchange::of(request.extensions()).cloned();
        // Usually there are no observers, and the path is not needed.
        let path = if opening.is_some() || exchange.is_some() { request.uri().path() } else { "" };
        Self { registrar: opening, exchange, path: path.to_owned() }
    }

    /// Tells the observers that the endpoint could not be parsed.
    pub(super) fn endpoint_unknown(&self) {
        if let Some(opening) = &self.registrar {
            opening.register_unknown();
        }
    }
}

impl<B> EndpointRewritingBody<B> {
    pub(super) fn new(body: B, public: ExternalUrl, origin: String, told: EndpointObservers) -> Self {
        Self {
            body,
            external_url: public,
            origin,
            observers: told,
            registration: None,
            pending: Some(BytesMut::new()),
        }
    }

    /// Takes a chunk of the stream and returns what can be passed on.
    fn push(&mut self, chunk: Bytes) -> Bytes {
        let Some(head) = &mut self.pending else { return chunk };
        head.extend_from_slice(&chunk);
        let mut done = BytesMut::new();
        while let Some(end) = first_event_end(head) {
            let block = head.split_to(end);
            if !lines(&block).any(|line| is_field(line, b"data")) {
                done.extend_from_slice(&block);
                continue;
            }
            done.extend_from_slice(&self.rewrite(&block).unwrap_or(block));
            if self.registration.is_none() {
                // Later events are not searched for endpoints.
                self.observers.endpoint_unknown();
            }
            done.extend_from_slice(&self.pending.take().unwrap_or_default());
            return done.freeze();
        }
        if head.len() > MAX_PREFIX_BYTES {
            if let Some(opening) = &self.observers.registrar {
                done.extend_from_slice(&head.split_to(ignorable_prefix(head)));
                if head.len() <= MAX_PREFIX_BYTES {
                    return done.freeze();
                }
                opening.register_unknown();
            }
            done.extend_from_slice(&self.pending.take().unwrap_or_default());
        }
        done.freeze()
    }

    fn rewrite(&mut self, block: &[u8]) -> Option<BytesMut> {
        let (text, endpoint) = parse_endpoint_event(block)?;
        let path = endpoint.strip_prefix(self.origin.as_str()).unwrap_or(endpoint);
        if let Some(opening) = &self.observers.registrar {
            self.registration = opening.register(path, &self.observers.path);
        }
        if let Some(exchange) = &self.observers.exchange {
            exchange.announce_endpoint(path, &self.observers.path);
        }
        if !path.starts_with('/') || path.starts_with("//") {
            // Relative to `/sse`, or on another host: left unchanged.
            return None;
        }
        Some(BytesMut::from(text.replacen(endpoint, &self.external_url.url(path), 1).as_bytes()))
    }
}

/// The text of an `endpoint` event, and the endpoint in it.
pub(super) fn parse_endpoint_event(event: &[u8]) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(event).ok()?;
    let mut lines = text.lines().map(|line| line.split_once(':').unwrap_or((line, "")));
    let is_endpoint = lines.clone().any(|(field, value)| field == "event" && value.trim() == "endpoint");
    let (_, endpoint) = lines.find(|(field, _)| *field == "data").filter(|_| is_endpoint)?;
    Some((text, endpoint.trim()))
}

/// The lines of a text without line ends; there may be additional empty ones.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b'\n' | b'\r'))
}

/// Whether a line has that field name.
pub(super) fn is_field(line: &[u8], field: &[u8]) -> bool {
    // A stream may start with a byte order mark.
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    line.strip_prefix(field).is_some_and(|rest| matches!(rest.first(), None | Some(b':')))
}

/// The length of complete lines at the start that contain neither an event type nor data.
fn ignorable_prefix(head: &[u8]) -> usize {
    let mut at = 0;
    // The last line is not complete yet.
    let ends = memchr::memchr2_iter(b'\n', b'\r', head);
    for end in ends {
        let line = &head[at..end];
        if is_field(line, b"data") || is_field(line, b"event") {
            break;
        }
        at = end + 1;
    }
    at
}

/// The end of the first event, including its empty line.
fn first_event_end(bytes: &[u8]) -> Option<usize> {
    let ends = [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"];
    ends.iter().filter_map(|end| memchr::memmem::find(bytes, end).map(|at| at + end.len())).min()
}

impl<B> HttpBody for EndpointRewritingBody<B>
where
    B: HttpBody<Data = Bytes, Error = BodyError> + Unpin,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(chunk) => {
                        let chunk = self.push(chunk);
                        if !chunk.is_empty() {
                            return Poll::Ready(Some(Ok(Frame::data(chunk))));
                        }
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    self.registration = None;
                    let rest = self.pending.take().filter(|rest| !rest.is_empty());
                    return Poll::Ready(rest.map(|rest| Ok(Frame::data(rest.freeze()))));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        auth::incoming::Principal,
        proxy::session_owners::{Owner, SessionOwners},
    };

    fn rewrite_in_chunks(text: &str, size: usize) -> String {
        let public = ExternalUrl { origin: None, prefix: "/p".to_owned() };
        let mut stream = EndpointRewritingBody::new(
            (),
            public,
            "http://10.0.0.2:80".to_owned(),
            EndpointObservers::default(),
        );
        let pieces = text.as_bytes().chunks(size).map(Bytes::copy_from_slice);
        let out: Vec<u8> = pieces.flat_map(|piece| stream.push(piece)).collect();
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn only_the_endpoint_event_is_rewritten_however_it_arrives() {
        let cases = [
            (
                "event: endpoint\ndata: /m?s=1\n\nevent: message\ndata: /m\n\n",
                "event: endpoint\ndata: /p/m?s=1\n\nevent: message\ndata: /m\n\n",
            ),
            (
                ": hello\n\nevent:endpoint\r\ndata:http://10.0.0.2:80/m\r\n\r\nx",
                ": hello\n\nevent:endpoint\r\ndata:/p/m\r\n\r\nx",
            ),
            (
                "id: 1\n\nevent: endpoint\n\nretry: 5\n\nevent: endpoint\ndata: /m\n\n",
                "id: 1\n\nevent: endpoint\n\nretry: 5\n\nevent: endpoint\ndata: /p/m\n\n",
            ),
            ("data: /m\n\nevent: endpoint\ndata: /m\n\n", "data: /m\n\nevent: endpoint\ndata: /m\n\n"),
            ("event: endpoint\ndata: http://other/m\n\n", "event: endpoint\ndata: http://other/m\n\n"),
        ];
        for (text, expected) in cases {
            for size in [1, 3, 1000] {
                assert_eq!(rewrite_in_chunks(text, size), expected, "in pieces of {size}");
            }
        }
    }

    fn owner(subject: &str) -> Owner {
        Owner::of(&Principal {
            issuer: "https://issuer.example".to_owned(),
            subject: subject.to_owned(),
            audience: Vec::new(),
            client_id: None,
            scopes: Vec::new(),
            claims: serde_json::Map::new(),
            expires: std::time::SystemTime::now(),
            token: crate::options::Secret::from("x"),
        })
    }

    #[test]
    fn without_a_first_endpoint_event_only_the_server_path_accepts_posts() {
        let owners = Arc::new(SessionOwners::new(["/mcp"]));
        assert!(owners.may_post("/m?s=1", &owner("b")), "nothing is known yet");
        let opening = Some(EndpointRegistrar::new(&owners, owner("a")));
        let told = EndpointObservers { registrar: opening, exchange: None, path: "/sse".to_owned() };
        let public = ExternalUrl { origin: None, prefix: String::new() };
        let mut stream = EndpointRewritingBody::new((), public, "http://10.0.0.2:80".to_owned(), told);
        let text = "data: hello\n\nevent: endpoint\ndata: /m?s=1\n\n";
        assert_eq!(stream.push(Bytes::from_static(text.as_bytes())), text);
        assert!(!owners.may_post("/m?s=1", &owner("a")) && !owners.may_post("/m?s=1", &owner("b")));
        assert!(owners.may_post("/mcp", &owner("b")));
    }

    #[test]
    fn an_endpoint_is_registered_whatever_precedes_it() {
        let event = "event: endpoint\ndata: /m?s=1\n\n";
        let comments = format!(": {}\n", "x".repeat(1000)).repeat(100);
        let unread = format!("event: endpoint\n: {}\ndata: /m?s=1\n\n", "x".repeat(2 * MAX_PREFIX_BYTES));
        for (text, may) in [
            (event.to_owned(), true),
            (format!("id: 1\n\nevent: x\n\nretry: 5\n\n{event}"), true),
            (format!("{comments}{event}"), true),
            (format!("{comments}\n{event}"), true),
            (format!("id: {}\n{event}", "1\nid: ".repeat(MAX_PREFIX_BYTES)), true),
            (unread, false),
        ] {
            for size in [100, 1 << 20] {
                let owners = Arc::new(SessionOwners::new(["/sse"]));
                let opening = Some(EndpointRegistrar::new(&owners, owner("a")));
                let told = EndpointObservers { registrar: opening, exchange: None, path: "/sse".to_owned() };
                let public = ExternalUrl { origin: None, prefix: String::new() };
                let origin = "http://10.0.0.2:80".to_owned();
                let mut stream = EndpointRewritingBody::new((), public, origin, told);
                let pieces = text.as_bytes().chunks(size).map(Bytes::copy_from_slice);
                let out: Vec<u8> = pieces.flat_map(|piece| stream.push(piece)).collect();
                assert_eq!(out, text.as_bytes());
                assert!(!owners.may_post("/m?s=1", &owner("b")), "{:.60} in {size}", text);
                // A chunk that contains the whole event is parsed even if it is larger than the limit.
                let may = may || size > text.len();
                assert_eq!(owners.may_post("/m?s=1", &owner("a")), may, "{:.60} in {size}", text);
            }
        }
    }
}
