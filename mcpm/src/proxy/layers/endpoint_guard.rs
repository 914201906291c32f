//! With policies or a tool filter, restricts requests to the server's MCP endpoints.
//!
//! Policies and filters apply to MCP messages. A request without a message, such as a form, or a message that is posted
//! to another path of the same host, could have effects that neither has checked. Requests without a body may also use
//! `OPTIONS`, or read well-known URIs (RFC 8615).

use std::sync::Arc;

use http::{Method, StatusCode};
use http_body::Body as _;

use crate::{
    explain::Reason,
    mcp::error_code,
    proxy::{
        denial::Denial,
        layer::{Inspection, Layer},
        message_errors,
        messages::RequestMessages,
        respond::{self, Request, Response},
        session_owners::{EndpointRegistrar, Owner, SessionOwners, is_plain_path},
    },
};

/// Well-known URIs (RFC 8615), for example of the server's authorization server.
const WELL_KNOWN: &str = "/.well-known/";

/// The layer.
#[derive(Debug)]
pub(crate) struct EndpointGuard {
    owners: Arc<SessionOwners>,
}

impl EndpointGuard {
    /// `owners` knows the server's paths and its message endpoints.
    pub(crate) fn new(owners: Arc<SessionOwners>) -> Self {
        Self { owners }
    }

    fn deny(&self, request: &Request) -> Option<Response> {
        let path = request.uri().path();
        let path_and_query =
            request.uri().path_and_query().map_or(path, |path_and_query| path_and_query.as_str());
        let messages = request.extensions().get::<Arc<RequestMessages>>();
        let is_empty = request.body().is_end_stream() || request.body().size_hint().exact() == Some(0);
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let refused = |status, reason: Reason, text: &str| {
            let denial =
                Denial::new(reason).rule(text).input("method", request.method().as_str()).input("path", path);
            let code = error_code::INVALID_REQUEST;
            Some(match messages.and_then(|messages| Some((messages, messages.messages().first()?))) {
                Some((messages, first)) => {
                    message_errors::deny_message(messages, first, status, (code, text), denial)
                }
                None => respond::deny(status, code, text, b"", denial),
            })
        };
        let is_informational =
            is_empty && (*request.method() == Method::OPTIONS || reads && is_well_known_path(path));
        if !is_informational && !self.owners.is_endpoint(path_and_query) {
            let text = "requests are only allowed to the MCP endpoint of this server";
            return refused(StatusCode::FORBIDDEN, Reason::NotAnEndpoint, text);
        }
        if is_informational
            || messages.is_some()
            || is_empty && (reads || *request.method() == Method::DELETE)
        {
            return None;
        }
        refused(StatusCode::BAD_REQUEST, Reason::NoMessage, "the request contains no JSON-RPC message")
    }
}

fn is_well_known_path(path: &str) -> bool {
    path.strip_prefix(WELL_KNOWN).is_some_and(|below| is_plain_path(below.trim_end_matches('/')))
}

impl Layer for EndpointGuard {
    fn inspect(&self, request: &mut Request) -> Inspection {
        if let Some(response) = self.deny(request) {
            return Inspection::Respond(Box::new(response));
        }
        if *request.method() == Method::GET && request.extensions().get::<EndpointRegistrar>().is_none() {
            // Without authentication, message endpoints have no individual owners.
            request.extensions_mut().insert(EndpointRegistrar::new(&self.owners, Owner::anonymous()));
        }
        Inspection::Pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::{
        body::Body,
        layers::policy_tests::{Server, post, run},
    };

    const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

    fn request(method: &str, path: &str, body: &str) -> Request {
        let mut request = if body.is_empty() { Request::new(Body::empty()) } else { post(body) };
        *request.method_mut() = method.parse().expect("a method");
        *request.uri_mut() = path.parse().expect("a path");
        request
    }

    #[tokio::test]
    async fn only_mcp_endpoints_and_well_known_documents_are_reachable() {
        let owners = Arc::new(SessionOwners::new(["/", "/mcp", "/sse", "/v1/mcp"]));
        let _noted =
            EndpointRegistrar::new(&owners, Owner::anonymous()).register("/messages?session_id=a", "/sse");
        let form = "jsonrpc=2.0&method=tools/call&params[name]=x";
        let (elsewhere, empty) = (Some("reach.not_an_endpoint"), Some("reach.no_message"));
        for (method, path, body, reason) in [
            ("POST", "/mcp", PING, None),
            ("POST", "/", PING, None),
            ("POST", "/v1/mcp/?key=x", PING, None),
            ("POST", "/mcp/messages/7", PING, None),
            ("POST", "/messages?session_id=a", PING, None),
            ("PUT", "/mcp", PING, None),
            ("GET", "/mcp", "", None),
            ("HEAD", "/sse", "", None),
            ("DELETE", "/v1/mcp", "", None),
            ("OPTIONS", "/anything", "", None),
            ("GET", "/.well-known/oauth-authorization-server/v1/mcp", "", None),
            ("HEAD", "/.well-known/openid-configuration", "", None),
            ("POST", "/mcp", "", empty),
            ("PUT", "/mcp", "", empty),
            ("POST", "/mcp", form, empty),
            ("GET", "/mcp", form, empty),
            ("DELETE", "/mcp", form, empty),
            ("OPTIONS", "/mcp", form, empty),
            ("POST", "/messages?session_id=a", form, empty),
            ("DELETE", "/api/orders/1", "", elsewhere),
            ("GET", "/api/orders", "", elsewhere),
            ("POST", "/api/orders/1/cancel", PING, elsewhere),
            ("POST", "/api/orders", form, elsewhere),
            ("OPTIONS", "/api/orders", form, elsewhere),
            ("POST", "/messages?session_id=b", PING, elsewhere),
            ("POST", "/messages", PING, elsewhere),
            ("POST", "/mcp/../api", PING, elsewhere),
            ("POST", "/mcp/%2e%2e/api", PING, elsewhere),
            ("POST", "/mcp/..;/api", PING, elsewhere),
            ("GET", "/mcp/..%5capi", "", elsewhere),
            ("GET", "/mcp//api", "", elsewhere),
            ("GET", "//mcp", "", elsewhere),
            ("GET", "/mcpx", "", elsewhere),
            ("POST", "/.well-known/x", PING, elsewhere),
            ("DELETE", "/.well-known/x", "", elsewhere),
            ("GET", "/.well-known/../api", "", elsewhere),
            ("GET", "/.well-known/%2e%2e/api", "", elsewhere),
            ("GET", "/.well-known/..;/api", "", elsewhere),
        ] {
            let shown = format!("{method} {path} {body}");
            let mut asking = request(method, path, body);
            if body == form {
                let form = "application/x-www-form-urlencoded; x=application/json";
                asking.headers_mut().insert("content-type", form.parse().expect("a value"));
            }
            let server = Server::new(false, |_| None);
            let response = run(EndpointGuard::new(Arc::clone(&owners)), asking, &server).await;
            let denial = response.extensions().get::<Denial>().map(|denial| denial.reason.id());
            assert_eq!(denial, reason, "{shown}");
            assert_eq!(server.methods().len(), usize::from(reason.is_none()), "{shown}");
        }
    }
}
