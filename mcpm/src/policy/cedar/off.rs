//! Stub for builds without the Cargo feature `policy`: the configuration of authorization, without an authorizer.

mod file;

use std::{convert::Infallible, path::Path};

pub use file::AuthorizationSpec;

use crate::{Feature, Result};

/// Reads the file of `--authz-config`.
pub(in crate::policy) fn read(path: &Path) -> Result<AuthorizationSpec> {
    file::read(path)
}

/// The loaded policies, which cannot be loaded.
#[derive(Debug)]
pub(crate) struct Authorization(Infallible);

impl Authorization {
    pub(in crate::policy) fn new(_spec: &AuthorizationSpec, _server: &str) -> Result<Self> {
        Err(Feature::Policy.missing("authorization"))
    }

    /// Returns any value, since there are no policies to call it on.
    pub(crate) fn never(&self) -> ! {
        match self.0 {}
    }
}
