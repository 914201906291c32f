//! Forwards requests to a server that speaks HTTP, byte for byte and unbuffered.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;

use super::{
    alarm::Alarms,
    endpoint_event::EndpointEvent,
    layer::{Answer, Endpoint},
    layers::body_limit::{PastLimit, too_large},
    public::Publicity,
    respond::{self, Request, Response},
    target::{Reached, Target},
};
use crate::{Error, mcp::error_code, mcp::message::Message, transport::body::Body};

/// How long the server may take for the head of an answer to a POST.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// A body up to this size is read before it is sent on, which is one write and lets an error name its request.
const SMALL: u64 = 64 << 10;

/// The endpoint in front of an HTTP server.
#[derive(Debug)]
pub(crate) struct Forward {
    target: Arc<Target>,
    publicity: Publicity,
    alarms: Alarms,
}

impl Forward {
    pub(crate) fn new(target: Arc<Target>, publicity: Publicity) -> Self {
        Self { target, publicity, alarms: Alarms::default() }
    }

    async fn forward(&self, request: Request) -> Response {
        let reached = match self.target.reached() {
            Ok(reached) => reached,
            Err(reason) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                return respond::error(status, error_code::INTERNAL_ERROR, &reason, b"");
            }
        };
        let is_get = request.method() == Method::GET;
        let public = is_get.then(|| self.publicity.of(request.headers()));
        let is_post = request.method() == Method::POST;
        let (request, small) = match self.prepare(request, &reached).await {
            Ok(prepared) => prepared,
            Err(response) => return response,
        };
        let mut sending = pin!(reached.client.send(request));
        let answered = if is_post {
            self.alarms.within(PATIENCE, sending).await
        } else {
            // The head of an event stream may come with the first event.
            Some(sending.as_mut().await)
        };
        match answered {
            Some(Ok(response)) => {
                let (mut parts, body) = response.into_parts();
                strip(&mut parts.headers, |_| false);
                // A compressed stream cannot be read here, and waiting for its first event would hold it back.
                let is_events = parts.headers.get(header::CONTENT_TYPE).is_some_and(is_event_stream)
                    && !parts.headers.contains_key(header::CONTENT_ENCODING);
                let body = match public {
                    Some(public) if is_events => {
                        // Its one event may get longer.
                        parts.headers.remove(header::CONTENT_LENGTH);
                        Body::stream(EndpointEvent::new(body, public, reached.origin.clone()))
                    }
                    _ => Body::Received(body),
                };
                Response::from_parts(parts, body)
            }
            Some(Err(error)) => failed(&error, &small),
            None => {
                let message = "the server did not answer in time";
                respond::error(
                    StatusCode::GATEWAY_TIMEOUT,
                    error_code::INTERNAL_ERROR,
                    message,
                    &id_of(&small),
                )
            }
        }
    }

    /// Makes the server's form of a request, and keeps the body if it is small.
    async fn prepare(&self, request: Request, reached: &Reached) -> Result<(Request, Bytes), Response> {
        let (mut parts, body) = request.into_parts();
        parts.uri = self.target.map(&parts.uri);
        strip(&mut parts.headers, |name| !self.publicity.trusted && is_of_proxy(name));
        parts.headers.insert(header::HOST, reached.host.clone());
        parts.version = http::Version::HTTP_11;
        if body.size_hint().exact().is_none_or(|size| size == 0 || size > SMALL) {
            return Ok((Request::from_parts(parts, body), Bytes::new()));
        }
        match body.whole().await {
            Ok(body) => {
                // A copy, since the bytes would keep the whole buffer of their connection until the answer.
                let copy = Bytes::copy_from_slice(&body);
                Ok((Request::from_parts(parts, Body::from(body)), copy))
            }
            Err(_) => {
                let message = "the body broke off";
                Err(respond::error(StatusCode::BAD_REQUEST, error_code::PARSE_ERROR, message, b""))
            }
        }
    }
}

impl Endpoint for Forward {
    fn handle(&self, request: Request) -> Answer<'_> {
        Box::pin(self.forward(request))
    }

    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(
            async move { self.target.reached()?.client.reach().await.map_err(|error| error.to_string()) },
        )
    }
}

/// Removes the headers that concern one connection only, and others that `drops` names.
fn strip(headers: &mut HeaderMap, drops: impl Fn(&str) -> bool) {
    // Looking at the few names there are is cheaper than looking up those that could be there.
    while let Some(name) = headers.keys().find(|name| is_hop_by_hop(name.as_str()) || drops(name.as_str())) {
        let name = name.clone();
        if name == header::CONNECTION {
            let lines = headers.get_all(&name).iter();
            let listed = lines.flat_map(|line| line.to_str().unwrap_or_default().split(','));
            let listed: Vec<HeaderName> = listed.filter_map(|name| name.trim().parse().ok()).collect();
            for name in &listed {
                headers.remove(name);
            }
        }
        headers.remove(&name);
    }
}

/// Whether a header concerns one connection only (RFC 9110 section 7.6.1).
fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

/// Whether only a trusted proxy in front may say this.
fn is_of_proxy(name: &str) -> bool {
    matches!(
        name,
        "forwarded"
            | "x-forwarded-for"
            | "x-forwarded-host"
            | "x-forwarded-port"
            | "x-forwarded-prefix"
            | "x-forwarded-proto"
    )
}

const EVENT_STREAM: &[u8] = b"text/event-stream";

fn is_event_stream(value: &HeaderValue) -> bool {
    let value = value.as_bytes().trim_ascii_start();
    value.get(..EVENT_STREAM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM))
}

/// The answer when the server cannot be reached (503, try again) or broke off (502).
fn failed(error: &Error, body: &Bytes) -> Response {
    let mut cause = std::error::Error::source(error);
    // Only connecting fails with an error of the system itself. Once connected, the request may have been taken.
    let connected = !cause.is_some_and(|cause| cause.is::<std::io::Error>());
    while let Some(error) = cause {
        if error.is::<PastLimit>() {
            return too_large();
        }
        cause = error.source();
    }
    let status = if connected { StatusCode::BAD_GATEWAY } else { StatusCode::SERVICE_UNAVAILABLE };
    tracing::warn!(%error, "a request was not forwarded");
    respond::error(status, error_code::INTERNAL_ERROR, error.message(), &id_of(body))
}

fn id_of(body: &Bytes) -> Bytes {
    Message::parse(body.clone()).map(|message| message.id()).unwrap_or_default()
}
