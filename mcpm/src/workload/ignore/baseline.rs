//! Stores the ignore files of each folder that servers can write to, as they were before the first server could write
//! to it, and the files and folders that were covered at the last start.
//!
//! A server may have added or changed an ignore file since then, or moved files. So everything that the baseline
//! ignores stays ignored, new ignore files can only ignore more, and covered files stay covered wherever they were
//! moved, until the user accepts the changes ([`accept`]). All workloads share the baseline, so that no server profits
//! from the changes of another.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, Metadata, TryLockError},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::{
    covered::{CoverKind, WalkResult},
    rules::{BaselineText, IGNORE_FILE_NAME, IgnoreVerdict},
};
use crate::{
    Environment, Error, ErrorKind, Result,
    platform::file_number,
    printable::Printable as _,
    state::{
        FORMAT_VERSION, document,
        file::{self, file_error},
    },
};

/// How many attempts to make to take the lock, and the pause between them. The lock is held while one small file is
/// written.
const MAX_LOCK_ATTEMPTS: u32 = 500;
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Baseline {
    version: u32,
    /// Folders that a server could write to.
    folders: BTreeSet<PathBuf>,
    /// The texts of the accepted ignore files in them.
    files: BTreeMap<PathBuf, String>,
    /// The text that the global ignore file had when it last applied.
    global: String,
    /// Covered files and folders.
    covered: Vec<CoveredPath>,
}

/// The identity of a file or a folder, independent of its name. Device numbers may change at a reboot, so they are not
/// part of it; inode numbers are reused, but with a later creation time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoveredPath {
    /// Its path.
    path: PathBuf,
    inode: u64,
    /// Its creation time, in nanoseconds since 1970; `None` where file systems do not have it.
    made: Option<u64>,
    /// Whether only the global ignore file ignored the path.
    global: bool,
}

impl Default for Baseline {
    fn default() -> Self {
        Self {
            version: FORMAT_VERSION,
            folders: BTreeSet::new(),
            files: BTreeMap::new(),
            global: String::new(),
            covered: Vec::new(),
        }
    }
}

impl Baseline {
    /// Reads the baseline.
    ///
    /// # Errors
    /// `Io`; `CorruptState` for a damaged baseline, since it is then not known which files must stay covered.
    pub(super) fn read(environment: &Environment) -> Result<Self> {
        let path = baseline_path(environment);
        match fs::read(&path) {
            Ok(bytes) => document::decode(&bytes, &path, FORMAT_VERSION, |_, _| None).map_err(|error| {
                error.hint(
                    "check the ignore files of the folders that servers can write to, and then \
                    remove the damaged file",
                )
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(file_error("read", &path, error)),
        }
    }

    /// Returns the baseline of the ignore file at a path.
    pub(super) fn baseline_of(&self, file: &Path) -> BaselineText<'_> {
        match self.files.get(file) {
            Some(text) => BaselineText::Text(text),
            None if self.could_write(file) => BaselineText::Absent,
            None => BaselineText::Untracked,
        }
    }

    /// Tells whether a server could write to a path.
    fn could_write(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| path.starts_with(folder))
    }

    /// Tells whether the file at `path` was covered before and must stay covered. `global` is the text of the global
    /// ignore file, if it applies.
    pub(super) fn still_covered(
        &self,
        inode: u64,
        path: &Path,
        global: Option<&str>,
    ) -> Result<Option<IgnoreVerdict>> {
        let held = |thing: &&CoveredPath| {
            // The global ignore file cannot be changed by servers, so its current text applies.
            thing.inode == inode && (!thing.global || global == Some(self.global.as_str()))
        };
        let mut like = self.covered.iter().filter(held).peekable();
        if like.peek().is_none() {
            return Ok(None);
        }
        let made = match fs::symlink_metadata(path) {
            Ok(found) => creation_time(&found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error("read", path, error)),
        };
        let thing = like.find(|thing| thing.made == made);
        Ok(thing.map(|thing| IgnoreVerdict { from_baseline: true, global: thing.global }))
    }

    /// Updates the baseline with folders that a server is about to write to.
    fn update(&mut self, roots: &[PathBuf], walked: &WalkResult, global: Option<&str>) -> Result<()> {
        let below = |path: &Path| roots.iter().any(|root| path.starts_with(root));
        let first = |file: &Path| below(file) && self.baseline_of(file) == BaselineText::Untracked;
        let new: Vec<_> = walked.texts.iter().filter(|(file, _)| first(file)).collect();
        let new: Vec<_> = new.into_iter().map(|(file, text)| (file.clone(), text.clone())).collect();
        // If a root is inside a larger folder of the baseline, a file that is missing in the root may have been moved
        // elsewhere in the larger folder, so it must stay covered.
        let whole: Vec<&PathBuf> = roots
            .iter()
            .filter(|root| !self.folders.iter().any(|known| root.starts_with(known) && known != *root))
            .collect();
        if let Some(global) = global.filter(|global| *global != self.global) {
            self.covered.retain(|thing| !thing.global);
            global.clone_into(&mut self.global);
        }
        let is_gone = |thing: &CoveredPath| whole.iter().any(|root| thing.path.starts_with(root));
        self.covered.retain(|thing| !is_gone(thing) || (thing.global && global.is_none()));
        for (path, covered) in &walked.covered {
            if !matches!(covered.kind, CoverKind::File | CoverKind::Folder) || !below(path) {
                continue;
            }
            let found = match fs::symlink_metadata(path) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(file_error("read", path, error)),
            };
            let inode = file_number(&found);
            let thing = CoveredPath {
                path: path.clone(),
                inode,
                made: creation_time(&found),
                global: covered.verdict.global,
            };
            self.covered.retain(|other| (other.inode, other.made) != (thing.inode, thing.made));
            self.covered.push(thing);
        }
        self.covered.sort_by(|one, other| one.path.cmp(&other.path));
        self.files.extend(new);
        let new: Vec<_> = roots.iter().filter(|root| !self.could_write(root)).cloned().collect();
        self.folders.extend(new);
        Ok(())
    }
}

/// Updates the stored baseline with `roots`, which a server is about to write to.
///
/// # Errors
/// `Io`, `CorruptState`.
pub(super) fn update_baseline(
    roots: &[PathBuf],
    walked: &WalkResult,
    global: Option<&str>,
    environment: &Environment,
) -> Result<()> {
    if roots.is_empty() {
        return Ok(());
    }
    change(environment, |known| known.update(roots, walked, global))
}

/// Accepts the current ignore files of a folder. Returns those that have changed.
///
/// # Errors
/// `NotFound` when no server could write there; `Io`; `CorruptState`.
pub(super) fn accept(folder: &Path, walked: &WalkResult, environment: &Environment) -> Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    change(environment, |known| {
        let within = known.folders.iter().any(|root| root.starts_with(folder));
        if !within && !known.could_write(folder) {
            let message = format!("no server had write access to `{}`", folder.display());
            return Err(
                Error::new(ErrorKind::NotFound, message).hint("its current ignore files already apply")
            );
        }
        let before: BTreeMap<_, _> =
            known.files.iter().filter(|(file, _)| file.starts_with(folder)).collect();
        let all: BTreeSet<&PathBuf> = before.keys().copied().chain(walked.texts.keys()).collect();
        let is_new = |file: &&&PathBuf| before.get(**file).copied() != walked.texts.get(**file);
        changed = all.iter().filter(is_new).map(|file| (*file).clone()).collect();
        known.files.retain(|file, _| !file.starts_with(folder));
        let there: Vec<_> = walked.texts.iter().filter(|(file, _)| known.could_write(file)).collect();
        known.files.extend(there.into_iter().map(|(file, text)| (file.clone(), text.clone())));
        known.covered.retain(|thing| !thing.path.starts_with(folder));
        Ok(())
    })?;
    Ok(changed)
}

fn change(environment: &Environment, change: impl FnOnce(&mut Baseline) -> Result<()>) -> Result<()> {
    let path = baseline_path(environment);
    let _lock = lock(environment)?;
    let mut known = Baseline::read(environment)?;
    let before = known.clone();
    change(&mut known)?;
    if known == before {
        return Ok(());
    }
    let bytes =
        document::encode(&known, FORMAT_VERSION).map_err(|error| error.with("path", path.display()))?;
    file::replace(&path, &bytes).map_err(|error| file_error("write", &path, error))
}

/// Locks the baseline for a change, with a separate lock file, since the baseline's file is replaced.
fn lock(environment: &Environment) -> Result<File> {
    let path = baseline_path(environment).with_extension("lock");
    file::create_folders(&environment.state_dir)
        .map_err(|error| file_error("create", &environment.state_dir, error))?;
    let lock = file::open(&path).map_err(|error| file_error("open", &path, error))?;
    for _ in 0..MAX_LOCK_ATTEMPTS {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_RETRY_INTERVAL),
            Err(TryLockError::Error(error)) => return Err(file_error("lock", &path, error)),
        }
    }
    let message = format!("another process has locked `{}`", path.display());
    Err(Error::new(ErrorKind::Io, message).hint("try again"))
}

fn baseline_path(environment: &Environment) -> PathBuf {
    environment.state_dir.join("ignore.json")
}

fn creation_time(found: &Metadata) -> Option<u64> {
    let since = found.created().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// Returns the notice about files that stay covered although the current ignore files do not ignore them.
pub(super) fn notice(kept: &[PathBuf], root: &Path) -> Option<String> {
    let (first, others) = kept.split_first()?;
    let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
    let verb = if others.is_empty() { "stays" } else { "stay" };
    let root = root.display();
    // The name may come from a server.
    let first = first.display().to_string();
    Some(format!(
        "`{}`{more} {verb} ignored, although no `{}` matches any more: a server with write access to `{root}` may have \
         changed that; if you made the change, run `mcpm ignore accept {root}`",
        first.printable(),
        IGNORE_FILE_NAME
    ))
}

#[cfg(test)]
#[path = "baseline_tests.rs"]
mod tests;
