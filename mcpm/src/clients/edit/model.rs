//! Defines entries, their fields and their places in a file, for all languages of configuration files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The value of a field of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::clients) enum FieldValue {
    Text(String),
    Flag(bool),
    List(Vec<String>),
    Map(BTreeMap<String, String>),
}

/// The fields of an entry, in the order in which they are written.
pub(in crate::clients) type Fields = Vec<(&'static str, FieldValue)>;

/// A result whose error says what an edit cannot handle, as a part of a sentence about the file.
pub(in crate::clients) type EditResult<T> = Result<T, String>;

/// How the place of the first entry looked before, so that removing the last one restores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(in crate::clients) enum Origin {
    /// The file had this text, and no value.
    Blank(String),
    /// The file had a value.
    Object {
        /// How many of the keys that lead to the entries existed.
        depth: usize,
        /// The text inside the object that the last of them leads to, if it was empty.
        inside: Option<String>,
    },
}

/// The place of an entry: the keys of the map of servers, and the key in that map.
#[derive(Debug, Clone, Copy)]
pub(in crate::clients) struct EntryPath<'a> {
    pub(in crate::clients) map: &'a [&'static str],
    pub(in crate::clients) name: &'a str,
}
