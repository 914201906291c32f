//! Stub for builds without a container runtime (Cargo features `builtin` and `docker`): ignored files in mounts cannot
//! be hidden.

use std::path::{Path, PathBuf};

use crate::{Environment, Error, Feature, Result, runtime::Mount};

/// The name of the ignore file in the configuration folder.
pub(super) const GLOBAL_IGNORE_FILE: &str = "mcpmignore";

/// The overlays of ignored files and folders.
#[derive(Debug)]
pub(super) struct Overlays {
    /// The mounts that cover them.
    pub(super) overlays: Vec<Mount>,
    /// Notices for the user.
    pub(super) notices: Vec<String>,
}

impl Overlays {
    pub(super) fn prepare(&self, _environment: &Environment) -> Result<()> {
        Err(missing())
    }
}

pub(super) fn accept(_folder: &Path, _environment: &Environment) -> Result<Vec<PathBuf>> {
    Err(missing())
}

pub(super) fn compute_overlays(
    _mounts: &[Mount],
    _globally: bool,
    _environment: &Environment,
) -> Result<Overlays> {
    Err(missing())
}

pub(super) fn is_empty_folder_overlay(_overlay: &Mount) -> bool {
    false
}

pub(super) fn is_ignore_file_overlay(_overlay: &Mount) -> bool {
    false
}

fn missing() -> Error {
    Feature::Docker.missing("mounting a folder")
}
