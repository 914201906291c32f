//! Rewrites the `endpoint` event of the deprecated SSE transport, and nothing else.
//!
//! The event says where to post messages. It must name a place on the proxy, below its public prefix; a URL on
//! the server's own host would lead clients past the proxy.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};

use super::{
    owners::{Noted, Opening},
    public::Public,
};
use crate::transport::body::BodyError;

/// A stream's beginning that holds no whole event up to here is passed on as it is.
const LIMIT: usize = 64 << 10;

/// An event stream whose first event is rewritten if it is an `endpoint`.
pub(super) struct EndpointEvent<B> {
    body: B,
    public: Public,
    /// Origin of the server, to be taken off.
    origin: String,
    /// Who is told of the place, and the path of the stream.
    opening: Option<(Opening, String)>,
    /// The place that was noted, for as long as the stream is.
    noted: Option<Noted>,
    /// What came of the first event; `None` once that is settled.
    head: Option<BytesMut>,
}

impl<B> EndpointEvent<B> {
    pub(super) fn new(body: B, public: Public, origin: String, opening: Option<(Opening, String)>) -> Self {
        Self { body, public, origin, opening, noted: None, head: Some(BytesMut::new()) }
    }

    /// Takes a piece of the stream and returns what of it can go on.
    fn take(&mut self, piece: Bytes) -> Bytes {
        let Some(head) = &mut self.head else { return piece };
        head.extend_from_slice(&piece);
        let mut done = BytesMut::new();
        while let Some(end) = block_end(head) {
            let block = head.split_to(end);
            if block[..]
                .split(|byte| matches!(byte, b'\n' | b'\r'))
                .all(|line| line.is_empty() || line[0] == b':')
            {
                done.extend_from_slice(&block);
                continue;
            }
            done.extend_from_slice(&self.rewrite(&block).unwrap_or(block));
            done.extend_from_slice(&self.head.take().unwrap_or_default());
            return done.freeze();
        }
        if head.len() > LIMIT {
            done.extend_from_slice(&self.head.take().unwrap_or_default());
        }
        done.freeze()
    }

    fn rewrite(&mut self, block: &[u8]) -> Option<BytesMut> {
        let text = std::str::from_utf8(block).ok()?;
        let mut lines = text.lines().map(|line| line.split_once(':').unwrap_or((line, "")));
        let is_endpoint = lines.clone().any(|(field, value)| field == "event" && value.trim() == "endpoint");
        let (_, place) = lines.find(|(field, _)| *field == "data").filter(|_| is_endpoint)?;
        let place = place.trim();
        let path = place.strip_prefix(self.origin.as_str()).unwrap_or(place);
        if let Some((opening, at)) = &self.opening {
            self.noted = opening.at(path, at);
        }
        if !path.starts_with('/') || path.starts_with("//") {
            // Relative to `/sse`, or on another host altogether: not ours to say.
            return None;
        }
        Some(BytesMut::from(text.replacen(place, &self.public.path(path), 1).as_bytes()))
    }
}

/// Where the first block of lines ends, the empty line included.
fn block_end(bytes: &[u8]) -> Option<usize> {
    let ends = [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"];
    ends.iter().filter_map(|end| memchr::memmem::find(bytes, end).map(|at| at + end.len())).min()
}

impl<B> HttpBody for EndpointEvent<B>
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
                    Ok(piece) => {
                        let piece = self.take(piece);
                        if !piece.is_empty() {
                            return Poll::Ready(Some(Ok(Frame::data(piece))));
                        }
                    }
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    self.noted = None;
                    let rest = self.head.take().filter(|rest| !rest.is_empty());
                    return Poll::Ready(rest.map(|rest| Ok(Frame::data(rest.freeze()))));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(text: &str, size: usize) -> String {
        let public = Public { origin: None, prefix: "/p".to_owned() };
        let mut stream = EndpointEvent::new((), public, "http://10.0.0.2:80".to_owned(), None);
        let pieces = text.as_bytes().chunks(size).map(Bytes::copy_from_slice);
        let out: Vec<u8> = pieces.flat_map(|piece| stream.take(piece)).collect();
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
            ("data: /m\n\nevent: endpoint\ndata: /m\n\n", "data: /m\n\nevent: endpoint\ndata: /m\n\n"),
            ("event: endpoint\ndata: http://other/m\n\n", "event: endpoint\ndata: http://other/m\n\n"),
        ];
        for (text, expected) in cases {
            for size in [1, 3, 1000] {
                assert_eq!(through(text, size), expected, "in pieces of {size}");
            }
        }
    }
}
