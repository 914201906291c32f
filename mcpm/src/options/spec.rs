//! What is known of one option before any value is given.

use super::value::{OptionValue, ValueKind, check_text};
use crate::{Error, ErrorKind};

/// One row of the option table.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct OptionSpec {
    /// Field, setter, JSON key and keyword argument; the flag is the same name in kebab case.
    pub name: &'static str,
    /// Heading under which help and reference pages list the option.
    pub section: &'static str,
    /// Shape of one value.
    pub kind: ValueKind,
    /// Rust type of one value.
    pub type_name: &'static str,
    /// One value or many.
    pub arity: Arity,
    /// Default, in the spelling a user would type.
    pub default: Option<&'static str>,
    /// How the default is found when it depends on other things.
    pub computed_default: Option<&'static str>,
    /// One-letter flag.
    pub short: Option<char>,
    /// Environment variable read when nothing else supplies the value.
    pub env: Option<&'static str>,
    /// Whether the command refuses to start without it.
    pub required: Required,
    /// Where it stands on a command line.
    pub place: ArgumentPosition,
    /// Smallest and largest number.
    pub range: Option<(f64, f64)>,
    /// Options that cannot be given beside it.
    pub conflicts_with: &'static [&'static str],
    /// Whether it stands for all other options, so that they cannot be given beside it.
    pub is_exclusive: bool,
    /// Whether it can be given beside an option that replaces the others.
    pub allowed_with_from_config: bool,
    /// The feature it waits for, when that is not built yet.
    pub unsupported: Option<&'static str>,
    /// Values beside the default that work although the feature is not built yet.
    pub supported_values: &'static [&'static str],
    /// Whether it goes beyond the user's requirement; listed in `docs/reference/additions.md`.
    pub addition: bool,
    pub(super) placeholder: Option<&'static str>,
    pub(super) doc: &'static str,
    pub(super) check: fn(&Self, &str) -> Result<(), String>,
}

/// How often an option may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// The last value wins.
    One,
    /// Values add up.
    Many,
    /// Values add up, and each text is a comma-separated list of them.
    List,
}

/// Where an option stands on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentPosition {
    /// `--name value`, after the command.
    Flag,
    /// `--name value`, before or after the command.
    Global,
    /// An argument without a flag.
    Positional,
    /// Everything after `--`.
    Trailing,
}

/// Whether a command refuses to start without an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Required {
    /// It starts without.
    No,
    /// It never starts without.
    Always,
    /// It starts without when that other option is given.
    Unless(&'static str),
}

impl OptionSpec {
    pub(super) const fn new<T: OptionValue>(
        name: &'static str,
        section: &'static str,
        doc: &'static str,
        type_name: &'static str,
        arity: Arity,
        default: Option<&'static str>,
    ) -> Self {
        Self {
            name,
            section,
            kind: T::KIND,
            type_name,
            arity,
            default,
            computed_default: None,
            short: None,
            env: None,
            required: Required::No,
            place: ArgumentPosition::Flag,
            range: None,
            conflicts_with: &[],
            is_exclusive: false,
            allowed_with_from_config: false,
            unsupported: None,
            supported_values: &[],
            addition: false,
            placeholder: None,
            doc,
            check: check_text::<T>,
        }
    }

    /// Makes it an addition when its command has the whole section as one.
    pub(super) const fn or_addition(mut self, addition: bool) -> Self {
        self.addition |= addition;
        self
    }

    /// Returns the long flag, without dashes.
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Whether that is the long flag, without dashes.
    pub(crate) fn is_flag(&self, text: &str) -> bool {
        let flag = self.name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
        text.len() == self.name.len() && flag.eq(text.bytes())
    }

    /// Returns how the command line writes the option: `--flag`, or the placeholder of an argument without a flag.
    ///
    /// Messages of the library name the field, which every language has.
    pub fn display_name(&self) -> String {
        match self.place {
            ArgumentPosition::Flag | ArgumentPosition::Global => format!("--{}", self.flag()),
            ArgumentPosition::Positional | ArgumentPosition::Trailing => self.placeholder().to_owned(),
        }
    }

    /// Returns the first line of the documentation, without a full stop.
    pub fn help(&self) -> &'static str {
        first_line(self.doc)
    }

    /// Returns the documentation after the first line, one line per paragraph; empty when there is none.
    pub fn details(&self) -> String {
        let mut details = String::new();
        for line in self.doc.lines().skip(1).map(str::trim) {
            match line {
                "" if details.is_empty() => {}
                "" => details.push_str("\n\n"),
                _ if details.is_empty() || details.ends_with('\n') => details.push_str(line),
                _ => details.extend([" ", line]),
            }
        }
        details.truncate(details.trim_end().len());
        details
    }

    /// Returns what stands for the value in help.
    pub fn placeholder(&self) -> &'static str {
        match (self.placeholder, self.kind) {
            (Some(placeholder), _) | (None, ValueKind::Compound(placeholder)) => placeholder,
            (None, ValueKind::Text) => "TEXT",
            (None, ValueKind::Url) => "URL",
            (None, ValueKind::Host) => "HOST",
            (None, ValueKind::File) => "FILE",
            (None, ValueKind::Folder) => "FOLDER",
            (None, ValueKind::Secret) => "SECRET",
            (None, ValueKind::Header) => "Name=Value",
            (None, ValueKind::EnvVar) => "KEY=VALUE",
            (None, ValueKind::Port) => "PORT",
            (None, ValueKind::Bool) => "BOOL",
            (None, ValueKind::Float) => "NUMBER",
            (None, ValueKind::Duration) => "DURATION",
            (None, ValueKind::Pair) => "key=value",
            (None, ValueKind::Choice(_)) => "MODE",
        }
    }

    /// Tells whether a text is a value of the option; of a list, whether all its items are.
    ///
    /// # Errors
    /// A lower-case fragment that says what was expected.
    pub fn check(&self, text: &str) -> Result<(), String> {
        (self.check)(self, text)
    }

    /// Tells whether a value of the option must not be repeated in messages.
    pub fn hides_value(&self) -> bool {
        matches!(self.kind, ValueKind::Secret | ValueKind::Header | ValueKind::EnvVar)
    }

    pub(super) fn invalid(&self, text: Option<String>, reason: &str) -> Error {
        let shown = self.name;
        let message = match text {
            Some(text) if !self.hides_value() => format!("invalid value `{text}` for `{shown}`: {reason}"),
            _ => format!("invalid value for `{shown}`: {reason}"),
        };
        // House style: a message is one line, whatever the user typed.
        Error::new(ErrorKind::InvalidOption, message.replace(['\n', '\r'], " "))
    }
}

pub(super) fn first_line(doc: &'static str) -> &'static str {
    doc.lines().next().unwrap_or_default().trim()
}
