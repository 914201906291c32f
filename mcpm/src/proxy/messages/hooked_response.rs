//! A response body whose messages pass the hooks: one JSON document, or an event stream.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, response::Parts};

use super::{
    Hooks, MAX_MESSAGE_BYTES, NO_ROOM, RequestMessages,
    ambiguity::could_be_message,
    content::{ContentKind, Likely, declared, sniff},
    hook_chain::{HookChain, HookResult},
    sse_body::HookedSseBody,
};
use crate::{
    explain::{DenialLog, Reason},
    memory::LazyAccount,
    proxy::{
        body::{Body, IncompleteBody},
        respond::Response,
    },
};

/// Headers that describe the exact bytes of a body, and are removed if the body changes.
const CONTENT_HEADERS: [HeaderName; 6] = [
    header::ETAG,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    header::ACCEPT_RANGES,
];

/// Passes the messages of a response through the hooks, if there are any. With `strict`, content that cannot be shown
/// to the hooks is not forwarded. A client that `listens` for events, or has sent a request, may parse any body as an
/// event stream, so a body of an unknown kind is then treated as one. Denials of messages are recorded in `recent`;
/// buffered bytes are charged to `account`.
pub(in crate::proxy) async fn run_hooks(
    response: Response,
    hooks: &Hooks,
    asked: Option<Arc<RequestMessages>>,
    recent: Option<&Arc<DenialLog>>,
    strict: bool,
    listens: bool,
    account: LazyAccount,
) -> Response {
    let hooks = hooks.take();
    if hooks.is_empty() {
        return response;
    }
    let mut passage = HookChain {
        hooks,
        request: asked,
        recent: recent.cloned(),
        strict,
        answered_ids: Vec::new(),
        account,
    };
    if http_body::Body::is_end_stream(response.body()) {
        passage.end(false);
        return response;
    }
    let listens = listens || passage.request.is_some();
    let (content, response) = match content(response, strict, listens, &passage.account).await {
        Ok(known) => known,
        Err(failed) => {
            let (parts, broken) = *failed;
            return truncated_response(parts, broken, passage);
        }
    };
    let encoded = is_encoded(response.headers());
    let unreadable = match content {
        _ if encoded => Some("the server's response has a `Content-Encoding`, so it cannot be inspected"),
        ContentKind::Ambiguous(_) => Some("the content type of the server's response is ambiguous"),
        ContentKind::Json | ContentKind::Events | ContentKind::Other => None,
    };
    if let Some(why) = unreadable.filter(|_| strict) {
        let refused = passage.denied_response(Reason::AnswerUnclear, why);
        passage.end(true);
        return refused;
    }
    if content == ContentKind::Other || encoded {
        passage.end(false);
        return response;
    }
    if matches!(content, ContentKind::Json | ContentKind::Ambiguous(Likely::Json)) {
        return json(response, passage).await;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    remove_content_headers(&mut parts.headers);
    Response::from_parts(parts, Body::stream(HookedSseBody::new(body, passage, MAX_MESSAGE_BYTES)))
}

/// Buffers a whole JSON text, because bytes that were forwarded cannot be taken back.
async fn json(response: Response, mut passage: HookChain) -> Response {
    let (mut parts, body) = response.into_parts();
    let (text, body) = match body.peek(MAX_MESSAGE_BYTES + 1, || passage.account.get()).await {
        Ok(peeked) => peeked,
        Err(broken) => return truncated_response(parts, broken, passage),
    };
    if text.len() > MAX_MESSAGE_BYTES || !matches!(body, Body::Full(_)) {
        if !passage.strict {
            passage.end(false);
            return Response::from_parts(parts, body);
        }
        let refused = match text.len() {
            0..=MAX_MESSAGE_BYTES => passage.denied_response(Reason::NoMemory, NO_ROOM),
            _ => {
                let text = format!("the server's response is larger than {} MiB", MAX_MESSAGE_BYTES >> 20);
                passage.denied_response(Reason::AnswerUnclear, &text)
            }
        };
        passage.end(true);
        return refused;
    }
    let begun = text.clone();
    let left = match passage.process_text(text) {
        Ok(left) => left,
        Err(_) if !passage.strict => HookResult::Unchanged,
        // The body of an error response, or of a response to a GET, is often not a JSON-RPC message.
        Err(_) if (passage.request.is_none() || !parts.status.is_success()) && !could_be_message(&begun) => {
            HookResult::Unchanged
        }
        Err(malformed) => {
            let text = format!("the server's response is not valid: {}", malformed.reason);
            let refused = passage.denied_response(Reason::AnswerUnclear, &text);
            passage.end(true);
            return refused;
        }
    };
    passage.end(false);
    match left {
        HookResult::Unchanged => Response::from_parts(parts, body),
        HookResult::Replaced(text) => {
            remove_content_headers(&mut parts.headers);
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
            Response::from_parts(parts, Body::from(passage.account.reserve_until_dropped(text)))
        }
        HookResult::Dropped => {
            remove_content_headers(&mut parts.headers);
            parts.headers.remove(header::CONTENT_TYPE);
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(0));
            parts.status = StatusCode::ACCEPTED;
            Response::from_parts(parts, Body::empty())
        }
    }
}

/// Responds with a denial in place of a response that was interrupted; without `strict`, forwards its incomplete body.
fn truncated_response(parts: Parts, broken: IncompleteBody, mut passage: HookChain) -> Response {
    let response = if passage.strict {
        passage.denied_response(Reason::AnswerUnclear, "the server's response was interrupted")
    } else {
        Response::from_parts(parts, Body::from(broken))
    };
    passage.end(true);
    response
}

/// Determines the kind of content of a response. With `strict`, the first bytes decide if the headers declare neither
/// JSON nor events. If the client `listens`, any other content is treated as events: an event stream may begin with any
/// line, because parsers skip unknown ones.
async fn content(
    response: Response,
    strict: bool,
    listens: bool,
    account: &LazyAccount,
) -> Result<(ContentKind, Response), Box<(Parts, IncompleteBody)>> {
    let declared = declared(response.headers());
    if declared != ContentKind::Other || !strict || is_encoded(response.headers()) {
        return Ok((declared, response));
    }
    let (parts, body) = response.into_parts();
    // Boxed, because it is rare and large.
    match Box::pin(sniff(body, account)).await {
        Ok((ContentKind::Other, body)) if listens => {
            Ok((ContentKind::Events, Response::from_parts(parts, body)))
        }
        Ok((content, body)) => Ok((content, Response::from_parts(parts, body))),
        Err(broken) => Err(Box::new((parts, broken))),
    }
}

/// Whether a response has a `Content-Encoding`, such as compression, so that its body is not plain text.
pub(in crate::proxy) fn is_encoded(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_ENCODING).iter().any(|value| {
        let value = value.as_bytes().trim_ascii();
        !value.is_empty() && !value.eq_ignore_ascii_case(b"identity")
    })
}

fn remove_content_headers(headers: &mut HeaderMap) {
    for name in CONTENT_HEADERS {
        headers.remove(name);
    }
}
