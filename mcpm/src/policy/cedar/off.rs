//! Stub for builds without the Cargo feature `policy`: the configuration of authorization, without an authorizer.

mod file;

use std::{convert::Infallible, path::Path};

pub use file::AuthorizationSpec;

use crate::{Feature, Result};

/// Reads the file of `--authz-config`.
pub(in crate::policy) fn read(path: &Path) -> Result<AuthorizationSpec> {
    file::read(path)
}

/// Stub of the loaded policies, of which this build has no values.
#[derive(Debug)]
pub(crate) struct Authorization(Infallible);

impl Authorization {
    pub(in crate::policy) fn new(_spec: &AuthorizationSpec, _server: &str) -> Result<Self> {
        Err(Feature::Policy.missing("authorization"))
    }

    /// Returns a value of any type. It is never called, because this type has no values.
    pub(crate) fn never(&self) -> ! {
        match self.0 {}
    }
}
