//! Reads the fields of a JSON object, for decisions that depend on a field.
//!
//! Parsers differ: of two fields with the same name, some use the first and some the last, and some do not distinguish
//! upper and lower case. A field that parsers could read differently is rejected, so that a check never sees another
//! value than the one that the server or the client uses.

use std::{borrow::Cow, fmt, ops::Range, sync::OnceLock};

use serde::{
    Deserialize, Deserializer as _,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::scan;

/// The fields of an object, in the order of the text.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    text: &'a str,
    spans: Cow<'a, FieldSpans>,
}

/// Maximum number of fields of an object that are cached, because their positions take more memory than short fields
/// themselves.
const MAX_KNOWN_FIELDS: usize = 64;

/// The cached fields of a value, set when it is first read; `None` if the value is not an object.
pub(super) type KnownFields = OnceLock<Option<FieldSpans>>;

/// The positions of an object's fields in its text.
#[derive(Debug, Clone)]
pub(super) struct FieldSpans(Vec<FieldSpan>);

#[derive(Debug, Clone)]
struct FieldSpan {
    /// The unescaped name, if it is written with escapes.
    unescaped: Option<Box<str>>,
    name: Range<usize>,
    is_ascii: bool,
    value: Range<usize>,
}

impl FieldSpan {
    fn name_len(&self) -> usize {
        self.unescaped.as_ref().map_or(self.name.len(), |name| name.len())
    }
}

/// The value of a field, as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FieldValue<'a>(&'a str);

impl<'a> FieldValue<'a> {
    pub(crate) fn get(self) -> &'a str {
        self.0
    }

    /// The value, if it is a string; borrowed if it is written without escapes.
    pub(crate) fn string(self) -> Option<Cow<'a, str>> {
        serde_json::from_str(self.0).ok().map(|Text(text)| text)
    }
}

/// A name or a string value, borrowed from the text if it is written without escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The name of a field that parsers could read differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AmbiguousField(String);

impl fmt::Display for AmbiguousField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parsers could read the field `{}` in different ways", self.0)
    }
}

impl FieldSpans {
    /// Parses an object with the fast scanner, or else with serde_json; `None` if the text is not an object.
    fn scan(text: &str) -> Option<Self> {
        let mut fields = Vec::new();
        let scanned = scan::each_field(text, |name, value| {
            let is_ascii = text.get(name.clone())?.is_ascii();
            fields.push(FieldSpan { unescaped: None, name, is_ascii, value });
            Some(())
        });
        if scanned.is_some() { Some(Self(fields)) } else { Self::read(text) }
    }

    /// Parses an object with serde_json, which accepts any form.
    fn read(text: &str) -> Option<Self> {
        struct Reader<'a>(&'a str);
        impl<'de> Visitor<'de> for Reader<'_> {
            type Value = Vec<FieldSpan>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let span = |part: &str| {
                    let start = part.as_ptr().addr().saturating_sub(self.0.as_ptr().addr());
                    start..start + part.len()
                };
                let mut fields = Vec::new();
                while let Some((Text(name), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    let is_ascii = name.is_ascii();
                    let (unescaped, name) = match name {
                        Cow::Borrowed(name) => (None, span(name)),
                        Cow::Owned(name) => (Some(name.into()), 0..0),
                    };
                    fields.push(FieldSpan { unescaped, name, is_ascii, value: span(value.get()) });
                }
                Ok(fields)
            }
        }
        let mut reader = serde_json::Deserializer::from_str(text);
        let fields = reader.deserialize_map(Reader(text)).ok()?;
        // Text after the end of the object is not allowed, because some parsers would continue to read.
        reader.end().ok()?;
        Some(Self(fields))
    }
}

impl<'a> Fields<'a> {
    /// Reads an object; `None` if the text is not an object.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        FieldSpans::scan(text).map(|spans| Self { text, spans: Cow::Owned(spans) })
    }

    /// Reads an object that may be read several times. The fields are cached in `known` at the first time, unless there
    /// are too many.
    pub(super) fn read_once(text: &'a str, known: &'a KnownFields) -> Option<Self> {
        if known.get().is_none() {
            match FieldSpans::scan(text) {
                Some(spans) if spans.0.len() > MAX_KNOWN_FIELDS => {
                    return Some(Self { text, spans: Cow::Owned(spans) });
                }
                scanned => known.get_or_init(|| scanned),
            };
        }
        known.get()?.as_ref().map(|spans| Self { text, spans: Cow::Borrowed(spans) })
    }

    /// All fields: names and values.
    fn iter(&self) -> impl Iterator<Item = (&str, FieldValue<'a>)> {
        self.spans.0.iter().map(|field| (self.name(field), self.value(field)))
    }

    fn name<'b>(&'b self, field: &'b FieldSpan) -> &'b str {
        match &field.unescaped {
            Some(name) => name,
            None => self.text.get(field.name.clone()).unwrap_or_default(),
        }
    }

    fn value(&self, field: &FieldSpan) -> FieldValue<'a> {
        FieldValue(self.text.get(field.value.clone()).unwrap_or_default())
    }

    /// The value of a field, if the object has it; an error if parsers could read the field differently.
    pub(crate) fn get_unique(&self, name: &str) -> Result<Option<FieldValue<'a>>, AmbiguousField> {
        let is_ascii = name.is_ascii();
        let collides = |field: &&FieldSpan| {
            // Case folding does not change the length of an ASCII name.
            let may_collide = field.name_len() == name.len() || !(is_ascii && field.is_ascii);
            may_collide && names_collide(self.name(field), name)
        };
        let mut found = self.spans.0.iter().filter(collides);
        match (found.next(), found.next()) {
            (None, _) => Ok(None),
            (Some(field), None) if self.name(field) == name => Ok(Some(self.value(field))),
            (Some(field), None) | (Some(_), Some(field)) => Err(AmbiguousField(self.name(field).to_owned())),
        }
    }

    /// The value of the field with exactly this name, if there is one such field.
    pub(crate) fn get_only(&self, name: &str) -> Option<FieldValue<'a>> {
        let mut found = self.iter().filter(|(key, _)| *key == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    }

    /// The value of a field, if the object has it and it is a string.
    pub(crate) fn get_unique_string(&self, name: &str) -> Result<Option<Cow<'a, str>>, AmbiguousField> {
        Ok(self.get_unique(name)?.and_then(FieldValue::string))
    }

    /// All fields; an error if some parsers would treat two of them as the same field.
    #[cfg(any(feature = "policy", test))]
    pub(crate) fn all_unique(&self) -> Result<Vec<(&str, FieldValue<'a>)>, AmbiguousField> {
        let all: Vec<_> = self.iter().collect();
        let repeated = match all.len() {
            // For so few fields, comparing each pair is faster than a set.
            0..=8 => {
                (1..all.len()).find(|at| all[..*at].iter().any(|(name, _)| names_collide(name, all[*at].0)))
            }
            _ => {
                let mut seen = std::collections::HashSet::new();
                all.iter().position(|(name, _)| !seen.insert(fold_case(name).collect::<String>()))
            }
        };
        repeated.map_or(Ok(()), |at| Err(AmbiguousField(all[at].0.to_owned())))?;
        Ok(all)
    }
}

/// Whether two names are equal for parsers that do not distinguish upper and lower case.
pub(super) fn names_collide(one: &str, other: &str) -> bool {
    if one.eq_ignore_ascii_case(other) {
        return true;
    }
    if one.is_ascii() && other.is_ascii() {
        return false;
    }
    fold_case(one).eq(fold_case(other))
}

/// A name in lower case, as such parsers compare it. The two non-ASCII letters are those that Unicode folds to ASCII.
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
            assert_eq!(got, found.map(|found| found.map(Cow::from)).map_err(str::to_owned), "{text}");
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
