//! `/sse` and `/messages`: the deprecated transport of 2024-11-05 (MCP 2024-11-05, transports, "HTTP with SSE").

use std::sync::Arc;

use http::{Method, StatusCode};

use super::{
    read,
    stream::{Events, Numbering},
};
use crate::{
    mcp::{
        error_code,
        lane::Refusal,
        message::{Kind, Message},
        peek::id_in,
        router::Router,
        session::SessionId,
        sse,
    },
    proxy::{
        layers::telemetry::{opens, sent},
        owners::Opening,
        public::Publicity,
        respond::{self, Request, Response},
    },
};

/// Opens a session: the stream of everything the server says to this client.
pub(super) fn open(router: &Arc<Router>, publicity: &Publicity, request: &Request) -> Response {
    if request.method() != Method::GET {
        // Clients that try streamable HTTP first fall back on this status.
        return respond::method_not_allowed("GET");
    }
    let (id, reader) = match router.open_session(request.extensions().get().cloned()) {
        Ok(opened) => opened,
        Err(refusal) => return respond::refuse(&refusal, b""),
    };
    let path = format!("/messages?session_id={}", id.as_str());
    let noted = request.extensions().get::<Opening>().and_then(|opening| opening.at(&path, "/sse"));
    opens(request.extensions(), &path, "/sse");
    let endpoint = sse::endpoint(&publicity.of(request.headers()).path(&path));
    let closing = Arc::clone(router);
    Events::new(reader, None, Numbering::None)
        .starting_with(endpoint)
        // The stream is the session: without it nothing can reach the client.
        .when_over(Arc::new(move || {
            // It is noted for as long as the stream may call this.
            let _held = &noted;
            closing.abandon_session(&id);
        }))
        .response()
}

/// Takes a message; what answers it goes to the session's stream.
pub(super) async fn post(router: &Arc<Router>, request: Request) -> Response {
    if request.method() != Method::POST {
        return respond::method_not_allowed("POST");
    }
    // Under the name that its place was given with, and no other: who owns a session is known by that place.
    let mut pairs = request.uri().query().unwrap_or_default().split('&');
    let session = pairs.find_map(|pair| pair.strip_prefix("session_id=")).map(SessionId::presented);
    let Some(session) = session else {
        let message = "`session_id` is missing; open a session with a GET of `/sse`";
        return respond::error(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, message, b"");
    };
    let (parts, body) = match read(request).await {
        Ok(read) => read,
        Err(response) => return response,
    };
    let message = match Message::parse(body.clone()) {
        Ok(message) => message,
        Err(bad) => return respond::error(StatusCode::BAD_REQUEST, bad.code, &bad.reason, &id_in(&body)),
    };
    let id = message.id();
    let delivered = deliver(router, session, message).await;
    sent(&parts.extensions);
    match delivered {
        Ok(()) => respond::empty(StatusCode::ACCEPTED),
        Err(refusal) => respond::refuse(&refusal, &id),
    }
}

async fn deliver(router: &Arc<Router>, session: SessionId, message: Message) -> Result<(), Refusal> {
    if router.is_opening(&session) {
        if message.method() != "initialize" {
            let text = "the session begins with `initialize`";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
        }
        return router.initialize_open(message, &session).await;
    }
    let (lane, _) = router.session(&session)?;
    match message.kind() {
        Kind::Request => lane.call_in_session(&message, &session, true).await.map(drop),
        Kind::Notification => lane.notify(&message, Some(&session)).await,
        Kind::Response => lane.respond(&message, &session),
    }
}
