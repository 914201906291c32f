//! Answers `GET /health`: 200 when the server behind can be used, 503 when not.
//!
//! No authentication is needed. Where callers are authenticated, only those with a token that is accepted see details: the
//! reason why a server or an identity provider cannot be used says where it is, and what it is.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::authenticate::{Authenticator, token_of};
use crate::{
    options::Secret,
    proxy::{
        layer::{Layer, Next, ResponseFuture},
        respond::{self, Request},
    },
};

pub(in crate::proxy) const PATH: &str = "/health";

/// The layer.
#[derive(Debug)]
pub(crate) struct Health {
    transport: &'static str,
    /// Who is told details; `None` tells everybody.
    authenticator: Option<Arc<Authenticator>>,
}

impl Health {
    pub(crate) fn new(transport: &'static str, gate: Option<Arc<Authenticator>>) -> Self {
        Self { transport, authenticator: gate }
    }
}

impl Layer for Health {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        if request.uri().path() != PATH {
            return next.handle(request);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Box::pin(std::future::ready(respond::method_not_allowed("GET, HEAD")));
        }
        let token = token_of(&request).ok().map(Secret::from);
        Box::pin(async move {
            let tells_details = match (&self.authenticator, token) {
                (None, _) => true,
                (Some(gate), Some(token)) => gate.accepts(&token).await,
                (Some(_), None) => false,
            };
            let (status, word, error) = match next.health().await {
                Ok(()) => (StatusCode::OK, "healthy", None),
                Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy", Some(reason)),
            };
            let mut body = serde_json::json!({ "status": word });
            if let Some(gate) = &self.authenticator
                && gate.is_unavailable()
            {
                // Without a reason, which would say where the identity provider is.
                body["authentication"] = serde_json::json!({ "available": false });
            }
            if tells_details {
                body["transport"] = self.transport.into();
                body["mcp"] = serde_json::json!({ "available": error.is_none(), "error": error });
                if let Some(gate) = &self.authenticator {
                    let error = gate.provider_error();
                    body["authentication"] =
                        serde_json::json!({ "available": error.is_none(), "error": error });
                }
                if let Some(last) = next.last_exchange() {
                    body["mcp"]["last_exchange"] = serde_json::json!(last);
                }
            }
            respond::json(status, body.to_string().into())
        })
    }
}
