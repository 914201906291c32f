//! What a walk through mounted folders finds: ignored files and folders, and ignore files.

use std::{collections::BTreeMap, path::PathBuf};

use super::rules::IgnoreVerdict;

/// What a covered place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoverKind {
    File,
    Folder,
    /// An ignore file, which may be read.
    IgnoreFile,
    /// A link in the place of one.
    IgnoreFileLink,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    /// What is ignored, and the ignore files that are there.
    pub(super) covered: BTreeMap<PathBuf, CoveredEntry>,
    /// What the ignore files say.
    pub(super) texts: BTreeMap<PathBuf, String>,
}

/// Something that is ignored, or an ignore file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CoveredEntry {
    pub(super) kind: CoverKind,
    pub(super) verdict: IgnoreVerdict,
}

impl CoveredEntry {
    pub(super) fn new(is_folder: bool, why: IgnoreVerdict) -> Self {
        Self { kind: if is_folder { CoverKind::Folder } else { CoverKind::File }, verdict: why }
    }
}
