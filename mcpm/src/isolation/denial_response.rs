//! Responses that tell a client why its connection was denied.

use super::denial::EgressDenial;

/// Returns the body of an HTTP response.
pub(super) fn denial_text(denial: &EgressDenial) -> String {
    format!("mcpm: {denial}\n")
}

/// Returns a complete HTTP response, for a client that does not use the proxy.
pub(super) fn http_denial_response(denial: &EgressDenial) -> String {
    let body = denial_text(denial);
    let length = body.len();
    format!(
        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
