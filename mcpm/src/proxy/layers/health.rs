//! Responds to `GET /health`: 200 if the server can be used, otherwise 503.
//!
//! These requests need no authentication. If the proxy authenticates callers, only a caller with a valid token gets
//! details: the reason why a server or an identity provider cannot be used reveals its address.

use std::sync::Arc;

use http::{Method, StatusCode};

use super::authenticate::{Authenticator, token_of};
use crate::{
    options::Secret,
    proxy::{
        layer::{Inspection, Layer, Next, ResponseFuture},
        respond::{self, Request},
    },
};

pub(in crate::proxy) const PATH: &str = "/health";

/// The layer.
#[derive(Debug)]
pub(crate) struct Health {
    transport: &'static str,
    /// Verifies who may see details; `None` shows them to everyone.
    authenticator: Option<Arc<Authenticator>>,
}

impl Health {
    pub(crate) fn new(transport: &'static str, authenticator: Option<Arc<Authenticator>>) -> Self {
        Self { transport, authenticator }
    }
}

impl Layer for Health {
    fn inspect(&self, request: &mut Request) -> Inspection {
        match *request.method() {
            _ if request.uri().path() != PATH => Inspection::Pass,
            Method::GET | Method::HEAD => Inspection::Handle,
            _ => Inspection::Respond(Box::new(respond::method_not_allowed("GET, HEAD"))),
        }
    }

    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let token = token_of(&request).ok().map(Secret::from);
        Box::pin(async move {
            let tells_details = match (&self.authenticator, token) {
                (None, _) => true,
                (Some(authenticator), Some(token)) => authenticator.accepts(&token).await,
                (Some(_), None) => false,
            };
            let (status, word, error) = match next.health().await {
                Ok(()) => (StatusCode::OK, "healthy", None),
                Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy", Some(reason)),
            };
            let mut body = serde_json::json!({ "status": word });
            if let Some(authenticator) = &self.authenticator
                && authenticator.is_unavailable()
            {
                // The reason is omitted, because it would reveal the address of the identity provider.
                body["authentication"] = serde_json::json!({ "available": false });
            }
            if tells_details {
                body["transport"] = self.transport.into();
                body["mcp"] = serde_json::json!({ "available": error.is_none(), "error": error });
                if let Some(authenticator) = &self.authenticator {
                    let error = authenticator.provider_error();
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
