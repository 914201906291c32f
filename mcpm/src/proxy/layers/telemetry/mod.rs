//! Measures requests: what each asked for, how long its parts took, and how it ended.
//!
//! Three layers, which are in the stack only when something is measured. [`TelemetryLayer`] is the outermost and sees every
//! request and how its answer ended; [`PhaseMarker`]s between the other layers say which part begins; [`PropagateContext`] is the
//! innermost and tells the server behind where the request stands in its trace. What they learn they put into the
//! [`RequestTelemetry`], which is in the request's extensions.

mod counting_body;
mod meta;
mod operation;
mod report;
mod request_telemetry;
mod sse_pending;

use std::sync::Arc;

use http::{Extensions, Method, header};

use request_telemetry::RequestInfo;
pub(crate) use request_telemetry::RequestTelemetry;

use counting_body::ResponseGuard;
use sse_pending::SsePending;

use crate::{
    mcp::message::MessageKind,
    proxy::{
        denial::Denial,
        external_url::ExternalUrlConfig,
        layer::{Layer, Next, ResponseFuture},
        messages::{Hook, HookVerdict, Hooks, RequestMessages, ResponseMessage},
        respond::{Request, Response},
    },
    telemetry::Telemetry,
};

/// Paths that are asked by the machine, and whose requests are of no interest.
const UNMEASURED_PATHS: [&str; 2] = [super::health::PATH, super::metrics::PATH];

/// The outermost layer.
#[derive(Debug)]
pub(crate) struct TelemetryLayer {
    telemetry: Arc<Telemetry>,
    /// Whether the server behind has a pipe or speaks HTTP.
    is_stdio: bool,
    /// Whether callers are asked who they are.
    requires_auth: bool,
    /// How clients see the proxy.
    publicity: ExternalUrlConfig,
    sse_pending: Arc<SsePending>,
}

impl TelemetryLayer {
    /// `trusted` says whether a proxy in front is believed.
    pub(crate) fn new(telemetry: Arc<Telemetry>, is_stdio: bool, is_guarded: bool, trusted: bool) -> Self {
        let publicity = ExternalUrlConfig { prefix: None, trust_proxy_headers: trusted };
        Self { telemetry, is_stdio, requires_auth: is_guarded, publicity, sse_pending: Arc::default() }
    }

    async fn observe(&self, mut request: Request, next: Next<'_>) -> Response {
        let heard = RequestInfo::from_request(&request, &self.publicity, self.is_stdio);
        let journey =
            RequestTelemetry::start(Arc::clone(&self.telemetry), Arc::clone(&self.sse_pending), heard);
        let journey = Arc::new(journey);
        if self.requires_auth {
            journey.set_unauthenticated(true);
        }
        if *request.method() == Method::POST {
            Hooks::of_request(&mut request).add(ResponseHook(Arc::clone(&journey)));
        } else if *request.method() == Method::GET && accepts_events(&request) {
            Hooks::of_request(&mut request).add(SseResponseHook(Arc::clone(&journey)));
        }
        request.extensions_mut().insert(Arc::clone(&journey));
        let unanswered = ResponseGuard::new(journey);
        let response = next.handle(request).await;
        unanswered.on_response(response)
    }
}

impl Layer for TelemetryLayer {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let path = request.uri().path();
        if path == UNMEASURED_PATHS[0] || path == UNMEASURED_PATHS[1] && self.telemetry.serves_path() {
            return Box::pin(async move {
                let response = next.handle(request).await;
                // Who is kept out is of interest, wherever they knock.
                if let Some(denial) = response.extensions().get::<Denial>() {
                    report::count_denial(&self.telemetry, denial);
                }
                response
            });
        }
        Box::pin(self.observe(request, next))
    }
}

/// Says that another part of a request begins.
#[derive(Debug)]
pub(crate) struct PhaseMarker(pub(crate) &'static str);

impl Layer for PhaseMarker {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        if let Some(journey) = request.extensions().get::<Arc<RequestTelemetry>>() {
            journey.begin_phase(self.0);
            set_messages(journey, request.extensions());
        }
        next.handle(request)
    }
}

/// The innermost layer.
#[derive(Debug)]
pub(crate) struct PropagateContext;

impl Layer for PropagateContext {
    fn handle<'a>(&'a self, mut request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let Some(journey) = request.extensions().get::<Arc<RequestTelemetry>>().cloned() else {
            return next.handle(request);
        };
        set_messages(&journey, request.extensions());
        if let Some(place) = journey.begin_backend_span() {
            if journey.is_stdio() {
                let asked = request.extensions().get::<Arc<RequestMessages>>().cloned();
                if let Some(body) = asked.and_then(|asked| meta::with_trace_context(&asked, &place)) {
                    request = meta::with_body(request, body);
                }
            } else {
                place.write_headers(request.headers_mut());
            }
        }
        Box::pin(async move {
            let response = next.handle(request).await;
            journey.mark_response_started();
            response
        })
    }
}

/// Whether events may be answered.
fn accepts_events(request: &Request) -> bool {
    let mut lines = request.headers().get_all(header::ACCEPT).iter().peekable();
    let has = |line: &[u8], kind: &[u8]| memchr::memmem::find(line, kind).is_some();
    lines.peek().is_none()
        || lines
            .map(|line| line.as_bytes().to_ascii_lowercase())
            .any(|line| [&b"text/event-stream"[..], b"text/*", b"*/*"].iter().any(|kind| has(&line, kind)))
}

/// Says that it is known who sent a request.
pub(in crate::proxy) fn mark_authenticated(extensions: &Extensions) {
    if let Some(journey) = extensions.get::<Arc<RequestTelemetry>>() {
        journey.set_unauthenticated(false);
    }
}

fn set_messages(journey: &Arc<RequestTelemetry>, extensions: &Extensions) {
    if let Some(asked) = extensions.get::<Arc<RequestMessages>>() {
        journey.set_messages(asked);
    }
}

/// Says that the server was reached, and has what it was sent.
pub(in crate::proxy) fn mark_sent(extensions: &Extensions) {
    if let Some(journey) = extensions.get::<Arc<RequestTelemetry>>() {
        journey.mark_sent();
    }
}

/// Says where messages of a session are posted, as it was said in the answer to a request for `path`.
pub(in crate::proxy) fn announce_endpoint(extensions: &Extensions, place: &str, path: &str) {
    if let Some(journey) = extensions.get::<Arc<RequestTelemetry>>() {
        journey.announce_endpoint(place, path);
    }
}

/// Hears what other requests are answered, on a stream.
struct SseResponseHook(Arc<RequestTelemetry>);

impl Hook for SseResponseHook {
    fn on_message(&mut self, said: &ResponseMessage<'_>) -> HookVerdict {
        if said.message.kind() == MessageKind::Response {
            self.0.on_sse_response(said.message);
        }
        if let Some(denial) = said.denial {
            report::count_denial(&self.0.telemetry, denial);
        }
        HookVerdict::Keep
    }
}

/// Hears what a request is answered.
struct ResponseHook(Arc<RequestTelemetry>);

impl Hook for ResponseHook {
    fn on_message(&mut self, said: &ResponseMessage<'_>) -> HookVerdict {
        if let Some(asked) = said.request {
            self.0.record_response(asked, said.message);
        }
        if let Some(denial) = said.denial {
            report::count_denial(&self.0.telemetry, denial);
        }
        HookVerdict::Keep
    }
}
