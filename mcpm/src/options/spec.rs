//! Defines the specification of an option: one row of the option table.

use super::value::{OptionValue, ValueKind, check_text};
use crate::{Error, ErrorKind, Feature};

/// A row of the option table.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct OptionSpec {
    /// The name of the field, setter, JSON key and keyword argument; the flag is usually the same name in kebab case.
    pub name: &'static str,
    /// The long flag without dashes, if it differs from the name.
    pub flag_name: Option<&'static str>,
    /// The heading in help and reference pages.
    pub section: &'static str,
    /// The kind of one value.
    pub kind: ValueKind,
    /// The Rust type of one value.
    pub type_name: &'static str,
    /// The number of values.
    pub arity: Arity,
    /// The default, in text form.
    pub default: Option<&'static str>,
    /// A description of the default, if it depends on other things.
    pub computed_default: Option<&'static str>,
    /// The one-letter flag.
    pub short: Option<char>,
    /// The environment variable that is read if the option is not set otherwise.
    pub env: Option<&'static str>,
    /// Whether the option is required.
    pub required: Required,
    /// The position on the command line.
    pub place: ArgumentPosition,
    /// The minimum and maximum number.
    pub range: Option<(f64, f64)>,
    /// Options that cannot be combined with it.
    pub conflicts_with: &'static [&'static str],
    /// Whether it cannot be combined with other options.
    pub is_exclusive: bool,
    /// Whether it can be combined with an exclusive option.
    pub allowed_with_from_config: bool,
    /// The Cargo feature that the option needs.
    pub feature: Option<Feature>,
    /// Values other than the default that work without the Cargo feature.
    pub supported_values: &'static [&'static str],
    /// Whether the short help shows it.
    pub common: bool,
    /// Whether the option goes beyond the user's requirement; listed in `docs/reference/additions.md`.
    pub addition: bool,
    pub(super) placeholder: Option<&'static str>,
    pub(super) doc: &'static str,
    pub(super) check: fn(&Self, &str) -> Result<(), String>,
}

/// The number of values of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// One value; the last one wins.
    One,
    /// Any number of values.
    Many,
    /// Any number of values, and each text is a comma-separated list.
    List,
}

/// The position of an option on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentPosition {
    /// `--name value`, after the command.
    Flag,
    /// `--name value`, before or after the command.
    Global,
    /// A positional argument.
    Positional,
    /// All arguments after `--`.
    Trailing,
}

/// Whether an option is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Required {
    /// Optional.
    No,
    /// Required.
    Always,
    /// Required unless that other option is set.
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
            flag_name: None,
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
            feature: None,
            supported_values: &[],
            common: false,
            addition: false,
            placeholder: None,
            doc,
            check: check_text::<T>,
        }
    }

    /// Applies the settings of the section: whether its options are additions, and the Cargo feature that they need.
    pub(super) const fn of_section(mut self, addition: bool, feature: Option<Feature>) -> Self {
        self.addition |= addition;
        if self.feature.is_none() {
            self.feature = feature;
        }
        self
    }

    /// Returns the long flag, without dashes.
    pub fn flag(&self) -> String {
        self.flag_name.map_or_else(|| self.name.replace('_', "-"), str::to_owned)
    }

    /// Returns whether `text` is the long flag, without dashes.
    pub(crate) fn is_flag(&self, text: &str) -> bool {
        let name = self.flag_name.unwrap_or(self.name);
        let flag = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
        text.len() == name.len() && flag.eq(text.bytes())
    }

    /// Returns how the command line writes the option: `--flag`, or the placeholder of a positional argument.
    ///
    /// Messages of the library use the field's name, which is the same in every language.
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

    /// Returns the rest of the documentation, one line per paragraph; empty if there is none.
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

    /// Returns the placeholder of the value in help texts.
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

    /// Checks whether a text is a valid value of the option; for a list, whether all its items are.
    ///
    /// # Errors
    /// A lower-case fragment that says what was expected.
    pub fn check(&self, text: &str) -> Result<(), String> {
        (self.check)(self, text)
    }

    /// Returns the error if this build does not support the option.
    pub(super) fn unsupported_error(&self) -> Option<Error> {
        let missing = self.feature.filter(|feature| !feature.is_enabled());
        missing.map(|feature| feature.missing(&format!("`{}`", self.name)))
    }

    /// Returns whether values of the option must not be repeated in messages.
    pub fn hides_value(&self) -> bool {
        matches!(self.kind, ValueKind::Secret | ValueKind::Header | ValueKind::EnvVar)
    }

    pub(super) fn invalid(&self, text: Option<String>, reason: &str) -> Error {
        let shown = self.name;
        let message = match text {
            Some(text) if !self.hides_value() => format!("invalid value `{text}` for `{shown}`: {reason}"),
            _ => format!("invalid value for `{shown}`: {reason}"),
        };
        // Messages have one line.
        Error::new(ErrorKind::InvalidOption, message.replace(['\n', '\r'], " "))
    }
}

pub(super) fn first_line(doc: &'static str) -> &'static str {
    doc.lines().next().unwrap_or_default().trim()
}
