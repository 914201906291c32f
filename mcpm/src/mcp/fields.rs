//! The fields of a JSON object, for decisions that depend on one of them.
//!
//! Readers differ: of two fields with one name some take the first and some the last, and some do not tell apart
//! upper and lower case. What they could read in different ways is refused here, so that nobody is shown one
//! name and acts on another.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The fields of an object, in their order.
#[derive(Debug)]
pub(crate) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// The name of a field, where it stands if it is written without escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// A field that can be read in different ways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AmbiguousField(String);

impl fmt::Display for AmbiguousField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` can be read in different ways", self.0)
    }
}

impl<'a> Fields<'a> {
    /// Reads an object; `None` when the text is none.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Name(key), value)) = map.next_entry()? {
                    fields.push((key, value));
                }
                Ok(fields)
            }
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        let fields = reader.deserialize_map(Reader).ok()?;
        // What goes on after its end is no object, and some would read on.
        reader.end().ok()?;
        Some(Self(fields))
    }

    /// The value of a field, if it is there.
    pub(crate) fn get_unique(&self, name: &str) -> Result<Option<&'a RawValue>, AmbiguousField> {
        let mut found = self.0.iter().filter(|(key, _)| names_collide(key, name));
        match (found.next(), found.next()) {
            (None, _) => Ok(None),
            (Some((key, value)), None) if key == name => Ok(Some(value)),
            (Some((key, _)), None) | (Some(_), Some((key, _))) => Err(AmbiguousField(key.to_string())),
        }
    }

    /// The value of a field, if it is there and a string.
    pub(crate) fn get_unique_string(&self, name: &str) -> Result<Option<String>, AmbiguousField> {
        Ok(self.get_unique(name)?.and_then(|value| serde_json::from_str(value.get()).ok()))
    }

    /// All fields, unless two of them can be taken for each other.
    #[cfg(any(feature = "policy", test))]
    pub(crate) fn all_unique(&self) -> Result<&[(Cow<'a, str>, &'a RawValue)], AmbiguousField> {
        let mut seen = std::collections::HashSet::new();
        for (key, _) in &self.0 {
            if !seen.insert(fold_case(key).collect::<String>()) {
                return Err(AmbiguousField(key.to_string()));
            }
        }
        Ok(&self.0)
    }
}

/// Whether readers that do not tell apart upper and lower case take two names for one.
pub(super) fn names_collide(one: &str, other: &str) -> bool {
    if one.is_ascii() && other.is_ascii() {
        return one.eq_ignore_ascii_case(other);
    }
    fold_case(one).eq(fold_case(other))
}

/// A name as those readers see it. The letters beyond ASCII are those that Unicode folds into it.
fn fold_case(name: &str) -> impl Iterator<Item = char> {
    name.chars().map(|letter| match letter {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        other => other.to_ascii_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_returned_only_if_unambiguous() {
        for (text, found) in [
            (r#"{"name":"a","other":1}"#, Ok(Some("a"))),
            (r#"{"n\u0061me":"a"}"#, Ok(Some("a"))),
            (r#"{"other":1}"#, Ok(None)),
            (r#"{"name":1}"#, Ok(None)),
            (r#"{"name":"a","name":"b"}"#, Err("name")),
            (r#"{"name":"a","Name":"b"}"#, Err("Name")),
            (r#"{"nAme":"b"}"#, Err("nAme")),
        ] {
            let fields = Fields::read(text).expect("an object");
            let got = fields.get_unique_string("name").map_err(|AmbiguousField(key)| key);
            assert_eq!(got, found.map(|found| found.map(str::to_owned)).map_err(str::to_owned), "{text}");
        }
        let fields = Fields::read("{\"to\u{212a}en\":1}").expect("an object");
        assert!(fields.get_unique("token").is_err());
        assert!(Fields::read("[1]").is_none() && Fields::read("{").is_none());
        assert!(Fields::read("{} {}").is_none() && Fields::read("{}x").is_none());
        assert!(Fields::read(" {} \n").is_some());
        assert!(Fields::read(r#"{"a":1,"b":2}"#).is_some_and(|fields| fields.all_unique().is_ok()));
        assert!(Fields::read(r#"{"a":1,"A":2}"#).is_some_and(|fields| fields.all_unique().is_err()));
    }
}
