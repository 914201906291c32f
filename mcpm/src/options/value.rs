//! Defines option values, and the fields that store them.
//!
//! [`OptionValue`] is one value with its text form, [`Slot`] is a field that stores one or many values, and
//! [`ErasedSlot`] is a slot of any type. The text form is the same on the command line and in C. In JSON, numbers and
//! booleans are JSON values, and other values have their text form.

use std::{borrow::Cow, path::PathBuf, time::Duration};

use serde::{Deserialize, Deserializer, Serializer, de, ser};

use super::{
    Secret, json,
    spec::{Arity, OptionSpec, first_line},
};
use crate::{Error, ErrorKind, Result};

/// The kind of one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueKind {
    /// Free text.
    Text,
    /// A URL or another network address.
    Url,
    /// An IP address or a hostname.
    Host,
    /// A path to a file.
    File,
    /// A path to a folder.
    Folder,
    /// Text that is never printed.
    Secret,
    /// `Name=Value`; the value is never printed.
    Header,
    /// `KEY=VALUE`; the value is not repeated in messages.
    EnvVar,
    /// A port number.
    Port,
    /// `true` or `false`.
    Bool,
    /// A real number.
    Float,
    /// A duration, such as `1m30s`.
    Duration,
    /// `key=value`.
    Pair,
    /// A text of several parts; the placeholder shows the syntax.
    Compound(&'static str),
    /// One of several keywords.
    Choice(&'static [Word]),
}

/// A keyword of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// The keyword.
    pub text: &'static str,
    /// Its documentation, as written in the source.
    pub(super) doc: &'static str,
}

impl Word {
    /// Returns its help text, one line.
    pub fn help(&self) -> &'static str {
        first_line(self.doc)
    }
}

/// A repeatable option that also accepts comma-separated lists.
pub type List<T> = Vec<T>;

/// A type of option values.
pub trait OptionValue: Sized {
    /// The kind of the values.
    const KIND: ValueKind;

    /// Parses the text form.
    ///
    /// # Errors
    /// A lower-case fragment that says what was expected. It does not repeat a text that may be secret.
    fn parse(text: &str) -> Result<Self, String>;

    /// Returns the text form; `None` if it is secret.
    fn text(&self) -> Option<String>;

    /// Returns the text form of a secret, for callers that pass it on in another way than as JSON.
    fn secret(&self) -> Option<Secret> {
        None
    }

    /// Rejects a value that was constructed in code and has no text form.
    ///
    /// # Errors
    /// A lower-case fragment that says what is wrong.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the value as a number, for options with a range.
    fn number(&self) -> Option<f64> {
        None
    }

    /// Serializes the value as JSON, by default as its text form.
    ///
    /// # Errors
    /// Secrets are never serialized.
    fn export<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.text() {
            Some(text) => serializer.serialize_str(&text),
            None => Err(ser::Error::custom("a secret is never serialized")),
        }
    }

    /// Deserializes the value.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse).
    fn import<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A field that stores an option: one value or many.
pub trait Slot: Default {
    /// The type of one value.
    type Value: OptionValue;

    /// Stores a value: replaces the previous one, or appends it.
    fn put(&mut self, value: Self::Value);

    /// Returns the stored values.
    fn values(&self) -> &[Self::Value];

    /// Serializes the values as JSON.
    ///
    /// # Errors
    /// Those of the value.
    fn export<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// Deserializes the values.
    ///
    /// # Errors
    /// Those of the value.
    fn import<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// Returns itself, or `lower` if nothing is stored.
    fn or_lower(self, lower: Self) -> Self {
        if self.values().is_empty() { lower } else { self }
    }
}

impl<T: OptionValue> Slot for Option<T> {
    type Value = T;

    fn put(&mut self, value: T) {
        *self = Some(value);
    }

    fn values(&self) -> &[T] {
        self.as_slice()
    }

    fn export<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(value) => value.export(serializer),
            None => serializer.serialize_none(),
        }
    }

    fn import<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<json::JsonValueIn<T>>::deserialize(deserializer)?.map(|value| value.0))
    }
}

impl<T: OptionValue> Slot for Vec<T> {
    type Value = T;

    fn put(&mut self, value: T) {
        self.push(value);
    }

    fn values(&self) -> &[T] {
        self
    }

    fn export<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(json::JsonValueOut))
    }

    fn import<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<json::JsonValueIn<T>>::deserialize(deserializer)?;
        Ok(values.into_iter().map(|value| value.0).collect())
    }
}

/// A slot of any type.
pub trait ErasedSlot {
    /// Returns whether a value is stored.
    fn is_given(&self) -> bool;

    /// Returns the text forms of the values, without secrets.
    fn texts(&self) -> Vec<String>;

    /// Returns the text forms of the secrets that [`texts`](Self::texts) omits.
    fn secrets(&self) -> Vec<Secret>;

    /// Checks the stored values against the option's constraints.
    ///
    /// # Errors
    /// `InvalidOption` names the option.
    fn check(&self, spec: &OptionSpec) -> Result<()>;

    /// Parses a text and stores the value; stores nothing on failure.
    ///
    /// # Errors
    /// `InvalidOption` names the option and says what was expected.
    fn put_text(&mut self, spec: &OptionSpec, text: &str) -> Result<()>;
}

impl<S: Slot> ErasedSlot for S {
    fn is_given(&self) -> bool {
        !self.values().is_empty()
    }

    fn texts(&self) -> Vec<String> {
        self.values().iter().filter_map(OptionValue::text).collect()
    }

    fn secrets(&self) -> Vec<Secret> {
        self.values().iter().filter_map(OptionValue::secret).collect()
    }

    fn check(&self, spec: &OptionSpec) -> Result<()> {
        self.values().iter().try_for_each(|value| {
            check_value(spec, value).map_err(|reason| spec.invalid(value.text(), &reason))
        })
    }

    fn put_text(&mut self, spec: &OptionSpec, text: &str) -> Result<()> {
        let values: Vec<S::Value> = parts(spec, text)
            .map(|part| parse_part(spec, part))
            .collect::<Result<_, String>>()
            .map_err(|reason| spec.invalid(Some(text.to_owned()), &reason))?;
        values.into_iter().for_each(|value| self.put(value));
        Ok(())
    }
}

/// Checks whether `text` is a valid value; implements [`OptionSpec::check`].
pub(super) fn check_text<T: OptionValue>(spec: &OptionSpec, text: &str) -> Result<(), String> {
    parts(spec, text).try_for_each(|part| parse_part::<T>(spec, part).map(drop))
}

fn parts<'a>(spec: &OptionSpec, text: &'a str) -> impl Iterator<Item = &'a str> {
    let list = spec.arity == Arity::List;
    // A split always yields one part, so a text without a comma needs no other case.
    text.split(move |letter| list && letter == ',').map(move |part| if list { part.trim() } else { part })
}

fn parse_part<T: OptionValue>(spec: &OptionSpec, part: &str) -> Result<T, String> {
    if spec.arity == Arity::List && part.is_empty() {
        return Err("an item of the list is empty".to_owned());
    }
    let value = T::parse(part).map_err(|reason| spec.range.map_or(reason, expected_number))?;
    check_value(spec, &value)?;
    Ok(value)
}

fn check_value<T: OptionValue>(spec: &OptionSpec, value: &T) -> Result<(), String> {
    value.check()?;
    match (spec.range, value.number()) {
        (Some((low, high)), Some(number)) if !(low..=high).contains(&number) => {
            Err(expected_number((low, high)))
        }
        _ => Ok(()),
    }
}

fn expected_number((low, high): (f64, f64)) -> String {
    format!("expected a number from {low} to {high}")
}

/// The error of a parser that does not know the option's name.
pub(super) fn invalid_value(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOption, reason)
}

/// Returns "expected `a`, `b` or `c`".
pub(super) fn expected(words: &[Word]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{}`", word.text)).collect();
    match quoted.as_slice() {
        [] => "expected nothing".to_owned(),
        [only] => format!("expected {only}"),
        [most @ .., last] => format!("expected {} or {last}", most.join(", ")),
    }
}

macro_rules! plain_value {
    ($($type:ty => $kind:expr, $expected:literal $(, $number:expr)?;)+) => {$(
        impl OptionValue for $type {
            const KIND: ValueKind = $kind;

            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| $expected.to_owned())
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }

            $(fn number(&self) -> Option<f64> {
                let number: fn(&$type) -> f64 = $number;
                Some(number(self))
            })?

            fn export<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                ser::Serialize::serialize(self, serializer)
            }

            fn import<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize(deserializer)
            }
        }
    )+};
}

plain_value! {
    String => ValueKind::Text, "expected text";
    bool => ValueKind::Bool, "expected `true` or `false`";
    u16 => ValueKind::Port, "expected a port from 0 to 65535", |port| f64::from(*port);
    f64 => ValueKind::Float, "expected a number", |number| *number;
}

impl OptionValue for PathBuf {
    const KIND: ValueKind = ValueKind::File;

    fn parse(text: &str) -> Result<Self, String> {
        let path = Self::from(text);
        path.check()?;
        Ok(path)
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string_lossy().into_owned())
    }

    fn check(&self) -> Result<(), String> {
        if self.as_os_str().is_empty() { Err("expected a path".to_owned()) } else { Ok(()) }
    }

    fn export<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Fails for a path that is not valid UTF-8, whose lossy text would name another file.
        ser::Serialize::serialize(self, serializer)
    }
}

impl OptionValue for Duration {
    const KIND: ValueKind = ValueKind::Duration;

    fn parse(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text).map_err(|_| "expected a duration such as `30s` or `1m30s`".to_owned())
    }

    fn text(&self) -> Option<String> {
        // Without the spaces that humantime inserts.
        Some(humantime::format_duration(*self).to_string().replace(' ', ""))
    }
}
