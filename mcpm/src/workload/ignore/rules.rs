//! Reads ignore files, and decides by their patterns which files are ignored.
//!
//! The last matching pattern of the innermost ignore file that has one decides, with two exceptions. Files that the
//! global ignore file ignores stay ignored, because a mounted folder may have been written by somebody else. In an
//! ignore file that a server may have written, negated patterns (`!`) only re-include files that the same ignore file
//! ignores.

use std::{fs, io, path::Path, rc::Rc};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::{Error, ErrorKind, Result, state::file::file_error};

/// The name of an ignore file in a mounted folder.
pub(super) const IGNORE_FILE_NAME: &str = ".mcpmignore";
/// The longest ignore file that is read.
const MAX_IGNORE_FILE_BYTES: u64 = 1 << 20;

/// The baseline of an ignore file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BaselineText<'a> {
    /// No server could write the file, so it has no baseline.
    Untracked,
    /// The text that the user had.
    Text(&'a str),
    /// There was no such file.
    Absent,
}

/// The text of an ignore file, and where it is.
#[derive(Debug)]
pub(super) struct IgnoreFile {
    pub(super) text: String,
    shown: String,
}

/// Reads an ignore file; `None` when there is none.
pub(super) fn read(path: &Path) -> Result<Option<IgnoreFile>> {
    let failed = |error| file_error("read the ignore file", path, error);
    let file = match fs::metadata(path) {
        Ok(file) => file,
        // A dangling link is not a missing file.
        Err(error) if error.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    if !file.is_file() || file.len() > MAX_IGNORE_FILE_BYTES {
        return Err(failed(io::Error::other("it is not a regular file of at most 1 MiB")));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    Ok(Some(IgnoreFile { text, shown: path.display().to_string() }))
}

/// Tells whether patterns in `folder` ignore a path.
#[cfg(any(fuzzing, test))]
pub(in crate::workload) fn ignores(text: &str, folder: &Path, path: &Path) -> Result<bool> {
    let patterns = IgnoreFile { text: text.to_owned(), shown: "fuzzed".to_owned() };
    Ok(Rules::default()
        .with(folder, Some(&patterns), BaselineText::Untracked)?
        .verdict(path, false, CaseSensitivity::Sensitive)
        .is_some())
}

/// The patterns that apply in a folder.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    /// The current patterns, with the semantics of Git.
    current: RuleChain,
    /// The patterns that the user has accepted, and those of the other patterns that ignore files.
    enforced: RuleChain,
}

/// Why a path is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IgnoreVerdict {
    /// Whether only the baseline ignores it.
    pub(super) from_baseline: bool,
    /// Whether only the global ignore file ignores it.
    pub(super) global: bool,
}

impl Rules {
    /// Tells whether there are no patterns at all.
    pub(super) fn is_empty(&self) -> bool {
        self.current.0.is_none() && self.enforced.0.is_none()
    }

    /// Returns the patterns of the global ignore file, for a mounted folder.
    pub(super) fn global(folder: &Path, patterns: &IgnoreFile) -> Result<Self> {
        let chain = RuleChain::default().add(compile(folder, patterns)?, PatternAuthority::Final);
        Ok(Self { current: chain.clone(), enforced: chain })
    }

    /// Adds the patterns of the ignore file in `folder`: those of its current text, and those of its baseline. They are
    /// relative to the folder, and take precedence over the patterns added so far.
    pub(super) fn with(
        &self,
        folder: &Path,
        current_file: Option<&IgnoreFile>,
        baseline: BaselineText<'_>,
    ) -> Result<Self> {
        let Self { mut current, mut enforced } = self.clone();
        let own = current_file.map(|patterns| compile(folder, patterns)).transpose()?;
        if let Some(own) = &own {
            current = current.add(Rc::clone(own), PatternAuthority::Full);
        }
        let is_known = |patterns: &IgnoreFile| match baseline {
            BaselineText::Untracked => true,
            BaselineText::Text(text) => patterns.text == text,
            BaselineText::Absent => false,
        };
        let is_known = current_file.is_some_and(is_known);
        if let (BaselineText::Text(text), false) = (baseline, is_known) {
            let shown = format!("{} (accepted version)", folder.join(IGNORE_FILE_NAME).display());
            let before = compile(folder, &IgnoreFile { text: text.to_owned(), shown })?;
            enforced = enforced.add(before, PatternAuthority::Full);
        }
        if let Some(own) = own {
            enforced = enforced
                .add(own, if is_known { PatternAuthority::Full } else { PatternAuthority::IgnoreOnly });
        }
        Ok(Self { current, enforced })
    }

    /// Returns why a path is ignored, if it is. Patterns ignore case if the file system does.
    pub(super) fn verdict(
        &self,
        path: &Path,
        is_folder: bool,
        case: CaseSensitivity,
    ) -> Option<IgnoreVerdict> {
        let (current, enforced) =
            (self.current.decide(path, is_folder, case), self.enforced.decide(path, is_folder, case));
        let kept = current.is_none();
        current.or(enforced)?;
        Some(IgnoreVerdict {
            from_baseline: kept,
            global: [current, enforced].iter().flatten().all(|by| *by == DecidedBy::Global),
        })
    }
}

/// Whether patterns are case-sensitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaseSensitivity {
    Sensitive,
    Insensitive,
}

/// The effect of a file's patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatternAuthority {
    /// They can ignore and re-include files.
    Full,
    /// They can ignore files, and re-include only files that they ignore themselves.
    IgnoreOnly,
    /// They ignore files, and ignore files in inner folders cannot re-include these.
    Final,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecidedBy {
    Global,
    Local,
}

/// Ignore files that apply together, inner ones first.
#[derive(Debug, Clone, Default)]
struct RuleChain(Option<Rc<ChainLink>>);

/// The patterns of one file.
#[derive(Debug)]
struct Compiled {
    exact: Gitignore,
    case_insensitive: Gitignore,
}

#[derive(Debug)]
struct ChainLink {
    own: Rc<Compiled>,
    power: PatternAuthority,
    outer: RuleChain,
}

impl RuleChain {
    fn add(&self, own: Rc<Compiled>, power: PatternAuthority) -> Self {
        Self(Some(Rc::new(ChainLink { own, power, outer: self.clone() })))
    }

    fn decide(&self, path: &Path, is_folder: bool, case: CaseSensitivity) -> Option<DecidedBy> {
        let (mut chain, mut decided) = (self, None);
        while let Some(level) = &chain.0 {
            let own = match case {
                CaseSensitivity::Sensitive => &level.own.exact,
                CaseSensitivity::Insensitive => &level.own.case_insensitive,
            };
            let found = own.matched(path, is_folder);
            let ignored = found.is_ignore();
            match level.power {
                PatternAuthority::Final if ignored && decided != Some(true) => {
                    return Some(DecidedBy::Global);
                }
                PatternAuthority::IgnoreOnly if !ignored => {}
                _ if found.is_none() => {}
                _ => decided = decided.or(Some(ignored)),
            }
            chain = &level.outer;
        }
        decided.unwrap_or(false).then_some(DecidedBy::Local)
    }
}

fn compile(folder: &Path, patterns: &IgnoreFile) -> Result<Rc<Compiled>> {
    let exact = compile_for(folder, patterns, CaseSensitivity::Sensitive)?;
    Ok(Rc::new(Compiled {
        exact,
        case_insensitive: compile_for(folder, patterns, CaseSensitivity::Insensitive)?,
    }))
}

fn compile_for(folder: &Path, patterns: &IgnoreFile, case: CaseSensitivity) -> Result<Gitignore> {
    let refused = |line: Option<usize>, error: ignore::Error| {
        let place = line.map(|line| format!("line {line} of ")).unwrap_or_default();
        let message = format!("{place}`{}` is not a valid ignore pattern", patterns.shown);
        Error::new(ErrorKind::InvalidOption, message).source(error)
    };
    let mut builder = GitignoreBuilder::new(folder);
    builder.case_insensitive(case == CaseSensitivity::Insensitive).map_err(|error| refused(None, error))?;
    // An unclosed character class is an error.
    builder.allow_unclosed_class(false);
    for (number, line) in patterns.text.trim_start_matches('\u{feff}').lines().enumerate() {
        builder.add_line(None, line).map_err(|error| refused(Some(number + 1), error))?;
    }
    builder.build().map_err(|error| refused(None, error))
}
