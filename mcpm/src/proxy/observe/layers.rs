//! The layers that observe requests, present only when something is observed.
//!
//! [`ObserveLayer`] is the outermost layer, and sees every request and the end of its response. [`PhaseMarker`]s
//! between the other layers record when a phase begins. [`AuditPreflight`], which runs after the layer that parses
//! messages, denies requests that cannot be recorded, if the audit log fails closed. [`PropagateContext`] is the
//! innermost layer, and passes the trace context to the server.

use std::sync::Arc;

use super::{
    exchange::{Exchange, ExchangeGuard, ExchangeHook},
    facts::RequestFacts,
    meta,
    request_audit::RequestAudit,
    spans::{RequestTelemetry, SsePending},
};
use crate::{
    audit::Audit,
    mcp::message::Message,
    proxy::{
        denial::Denial,
        external_url::ExternalUrlConfig,
        layer::{Inspection, Layer, Next, ResponseFuture},
        messages::{Hooks, RequestMessages},
        respond::{Request, Response},
    },
    telemetry::Telemetry,
};

/// The outermost layer.
#[derive(Debug)]
pub(crate) struct ObserveLayer {
    pub(crate) audit: Option<Arc<Audit>>,
    pub(crate) telemetry: Option<Arc<Telemetry>>,
    /// Paths that are polled by machines; requests to them are recorded, but not measured.
    pub(crate) unmeasured_paths: Vec<&'static str>,
    pub(crate) is_stdio: bool,
    /// Whether callers have to authenticate.
    pub(crate) requires_auth: bool,
    /// Whether forwarding headers are trusted.
    pub(crate) external_url: ExternalUrlConfig,
    pub(crate) sse_pending: SsePendingRequests,
}

/// The requests of one proxy whose responses arrive on other streams.
#[derive(Debug, Default)]
pub(crate) struct SsePendingRequests(Arc<SsePending>);

impl ObserveLayer {
    async fn observe(&self, mut request: Request, next: Next<'_>, is_measured: bool) -> Response {
        let telemetry = self.telemetry.as_ref().filter(|_| is_measured);
        let is_traced = telemetry.is_some_and(|telemetry| telemetry.traces());
        let facts = Arc::new(RequestFacts::from_request(&request, &self.external_url, is_traced));
        let telemetry = telemetry.map(|telemetry| {
            Arc::new(RequestTelemetry::start(
                Arc::clone(telemetry),
                Arc::clone(&facts),
                Arc::clone(&self.sse_pending.0),
                self.is_stdio,
                self.requires_auth,
            ))
        });
        let audit = self.audit.as_ref().map(|audit| {
            Arc::new(RequestAudit::new(audit, &facts, telemetry.as_ref(), &request, self.requires_auth))
        });
        let exchange = Exchange { audit, telemetry };
        let guard = ExchangeGuard::new(exchange.clone());
        if exchange.reads_messages() {
            // The hook is added first, so it sees messages last, as the client gets them.
            Hooks::of_request(&mut request).add(Arc::new(ExchangeHook(exchange.clone())));
        }
        request.extensions_mut().insert(exchange);
        guard.respond(next.handle(request).await).await
    }

    /// Handles a request that is not measured; denials are counted nevertheless.
    async fn observe_unmeasured(&self, request: Request, next: Next<'_>) -> Response {
        let response = match &self.audit {
            Some(_) => self.observe(request, next, false).await,
            None => next.handle(request).await,
        };
        if let Some(telemetry) = &self.telemetry
            && let Some(denial) = response.extensions().get::<Denial>()
        {
            RequestTelemetry::count_denial(telemetry, denial);
        }
        response
    }
}

impl Layer for ObserveLayer {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        if self.unmeasured_paths.contains(&request.uri().path()) {
            return Box::pin(self.observe_unmeasured(request, next));
        }
        Box::pin(self.observe(request, next, true))
    }
}

/// Records that a phase of the request begins.
#[derive(Debug)]
pub(crate) struct PhaseMarker(pub(crate) &'static str);

impl Layer for PhaseMarker {
    fn inspect(&self, request: &mut Request) -> Inspection {
        if let Some(exchange) = Exchange::of(request.extensions()) {
            exchange.begin_phase(self.0);
        }
        Inspection::Pass
    }
}

/// Records a request before it is forwarded; in the stack only if no request may be forwarded without a record.
#[derive(Debug)]
pub(crate) struct AuditPreflight;

impl Layer for AuditPreflight {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let audit = Exchange::of(request.extensions()).and_then(|exchange| exchange.audit.clone());
        let Some(audit) = audit else { return next.handle(request) };
        let id = messages_of(&request).and_then(RequestMessages::single).map(Message::id);
        Box::pin(async move {
            match audit.record_pending(&id.unwrap_or_default()).await {
                Ok(()) => next.handle(request).await,
                Err(denied) => *denied,
            }
        })
    }
}

/// The innermost layer.
#[derive(Debug)]
pub(crate) struct PropagateContext {
    /// Whether the server gets no headers, and so gets the trace context in the message.
    pub(crate) is_stdio: bool,
}

impl Layer for PropagateContext {
    fn inspect(&self, request: &mut Request) -> Inspection {
        let Some(exchange) = Exchange::of(request.extensions()) else { return Inspection::Pass };
        let context = exchange.begin_backend_span();
        let is_recording = exchange.is_recording();
        if let Some(context) = context {
            if !self.is_stdio {
                context.write_headers(request.headers_mut());
            } else if let Some(body) =
                messages_of(request).and_then(|messages| meta::with_trace_context(messages, &context))
            {
                meta::set_body(request, body);
            }
        }
        if is_recording { Inspection::Handle } else { Inspection::Pass }
    }

    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let Some(exchange) = Exchange::of(request.extensions()).cloned() else { return next.handle(request) };
        Box::pin(async move {
            let response = next.handle(request).await;
            exchange.mark_response_started();
            response
        })
    }
}

fn messages_of(request: &Request) -> Option<&RequestMessages> {
    request.extensions().get::<Arc<RequestMessages>>().map(Arc::as_ref)
}
