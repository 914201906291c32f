//! Reads the fields of a JSON-RPC message in one pass.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{fields::names_collide, scan};

/// The fields of JSON-RPC messages.
pub(crate) const MESSAGE_FIELDS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The fields of a message, as JSON. An explicit `null` is a value.
#[derive(Debug, Default)]
pub(super) struct Outline<'a> {
    /// The values, in the order of [`MESSAGE_FIELDS`].
    pub(super) fields: [Option<&'a str>; MESSAGE_FIELDS.len()],
    /// Whether another field has a name that some parsers treat as one of these names.
    pub(super) has_look_alike: bool,
}

impl<'a> Outline<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// If the text is not a JSON object, or has one of the fields twice.
    pub(super) fn read(text: &'a str) -> serde_json::Result<Self> {
        Self::scan(text).map_or_else(|| serde_json::from_str(text), Ok)
    }

    fn scan(text: &'a str) -> Option<Self> {
        let mut outline = Self::default();
        scan::each_field(text, |name, value| {
            match FieldName::of(text.get(name)?) {
                FieldName::Known(place) if outline.fields[place].is_some() => return None,
                FieldName::Known(place) => outline.fields[place] = Some(text.get(value)?),
                FieldName::LookAlike => outline.has_look_alike = true,
                FieldName::Other => {}
            }
            Some(())
        })?;
        Some(outline)
    }
}

/// The name of a field.
enum FieldName {
    /// The index in [`MESSAGE_FIELDS`].
    Known(usize),
    LookAlike,
    Other,
}

impl FieldName {
    fn of(name: &str) -> Self {
        match MESSAGE_FIELDS.iter().position(|known| *known == name) {
            Some(place) => Self::Known(place),
            None if MESSAGE_FIELDS.iter().any(|known| names_collide(known, name)) => Self::LookAlike,
            None => Self::Other,
        }
    }
}

impl<'de> Deserialize<'de> for FieldName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = FieldName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("field identifier")
            }

            fn visit_str<E>(self, name: &str) -> Result<FieldName, E> {
                Ok(FieldName::of(name))
            }
        }
        deserializer.deserialize_identifier(Reader)
    }
}

impl<'de> Deserialize<'de> for Outline<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Outline<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("struct Outline")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outline<'de>, A::Error> {
                let mut outline = Outline::default();
                while let Some(name) = map.next_key()? {
                    match name {
                        FieldName::Known(place) if outline.fields[place].is_some() => {
                            return Err(A::Error::duplicate_field(MESSAGE_FIELDS[place]));
                        }
                        FieldName::Known(place) => {
                            outline.fields[place] = Some(map.next_value::<&RawValue>()?.get());
                        }
                        FieldName::LookAlike | FieldName::Other => {
                            outline.has_look_alike |= matches!(name, FieldName::LookAlike);
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(outline)
            }
        }
        deserializer.deserialize_struct("Outline", &MESSAGE_FIELDS, Reader)
    }
}
