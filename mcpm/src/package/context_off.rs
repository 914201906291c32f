//! Stub for builds without a container runtime (Cargo features `builtin` and `docker`): build contexts cannot be
//! written.

use std::path::Path;

use bytes::Bytes;

use crate::{Feature, Result};

/// A builder of a context.
pub(super) struct BuildContext;

impl BuildContext {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn add_file(
        &mut self,
        _path: impl AsRef<Path>,
        _content: &[u8],
        _executable: bool,
    ) -> Result<()> {
        self.missing()
    }

    pub(super) fn finish(self) -> Result<Bytes> {
        self.missing()
    }

    fn missing<T>(&self) -> Result<T> {
        Err(Feature::Docker.missing("building an image for a package"))
    }
}
