//! Defines the result of a walk through mounted folders: ignored files and folders, and ignore files.

use std::{collections::BTreeMap, path::PathBuf};

use super::rules::IgnoreVerdict;

/// The kind of a covered path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CoverKind {
    File,
    Folder,
    /// An ignore file, which may be read.
    IgnoreFile,
    /// A link in the place of an ignore file.
    IgnoreFileLink,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(super) struct WalkResult {
    /// Ignored files and folders, and ignore files.
    pub(super) covered: BTreeMap<PathBuf, CoveredEntry>,
    /// The texts of the ignore files.
    pub(super) texts: BTreeMap<PathBuf, String>,
}

/// An ignored file or folder, or an ignore file.
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
