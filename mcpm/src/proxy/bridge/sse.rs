//! Serves `/sse` and `/messages`, the endpoints of the deprecated SSE transport (MCP 2024-11-05, transports, "HTTP with
//! SSE").

use std::sync::Arc;

use http::{Method, StatusCode};

use super::{
    parse_message, read,
    stream::{Numbering, SseBody},
};
use crate::{
    mcp::{
        error_code,
        message::{Message, MessageKind},
        request_id::scan_request_id,
        sse,
    },
    proxy::{
        external_url::ExternalUrlConfig,
        observe::{Exchange, Peer, mark_sent},
        respond::{self, Request, Response},
        session_owners::EndpointRegistrar,
    },
    stdio::{mux::RpcError, router::Router, session::SessionId},
};

/// Opens a session: an SSE stream of all messages from the server to this client.
pub(super) fn open(router: &Arc<Router>, publicity: &ExternalUrlConfig, request: &Request) -> Response {
    if request.method() != Method::GET {
        // Clients that try streamable HTTP first use the deprecated transport after this status.
        return respond::method_not_allowed("GET");
    }
    let (id, reader) = match router.open_session(request.extensions().get().cloned()) {
        Ok(opened) => opened,
        Err(refusal) => return respond::message_error(&refusal, b""),
    };
    let path = format!("/messages?session_id={}", id.as_str());
    let noted =
        request.extensions().get::<EndpointRegistrar>().and_then(|opening| opening.register(&path, "/sse"));
    if let Some(exchange) = Exchange::of(request.extensions()) {
        exchange.announce_endpoint(&path, "/sse");
    }
    let endpoint = sse::endpoint(&Peer::external_url(publicity, request).url(&path));
    let closing = Arc::clone(router);
    SseBody::new(reader, None, Numbering::None)
        .with_first_event(endpoint)
        // The session ends with the stream, because nothing else can reach the client.
        .on_close(Arc::new(move || {
            // Keeps the endpoint registered until the stream drops this closure.
            let _registration = &noted;
            closing.abandon_session(&id);
        }))
        .response()
}

/// Accepts a message; the response is sent on the session's stream.
pub(super) async fn post(router: &Arc<Router>, request: Request) -> Response {
    if request.method() != Method::POST {
        return respond::method_not_allowed("POST");
    }
    // Only the parameter's original name is accepted, because the owner of a session is looked up by the exact
    // endpoint URL.
    let mut pairs = request.uri().query().unwrap_or_default().split('&');
    let session = pairs.find_map(|pair| pair.strip_prefix("session_id=")).map(SessionId::from_client);
    let Some(session) = session else {
        let message = "`session_id` is missing; open a session with a GET of `/sse`";
        return respond::error(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, message, b"");
    };
    let (parts, body) = match read(request).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    let message = match parse_message(&parts.extensions, &body) {
        Ok(message) => message,
        Err(bad) => {
            return respond::error(StatusCode::BAD_REQUEST, bad.code, &bad.reason, &scan_request_id(&body));
        }
    };
    let id = message.id();
    let delivered = deliver(router, session, message).await;
    mark_sent(&parts.extensions);
    match delivered {
        Ok(()) => respond::empty(StatusCode::ACCEPTED),
        Err(refusal) => respond::message_error(&refusal, &id),
    }
}

async fn deliver(router: &Arc<Router>, session: SessionId, message: Message) -> Result<(), RpcError> {
    if router.is_uninitialized(&session) {
        if message.method() != "initialize" {
            let text = "the first message of a session must be `initialize`";
            return Err(RpcError::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
        }
        return router.initialize_session(message, &session).await;
    }
    let (mux, _) = router.mux_of_session(&session)?;
    match message.kind() {
        MessageKind::Request => mux.call_in_session(&message, &session, true).await.map(drop),
        MessageKind::Notification => mux.notify(&message, Some(&session)).await,
        MessageKind::Response => mux.respond(&message, &session),
    }
}
