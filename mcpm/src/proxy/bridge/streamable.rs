//! Serves `/mcp`: streamable HTTP in both eras (MCP 2025-11-25 and 2026-07-28, transports).
//!
//! The HTTP status of the response to a JSON-RPC request is sent only when the server's first message has arrived, or
//! after a timeout if the client accepts SSE. If the first message is the response, it is usually sent as JSON; for
//! `initialize` and in the stateless era, the code of a JSON-RPC error determines the status. Any other message starts
//! an SSE stream, or is dropped if the client does not accept SSE.

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body::Frame;
use http_body_util::StreamBody;
use serde_json::value::RawValue;

use super::{
    Bridge, parse_message, read,
    stream::{self, Numbering, SseBody},
};
use crate::{
    mcp::{
        era::{self, ModernMeta},
        error_code,
        message::{Malformed, Message, MessageKind},
        request_headers,
        request_id::scan_request_id,
        sse,
    },
    proxy::{
        body::Body,
        header_check,
        messages::{batch_of, is_modern},
        observe::mark_sent,
        respond::{self, Request, Response},
    },
    stdio::{
        mux::{Multiplexer, PendingResponse, RpcError},
        owner::Owner,
        replay_stream::{MessageReader, StreamItem},
        router::Router,
        session::SessionId,
    },
};

const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static(request_headers::MCP_PROTOCOL_VERSION);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Time without a message after which a client that accepts SSE gets the response head, as a sign of life.
const FIRST_MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Handles a request to `/mcp`.
pub(super) async fn handle(bridge: &Bridge, request: Request) -> Response {
    let router = &bridge.router;
    match *request.method() {
        Method::POST => post(bridge, request).await,
        Method::GET => {
            get(router, request.headers()).unwrap_or_else(|refusal| respond::message_error(&refusal, b""))
        }
        Method::DELETE => {
            delete(router, request.headers()).unwrap_or_else(|refusal| respond::message_error(&refusal, b""))
        }
        _ => respond::method_not_allowed("GET, POST, DELETE"),
    }
}

/// The response formats that a client accepts.
#[derive(Debug, Clone, Copy)]
struct Accepts {
    json: bool,
    events: bool,
    /// Whether SSE is listed first: of two accepted formats, the client gets the one listed first.
    events_first: bool,
}

impl Accepts {
    fn of(headers: &HeaderMap) -> Self {
        let mut accepts = Self { json: false, events: false, events_first: false };
        let mut any = false;
        for value in headers.get_all(header::ACCEPT) {
            any = true;
            for range in value.as_bytes().split(|byte| *byte == b',') {
                if has_zero_weight(range) {
                    continue;
                }
                let kind = media_type(range);
                let is = |one: &[u8]| kind.eq_ignore_ascii_case(one);
                if is(b"*/*") {
                    (accepts.json, accepts.events) = (true, true);
                } else if is(b"application/json") || is(b"application/*") {
                    accepts.json = true;
                } else if is(b"text/event-stream") || is(b"text/*") {
                    accepts.events_first |= !accepts.json;
                    accepts.events = true;
                }
            }
        }
        // Without the header, everything is acceptable (RFC 9110 section 12.5.1); JSON is the simplest.
        if any { accepts } else { Self { json: true, ..accepts } }
    }
}

/// A media type or range without its parameters.
fn media_type(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    value[..end].trim_ascii()
}

/// Whether a range has weight 0, "not acceptable" (RFC 9110 section 12.4.2).
fn has_zero_weight(range: &[u8]) -> bool {
    let mut parameters = range.split(|byte| *byte == b';').skip(1).map(<[u8]>::trim_ascii);
    let weight = parameters.find_map(|one| one.strip_prefix(b"q=").or_else(|| one.strip_prefix(b"Q=")));
    let weight = weight.and_then(|weight| std::str::from_utf8(weight).ok()?.parse::<f32>().ok());
    weight == Some(0.0)
}

async fn post(bridge: &Bridge, request: Request) -> Response {
    let is_json =
        |value: &HeaderValue| media_type(value.as_bytes()).eq_ignore_ascii_case(b"application/json");
    if !request.headers().get(header::CONTENT_TYPE).is_some_and(is_json) {
        let message = "the body must be `application/json`";
        return respond::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, error_code::INVALID_REQUEST, message, b"");
    }
    let (parts, body) = match read(request).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    let router = &bridge.router;
    let message = match parse_message(&parts.extensions, &body) {
        Ok(message) => message,
        Err(malformed) => {
            mark_sent(&parts.extensions);
            if body.trim_ascii_start().starts_with(b"[") {
                return Box::pin(batch(router, &parts.headers, body))
                    .await
                    .unwrap_or_else(|refusal| respond::message_error(&refusal, b""));
            }
            let id = scan_request_id(&body);
            return respond::error(StatusCode::BAD_REQUEST, malformed.code, &malformed.reason, &id);
        }
    };
    let id = message.id();
    let accepts = Accepts::of(&parts.headers);
    if message.kind() == MessageKind::Request && !accepts.json && !accepts.events {
        let text = "the response is `application/json` or `text/event-stream`, but `Accept` allows neither";
        return respond::error(StatusCode::NOT_ACCEPTABLE, error_code::INVALID_REQUEST, text, &id);
    }
    let owner = parts.extensions.get::<Owner>();
    let reply = if is_modern(&parts.headers, &message) {
        call_stateless(router, &parts.headers, &message, owner, accepts).await
    } else if message.kind() == MessageKind::Request && message.method() == "initialize" {
        mark_sent(&parts.extensions);
        // Boxed, because it is rare and large.
        return Box::pin(initialize(router, message, owner.cloned()))
            .await
            .unwrap_or_else(|refusal| respond::message_error(&refusal, &id));
    } else {
        in_session(router, &parts.headers, &message, accepts).await
    };
    mark_sent(&parts.extensions);
    // A call may take long, and these values would retain the read buffer of their connection.
    drop((parts, body, message));
    match reply {
        Ok(Reply::Now(response)) => response,
        Ok(Reply::Later(call)) => complete_call(bridge, call, accepts, id).await,
        Err(refusal) => respond::message_error(&refusal, &id),
    }
}

/// The response to a message, or the call whose response is awaited.
enum Reply {
    Now(Response),
    Later(PendingCall),
}

/// A call that waits for its response.
struct PendingCall {
    exchange: PendingResponse,
    numbering: Numbering,
    /// Maps the code of a JSON-RPC error to an HTTP status; 200 if `None`.
    status: Option<fn(i64) -> StatusCode>,
}

async fn call_stateless(
    router: &Router,
    headers: &HeaderMap,
    message: &Message,
    owner: Option<&Owner>,
    accepts: Accepts,
) -> Result<Reply, RpcError> {
    match message.kind() {
        MessageKind::Request => {}
        // No notification is defined over HTTP in this era, and there is no session to assign it to.
        MessageKind::Notification => return Ok(Reply::Now(respond::empty(StatusCode::ACCEPTED))),
        MessageKind::Response => {
            let message_text = "the server sends no requests to clients in this protocol version";
            return Err(RpcError::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, message_text));
        }
    }
    let mux = router.stateless_mux()?;
    header_check::check_required(headers, message, ModernMeta::of(message).as_ref())?;
    if era::removed_in_modern(message.method()) {
        let message_text = format!("`{}` does not exist in this protocol version", message.method());
        return Err(RpcError::new(StatusCode::NOT_FOUND, error_code::METHOD_NOT_FOUND, message_text));
    }
    if message.method() == "tools/call" {
        check_arguments(&mux, headers, message).await?;
    }
    let exchange = mux.call_stateless(message, owner, accepts.events).await?;
    Ok(Reply::Later(PendingCall { exchange, numbering: Numbering::None, status: Some(stateless_status) }))
}

async fn check_arguments(mux: &Multiplexer, headers: &HeaderMap, message: &Message) -> Result<(), RpcError> {
    #[derive(serde::Deserialize)]
    struct ToolCallParams {
        name: String,
    }
    let Ok(tool) = serde_json::from_str::<ToolCallParams>(message.params()) else { return Ok(()) };
    header_check::check_params(headers, message, &mux.param_headers(&tool.name).await)
}

async fn initialize(
    router: &Arc<Router>,
    message: Message,
    owner: Option<Owner>,
) -> Result<Response, RpcError> {
    let opened = router.initialize(message, owner).await?;
    let status = opened.answer.error_code().map_or(StatusCode::OK, stateless_status);
    let mut response = respond::json(status, opened.answer.bytes().clone());
    if let Some(session) = opened.session
        && let Ok(value) = HeaderValue::from_str(session.as_str())
    {
        response.headers_mut().insert(MCP_SESSION_ID, value);
    }
    Ok(response)
}

async fn in_session(
    router: &Router,
    headers: &HeaderMap,
    message: &Message,
    accepts: Accepts,
) -> Result<Reply, RpcError> {
    let (id, mux, version) = session(router, headers)?;
    match message.kind() {
        MessageKind::Request => {
            let exchange = mux.call_in_session(message, &id, accepts.events).await?;
            let primed = *version >= *era::FIRST_PRIMING_VERSION;
            let numbering = if primed { Numbering::Primed } else { Numbering::Numbered };
            return Ok(Reply::Later(PendingCall { exchange, numbering, status: None }));
        }
        MessageKind::Notification => mux.notify(message, Some(&id)).await?,
        MessageKind::Response => mux.respond(message, &id)?,
    }
    Ok(Reply::Now(respond::empty(StatusCode::ACCEPTED)))
}

/// Waits for the server's first message and responds in the format that it requires; `id` is that of the request.
async fn complete_call(bridge: &Bridge, call: PendingCall, accepts: Accepts, id: Bytes) -> Response {
    let PendingCall { exchange, numbering, status } = call;
    let (mut reader, guard) = exchange.into_reader();
    loop {
        let first = if accepts.events {
            bridge.alarms.timeout(FIRST_MESSAGE_TIMEOUT, pin!(reader.next())).await
        } else {
            Some(reader.next().await)
        };
        match first {
            Some(StreamItem::Message { position: place, bytes, is_response: true }) if accepts.json => {
                let status = status.and_then(|status| error_of(&bytes).map(status)).unwrap_or_default();
                if accepts.events_first && status == StatusCode::OK {
                    return SseBody::new(reader, guard, numbering)
                        .with_first_message(place, &bytes)
                        .response();
                }
                return respond::json(status, reader.reserve(bytes));
            }
            Some(StreamItem::Message { position: place, bytes, .. }) if accepts.events => {
                return SseBody::new(reader, guard, numbering).with_first_message(place, &bytes).response();
            }
            // A client that accepts only JSON gets only the response.
            Some(StreamItem::Message { .. }) => {}
            Some(StreamItem::End(end)) => return stream::failure_http_response(&end, &id),
            None => return SseBody::new(reader, guard, numbering).response(),
        }
    }
}

/// The code of a JSON-RPC error, for the HTTP status.
fn error_of(answer: &Bytes) -> Option<i64> {
    // Most responses are results and do not contain `"error"`, so they need no full parse.
    memchr::memmem::find(answer, b"\"error\"")?;
    Message::parse(answer.clone()).ok()?.error_code()
}

/// The HTTP status of an error in the stateless era.
fn stateless_status(code: i64) -> StatusCode {
    match code {
        error_code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        error_code::INVALID_PARAMS | error_code::INVALID_REQUEST | error_code::PARSE_ERROR => {
            StatusCode::BAD_REQUEST
        }
        // -32020 header mismatch, -32021 missing capability, -32022 unsupported version.
        -32022..=-32020 => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The session that a request names, its multiplexer and its protocol version.
fn session(
    router: &Router,
    headers: &HeaderMap,
) -> Result<(SessionId, Arc<Multiplexer>, Arc<str>), RpcError> {
    let Some(id) = headers.get(MCP_SESSION_ID) else {
        let message = "`Mcp-Session-Id` is missing; open a session with `initialize`";
        return Err(RpcError::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, message));
    };
    let id = SessionId::from_client(id.to_str().unwrap_or_default());
    let (mux, agreed) = router.mux_of_session(&id)?;
    let agreed = agreed.unwrap_or_else(|| era::DEFAULT_LEGACY_VERSION.into());
    match headers.get(MCP_PROTOCOL_VERSION).map(|version| version.to_str().unwrap_or_default()) {
        Some(version) if *version != *agreed && !era::LEGACY_VERSIONS.contains(&version) => {
            let message =
                format!("protocol version `{version}` does not match the session, which uses `{agreed}`");
            Err(RpcError::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, message))
        }
        _ => Ok((id, mux, agreed)),
    }
}

fn get(router: &Router, headers: &HeaderMap) -> Result<Response, RpcError> {
    if !headers.contains_key(MCP_SESSION_ID)
        && headers
            .get(MCP_PROTOCOL_VERSION)
            .is_some_and(|version| version.as_bytes() >= era::FIRST_MODERN_VERSION.as_bytes())
    {
        return Ok(respond::method_not_allowed("POST"));
    }
    let (id, mux, _) = session(router, headers)?;
    if !Accepts::of(headers).events {
        let message = "the response to GET is `text/event-stream`, but `Accept` does not allow it";
        return Err(RpcError::new(StatusCode::NOT_ACCEPTABLE, error_code::INVALID_REQUEST, message));
    }
    let resume = match headers.get(LAST_EVENT_ID).map(|id| sse::parse_id(id.to_str().unwrap_or_default())) {
        None => None,
        Some(Some(resume)) => Some(resume),
        Some(None) => {
            let message = "`Last-Event-ID` is not the id of an event of this server";
            return Err(RpcError::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, message));
        }
    };
    let reader = mux.read_stream(&id, resume)?;
    // An initial comment causes the response head to be sent.
    let events = SseBody::new(reader, None, Numbering::Numbered);
    Ok(events.with_first_event(Bytes::from_static(sse::KEEP_ALIVE)).response())
}

fn delete(router: &Router, headers: &HeaderMap) -> Result<Response, RpcError> {
    if !headers.contains_key(MCP_SESSION_ID)
        && headers
            .get(MCP_PROTOCOL_VERSION)
            .is_some_and(|version| version.as_bytes() >= era::FIRST_MODERN_VERSION.as_bytes())
    {
        return Ok(respond::method_not_allowed("POST"));
    }
    let (id, mux, _) = session(router, headers)?;
    mux.close_session(&id)?;
    Ok(respond::empty(StatusCode::NO_CONTENT))
}

/// Handles a JSON-RPC batch, which only protocol version 2025-03-26 defines.
async fn batch(router: &Router, headers: &HeaderMap, body: Bytes) -> Result<Response, RpcError> {
    let bad = |code, reason: String| RpcError::new(StatusCode::BAD_REQUEST, code, reason);
    let malformed = |malformed: Malformed| bad(malformed.code, malformed.reason);
    let texts = batch_of(&body).map_err(malformed)?;
    if texts.is_empty() {
        return Err(bad(error_code::INVALID_REQUEST, "the array contains no message".to_owned()));
    }
    let alone = || {
        let text = "batches are only allowed in sessions of protocol version 2025-03-26; \
                    send the messages one by one";
        bad(error_code::INVALID_REQUEST, text.to_owned())
    };
    if !headers.contains_key(MCP_SESSION_ID) {
        return Err(alone());
    }
    let (id, mux, version) = session(router, headers)?;
    if *version != *era::LAST_BATCHING_VERSION {
        return Err(alone());
    }
    let parse = |text: &&RawValue| Message::parse(body.slice_ref(text.get().as_bytes()));
    let messages: Vec<Message> = texts.iter().map(parse).collect::<Result<_, _>>().map_err(malformed)?;
    drop(texts);
    let mut answers = Vec::new();
    for message in &messages {
        match message.kind() {
            MessageKind::Request => answers.push(match mux.call_in_session(message, &id, false).await {
                Ok(exchange) => Ok(exchange.into_reader().0),
                Err(refusal) if answers.is_empty() => {
                    return Ok(respond::message_error(&refusal, message.id_text()));
                }
                // The other requests are in flight.
                Err(refusal) => Err(refusal.answer(message.id_text())),
            }),
            MessageKind::Notification => mux.notify(message, Some(&id)).await?,
            MessageKind::Response => mux.respond(message, &id)?,
        }
    }
    // The calls may take long, and these values would retain the body.
    drop((messages, body));
    if answers.is_empty() {
        return Ok(respond::empty(StatusCode::ACCEPTED));
    }
    let mut response = respond::json(StatusCode::OK, Bytes::new());
    *response.body_mut() = Body::stream(StreamBody::new(array(answers).map(|piece| Ok(Frame::data(piece)))));
    Ok(response)
}

/// Writes the responses to several requests as an array, in their order. Waiting responses are charged to their
/// streams.
fn array(answers: Vec<Result<MessageReader, Bytes>>) -> impl Stream<Item = Bytes> {
    let answers = futures_util::stream::iter(answers).filter_map(async |answer| match answer {
        Ok(reader) => one_answer(reader).await,
        Err(refused) => Some(refused),
    });
    let separated = answers.enumerate().flat_map(|(index, answer)| {
        let separator = (index > 0).then_some(Bytes::from_static(b","));
        futures_util::stream::iter(separator.into_iter().chain([answer]))
    });
    let bracket = |text| futures_util::stream::iter([Bytes::from_static(text)]);
    bracket(b"[").chain(separated).chain(bracket(b"]"))
}

async fn one_answer(mut reader: MessageReader) -> Option<Bytes> {
    loop {
        match reader.next().await {
            StreamItem::Message { bytes, is_response: true, .. } => return Some(reader.reserve(bytes)),
            StreamItem::Message { .. } => {}
            StreamItem::End(end) => return stream::failure_response_message(&end, reader.stream().request()),
        }
    }
}
