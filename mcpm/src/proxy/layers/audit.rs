//! Writes down every request and how it came out.
//!
//! Two layers: [`AuditLayer`] is the outermost that can refuse nothing by itself, so that it sees every answer; [`AuditPreflight`]
//! stands behind the one that reads messages, and is where a request is refused that must be recorded and cannot be.

use std::sync::Arc;

use http::StatusCode;

use crate::{
    audit::{Audit, LimitedCause},
    explain::Reason,
    mcp::error_code,
    proxy::{
        audited_request::{AuditGuard, AuditHook, AuditedRequest},
        denial::Denial,
        layer::{Layer, Next, ResponseFuture},
        messages::{Hooks, RequestMessages},
        respond::{self, Request, Response},
    },
};

/// The outer layer.
#[derive(Debug)]
pub(crate) struct AuditLayer {
    audit: Arc<Audit>,
    /// Whether a proxy in front is believed when it says who calls.
    trust_proxy_headers: bool,
    /// Whether callers say who they are.
    requires_auth: bool,
}

impl AuditLayer {
    pub(crate) fn new(audit: Arc<Audit>, trusted: bool, gated: bool) -> Self {
        Self { audit, trust_proxy_headers: trusted, requires_auth: gated }
    }

    /// The limit that applies to the events of a request: there is one when its caller is not authenticated.
    fn limited(&self, trail: &AuditedRequest, response: &Response) -> Option<LimitedCause> {
        let denial = response.extensions().get::<Denial>();
        match (trail.is_authenticated(), denial) {
            (false, Some(denial)) if self.requires_auth || denial.reason.is_for_unauthenticated() => {
                Some(LimitedCause::Unauthenticated)
            }
            (false, None) if self.requires_auth => Some(LimitedCause::Public),
            _ => None,
        }
    }

    async fn record(&self, mut request: Request, next: Next<'_>) -> Response {
        let trail = AuditedRequest::new(&self.audit, &request, self.trust_proxy_headers, self.requires_auth);
        // Added first, it sees messages last: as the client gets them.
        Hooks::of_request(&mut request).add(AuditHook::new(trail.clone()));
        request.extensions_mut().insert(trail.clone());
        let unanswered = AuditGuard(trail.clone());
        let response = next.handle(request).await;
        let events = trail.on_response(&response);
        drop(unanswered);
        let limited = self.limited(&trail, &response);
        if !self.audit.spec().fail_closed {
            events.iter().for_each(|event| match limited {
                Some(cause) => self.audit.post_limited(cause, event),
                None => self.audit.post(event),
            });
            return response;
        }
        for event in &events {
            let written = match limited {
                Some(cause) => self.audit.write_limited(cause, event).await,
                None => self.audit.write(event).await,
            };
            if let Err(error) = written {
                let denied = response.extensions().get::<Denial>();
                if denied.is_some_and(|denial| denial.reason == Reason::AuditNotWritten) {
                    return response;
                }
                // That it was asked for is on record; what came of it is not to be known.
                trail.discard_response();
                return cannot_record(b"", &error.to_string());
            }
        }
        response
    }
}

impl Layer for AuditLayer {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        Box::pin(self.record(request, next))
    }
}

/// The inner layer.
#[derive(Debug)]
pub(crate) struct AuditPreflight {
    audit: Arc<Audit>,
}

impl AuditPreflight {
    pub(crate) fn new(audit: Arc<Audit>) -> Self {
        Self { audit }
    }

    async fn record_pending(&self, request: Request, next: Next<'_>) -> Response {
        let asked = request.extensions().get::<Arc<RequestMessages>>().cloned();
        if let Some(trail) = request.extensions().get::<AuditedRequest>() {
            if let Some(asked) = &asked {
                trail.set_messages(asked);
            }
            if self.audit.spec().fail_closed {
                for event in trail.pending_events() {
                    if let Err(error) = self.audit.write(&event).await {
                        let id =
                            asked.as_deref().and_then(RequestMessages::single).map(|message| message.id());
                        return cannot_record(&id.unwrap_or_default(), &error.to_string());
                    }
                }
            }
        }
        next.handle(request).await
    }
}

impl Layer for AuditPreflight {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        Box::pin(self.record_pending(request, next))
    }
}

/// The answer to what cannot be recorded. Why is for the operator alone.
fn cannot_record(id: &[u8], why: &str) -> Response {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let denial = Denial::new(Reason::AuditNotWritten).input("cause", why);
    respond::deny(
        status,
        error_code::INTERNAL_ERROR,
        "the request cannot be recorded; try again later",
        id,
        denial,
    )
}
