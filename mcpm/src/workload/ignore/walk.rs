//! Goes through a mounted folder and finds what is ignored.

use std::{
    collections::BTreeMap,
    fs,
    io::ErrorKind as IoErrorKind,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use super::{
    Kind,
    rules::{self, Patterns, Rules},
};
use crate::{Result, state::file::cannot};

/// The name of an ignore file in a mounted folder.
pub(super) const NAME: &str = ".mcpmignore";

/// Adds what is ignored in `root`, which has no link in its path, to `covered`.
///
/// The ignore files themselves are in it, too. An ignored folder is covered as a whole. A link that is ignored cannot be covered itself: what it leads to is.
pub(super) fn walk(
    root: &Path,
    global: Option<&Patterns>,
    covered: &mut BTreeMap<PathBuf, Kind>,
) -> Result<()> {
    let rules = match global {
        Some(patterns) => Rules::global(root, patterns)?,
        None => Rules::none(),
    };
    let mut open = vec![(root.to_owned(), rules)];
    while let Some((folder, outer)) = open.pop() {
        let file = folder.join(NAME);
        let rules = match rules::read(&file) {
            Ok(Some(patterns)) => {
                let rules = outer.with(&folder, &patterns)?;
                let kind = if file.is_symlink() { Kind::LinkToRules } else { Kind::Rules };
                covered.entry(file).or_insert(kind);
                rules
            }
            Ok(None) => outer,
            // Into a folder that this user may not enter, nobody has written patterns for this user.
            Err(_) if outer.is_empty() && !may_enter(&folder) => continue,
            Err(error) => return Err(error),
        };
        let failed = |error| cannot("look for ignored files in", &folder, error);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == IoErrorKind::PermissionDenied && rules.is_empty() => continue,
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_symlink() {
                follow(&path, &rules, covered)?;
            } else if rules.ignores(&path, kind.is_dir()) {
                covered.insert(path, if kind.is_dir() { Kind::Folder } else { Kind::File });
            } else if kind.is_dir() {
                open.push((path, rules.clone()));
            }
        }
    }
    Ok(())
}

/// Covers what an ignored link leads to. A link to a folder counts as one, too: patterns that end with `/` are
/// meant for it.
fn follow(link: &Path, rules: &Rules, covered: &mut BTreeMap<PathBuf, Kind>) -> Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    let end = match fs::metadata(link) {
        Ok(end) => Some(end),
        // To nothing, through a file, or in a circle: it leads nowhere in the container either.
        Err(error)
            if matches!(error.kind(), IoErrorKind::NotFound | IoErrorKind::NotADirectory)
                || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
        {
            None
        }
        Err(error) => return Err(cannot("follow", link, error)),
    };
    let is_folder = end.as_ref().is_some_and(fs::Metadata::is_dir);
    if end.is_some() && (rules.ignores(link, false) || rules.ignores(link, is_folder)) {
        let path = link.canonicalize().map_err(|error| cannot("follow", link, error))?;
        // A folder that the link itself is in was not meant.
        if !link.starts_with(&path) {
            covered.insert(path, if is_folder { Kind::Folder } else { Kind::File });
        }
    }
    Ok(())
}

fn may_enter(folder: &Path) -> bool {
    !matches!(fs::read_dir(folder), Err(error) if error.kind() == IoErrorKind::PermissionDenied)
}
