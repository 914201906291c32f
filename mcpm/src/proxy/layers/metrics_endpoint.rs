//! Responds to `GET /metrics` in Prometheus' text format.
//!
//! On the proxy's port, the layer runs after authentication, because the names of tools and the rates of calls are not
//! public. The separate port for metrics listens on loopback only, and needs no authentication.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};

use crate::{
    mcp::error_code,
    proxy::{
        layer::{Inspection, Layer},
        respond::{self, Request, Response},
    },
    telemetry::Telemetry,
};

pub(crate) const PATH: &str = "/metrics";
/// The version of the text format (Prometheus, "Exposition formats").
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// The layer.
#[derive(Debug)]
pub(crate) struct MetricsEndpoint(Arc<Telemetry>);

impl MetricsEndpoint {
    pub(crate) fn new(telemetry: Arc<Telemetry>) -> Self {
        Self(telemetry)
    }

    fn answer(&self, request: &Request) -> Response {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return respond::method_not_allowed("GET, HEAD");
        }
        match self.0.prometheus_text() {
            Some(Ok(text)) => {
                let mut response = respond::json(StatusCode::OK, text.into());
                response.headers_mut().insert(header::CONTENT_TYPE, TEXT);
                response
            }
            Some(Err(error)) => {
                tracing::error!(%error, "cannot format metrics");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                respond::error(status, error_code::INTERNAL_ERROR, "cannot format metrics", b"")
            }
            None => respond::empty(StatusCode::NOT_FOUND),
        }
    }
}

impl Layer for MetricsEndpoint {
    fn inspect(&self, request: &mut Request) -> Inspection {
        if request.uri().path() != PATH {
            return Inspection::Pass;
        }
        Inspection::Respond(Box::new(self.answer(request)))
    }
}
