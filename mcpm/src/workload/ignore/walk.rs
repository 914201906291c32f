//! Walks through a mounted folder and finds ignored files.

use std::{
    fs::{self, DirEntry},
    io::ErrorKind as IoErrorKind,
    path::Path,
};

use super::{
    baseline::Baseline,
    case_folding,
    covered::{CoverKind, CoveredEntry, WalkResult},
    rules::{self, CaseSensitivity, IGNORE_FILE_NAME, IgnoreFile, IgnoreVerdict, Rules},
};
use crate::{
    Result,
    platform::{entry_number, is_link_loop},
    state::file::file_error,
};

impl WalkResult {
    /// Adds the ignored files and folders in `root`, a path without links.
    ///
    /// Ignore files are included. An ignored folder is covered as a whole. An ignored link cannot be covered itself,
    /// so its target is.
    pub(super) fn walk(&mut self, root: &Path, global: Option<&IgnoreFile>, known: &Baseline) -> Result<()> {
        let rules = match global {
            Some(patterns) => Rules::global(root, patterns)?,
            None => Rules::default(),
        };
        let global = global.map(|patterns| patterns.text.as_str());
        let mut open = vec![(root.to_owned(), rules)];
        while let Some((folder, outer)) = open.pop() {
            let file = folder.join(IGNORE_FILE_NAME);
            let there = match rules::read(&file) {
                Ok(there) => there,
                // A folder that this user may not enter cannot contain an ignore file of this user.
                Err(_) if outer.is_empty() && !may_enter(&folder) => continue,
                Err(error) => return Err(error),
            };
            let rules = outer.with(&folder, there.as_ref(), known.baseline_of(&file))?;
            if let Some(patterns) = there {
                let kind = if file.is_symlink() { CoverKind::IgnoreFileLink } else { CoverKind::IgnoreFile };
                let why = IgnoreVerdict { from_baseline: false, global: false };
                self.covered.entry(file.clone()).or_insert(CoveredEntry { kind, verdict: why });
                self.texts.insert(file, patterns.text);
            }
            let failed = |error| file_error("look for ignored files in", &folder, error);
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == IoErrorKind::PermissionDenied && rules.is_empty() => continue,
                entries => entries.map_err(failed)?,
            };
            let entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(failed)?;
            let names = || entries.iter().map(DirEntry::file_name);
            let case = if !rules.is_empty() && case_folding::ignores_case(&folder, names) {
                CaseSensitivity::Insensitive
            } else {
                CaseSensitivity::Sensitive
            };
            for entry in entries {
                let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
                let is_folder = kind.is_dir();
                if kind.is_symlink() {
                    self.follow(&path, &rules, case)?;
                } else if let Some(why) = rules.verdict(&path, is_folder, case) {
                    self.covered.insert(path, CoveredEntry::new(is_folder, why));
                } else if let Some(why) = known.still_covered(entry_number(&entry), &path, global)? {
                    self.covered.entry(path).or_insert(CoveredEntry::new(is_folder, why));
                } else if is_folder {
                    open.push((path, rules.clone()));
                }
            }
        }
        Ok(())
    }

    /// Covers the target of an ignored link. Patterns that end with `/` also match a link to a folder.
    fn follow(&mut self, link: &Path, rules: &Rules, case: CaseSensitivity) -> Result<()> {
        if rules.is_empty() {
            return Ok(());
        }
        let end = match fs::metadata(link) {
            Ok(end) => end,
            // A dangling or circular link has no target in the container either.
            Err(error)
                if matches!(error.kind(), IoErrorKind::NotFound | IoErrorKind::NotADirectory)
                    || is_link_loop(&error) =>
            {
                return Ok(());
            }
            Err(error) => return Err(file_error("follow the link", link, error)),
        };
        let is_folder = end.is_dir();
        let verdict = |is_folder| rules.verdict(link, is_folder, case);
        if let Some(why) = verdict(false).or_else(|| verdict(is_folder)) {
            let path = link.canonicalize().map_err(|error| file_error("follow the link", link, error))?;
            // A folder that contains the link itself is not covered.
            if !link.starts_with(&path) {
                self.covered.insert(path, CoveredEntry::new(is_folder, why));
            }
        }
        Ok(())
    }
}

fn may_enter(folder: &Path) -> bool {
    !matches!(fs::read_dir(folder), Err(error) if error.kind() == IoErrorKind::PermissionDenied)
}
