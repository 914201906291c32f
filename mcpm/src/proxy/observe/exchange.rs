//! The lifecycle of one request: layers and endpoints report it to an [`Exchange`], which passes it to the audit log,
//! metrics and traces.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::{
    outcome::{RequestOutcome, ResponseHead, SentBody},
    request_audit::RequestAudit,
    spans::RequestTelemetry,
};
use crate::{
    auth::incoming::Principal,
    proxy::{
        body::{Body, BodyError},
        messages::{Hook, HookVerdict, RequestMessages, ResponseMessage},
        respond::Response,
    },
    telemetry::TraceContext,
};

/// One observed request, in the request's extensions. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(super) audit: Option<Arc<RequestAudit>>,
    pub(super) telemetry: Option<Arc<RequestTelemetry>>,
}

impl Exchange {
    /// Returns the exchange of a request, if it is observed.
    pub(crate) fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Records the authenticated caller.
    pub(crate) fn set_principal(&self, principal: &Arc<Principal>) {
        if let Some(audit) = &self.audit {
            audit.set_principal(principal);
        }
        if let Some(telemetry) = &self.telemetry {
            telemetry.set_authenticated();
        }
    }

    /// Records the token that replaces the caller's: `value` is the value of the header `name`.
    pub(crate) fn set_exchanged_token(&self, name: &HeaderName, value: &HeaderValue) {
        if let Some(audit) = &self.audit {
            audit.set_exchanged_token(name, value);
        }
    }

    /// Records the headers that the server gets, of which `configured` are set for every request to it.
    pub(crate) fn set_outgoing_headers(&self, headers: &HeaderMap, configured: &HeaderMap) {
        if let Some(audit) = &self.audit {
            audit.set_outgoing_headers(headers, configured);
        }
    }

    /// Records that the server has received the request.
    pub(crate) fn mark_sent(&self) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.mark_sent();
        }
    }

    /// Records that the event stream at `path` names `endpoint` as the URL for messages.
    pub(crate) fn announce_endpoint(&self, endpoint: &str, path: &str) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.announce_endpoint(endpoint, path);
        }
    }

    /// Records the messages of the request, before they are changed.
    pub(crate) fn set_messages(&self, messages: &RequestMessages) {
        // Telemetry gets the messages first: the audit log records the id of the request's span, and a message may name
        // the parent of that span.
        if let Some(telemetry) = &self.telemetry {
            telemetry.set_messages(messages);
        }
        if let Some(audit) = &self.audit {
            audit.set_messages(messages);
        }
    }

    /// Records that another phase of the request begins.
    pub(super) fn begin_phase(&self, phase: &'static str) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.begin_phase(phase);
        }
    }

    /// Records that the request goes to the server. Returns the trace context to send with it.
    pub(super) fn begin_backend_span(&self) -> Option<TraceContext> {
        self.telemetry.as_ref()?.begin_backend_span()
    }

    /// Whether the spans of the request are exported.
    pub(super) fn is_recording(&self) -> bool {
        self.telemetry.as_ref().is_some_and(|telemetry| telemetry.is_recording())
    }

    /// Records that the server begins to respond.
    pub(super) fn mark_response_started(&self) {
        if let Some(telemetry) = &self.telemetry {
            telemetry.mark_response_started();
        }
    }

    /// Whether messages of the response have to be parsed.
    pub(super) fn reads_messages(&self) -> bool {
        let telemetry = || self.telemetry.as_ref().is_some_and(|telemetry| telemetry.reads_messages());
        self.audit.is_some() || telemetry()
    }

    fn finish(&self, outcome: RequestOutcome, sent: SentBody) {
        if let Some(audit) = &self.audit {
            audit.finish(outcome);
        }
        if let Some(telemetry) = &self.telemetry {
            telemetry.finish(outcome, sent);
        }
    }
}

/// Records that the server has received the request, if it is observed.
pub(crate) fn mark_sent(extensions: &Extensions) {
    if let Some(exchange) = Exchange::of(extensions) {
        exchange.mark_sent();
    }
}

/// Passes the messages of a response to the sinks, as the client gets them.
pub(super) struct ExchangeHook(pub(super) Exchange);

impl Hook for ExchangeHook {
    fn on_message(&self, response: &ResponseMessage<'_>) -> HookVerdict {
        if let Some(audit) = &self.0.audit {
            audit.on_message(response.message, response.denial);
        }
        if let Some(telemetry) = &self.0.telemetry {
            telemetry.on_message(response);
        }
        HookVerdict::Keep
    }

    fn on_end(&self, broken: bool) {
        if let Some(audit) = &self.0.audit {
            audit.on_messages_end(broken);
        }
    }
}

/// Ends an exchange exactly once. Dropping it earlier means that the client has disconnected or a layer panicked.
pub(super) struct ExchangeGuard {
    exchange: Option<Exchange>,
    sent: SentBody,
}

impl ExchangeGuard {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self { exchange: Some(exchange), sent: SentBody::default() }
    }

    /// Records the head of a response, and observes its body. If the response must be recorded but cannot be, a denial
    /// replaces it.
    pub(super) async fn respond(mut self, mut response: Response) -> Response {
        let Some(exchange) = &self.exchange else { return response };
        let mut head = Arc::new(ResponseHead::of(&response));
        if let Some(audit) = &exchange.audit
            && let Err(denied) = audit.on_response(&head).await
        {
            response = *denied;
            head = Arc::new(ResponseHead::of(&response));
        }
        let is_streaming = exchange.audit.as_ref().is_some_and(|audit| audit.is_streaming());
        if let Some(telemetry) = &exchange.telemetry {
            telemetry.on_response(head);
        } else if !is_streaming {
            self.exchange = None;
            return response;
        }
        if let Body::Full(bytes) = response.body() {
            self.sent.size = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            self.finish(RequestOutcome::Complete);
            return response;
        }
        response.map(|body| {
            let expected = body.size_hint().exact();
            Body::stream(ObservedBody { body, expected, guard: self })
        })
    }

    fn finish(&mut self, outcome: RequestOutcome) {
        if let Some(exchange) = self.exchange.take() {
            exchange.finish(outcome, self.sent);
        }
    }
}

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        let is_panic = std::thread::panicking();
        self.finish(if is_panic { RequestOutcome::Panicked } else { RequestOutcome::ClientGone });
    }
}

/// A response's body on its way to the client.
struct ObservedBody {
    body: Body,
    expected: Option<u64>,
    guard: ExchangeGuard,
}

impl HttpBody for ObservedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let size = frame.data_ref().map_or(0, Bytes::len) as u64;
                if size > 0 {
                    this.guard.sent.first_byte_at.get_or_insert_with(Instant::now);
                }
                this.guard.sent.size += size;
            }
            Poll::Ready(Some(Err(_))) => this.guard.finish(RequestOutcome::Truncated),
            Poll::Ready(None) => this.guard.finish(RequestOutcome::Complete),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for ObservedBody {
    fn drop(&mut self) {
        // The body is not polled again once all announced bytes were sent, so this response is complete. If the body is
        // dropped earlier, also because the thread panics, the client does not get the rest.
        let is_whole = self.body.is_end_stream() || self.expected == Some(self.guard.sent.size);
        self.guard.finish(if is_whole { RequestOutcome::Complete } else { RequestOutcome::ClientGone });
    }
}
