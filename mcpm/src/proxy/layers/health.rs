//! Answers `GET /health`: 200 when the server behind can be used, 503 when not.
//!
//! Anybody may ask. Where callers are asked who they are, strangers are told no more than that: why a server cannot be
//! used says where it is, and what it is.

use http::{Method, StatusCode};

use crate::proxy::{
    layer::{Answer, Layer, Next},
    respond::{self, Request},
};

pub(super) const PATH: &str = "/health";

/// The layer.
#[derive(Debug)]
pub(crate) struct Health {
    transport: &'static str,
    /// Whether the answer is for strangers.
    brief: bool,
}

impl Health {
    pub(crate) fn new(transport: &'static str, brief: bool) -> Self {
        Self { transport, brief }
    }
}

impl Layer for Health {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        if request.uri().path() != PATH {
            return next.handle(request);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Box::pin(std::future::ready(respond::method_not_allowed("GET, HEAD")));
        }
        Box::pin(async move {
            let (status, word, error) = match next.health().await {
                Ok(()) => (StatusCode::OK, "healthy", None),
                Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy", Some(reason)),
            };
            let mut body = serde_json::json!({ "status": word });
            if !self.brief {
                body["transport"] = self.transport.into();
                body["mcp"] = serde_json::json!({ "available": error.is_none(), "error": error });
            }
            respond::json(status, body.to_string().into())
        })
    }
}
