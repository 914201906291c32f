//! Reopens a session that a server has lost, and repeats the rejected request.
//!
//! Servers keep sessions in memory, so a restart loses them, and many clients do not open a new one when they get
//! 404. The proxy saves the client's `initialize` request. To recover the session, it repeats that request with the
//! credentials of the current request only, and then replaces the old session id with the new one.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Uri, header, request::Parts};

use super::{
    recoverable_sessions::{MCP_SESSION_ID, RecoverableSessions, SavedInitialize, ServerSession, detached},
    respond::{self, JSON, Request, Response},
    target::TargetInstance,
};
use crate::{
    mcp::{
        error_code,
        message::{Message, MessageKind},
        request_id::scan_request_id,
    },
    memory::Account,
    proxy::body::Body,
    stdio::handshake::chosen_version,
    transport::http::RequestHead,
};

/// Timeout for the server's rejection and for opening the session again.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of a response that is inspected, in bytes.
const MAX_PEEK_BYTES: usize = 64 << 10;
const MCP_PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// Headers that belong to one request. A compressed response could not be parsed here.
const PER_REQUEST_HEADERS: [&str; 8] = [
    "accept-encoding",
    "content-encoding",
    "content-length",
    "expect",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    MCP_PROTOCOL_VERSION,
];

/// A request in a recoverable session.
#[derive(Debug)]
pub(super) struct SessionRequest {
    /// The server's side of the session when the request was sent.
    pub(super) session: ServerSession,
    /// The session id that the client knows.
    client_session_id: HeaderValue,
}

/// Why a session cannot be opened again.
enum RecoveryError {
    /// The server cannot be reached, which may be temporary.
    Unreachable(String),
    /// The server does not open the session, or opens a different one.
    Rejected(String),
}

impl SessionRequest {
    /// Replaces the session id by the server's.
    pub(super) fn with_server_id(parts: &mut Parts, server_session: ServerSession) -> Self {
        let client = match parts.headers.get(MCP_SESSION_ID) {
            Some(named) if *named != server_session.server_session_id => {
                let client = detached(named);
                parts.headers.insert(MCP_SESSION_ID, server_session.server_session_id.clone());
                client
            }
            _ => server_session.server_session_id.clone(),
        };
        Self { session: server_session, client_session_id: client }
    }

    /// Whether a response concerns the session, or names it.
    pub(super) fn affects_session(&self, head: &RequestHead, response: &Response, life: u64) -> bool {
        response.status() == StatusCode::NOT_FOUND
            || self.session.generation != life
            || *head.method() == Method::DELETE
            || response.headers().get(MCP_SESSION_ID).is_some_and(|named| self.client_session_id != named)
    }

    /// Replaces the session id in a response by the client's.
    pub(super) fn restore_client_id(&self, mut response: Response) -> Response {
        if response.headers().contains_key(MCP_SESSION_ID) {
            response.headers_mut().insert(MCP_SESSION_ID, self.client_session_id.clone());
        }
        response
    }
}

/// The request as it was sent, with the session's current id.
fn retry_request(mut sent: Parts, server: HeaderValue, body: Bytes) -> (RequestHead, Body) {
    sent.headers.insert(MCP_SESSION_ID, server);
    // The new session has no events to resume.
    sent.headers.remove("last-event-id");
    (RequestHead::new(&sent, Some(body.len() as u64)), Body::from(body))
}

/// A message of the handshake, with the client's headers of the current request.
fn handshake_request(sent: &Parts, uri: &Uri, body: Bytes) -> Request {
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    *headers = sent.headers.clone();
    for name in PER_REQUEST_HEADERS {
        headers.remove(name);
    }
    headers.remove(MCP_SESSION_ID);
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    request
}

/// The outcome for a response in a session.
pub(super) enum RecoveryOutcome {
    /// The response for the client.
    Response(Response),
    /// The session was lost and is open again: this request is to be sent now.
    Retry(RequestHead, Body),
}

/// Inspects a response in a session: if the response shows that the session is lost, the session is opened again.
/// `body` is the body of the request, if it can be sent again.
pub(super) async fn handle_response(
    sessions: &RecoverableSessions,
    reached: &TargetInstance,
    request: &SessionRequest,
    head: &RequestHead,
    body: Option<&Bytes>,
    response: Response,
) -> RecoveryOutcome {
    let (client, status) = (&request.client_session_id, response.status());
    if *head.method() == Method::DELETE {
        if status.is_success() || status == StatusCode::NOT_FOUND {
            sessions.forget(client);
        }
        return RecoveryOutcome::Response(request.restore_client_id(response));
    }
    let moved_on = request.session.generation != reached.generation;
    // Some servers respond with 400 instead of 404 to an unknown session.
    let may_be_lost = status == StatusCode::NOT_FOUND || status == StatusCode::BAD_REQUEST && moved_on;
    if !may_be_lost {
        if moved_on && status.is_success() {
            // The server may have kept its sessions over a restart.
            let server = request.session.server_session_id.clone();
            sessions.update_server_session(
                client,
                &request.session,
                ServerSession { server_session_id: server, generation: reached.generation },
            );
        }
        return RecoveryOutcome::Response(request.restore_client_id(response));
    }
    let known = sessions.saved_initialize(client);
    let (Some((opening, turn)), Some(sent), Some(body)) = (known, head.parts(), body) else {
        return RecoveryOutcome::Response(request.restore_client_id(response));
    };
    if opening.uri != sent.uri {
        return RecoveryOutcome::Response(request.restore_client_id(response));
    }
    let Ok((response, text)) = tokio::time::timeout(RECOVERY_TIMEOUT, peek_body(response)).await else {
        let message = "the server did not respond in time";
        return RecoveryOutcome::Response(respond::error(
            StatusCode::GATEWAY_TIMEOUT,
            error_code::INTERNAL_ERROR,
            message,
            &scan_request_id(body),
        ));
    };
    let unknown_method =
        Message::parse(text).is_ok_and(|answer| answer.error_code() == Some(error_code::METHOD_NOT_FOUND));
    if unknown_method {
        return RecoveryOutcome::Response(request.restore_client_id(response));
    }
    let reopening = async {
        let _turn =
            turn.acquire().await.map_err(|_| RecoveryError::Rejected("the proxy is stopping".to_owned()))?;
        match sessions.server_session(client) {
            // Another request of the session has opened it meanwhile.
            Some(current) if current != request.session => Ok(current.server_session_id),
            Some(_) => {
                let server = reopen_session(reached, &sent, &opening).await?;
                sessions.update_server_session(
                    client,
                    &request.session,
                    ServerSession { server_session_id: server.clone(), generation: reached.generation },
                );
                tracing::info!("reopened a session that the server had lost");
                Ok(server)
            }
            None => Err(RecoveryError::Rejected("the session has ended".to_owned())),
        }
    };
    let failure = match tokio::time::timeout(RECOVERY_TIMEOUT, reopening).await {
        Ok(Ok(server)) => {
            let (head, body) = retry_request(sent, server, body.clone());
            return RecoveryOutcome::Retry(head, body);
        }
        Ok(Err(failure)) => failure,
        Err(_) => RecoveryError::Rejected("the server did not respond to `initialize` in time".to_owned()),
    };
    let id = scan_request_id(body);
    RecoveryOutcome::Response(match failure {
        RecoveryError::Unreachable(reason) => {
            respond::error(StatusCode::SERVICE_UNAVAILABLE, error_code::INTERNAL_ERROR, &reason, &id)
        }
        RecoveryError::Rejected(reason) => {
            tracing::warn!(reason, "cannot reopen a session that the server has lost");
            sessions.forget(client);
            session_not_found(&id)
        }
    })
}

/// The response for an unknown session.
pub(super) fn session_not_found(id: &[u8]) -> Response {
    let message = "session not found; open a new one with `initialize`";
    respond::error(StatusCode::NOT_FOUND, error_code::SESSION_NOT_FOUND, message, id)
}

/// Reads the beginning of a response, whose body stays complete.
async fn peek_body(response: Response) -> (Response, Bytes) {
    let (parts, body) = response.into_parts();
    let (prefix, body) = match body.peek(MAX_PEEK_BYTES, Account::new).await {
        Ok(peeked) => peeked,
        Err(broken) => (broken.prefix.clone(), Body::from(broken)),
    };
    (Response::from_parts(parts, body), prefix)
}

/// Opens a session as its client did, and returns the new id.
async fn reopen_session(
    reached: &TargetInstance,
    sent: &Parts,
    opening: &SavedInitialize,
) -> Result<HeaderValue, RecoveryError> {
    let rejected = |reason: &str| RecoveryError::Rejected(reason.to_owned());
    let send = async |request| {
        let sent = reached.client.send(request).await;
        sent.map(|answer| answer.map(Body::Upstream))
            .map_err(|error| RecoveryError::Unreachable(error.to_string()))
    };
    let answer = send(handshake_request(sent, &opening.uri, opening.body.clone())).await?;
    if !answer.status().is_success() {
        return Err(rejected(&format!("the response to `initialize` has status {}", answer.status())));
    }
    let server = answer
        .headers()
        .get(MCP_SESSION_ID)
        .cloned()
        .ok_or_else(|| rejected("the server did not open a session"))?;
    let result =
        read_result(answer.into_body()).await.ok_or_else(|| rejected("the server rejected `initialize`"))?;
    let version =
        chosen_version(result.result()).ok_or_else(|| rejected("the server did not select a version"))?;
    let agreed = sent.headers.get(MCP_PROTOCOL_VERSION);
    if agreed.is_some_and(|agreed| agreed.as_bytes() != version.as_bytes()) {
        return Err(rejected("the server selected another protocol version"));
    }
    let text = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let mut initialized = handshake_request(sent, &opening.uri, text);
    initialized.headers_mut().insert(MCP_SESSION_ID, server.clone());
    if let Some(agreed) = agreed {
        initialized.headers_mut().insert(MCP_PROTOCOL_VERSION, agreed.clone());
    }
    let answer = send(initialized).await?;
    if !answer.status().is_success() {
        return Err(rejected(&format!(
            "the response to `notifications/initialized` has status {}",
            answer.status()
        )));
    }
    // Reading to the end makes the connection reusable.
    drop(answer.into_body().peek(MAX_PEEK_BYTES, Account::new).await);
    Ok(server)
}

/// The JSON-RPC response in a JSON body or an SSE stream.
async fn read_result(mut body: Body) -> Option<Message> {
    let mut text = Vec::new();
    let answer = |json: &[u8]| {
        let message = Message::parse(Bytes::copy_from_slice(json)).ok()?;
        (message.kind() == MessageKind::Response && message.error_code().is_none()).then_some(message)
    };
    while text.len() <= MAX_PEEK_BYTES {
        let chunk = body.next_chunk().await.ok().flatten();
        let is_end = chunk.is_none();
        text.extend_from_slice(&chunk.unwrap_or_default());
        // Servers write a message in one line, because JSON needs no line breaks.
        let complete = memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1);
        let lines = text[..complete].split(|byte| matches!(byte, b'\n' | b'\r'));
        if let Some(found) = lines.filter_map(|line| line.strip_prefix(b"data:")).find_map(answer) {
            return Some(found);
        }
        if is_end {
            return answer(&text);
        }
    }
    None
}
