//! Creates the responses to denied messages, with the HTTP status that the client's era and transport expect. In a
//! batch, each request gets an error.

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

/// The HTTP status of a JSON-RPC error response.
pub(super) fn error_status(messages: &RequestMessages, headers: &HeaderMap) -> StatusCode {
    let takes_answers = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|accepted| memchr::memmem::find(accepted.as_bytes(), b"text/event-stream").is_some());
    match messages.era() {
        Era::Modern => StatusCode::BAD_REQUEST,
        Era::Legacy if takes_answers => StatusCode::OK,
        // Clients of the deprecated SSE transport read only the status: responses are sent on the stream.
        Era::Legacy => StatusCode::BAD_REQUEST,
    }
}

/// Denies a request because of one of its messages. If the body is a batch, none of its messages are forwarded, and
/// each request in it gets an error.
pub(super) fn deny_message(
    messages: &RequestMessages,
    refused: &Message,
    status: StatusCode,
    (code, message): (i64, &str),
    denial: Denial,
) -> Response {
    if !messages.is_batch() {
        return respond::deny(status, code, message, refused.id_text(), denial);
    }
    let reason = denial.error_data();
    let requests = messages.messages().iter().filter(|one| one.kind() == MessageKind::Request);
    let answers: Vec<_> = requests
        .map(|one| {
            let id = one.id_text();
            if std::ptr::eq(one, refused) {
                error_response_with_data(id, code, message, Some(&reason))
            } else {
                let message = "not sent, because another message of the batch was denied";
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
