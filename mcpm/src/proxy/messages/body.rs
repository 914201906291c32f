//! The body of an answer on its way past the hooks: one JSON text, or a stream of events.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header, response::Parts};

use super::{
    Asked, Hooks, LARGEST, NO_ROOM,
    content::{Content, Likely, begun, declared},
    events::Events,
    passage::{Left, Passage},
    unmistakable::could_be_message,
};
use crate::{
    explain::{Reason, Recent},
    memory::Account,
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

/// Leads an answer past the hooks, if there are any. With `strict`, what they cannot be shown does not go on; whoever
/// `listens` for events may read them out of anything, and so does whoever has asked. Why parts do not go on is kept in
/// `recent`; what is read is booked on `account`.
pub(in crate::proxy) async fn hooked(
    response: Response,
    hooks: &Hooks,
    asked: Option<Arc<Asked>>,
    recent: Option<&Arc<Recent>>,
    strict: bool,
    listens: bool,
    account: Arc<Account>,
) -> Response {
    let hooks = hooks.take();
    if hooks.is_empty() {
        return response;
    }
    let mut passage =
        Passage { hooks, asked, recent: recent.cloned(), strict, answered: Vec::new(), account };
    if http_body::Body::is_end_stream(response.body()) {
        passage.end(false);
        return response;
    }
    let listens = listens || passage.asked.is_some();
    let (content, response) = match content(response, strict, listens, &passage.account).await {
        Ok(known) => known,
        Err(failed) => {
            let (parts, broken) = *failed;
            return broke_off(parts, broken, passage);
        }
    };
    let encoded = is_encoded(response.headers());
    let unreadable = match content {
        _ if encoded => Some("the server encoded its answer although it was asked not to"),
        Content::Ambiguous(_) => Some("the server does not say in one way only what its answer holds"),
        Content::Json | Content::Events | Content::Other => None,
    };
    if let Some(why) = unreadable.filter(|_| strict) {
        let refused = passage.refused(Reason::AnswerUnclear, why);
        passage.end(true);
        return refused;
    }
    if content == Content::Other || encoded {
        passage.end(false);
        return response;
    }
    if matches!(content, Content::Json | Content::Ambiguous(Likely::Json)) {
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
    let (text, body) = match body.peek(LARGEST + 1, Arc::clone(&passage.account)).await {
        Ok(peeked) => peeked,
        Err(broken) => return broke_off(parts, broken, passage),
    };
    if text.len() > LARGEST || !matches!(body, Body::Full(_)) {
        if !passage.strict {
            passage.end(false);
            return Response::from_parts(parts, body);
        }
        let refused = match text.len() {
            0..=LARGEST => passage.refused(Reason::NoMemory, NO_ROOM),
            _ => {
                let text = format!("the server's answer is larger than {} MiB", LARGEST >> 20);
                passage.refused(Reason::AnswerUnclear, &text)
            }
        };
        passage.end(true);
        return refused;
    }
    let begun = text.clone();
    let left = match passage.text(text) {
        Ok(left) => left,
        Err(_) if !passage.strict => Left::Same,
        // The body of a failed request is often of another form, and so is what is read with a GET.
        Err(_) if (passage.asked.is_none() || !parts.status.is_success()) && !could_be_message(&begun) => {
            Left::Same
        }
        Err(malformed) => {
            let text = format!("the server's answer cannot be read: {}", malformed.reason);
            let refused = passage.refused(Reason::AnswerUnclear, &text);
            passage.end(true);
            return refused;
        }
    };
    passage.end(false);
    match left {
        Left::Same => Response::from_parts(parts, body),
        Left::Other(text) => {
            forget(&mut parts.headers);
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
            Response::from_parts(parts, Body::from(passage.account.hold(text)))
        }
        Left::Nothing => {
            forget(&mut parts.headers);
            parts.headers.remove(header::CONTENT_TYPE);
            parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(0));
            parts.status = StatusCode::ACCEPTED;
            Response::from_parts(parts, Body::empty())
        }
    }
}

/// What came of an answer that broke off is no message, and goes on as it would have.
fn broke_off(parts: Parts, broken: Broken, mut passage: Passage) -> Response {
    let response = if passage.strict {
        passage.refused(Reason::AnswerUnclear, "the server broke off its answer")
    } else {
        Response::from_parts(parts, Body::from(broken))
    };
    passage.end(true);
    response
}

/// What an answer holds. With `strict`, the beginning of one is looked at that does not say. Events may begin with any
/// line, since readers pass over what they do not know.
async fn content(
    response: Response,
    strict: bool,
    listens: bool,
    account: &Arc<Account>,
) -> Result<(Content, Response), Box<(Parts, Broken)>> {
    let declared = declared(response.headers());
    if declared != Content::Other || !strict || is_encoded(response.headers()) {
        return Ok((declared, response));
    }
    let (parts, body) = response.into_parts();
    match begun(body, account).await {
        Ok((Content::Other, body)) if listens => Ok((Content::Events, Response::from_parts(parts, body))),
        Ok((content, body)) => Ok((content, Response::from_parts(parts, body))),
        Err(broken) => Err(Box::new((parts, broken))),
    }
}

/// Whether an answer is compressed, or otherwise no text by itself.
pub(in crate::proxy) fn is_encoded(headers: &HeaderMap) -> bool {
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
