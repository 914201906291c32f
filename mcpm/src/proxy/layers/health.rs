//! Answers `GET /health`: 200 when the server behind can be used, 503 when not.

use http::{Method, StatusCode};

use crate::proxy::{
    layer::{Answer, Layer, Next},
    respond::{self, Request},
};

/// The layer.
#[derive(Debug)]
pub(crate) struct Health {
    transport: &'static str,
}

impl Health {
    pub(crate) fn new(transport: &'static str) -> Self {
        Self { transport }
    }
}

impl Layer for Health {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        if request.uri().path() != "/health" {
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
            let body = serde_json::json!({
                "status": word,
                "transport": self.transport,
                "mcp": { "available": error.is_none(), "error": error },
            });
            respond::json(status, body.to_string().into())
        })
    }
}
