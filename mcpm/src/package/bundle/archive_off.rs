//! Stub for builds without a container runtime (Cargo features `builtin` and `docker`): bundles cannot be read.

use std::{convert::Infallible, path::Path};

use crate::{Feature, Result, package::context::BuildContext};

/// An archive, which cannot be read.
#[derive(Debug)]
pub(super) struct Archive(Infallible);

impl Archive {
    pub(super) fn open(_path: &Path) -> Result<Self> {
        Err(Feature::Docker.missing("running a bundle"))
    }

    pub(super) fn manifest(&mut self) -> Result<Vec<u8>> {
        match self.0 {}
    }

    pub(super) fn pack(&self, _context: &mut BuildContext, _into: &str) -> Result<()> {
        match self.0 {}
    }
}
