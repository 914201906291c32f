//! Ignore files, and which of their patterns decides: the last one that matches, in the innermost file. What the
//! user's own file ignores stays so: what is mounted may be of others. Of a file that a server may have written, only
//! what it ignores counts.

use std::{fs, io, path::Path, rc::Rc};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::known::Said;
use crate::{Error, ErrorKind, Result, state::file::cannot};

/// The longest ignore file that is read.
const LONGEST: u64 = 1 << 20;

/// The text of an ignore file, and where it is.
#[derive(Debug)]
pub(super) struct Patterns {
    pub(super) text: String,
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
    Ok(Rules::default()
        .with(folder, Some(&patterns), Said::First)?
        .verdict(path, false, Case::Counts)
        .is_some())
}

/// The patterns in force in a folder.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    /// Those that are there now, as Git would take them.
    today: Chain,
    /// Those that the user is known to have written, and of others what they ignore.
    held: Chain,
}

/// Why a path is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether it would not be by what is there now.
    pub(super) kept: bool,
    /// Whether the user's own file alone says so.
    pub(super) global: bool,
}

impl Rules {
    /// Tells whether there are no patterns at all.
    pub(super) fn is_empty(&self) -> bool {
        self.today.0.is_none() && self.held.0.is_none()
    }

    /// The patterns of the user's own file, for a mounted folder.
    pub(super) fn global(folder: &Path, patterns: &Patterns) -> Result<Self> {
        let chain = Chain::default().add(compile(folder, patterns)?, Power::Final);
        Ok(Self { today: chain.clone(), held: chain })
    }

    /// Adds the patterns of `folder`'s own file, which are relative to it and go before those so far: what is there
    /// now, and what is known of it.
    pub(super) fn with(&self, folder: &Path, there: Option<&Patterns>, said: Said<'_>) -> Result<Self> {
        let Self { mut today, mut held } = self.clone();
        let own = there.map(|patterns| compile(folder, patterns)).transpose()?;
        if let Some(own) = &own {
            today = today.add(Rc::clone(own), Power::Whole);
        }
        let is_known = |patterns: &Patterns| match said {
            Said::First => true,
            Said::Text(text) => patterns.text == text,
            Said::Nothing => false,
        };
        let is_known = there.is_some_and(is_known);
        if let (Said::Text(text), false) = (said, is_known) {
            let shown = format!("{} as it was", folder.join(super::walk::NAME).display());
            let before = compile(folder, &Patterns { text: text.to_owned(), shown })?;
            held = held.add(before, Power::Whole);
        }
        if let Some(own) = own {
            held = held.add(own, if is_known { Power::Whole } else { Power::Ignoring });
        }
        Ok(Self { today, held })
    }

    /// Says why a path is ignored, if it is. Where the file system ignores case, patterns do so, too.
    pub(super) fn verdict(&self, path: &Path, is_folder: bool, case: Case) -> Option<Verdict> {
        let (today, held) =
            (self.today.decide(path, is_folder, case), self.held.decide(path, is_folder, case));
        let kept = today.is_none();
        today.or(held)?;
        Some(Verdict { kept, global: [today, held].iter().flatten().all(|by| *by == By::Global) })
    }
}

/// Whether the case of letters counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    Counts,
    Ignored,
}

/// What a file's patterns can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Power {
    /// Ignore, and let in.
    Whole,
    /// Ignore: what they let in is so among themselves alone.
    Ignoring,
    /// Ignore, whatever inner files let in.
    Final,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Global,
    Local,
}

/// Files that count at the same time, inner ones first.
#[derive(Debug, Clone, Default)]
struct Chain(Option<Rc<Level>>);

/// The patterns of one file.
#[derive(Debug)]
struct Compiled {
    exact: Gitignore,
    any_case: Gitignore,
}

#[derive(Debug)]
struct Level {
    own: Rc<Compiled>,
    power: Power,
    outer: Chain,
}

impl Chain {
    fn add(&self, own: Rc<Compiled>, power: Power) -> Self {
        Self(Some(Rc::new(Level { own, power, outer: self.clone() })))
    }

    fn decide(&self, path: &Path, is_folder: bool, case: Case) -> Option<By> {
        let (mut chain, mut decided) = (self, None);
        while let Some(level) = &chain.0 {
            let own = match case {
                Case::Counts => &level.own.exact,
                Case::Ignored => &level.own.any_case,
            };
            let found = own.matched(path, is_folder);
            let ignored = found.is_ignore();
            match level.power {
                Power::Final if ignored && decided != Some(true) => return Some(By::Global),
                Power::Ignoring if !ignored => {}
                _ if found.is_none() => {}
                _ => decided = decided.or(Some(ignored)),
            }
            chain = &level.outer;
        }
        decided.unwrap_or(false).then_some(By::Local)
    }
}

fn compile(folder: &Path, patterns: &Patterns) -> Result<Rc<Compiled>> {
    let exact = compile_for(folder, patterns, Case::Counts)?;
    Ok(Rc::new(Compiled { exact, any_case: compile_for(folder, patterns, Case::Ignored)? }))
}

fn compile_for(folder: &Path, patterns: &Patterns, case: Case) -> Result<Gitignore> {
    let refused = |line: Option<usize>, error: ignore::Error| {
        let place = line.map(|line| format!("line {line} of ")).unwrap_or_default();
        let message = format!("{place}`{}` is no ignore pattern", patterns.shown);
        Error::new(ErrorKind::InvalidOption, message).source(error)
    };
    let mut builder = GitignoreBuilder::new(folder);
    builder.case_insensitive(case == Case::Ignored).map_err(|error| refused(None, error))?;
    // A class that is not closed is an error, not a name with a bracket.
    builder.allow_unclosed_class(false);
    for (number, line) in patterns.text.trim_start_matches('\u{feff}').lines().enumerate() {
        builder.add_line(None, line).map_err(|error| refused(Some(number + 1), error))?;
    }
    builder.build().map_err(|error| refused(None, error))
}
