//! Opens a session again that a server has lost, and repeats the request that was refused for it.
//!
//! A server keeps its sessions in its process, so a restart loses them, and real clients do not all open a new
//! one when they are told. The proxy has kept what the client said at `initialize`: it says it again, with the
//! credentials of the request at hand and no others, and from then on puts the new id in place of the old one.

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

/// How long the server may take to say that a session is lost, and to open it again.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(60);
/// Most bytes that are read of an answer to see what it says.
const MAX_PEEK_BYTES: usize = 64 << 10;
const MCP_PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// What a request says of itself, and not of its client. A compressed answer could not be read here.
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

/// A request of a session that is remembered.
#[derive(Debug)]
pub(super) struct SessionRequest {
    /// Where the session was when the request was sent.
    pub(super) session: ServerSession,
    /// The id that the client knows.
    client_session_id: HeaderValue,
}

/// Why a session cannot be opened again.
enum RecoveryError {
    /// The server is not reached, which may pass.
    Unreachable(String),
    /// It does not open the session, or opens another one than it was.
    Rejected(String),
}

impl SessionRequest {
    /// Names the session as the server knows it.
    pub(super) fn with_server_id(parts: &mut Parts, place: ServerSession) -> Self {
        let client = match parts.headers.get(MCP_SESSION_ID) {
            Some(named) if *named != place.server_session_id => {
                let client = detached(named);
                parts.headers.insert(MCP_SESSION_ID, place.server_session_id.clone());
                client
            }
            _ => place.server_session_id.clone(),
        };
        Self { session: place, client_session_id: client }
    }

    /// Whether an answer says something of the session, or names it.
    pub(super) fn affects_session(&self, head: &RequestHead, response: &Response, life: u64) -> bool {
        response.status() == StatusCode::NOT_FOUND
            || self.session.generation != life
            || *head.method() == Method::DELETE
            || response.headers().get(MCP_SESSION_ID).is_some_and(|named| self.client_session_id != named)
    }

    /// Gives an answer the session id that the client knows.
    pub(super) fn restore_client_id(&self, mut response: Response) -> Response {
        if response.headers().contains_key(MCP_SESSION_ID) {
            response.headers_mut().insert(MCP_SESSION_ID, self.client_session_id.clone());
        }
        response
    }
}

/// A request as it was sent, with the session's present id.
fn retry_request(mut sent: Parts, server: HeaderValue, body: Bytes) -> (RequestHead, Body) {
    sent.headers.insert(MCP_SESSION_ID, server);
    // The new session has not said anything yet.
    sent.headers.remove("last-event-id");
    (RequestHead::new(&sent, Some(body.len() as u64)), Body::from(body))
}

/// A message of the handshake, with what the request that was sent says of the client.
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

/// What becomes of an answer in a session.
pub(super) enum RecoveryOutcome {
    /// It is the client's.
    Response(Response),
    /// The request was refused for its lost session, which is open again: this is to be sent now.
    Retry(RequestHead, Body),
}

/// Looks at an answer in a session: what it says of the session is noted, and where it says that the session is
/// lost, the session is opened again. `body` is that of the request, if it can be sent a second time.
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
    // Not all servers say 404, as they should: some say 400 for a session that is none of theirs.
    let suspicious = status == StatusCode::NOT_FOUND || status == StatusCode::BAD_REQUEST && moved_on;
    if !suspicious {
        if moved_on && status.is_success() {
            // A server that keeps its sessions over a restart.
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
        let message = "the server did not answer in time";
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
            // Another request of the session has seen to it meanwhile.
            Some(place) if place != request.session => Ok(place.server_session_id),
            Some(_) => {
                let server = reopen_session(reached, &sent, &opening).await?;
                sessions.update_server_session(
                    client,
                    &request.session,
                    ServerSession { server_session_id: server.clone(), generation: reached.generation },
                );
                tracing::info!("a session that the server had lost was opened again");
                Ok(server)
            }
            None => Err(RecoveryError::Rejected("it has ended".to_owned())),
        }
    };
    let failure = match tokio::time::timeout(RECOVERY_TIMEOUT, reopening).await {
        Ok(Ok(server)) => {
            let (head, body) = retry_request(sent, server, body.clone());
            return RecoveryOutcome::Retry(head, body);
        }
        Ok(Err(failure)) => failure,
        Err(_) => RecoveryError::Rejected("the server did not answer `initialize` in time".to_owned()),
    };
    let id = scan_request_id(body);
    RecoveryOutcome::Response(match failure {
        RecoveryError::Unreachable(reason) => {
            respond::error(StatusCode::SERVICE_UNAVAILABLE, error_code::INTERNAL_ERROR, &reason, &id)
        }
        RecoveryError::Rejected(reason) => {
            tracing::warn!(reason, "a session that the server has lost could not be opened again");
            sessions.forget(client);
            session_not_found(&id)
        }
    })
}

/// What a server says of a session that it does not know.
pub(super) fn session_not_found(id: &[u8]) -> Response {
    let message = "session not found; open a new one with `initialize`";
    respond::error(StatusCode::NOT_FOUND, error_code::SESSION_NOT_FOUND, message, id)
}

/// Reads the beginning of an answer, which stays whole.
async fn peek_body(response: Response) -> (Response, Bytes) {
    let (parts, body) = response.into_parts();
    let (begun, body) = match body.peek(MAX_PEEK_BYTES, Account::new()).await {
        Ok(peeked) => peeked,
        Err(broken) => (broken.prefix.clone(), Body::from(broken)),
    };
    (Response::from_parts(parts, body), begun)
}

/// Opens a session as its client did, and returns the id that the server gives it.
async fn reopen_session(
    reached: &TargetInstance,
    sent: &Parts,
    opening: &SavedInitialize,
) -> Result<HeaderValue, RecoveryError> {
    let refused = |reason: &str| RecoveryError::Rejected(reason.to_owned());
    let send = async |request| {
        let sent = reached.client.send(request).await;
        sent.map(|answer| answer.map(Body::Upstream))
            .map_err(|error| RecoveryError::Unreachable(error.to_string()))
    };
    let answer = send(handshake_request(sent, &opening.uri, opening.body.clone())).await?;
    if !answer.status().is_success() {
        return Err(refused(&format!("`initialize` was answered with {}", answer.status())));
    }
    let server =
        answer.headers().get(MCP_SESSION_ID).cloned().ok_or_else(|| refused("the server opened none"))?;
    let result =
        read_result(answer.into_body()).await.ok_or_else(|| refused("the server refused `initialize`"))?;
    let version = chosen_version(result.result()).ok_or_else(|| refused("the server chose no version"))?;
    let agreed = sent.headers.get(MCP_PROTOCOL_VERSION);
    if agreed.is_some_and(|agreed| agreed.as_bytes() != version.as_bytes()) {
        return Err(refused("the server speaks another version now"));
    }
    let text = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let mut initialized = handshake_request(sent, &opening.uri, text);
    initialized.headers_mut().insert(MCP_SESSION_ID, server.clone());
    if let Some(agreed) = agreed {
        initialized.headers_mut().insert(MCP_PROTOCOL_VERSION, agreed.clone());
    }
    let answer = send(initialized).await?;
    if !answer.status().is_success() {
        return Err(refused(&format!("`notifications/initialized` was answered with {}", answer.status())));
    }
    // Read to its end, the connection serves the next request.
    drop(answer.into_body().peek(MAX_PEEK_BYTES, Account::new()).await);
    Ok(server)
}

/// The answer to a request, out of a JSON body or an event stream.
async fn read_result(mut body: Body) -> Option<Message> {
    let mut text = Vec::new();
    let answer = |json: &[u8]| {
        let message = Message::parse(Bytes::copy_from_slice(json)).ok()?;
        (message.kind() == MessageKind::Response && message.error_code().is_none()).then_some(message)
    };
    while text.len() <= MAX_PEEK_BYTES {
        let piece = body.next_chunk().await.ok().flatten();
        let over = piece.is_none();
        text.extend_from_slice(&piece.unwrap_or_default());
        // Servers write a message on one line of an event, since JSON has no need of more.
        let complete = memchr::memrchr(b'\n', &text).map_or(0, |at| at + 1);
        let lines = text[..complete].split(|byte| matches!(byte, b'\n' | b'\r'));
        if let Some(found) = lines.filter_map(|line| line.strip_prefix(b"data:")).find_map(answer) {
            return Some(found);
        }
        if over {
            return answer(&text);
        }
    }
    None
}
