//! What the tests of mcpm share.

use std::path::{Path, PathBuf};

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.parent().unwrap_or(folder).to_owned()
}
