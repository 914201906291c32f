//! Ignore files, and which of their patterns decides: the last one that matches, in the innermost file. What the
//! user's own file ignores stays so: what is mounted may be of others.

use std::{fs, io, path::Path, rc::Rc};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::{Error, ErrorKind, Result, state::file::cannot};

/// The longest ignore file that is read.
const LONGEST: u64 = 1 << 20;

/// The text of an ignore file, and where it is.
#[derive(Debug)]
pub(super) struct Patterns {
    text: String,
    shown: String,
}

/// Reads an ignore file; `None` when there is none.
pub(super) fn read(path: &Path) -> Result<Option<Patterns>> {
    let failed = |error| cannot("read the ignore file", path, error);
    let file = match fs::metadata(path) {
        Ok(file) => file,
        // A link that leads nowhere is no missing file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    if !file.is_file() || file.len() > LONGEST {
        return Err(failed(io::Error::other("it is no file of at most 1 MiB")));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    Ok(Some(Patterns { text, shown: path.display().to_string() }))
}

/// What patterns in `folder` say of a path.
#[cfg(any(fuzzing, test))]
pub(in crate::workload) fn ignores(text: &str, folder: &Path, path: &Path) -> Result<bool> {
    let patterns = Patterns { text: text.to_owned(), shown: "fuzzed".to_owned() };
    Ok(Rules::none().with(folder, &patterns)?.ignores(path, false))
}

/// The patterns in force in a folder.
#[derive(Debug, Clone)]
pub(super) struct Rules(Option<Rc<Level>>);

#[derive(Debug)]
struct Level {
    own: Gitignore,
    /// Whether no inner file may let in again what is ignored here.
    is_final: bool,
    outer: Rules,
}

impl Rules {
    /// No patterns.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Tells whether there are no patterns at all.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The patterns of the user's own file, for a mounted folder.
    pub(super) fn global(folder: &Path, patterns: &Patterns) -> Result<Self> {
        Self::none().add(folder, patterns, true)
    }

    /// Adds the patterns of a file, which are relative to `folder` and go before those so far.
    pub(super) fn with(&self, folder: &Path, patterns: &Patterns) -> Result<Self> {
        self.add(folder, patterns, false)
    }

    fn add(&self, folder: &Path, patterns: &Patterns, is_final: bool) -> Result<Self> {
        let refused = |line: Option<usize>, error: ignore::Error| {
            let place = line.map(|line| format!("line {line} of ")).unwrap_or_default();
            let message = format!("{place}`{}` is no ignore pattern", patterns.shown);
            Error::new(ErrorKind::InvalidOption, message).source(error)
        };
        let mut builder = GitignoreBuilder::new(folder);
        // A class that is not closed is an error, not a name with a bracket.
        builder.allow_unclosed_class(false);
        for (number, line) in patterns.text.trim_start_matches('\u{feff}').lines().enumerate() {
            builder.add_line(None, line).map_err(|error| refused(Some(number + 1), error))?;
        }
        let own = builder.build().map_err(|error| refused(None, error))?;
        Ok(Self(Some(Rc::new(Level { own, is_final, outer: self.clone() }))))
    }

    /// Tells whether a path is ignored.
    pub(super) fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        let (mut rules, mut decided) = (self, None);
        while let Some(level) = &rules.0 {
            let found = level.own.matched(path, is_folder);
            if level.is_final && found.is_ignore() {
                return true;
            }
            if !found.is_none() {
                decided = decided.or(Some(found.is_ignore()));
            }
            rules = &level.outer;
        }
        decided.unwrap_or(false)
    }
}
