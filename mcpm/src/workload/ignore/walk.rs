//! Goes through a mounted folder and finds what is ignored.

use std::{
    collections::BTreeMap,
    fs::{self, DirEntry},
    io::ErrorKind as IoErrorKind,
    os::unix::fs::DirEntryExt as _,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use super::{
    Kind,
    known::Known,
    rules::{self, Case, Patterns, Rules, Verdict},
    spelling,
};
use crate::{Result, state::file::cannot};

/// The name of an ignore file in a mounted folder.
pub(super) const NAME: &str = ".mcpmignore";

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// What is ignored, and the ignore files that are there.
    pub(super) covered: BTreeMap<PathBuf, Covered>,
    /// What the ignore files say.
    pub(super) texts: BTreeMap<PathBuf, String>,
}

/// Something that is ignored, or an ignore file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Covered {
    pub(super) kind: Kind,
    pub(super) why: Verdict,
}

impl Covered {
    fn new(is_folder: bool, why: Verdict) -> Self {
        Self { kind: if is_folder { Kind::Folder } else { Kind::File }, why }
    }
}

impl Walked {
    /// Adds what is ignored in `root`, which has no link in its path.
    ///
    /// The ignore files themselves are among it. An ignored folder is covered as a whole. A link that is ignored
    /// cannot be covered itself: what it leads to is.
    pub(super) fn walk(&mut self, root: &Path, global: Option<&Patterns>, known: &Known) -> Result<()> {
        let rules = match global {
            Some(patterns) => Rules::global(root, patterns)?,
            None => Rules::default(),
        };
        let global = global.map(|patterns| patterns.text.as_str());
        let mut open = vec![(root.to_owned(), rules)];
        while let Some((folder, outer)) = open.pop() {
            let file = folder.join(NAME);
            let there = match rules::read(&file) {
                Ok(there) => there,
                // Into a folder that this user may not enter, nobody has written patterns for this user.
                Err(_) if outer.is_empty() && !may_enter(&folder) => continue,
                Err(error) => return Err(error),
            };
            let rules = outer.with(&folder, there.as_ref(), known.said(&file))?;
            if let Some(patterns) = there {
                let kind = if file.is_symlink() { Kind::LinkToRules } else { Kind::Rules };
                let why = Verdict { kept: false, global: false };
                self.covered.entry(file.clone()).or_insert(Covered { kind, why });
                self.texts.insert(file, patterns.text);
            }
            let failed = |error| cannot("look for ignored files in", &folder, error);
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == IoErrorKind::PermissionDenied && rules.is_empty() => continue,
                entries => entries.map_err(failed)?,
            };
            let entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(failed)?;
            let names = || entries.iter().map(DirEntry::file_name);
            let case = if !rules.is_empty() && spelling::ignores_case(&folder, names) {
                Case::Ignored
            } else {
                Case::Counts
            };
            for entry in entries {
                let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
                let is_folder = kind.is_dir();
                if kind.is_symlink() {
                    self.follow(&path, &rules, case)?;
                } else if let Some(why) = rules.verdict(&path, is_folder, case) {
                    self.covered.insert(path, Covered::new(is_folder, why));
                } else if let Some(why) = known.covered_before(entry.ino(), &path, global)? {
                    self.covered.entry(path).or_insert(Covered::new(is_folder, why));
                } else if is_folder {
                    open.push((path, rules.clone()));
                }
            }
        }
        Ok(())
    }

    /// Covers what an ignored link leads to. A link to a folder counts as one, too: patterns that end with `/` are
    /// meant for it.
    fn follow(&mut self, link: &Path, rules: &Rules, case: Case) -> Result<()> {
        if rules.is_empty() {
            return Ok(());
        }
        let end = match fs::metadata(link) {
            Ok(end) => end,
            // To nothing, through a file, or in a circle: it leads nowhere in the container either.
            Err(error)
                if matches!(error.kind(), IoErrorKind::NotFound | IoErrorKind::NotADirectory)
                    || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) =>
            {
                return Ok(());
            }
            Err(error) => return Err(cannot("follow", link, error)),
        };
        let is_folder = end.is_dir();
        let verdict = |is_folder| rules.verdict(link, is_folder, case);
        if let Some(why) = verdict(false).or_else(|| verdict(is_folder)) {
            let path = link.canonicalize().map_err(|error| cannot("follow", link, error))?;
            // A folder that the link itself is in was not meant.
            if !link.starts_with(&path) {
                self.covered.insert(path, Covered::new(is_folder, why));
            }
        }
        Ok(())
    }
}

fn may_enter(folder: &Path) -> bool {
    !matches!(fs::read_dir(folder), Err(error) if error.kind() == IoErrorKind::PermissionDenied)
}
