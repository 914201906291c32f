//! Refuses messages, in the form in which their client understands it.

use http::{HeaderMap, StatusCode, header};

use super::{
    denial::Denial,
    messages::RequestMessages,
    respond::{self, Response},
};
use crate::{
    mcp::{
        era::Era,
        error_code,
        message::{Message, MessageKind},
    },
    proxy::body::Body,
    stdio::mux::error_response_with_data,
};

/// The status of an error that is an answer like any other.
pub(super) fn error_status(asked: &RequestMessages, headers: &HeaderMap) -> StatusCode {
    let takes_answers = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|accepted| memchr::memmem::find(accepted.as_bytes(), b"text/event-stream").is_some());
    match asked.era() {
        Era::Modern => StatusCode::BAD_REQUEST,
        Era::Legacy if takes_answers => StatusCode::OK,
        // Clients of the deprecated SSE transport read no more than the status: their answers come on the stream.
        Era::Legacy => StatusCode::BAD_REQUEST,
    }
}

/// Refuses a request for one of its messages. Of several in an array none is sent on, and each request is
/// answered.
pub(super) fn deny_message(
    asked: &RequestMessages,
    refused: &Message,
    status: StatusCode,
    (code, message): (i64, &str),
    denial: Denial,
) -> Response {
    if !asked.is_batch() {
        return respond::deny(status, code, message, refused.id_text(), denial);
    }
    let reason = denial.error_data();
    let requests = asked.messages().iter().filter(|one| one.kind() == MessageKind::Request);
    let answers: Vec<_> = requests
        .map(|one| {
            let id = one.id_text();
            if std::ptr::eq(one, refused) {
                error_response_with_data(id, code, message, Some(&reason))
            } else {
                let message = "not sent, since another message of the array is refused";
                error_response_with_data(id, error_code::INVALID_REQUEST, message, Some(&reason))
            }
        })
        .collect();
    let mut response = respond::deny(status, code, message, b"", denial);
    if !answers.is_empty() {
        let body = [b"[".as_slice(), &answers.join(&b','), b"]"].concat();
        *response.body_mut() = Body::from(bytes::Bytes::from(body));
    }
    response
}
