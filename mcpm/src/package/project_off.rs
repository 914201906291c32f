//! Stub for builds without a container runtime (Cargo features `builtin` and `docker`): local projects cannot be read.

use std::{convert::Infallible, path::Path};

use super::{Ecosystem, context::BuildContext};
use crate::{Feature, Result};

/// A local project, which cannot be read.
pub(super) struct Project {
    never: Infallible,
    /// The package to build.
    pub(super) package: String,
    pub(super) is_script: bool,
}

impl Project {
    pub(super) fn find(_ecosystem: Ecosystem, _path: &Path) -> Result<Self> {
        Err(Feature::Docker.missing("building a project"))
    }

    pub(super) fn pack(
        &self,
        _context: &mut BuildContext,
        _into: &str,
        _global_ignore_file: Option<&Path>,
    ) -> Result<Vec<String>> {
        match self.never {}
    }

    pub(super) fn root_file(&self, _name: &str) -> Result<Option<Vec<u8>>> {
        match self.never {}
    }
}
