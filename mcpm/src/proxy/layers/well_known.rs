//! Serves the protected resource metadata, which names the issuer (RFC 9728), without authentication.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header};

use super::authenticate::Authenticator;
use crate::proxy::{
    layer::{Inspection, Layer},
    protected_resource::WELL_KNOWN,
    respond::{self, Request, Response},
};

const METHODS: &str = "GET, HEAD, OPTIONS";

/// The layer.
#[derive(Debug)]
pub(crate) struct WellKnown(Arc<Authenticator>);

impl WellKnown {
    pub(crate) fn new(authenticator: Arc<Authenticator>) -> Self {
        Self(authenticator)
    }

    fn answer(&self, request: &Request, suffix: &str) -> Response {
        if !self.0.resource().is_metadata_path(suffix, request.headers()) {
            return respond::empty(StatusCode::NOT_FOUND);
        }
        match *request.method() {
            Method::GET | Method::HEAD => {
                let document = self.0.metadata(request.headers()).to_string();
                respond::json(StatusCode::OK, document.into())
            }
            Method::OPTIONS => {
                let mut response = respond::empty(StatusCode::NO_CONTENT);
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
                response
            }
            _ => respond::method_not_allowed(METHODS),
        }
    }
}

impl Layer for WellKnown {
    fn inspect(&self, request: &mut Request) -> Inspection {
        let below = request.uri().path().strip_prefix(WELL_KNOWN);
        match below.filter(|below| below.is_empty() || below.starts_with('/')) {
            Some(suffix) => Inspection::Respond(Box::new(self.answer(request, suffix))),
            None => Inspection::Pass,
        }
    }
}
