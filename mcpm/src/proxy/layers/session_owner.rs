//! Restricts each session to the principal that opened it (MCP, "Security Best Practices": session hijacking).
//!
//! The response to a request for another principal's session is the same as for an unknown session.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::{
    auth::incoming::{Principal, PrincipalCache},
    explain::Reason,
    mcp::error_code,
    proxy::{
        denial::Denial,
        layer::{Layer, Next, ResponseFuture},
        respond::{self, Request, Response},
        session_owners::{EndpointRegistrar, Owner, SessionOwners},
    },
};

const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The layer.
#[derive(Debug)]
pub(crate) struct SessionOwner {
    owners: Arc<SessionOwners>,
    owner_cache: PrincipalCache<Owner>,
}

impl SessionOwner {
    pub(crate) fn new(owners: Arc<SessionOwners>) -> Self {
        Self { owners, owner_cache: PrincipalCache::default() }
    }

    /// The denial of a request for another principal's session.
    fn deny(&self, request: &Request, owner: &Owner) -> Option<Response> {
        let named = session_id(request.headers());
        let sound = request.headers().get_all(MCP_SESSION_ID).iter().count() <= 1;
        let path_and_query =
            request.uri().path_and_query().map_or("/", |path_and_query| path_and_query.as_str());
        let own = match named {
            Some(id) => self.owners.is_owner(id, owner),
            None => !request.headers().contains_key(MCP_SESSION_ID),
        };
        // Requests that only read need no message endpoint: a stream is opened before its endpoint is known.
        let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        if sound && own && (reads || self.owners.may_post(path_and_query, owner)) {
            return None;
        }
        let denial = Denial::new(Reason::SessionUnknown).input("principal", owner.as_str());
        let message = "session not found; open a new one with `initialize`";
        Some(respond::deny(StatusCode::NOT_FOUND, error_code::SESSION_NOT_FOUND, message, b"", denial))
    }
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(MCP_SESSION_ID).map(HeaderValue::to_str)?.ok()
}

impl Layer for SessionOwner {
    fn handle<'a>(&'a self, mut request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let Some(principal) = request.extensions().get::<Arc<Principal>>() else {
            // Only requests that need no authentication have no principal.
            return next.handle(request);
        };
        let owner = self.owner_cache.get_or_insert(principal, || Owner::of(principal));
        if let Some(refused) = self.deny(&request, &owner) {
            return Box::pin(std::future::ready(refused));
        }
        if *request.method() == Method::GET {
            // The endpoint event must be readable.
            request.headers_mut().remove(header::ACCEPT_ENCODING);
            request.extensions_mut().insert(EndpointRegistrar::new(&self.owners, owner.clone()));
        }
        let ends =
            (*request.method() == Method::DELETE).then(|| session_id(request.headers()).map(str::to_owned));
        let ends = ends.flatten();
        let is_new = !request.headers().contains_key(MCP_SESSION_ID);
        // The bridge sends the server's messages only to their owner.
        request.extensions_mut().insert(owner.clone());
        Box::pin(async move {
            let response = next.handle(request).await;
            match (&ends, session_id(response.headers())) {
                (Some(id), _) if response.status().is_success() => self.owners.forget(id),
                (_, Some(id)) if response.status().is_success() => self.owners.insert(id, &owner, is_new),
                _ => {}
            }
            response
        })
    }
}
