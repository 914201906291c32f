//! The body of an answer on its way past the hooks: one JSON text, or a stream of events.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::{Asked, Hooks, LARGEST, Verdict, events::Events, passage::Passage};
use crate::{
    proxy::respond::Response,
    transport::body::{Body, Broken},
};

/// What is said of bytes that are no longer the same.
const OF_BYTES: [HeaderName; 6] = [
    header::ETAG,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    header::ACCEPT_RANGES,
];

/// What an answer holds.
#[derive(Debug, PartialEq, Eq)]
enum Content {
    Json,
    Events,
    /// Nothing that a client takes for messages.
    Other,
}

/// Leads an answer past the hooks, if there are any. With `strict`, what they cannot be shown does not go on.
pub(in crate::proxy) async fn hooked(
    response: Response,
    hooks: &Hooks,
    asked: Option<Arc<Asked>>,
    strict: bool,
) -> Response {
    let hooks = hooks.take();
    if hooks.is_empty() {
        return response;
    }
    let mut passage = Passage { hooks, asked, strict, answered: Vec::new() };
    let content = content(response.headers());
    if content == Content::Other || http_body::Body::is_end_stream(response.body()) {
        passage.end(false);
        return response;
    }
    if is_encoded(response.headers()) {
        if strict {
            let refused = passage.refused("the server encoded its answer although it was asked not to");
            passage.end(true);
            return refused;
        }
        passage.end(false);
        return response;
    }
    if content == Content::Json {
        return json(response, passage).await;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    forget(&mut parts.headers);
    Response::from_parts(parts, Body::stream(Events::new(body, passage, LARGEST)))
}

/// Reads a JSON text whole, since nothing of it can be taken back.
async fn json(response: Response, mut passage: Passage) -> Response {
    let (mut parts, body) = response.into_parts();
    let (text, body) = match body.peek(LARGEST + 1).await {
        Ok(peeked) => peeked,
        Err(broken) => return broke_off(parts, broken, passage),
    };
    if text.len() > LARGEST {
        if !passage.strict {
            passage.end(false);
            return Response::from_parts(parts, body);
        }
        let refused = passage.refused(&format!("the server's answer is larger than {LARGEST} bytes"));
        passage.end(true);
        return refused;
    }
    let verdict = match passage.text(text) {
        Ok(verdict) => verdict,
        // The body of a failed request is often of another form, and so is what is read with a GET.
        Err(_) if !passage.strict || passage.asked.is_none() || !parts.status.is_success() => Verdict::Keep,
        Err(malformed) => {
            let refused =
                passage.refused(&format!("the server's answer cannot be read: {}", malformed.reason));
            passage.end(true);
            return refused;
        }
    };
    passage.end(false);
    match verdict {
        Verdict::Keep => Response::from_parts(parts, body),
        Verdict::Replace(text) => {
            forget(&mut parts.headers);
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
            Response::from_parts(parts, Body::from(text))
        }
        Verdict::Drop => {
            forget(&mut parts.headers);
            parts.headers.remove(header::CONTENT_TYPE);
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(0));
            parts.status = StatusCode::ACCEPTED;
            Response::from_parts(parts, Body::empty())
        }
    }
}

/// What came of an answer that broke off is no message, and goes on as it would have.
fn broke_off(parts: http::response::Parts, broken: Broken, mut passage: Passage) -> Response {
    let response = if passage.strict {
        passage.refused("the server broke off its answer")
    } else {
        Response::from_parts(parts, Body::from(broken))
    };
    passage.end(true);
    response
}

fn content(headers: &HeaderMap) -> Content {
    let mut content = Content::Other;
    for value in headers.get_all(header::CONTENT_TYPE) {
        let value = value.as_bytes();
        let kind = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let kind = kind.to_ascii_lowercase();
        if kind == b"text/event-stream" {
            return Content::Events;
        }
        // `application/json`, `text/json`, `application/json-rpc`, `application/problem+json`
        if memchr::memmem::find(&kind, b"json").is_some() {
            content = Content::Json;
        }
    }
    content
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_ENCODING).iter().any(|value| {
        let value = value.as_bytes().trim_ascii();
        !value.is_empty() && !value.eq_ignore_ascii_case(b"identity")
    })
}

fn forget(headers: &mut HeaderMap) {
    for name in OF_BYTES {
        headers.remove(name);
    }
}
