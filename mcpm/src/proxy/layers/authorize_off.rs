//! Stub of the authorization layer for builds without the Cargo feature `policy`.

use std::{convert::Infallible, sync::Arc};

use crate::{
    policy::cedar::Authorization,
    proxy::{
        layer::{Layer, Next, ResponseFuture},
        respond::Request,
    },
};

/// The layer.
#[derive(Debug)]
pub(crate) struct Authorize(Infallible);

impl Authorize {
    pub(crate) fn new(authorization: Arc<Authorization>) -> Self {
        authorization.never()
    }
}

impl Layer for Authorize {
    fn handle<'a>(&'a self, _request: Request, _next: Next<'a>) -> ResponseFuture<'a> {
        match self.0 {}
    }
}
