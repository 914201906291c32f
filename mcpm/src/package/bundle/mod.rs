//! Reads MCP bundles (`.mcpb`, earlier `.dxt`): archives with a server, and a manifest that says how to start it.
//!
//! The files are copied from the archive directly into the build context, in memory. [`manifest`] reads from the
//! manifest which command starts the server, and which values the user supplies; [`archive`] reads the files, and
//! limits their number and size.

#[cfg_attr(not(feature = "containers"), path = "archive_off.rs")]
mod archive;
mod manifest;

use std::path::Path;

use super::{Ecosystem, context::BuildContext};
use crate::Result;

pub(crate) use manifest::{BundleKind, ConfigField, ConfigKind, Manifest, Template, TemplatePart};

/// An open bundle on this machine. Another file at the same path does not change it.
#[derive(Debug)]
pub(crate) struct Bundle {
    /// The manifest of the bundle.
    pub(crate) manifest: Manifest,
    archive: archive::Archive,
}

impl Bundle {
    /// Opens a bundle and reads its manifest.
    ///
    /// # Errors
    /// `NotFound` and `Io` for the file; `InvalidOption` for a file that is not a bundle, or has no server for Linux.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut archive = archive::Archive::open(path)?;
        let shown = path.display();
        let manifest = Manifest::parse(&archive.manifest()?).map_err(|error| error.with("bundle", shown))?;
        Ok(Self { manifest, archive })
    }

    /// Returns the ecosystem whose base image the server needs.
    pub(super) fn ecosystem(&self) -> Ecosystem {
        match self.manifest.kind {
            BundleKind::Node => Ecosystem::Node,
            BundleKind::Python | BundleKind::Uv => Ecosystem::Python,
            BundleKind::Binary => Ecosystem::Bundle,
        }
    }

    /// Adds all files below a folder of the context.
    ///
    /// # Errors
    /// `InvalidOption` for a path that leads out of the bundle, for a link, and for more than the limits.
    pub(super) fn pack(&self, context: &mut BuildContext, into: &str) -> Result<()> {
        self.archive.pack(context, into)
    }
}
