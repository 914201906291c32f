//! Writes down every request and how it came out.
//!
//! Two layers: [`Recorder`] is the outermost that can refuse nothing by itself, so that it sees every answer; [`Witness`]
//! stands behind the one that reads messages, and is where a request is refused that must be recorded and cannot be.

use std::sync::Arc;

use http::StatusCode;

use crate::{
    audit::{Audit, Limited},
    explain::Reason,
    mcp::error_code,
    proxy::{
        denial::Denial,
        layer::{Answer, Layer, Next},
        messages::{Asked, Hooks},
        respond::{self, Request, Response},
        trail::{Listener, Trail, Unanswered},
    },
};

/// The outer layer.
#[derive(Debug)]
pub(crate) struct Recorder {
    audit: Arc<Audit>,
    /// Whether a proxy in front is believed when it says who calls.
    trusted: bool,
    /// Whether callers say who they are.
    gated: bool,
}

impl Recorder {
    pub(crate) fn new(audit: Arc<Audit>, trusted: bool, gated: bool) -> Self {
        Self { audit, trusted, gated }
    }

    /// The limit that applies to the events of a request: there is one when its caller is not authenticated.
    fn limited(&self, trail: &Trail, response: &Response) -> Option<Limited> {
        let denial = response.extensions().get::<Denial>();
        match (trail.has_caller(), denial) {
            (false, Some(denial)) if self.gated || denial.reason.is_for_strangers() => {
                Some(Limited::Unauthenticated)
            }
            (false, None) if self.gated => Some(Limited::Public),
            _ => None,
        }
    }

    async fn record(&self, mut request: Request, next: Next<'_>) -> Response {
        let trail = Trail::begin(&self.audit, &request, self.trusted, self.gated);
        // Added first, it sees messages last: as the client gets them.
        Hooks::of(&mut request).add(Listener::new(trail.clone()));
        request.extensions_mut().insert(trail.clone());
        let unanswered = Unanswered(trail.clone());
        let response = next.handle(request).await;
        let events = trail.answered(&response);
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
                Some(cause) => self.audit.written_limited(cause, event).await,
                None => self.audit.written(event).await,
            };
            if let Err(error) = written {
                let denied = response.extensions().get::<Denial>();
                if denied.is_some_and(|denial| denial.reason == Reason::AuditNotWritten) {
                    return response;
                }
                // That it was asked for is on record; what came of it is not to be known.
                trail.replaced();
                return refused(b"", &error.to_string());
            }
        }
        response
    }
}

impl Layer for Recorder {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        Box::pin(self.record(request, next))
    }
}

/// The inner layer.
#[derive(Debug)]
pub(crate) struct Witness {
    audit: Arc<Audit>,
}

impl Witness {
    pub(crate) fn new(audit: Arc<Audit>) -> Self {
        Self { audit }
    }

    async fn witness(&self, request: Request, next: Next<'_>) -> Response {
        let asked = request.extensions().get::<Arc<Asked>>().cloned();
        if let Some(trail) = request.extensions().get::<Trail>() {
            if let Some(asked) = &asked {
                trail.asks(asked);
            }
            if self.audit.spec().fail_closed {
                for event in trail.pending() {
                    if let Err(error) = self.audit.written(&event).await {
                        let id = asked.as_deref().and_then(Asked::single).map(|message| message.id());
                        return refused(&id.unwrap_or_default(), &error.to_string());
                    }
                }
            }
        }
        next.handle(request).await
    }
}

impl Layer for Witness {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        Box::pin(self.witness(request, next))
    }
}

/// The answer to what cannot be recorded. Why is for the operator alone.
fn refused(id: &[u8], why: &str) -> Response {
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
