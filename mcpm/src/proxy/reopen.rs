//! Opens a session again that a server has lost, and repeats the request that was refused for it.
//!
//! A server keeps its sessions in its process, so a restart loses them, and real clients do not all open a new
//! one when they are told. The proxy has kept what the client said at `initialize`: it says it again, with the
//! credentials of the request at hand and no others, and from then on puts the new id in place of the old one.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Uri, header, request::Parts};

use super::{
    respond::{self, JSON, Request, Response},
    sessions::{Opening, Place, SESSION, Sessions, copied},
    target::Reached,
};
use crate::{
    mcp::{
        error_code,
        handshake::chosen_version,
        message::{Kind, Message},
        peek::id_in,
    },
    memory::Account,
    transport::{body::Body, http::Head},
};

/// How long the server may take to say that a session is lost, and to open it again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes that are read of an answer to see what it says.
const LOOKED_AT: usize = 64 << 10;
const VERSION: &str = "mcp-protocol-version";
/// What a request says of itself, and not of its client. A compressed answer could not be read here.
const OF_REQUEST: [&str; 8] = [
    "accept-encoding",
    "content-encoding",
    "content-length",
    "expect",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    VERSION,
];

/// A request of a session that is remembered.
#[derive(Debug)]
pub(super) struct InSession {
    /// Where the session was when the request was sent.
    pub(super) place: Place,
    /// The id that the client knows.
    client: HeaderValue,
}

/// Why a session cannot be opened again.
enum Failure {
    /// The server is not reached, which may pass.
    Unreachable(String),
    /// It does not open the session, or opens another one than it was.
    Refused(String),
}

impl InSession {
    /// Names the session as the server knows it.
    pub(super) fn take(parts: &mut Parts, place: Place) -> Self {
        let client = match parts.headers.get(SESSION) {
            Some(named) if *named != place.server => {
                let client = copied(named);
                parts.headers.insert(SESSION, place.server.clone());
                client
            }
            _ => place.server.clone(),
        };
        Self { place, client }
    }

    /// Whether an answer says something of the session, or names it.
    pub(super) fn concerns(&self, head: &Head, response: &Response, life: u64) -> bool {
        response.status() == StatusCode::NOT_FOUND
            || self.place.life != life
            || *head.method() == Method::DELETE
            || response.headers().get(SESSION).is_some_and(|named| self.client != named)
    }

    /// Gives an answer the session id that the client knows.
    pub(super) fn named(&self, mut response: Response) -> Response {
        if response.headers().contains_key(SESSION) {
            response.headers_mut().insert(SESSION, self.client.clone());
        }
        response
    }
}

/// A request as it was sent, with the session's present id.
fn again(mut sent: Parts, server: HeaderValue, body: Bytes) -> (Head, Body) {
    sent.headers.insert(SESSION, server);
    // The new session has not said anything yet.
    sent.headers.remove("last-event-id");
    let body = Body::from(body);
    (Head::new(&sent, &body), body)
}

/// A message of the handshake, with what the request that was sent says of the client.
fn handshake(sent: &Parts, uri: &Uri, body: Bytes) -> Request {
    let mut request = Request::new(Body::from(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    let headers = request.headers_mut();
    *headers = sent.headers.clone();
    for name in OF_REQUEST {
        headers.remove(name);
    }
    headers.remove(SESSION);
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    request
}

/// What becomes of an answer in a session.
pub(super) enum Outcome {
    /// It is the client's.
    Answer(Response),
    /// The request was refused for its lost session, which is open again: this is to be sent now.
    Again(Head, Body),
}

/// Looks at an answer in a session: what it says of the session is noted, and where it says that the session is
/// lost, the session is opened again. `body` is that of the request, if it can be sent a second time.
pub(super) async fn answered(
    sessions: &Sessions,
    reached: &Reached,
    request: &InSession,
    head: &Head,
    body: Option<&Bytes>,
    response: Response,
) -> Outcome {
    let (client, status) = (&request.client, response.status());
    if *head.method() == Method::DELETE {
        if status.is_success() || status == StatusCode::NOT_FOUND {
            sessions.forget(client);
        }
        return Outcome::Answer(request.named(response));
    }
    let moved_on = request.place.life != reached.life;
    // Not all servers say 404, as they should: some say 400 for a session that is none of theirs.
    let suspicious = status == StatusCode::NOT_FOUND || status == StatusCode::BAD_REQUEST && moved_on;
    if !suspicious {
        if moved_on && status.is_success() {
            // A server that keeps its sessions over a restart.
            let server = request.place.server.clone();
            sessions.settle(client, &request.place, Place { server, life: reached.life });
        }
        return Outcome::Answer(request.named(response));
    }
    let known = sessions.opening(client);
    let (Some((opening, turn)), Some(sent), Some(body)) = (known, head.parts(), body) else {
        return Outcome::Answer(request.named(response));
    };
    if opening.uri != sent.uri {
        return Outcome::Answer(request.named(response));
    }
    let Ok((response, text)) = tokio::time::timeout(PATIENCE, look(response)).await else {
        let message = "the server did not answer in time";
        return Outcome::Answer(respond::error(
            StatusCode::GATEWAY_TIMEOUT,
            error_code::INTERNAL_ERROR,
            message,
            &id_in(body),
        ));
    };
    let unknown_method =
        Message::parse(text).is_ok_and(|answer| answer.error_code() == Some(error_code::METHOD_NOT_FOUND));
    if unknown_method {
        return Outcome::Answer(request.named(response));
    }
    let reopening = async {
        let _turn = turn.acquire().await.map_err(|_| Failure::Refused("the proxy is stopping".to_owned()))?;
        match sessions.place(client) {
            // Another request of the session has seen to it meanwhile.
            Some(place) if place != request.place => Ok(place.server),
            Some(_) => {
                let server = open(reached, &sent, &opening).await?;
                sessions.settle(client, &request.place, Place { server: server.clone(), life: reached.life });
                tracing::info!("a session that the server had lost was opened again");
                Ok(server)
            }
            None => Err(Failure::Refused("it has ended".to_owned())),
        }
    };
    let failure = match tokio::time::timeout(PATIENCE, reopening).await {
        Ok(Ok(server)) => {
            let (head, body) = again(sent, server, body.clone());
            return Outcome::Again(head, body);
        }
        Ok(Err(failure)) => failure,
        Err(_) => Failure::Refused("the server did not answer `initialize` in time".to_owned()),
    };
    let id = id_in(body);
    Outcome::Answer(match failure {
        Failure::Unreachable(reason) => {
            respond::error(StatusCode::SERVICE_UNAVAILABLE, error_code::INTERNAL_ERROR, &reason, &id)
        }
        Failure::Refused(reason) => {
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
async fn look(response: Response) -> (Response, Bytes) {
    let (parts, body) = response.into_parts();
    let (begun, body) = match body.peek(LOOKED_AT, Account::new()).await {
        Ok(peeked) => peeked,
        Err(broken) => (broken.begun.clone(), Body::from(broken)),
    };
    (Response::from_parts(parts, body), begun)
}

/// Opens a session as its client did, and returns the id that the server gives it.
async fn open(reached: &Reached, sent: &Parts, opening: &Opening) -> Result<HeaderValue, Failure> {
    let refused = |reason: &str| Failure::Refused(reason.to_owned());
    let send = async |request| {
        let sent = reached.client.send(request).await;
        sent.map(|answer| answer.map(Body::Received)).map_err(|error| Failure::Unreachable(error.to_string()))
    };
    let answer = send(handshake(sent, &opening.uri, opening.body.clone())).await?;
    if !answer.status().is_success() {
        return Err(refused(&format!("`initialize` was answered with {}", answer.status())));
    }
    let server = answer.headers().get(SESSION).cloned().ok_or_else(|| refused("the server opened none"))?;
    let result =
        result_of(answer.into_body()).await.ok_or_else(|| refused("the server refused `initialize`"))?;
    let version = chosen_version(result.result()).ok_or_else(|| refused("the server chose no version"))?;
    let agreed = sent.headers.get(VERSION);
    if agreed.is_some_and(|agreed| agreed.as_bytes() != version.as_bytes()) {
        return Err(refused("the server speaks another version now"));
    }
    let text = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let mut initialized = handshake(sent, &opening.uri, text);
    initialized.headers_mut().insert(SESSION, server.clone());
    if let Some(agreed) = agreed {
        initialized.headers_mut().insert(VERSION, agreed.clone());
    }
    let answer = send(initialized).await?;
    if !answer.status().is_success() {
        return Err(refused(&format!("`notifications/initialized` was answered with {}", answer.status())));
    }
    // Read to its end, the connection serves the next request.
    drop(answer.into_body().peek(LOOKED_AT, Account::new()).await);
    Ok(server)
}

/// The answer to a request, out of a JSON body or an event stream.
async fn result_of(mut body: Body) -> Option<Message> {
    let mut text = Vec::new();
    let answer = |json: &[u8]| {
        let message = Message::parse(Bytes::copy_from_slice(json)).ok()?;
        (message.kind() == Kind::Response && message.error_code().is_none()).then_some(message)
    };
    while text.len() <= LOOKED_AT {
        let piece = body.piece().await.ok().flatten();
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
