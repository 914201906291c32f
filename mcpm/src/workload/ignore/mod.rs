//! Hides ignored files and folders of mounted folders from servers.
//!
//! Files and folders that match a pattern are covered in the container by an empty read-only file or folder. Folders
//! are covered by a mounted folder and not by a tmpfs, since one engine copies the covered content into a tmpfs. The
//! start fails if an ignore file cannot be read or contains an invalid pattern, or if a folder to which patterns apply
//! cannot be read. In a writable mount, the ignore files are mounted over themselves, read-only, since a server that
//! could change them would choose what it sees after the next start. The `baseline` prevents a server from uncovering
//! files by moving them or by adding ignore files.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use crate::{
    Environment, Error, ErrorKind, Result,
    config_file::read_error_kind,
    isolation::MOUNT_POINT,
    platform::{folder_with_mode, with_mode},
    runtime::Mount,
    state::file::{create_folders, file_error},
};

mod baseline;
mod case_folding;
mod covered;
mod rules;
mod walk;

use baseline::Baseline;
use covered::{CoverKind, CoveredEntry, WalkResult};
use rules::IGNORE_FILE_NAME;

#[cfg(any(fuzzing, test))]
pub(super) use rules::ignores;

/// The name of the ignore file in the configuration folder.
pub(super) const GLOBAL_IGNORE_FILE: &str = "mcpmignore";
/// Most overlays, since engines become slow with many mounts.
const MAX_OVERLAYS: usize = 500;

/// The overlays of ignored files and folders.
#[derive(Debug)]
pub(super) struct Overlays {
    /// The mounts that cover them.
    pub(super) overlays: Vec<Mount>,
    /// Notices for the user.
    pub(super) notices: Vec<String>,
    /// Folders that the server can write to.
    writable: Vec<PathBuf>,
    walked: WalkResult,
    /// The text of the global ignore file, if it applies.
    global: Option<String>,
}

impl Overlays {
    /// Creates the sources of the overlays, and updates the baseline. Must be called before the server starts.
    ///
    /// # Errors
    /// `Io`; `CorruptState` when a source of overlays is not empty, or the baseline is damaged.
    pub(super) fn prepare(&self, environment: &Environment) -> Result<()> {
        if !self.overlays.is_empty() {
            prepare(environment)?;
        }
        baseline::update_baseline(&self.writable, &self.walked, self.global.as_deref(), environment)
    }
}

/// Accepts the current ignore files of a folder. Returns those that have changed.
///
/// # Errors
/// `NotFound` when there is no such folder, or no server could write to it; `Io`; `InvalidOption`.
pub(super) fn accept(folder: &Path, environment: &Environment) -> Result<Vec<PathBuf>> {
    let folder = folder.canonicalize().map_err(|error| {
        Error::new(read_error_kind(&error), format!("cannot read `{}`", folder.display())).source(error)
    })?;
    let mut walked = WalkResult::default();
    walked.walk(&folder, None, &Baseline::default())?;
    baseline::accept(&folder, &walked, environment)
}

/// Computes the overlays of `mounts`. Reads folders and ignore files; creates nothing.
///
/// # Errors
/// `Io` for files that cannot be read, `InvalidOption` for invalid patterns.
pub(super) fn compute_overlays(
    mounts: &[Mount],
    globally: bool,
    environment: &Environment,
) -> Result<Overlays> {
    let global = if globally { rules::read(&environment.config_dir.join(GLOBAL_IGNORE_FILE))? } else { None };
    let known = Baseline::read(environment)?;
    let mut folders = Vec::new();
    let mut walked = WalkResult::default();
    let records = environment.state_dir.join("workloads");
    // Mounts of mcpm itself contain no files of the user, and the server needs them.
    let ours = |mount: &Mount| mount.target == MOUNT_POINT || mount.source.starts_with(&records);
    for mount in mounts.iter().filter(|mount| !ours(mount)) {
        let unreadable = |error| file_error("read", &mount.source, error);
        if fs::metadata(&mount.source).map_err(unreadable)?.is_dir() {
            let root = mount.source.canonicalize().map_err(unreadable)?;
            walked.walk(&root, global.as_ref(), &known)?;
            folders.push((root, mount));
        }
    }
    let covered = &walked.covered;
    let mut still_covered: BTreeMap<&PathBuf, Vec<PathBuf>> = BTreeMap::new();
    let sources = EmptySources::below_state_dir(environment);
    let mut found: BTreeMap<String, Mount> = BTreeMap::new();
    // A folder may be mounted in two places, and a link of one may lead into another.
    for (root, mount) in &folders {
        for (path, CoveredEntry { kind, verdict: why }) in covered {
            let Ok(below) = path.strip_prefix(root) else { continue };
            let outer = path.ancestors().skip(1).take_while(|outer| *outer != root);
            // A path that is mounted itself is not covered, and the content of a covered folder is covered with it.
            if below.as_os_str().is_empty() || outer.clone().any(|outer| covered.contains_key(outer)) {
                continue;
            }
            let target = target(mount, below, path)?;
            if innermost_mount(mounts, &target).is_some_and(|owner| owner.target == mount.target) {
                if matches!(kind, CoverKind::File | CoverKind::Folder)
                    && case_folding::has_case_variant_below(root, path)
                {
                    let message = format!(
                        "`{}` is ignored, but cannot be hidden: its file system is case-insensitive, so a \
                         server could open it with another spelling",
                        path.display()
                    );
                    return Err(Error::new(ErrorKind::InvalidOption, message)
                        .hint("move it out of the mounted folder, or mount folders that do not contain it"));
                }
                let source = match kind {
                    CoverKind::File => sources.file.clone(),
                    CoverKind::Folder => sources.folder.clone(),
                    // The mount is read-only already, so the ignore file needs no overlay.
                    CoverKind::IgnoreFile | CoverKind::IgnoreFileLink if mount.read_only => continue,
                    CoverKind::IgnoreFile => path.clone(),
                    CoverKind::IgnoreFileLink => {
                        let message =
                            format!("`{}` is a link, which the server could replace", path.display());
                        return Err(Error::new(ErrorKind::InvalidOption, message)
                            .hint("replace it with a regular file, or mount the folder with `:ro`"));
                    }
                };
                if why.from_baseline {
                    still_covered.entry(root).or_default().push(path.clone());
                }
                found.insert(target.clone(), Mount { source, target, read_only: true, relabel: None });
            }
        }
    }
    for overlay in found.values() {
        if let Some(mount) = mounts.iter().find(|mount| is_below(&mount.target, &overlay.target)) {
            let message =
                format!("`{}` is mounted below `{}`, which is ignored", mount.target, overlay.target);
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("mount it elsewhere, or change the patterns"));
        }
    }
    if found.len() > MAX_OVERLAYS {
        let message = format!(
            "the ignored files and folders need {} mounts, but at most {MAX_OVERLAYS} are allowed",
            found.len()
        );
        return Err(Error::new(ErrorKind::InvalidOption, message).hint("ignore whole folders"));
    }
    let notices = still_covered
        .iter()
        .filter_map(|(root, still_covered)| baseline::notice(still_covered, root))
        .collect();
    let overlays = found.into_values().collect();
    let mut writable: Vec<PathBuf> =
        folders.iter().filter(|(_, mount)| !mount.read_only).map(|(root, _)| root.clone()).collect();
    writable.sort();
    writable.dedup();
    let global = globally.then(|| global.map(|patterns| patterns.text).unwrap_or_default());
    Ok(Overlays { overlays, notices, writable, walked, global })
}

/// Creates the sources of the overlays, once for all workloads.
///
/// # Errors
/// `Io` when they cannot be created; `CorruptState` when they are not empty.
fn prepare(environment: &Environment) -> Result<()> {
    let EmptySources { folder, file } = EmptySources::below_state_dir(environment);
    let parent = environment.state_dir.join("overlays");
    create_folders(&parent).map_err(|error| file_error("create", &parent, error))?;
    let there = |made: io::Result<()>| match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    };
    there(folder_with_mode(&mut DirBuilder::new(), 0o555).create(&folder))
        .map_err(|error| file_error("create", &folder, error))?;
    let made = with_mode(OpenOptions::new().write(true).create_new(true), 0o444).open(&file).map(drop);
    there(made).map_err(|error| file_error("create", &file, error))?;
    let size = fs::metadata(&file).map_err(|error| file_error("read", &file, error))?.len();
    let entries = fs::read_dir(&folder).map_err(|error| file_error("read", &folder, error))?.count();
    if size != 0 || entries != 0 {
        let shown = parent.display();
        let message = format!("the file and the folder in `{shown}` that hide ignored files must be empty");
        return Err(Error::new(ErrorKind::CorruptState, message)
            .hint(format!("remove `{shown}`; mcpm creates it again")));
    }
    Ok(())
}

/// Tells whether an overlay covers a folder.
pub(super) fn is_empty_folder_overlay(overlay: &Mount) -> bool {
    overlay.source.file_name().is_some_and(|name| name == EMPTY_FOLDER_NAME)
}

/// Tells whether an overlay is an ignore file that is mounted over itself.
pub(super) fn is_ignore_file_overlay(overlay: &Mount) -> bool {
    overlay.source.file_name().is_some_and(|name| name == IGNORE_FILE_NAME)
}

const EMPTY_FOLDER_NAME: &str = "folder";
const EMPTY_FILE_NAME: &str = "file";

/// The empty file and folder that are the sources of overlays.
struct EmptySources {
    folder: PathBuf,
    file: PathBuf,
}

impl EmptySources {
    fn below_state_dir(environment: &Environment) -> Self {
        let parent = environment.state_dir.join("overlays");
        Self { folder: parent.join(EMPTY_FOLDER_NAME), file: parent.join(EMPTY_FILE_NAME) }
    }
}

/// Returns the path in the container for a path in a mounted folder.
fn target(mount: &Mount, below: &Path, path: &Path) -> Result<String> {
    let below = below.to_str().ok_or_else(|| {
        let message = format!("`{}` is ignored, but cannot be hidden: its name is not UTF-8", path.display());
        Error::new(ErrorKind::InvalidOption, message)
    })?;
    Ok(format!("{}/{below}", mount.target.trim_end_matches('/')))
}

/// Returns the innermost mount that a path in the container belongs to.
fn innermost_mount<'a>(mounts: &'a [Mount], target: &str) -> Option<&'a Mount> {
    let holders = mounts.iter().filter(|mount| mount.target == target || is_below(target, &mount.target));
    holders.max_by_key(|mount| Path::new(&mount.target).components().count())
}

/// Tells whether a path in the container is inside another.
fn is_below(path: &str, folder: &str) -> bool {
    let (path, folder) = (Path::new(path), Path::new(folder));
    path != folder && path.starts_with(folder)
}

#[cfg(test)]
#[path = "ignore_tests.rs"]
pub(super) mod tests;
