//! Parses the parts of registry entries that both registry layouts have in common.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{RegistryInput, entry::sanitize};
use crate::{Error, ErrorKind, Result, printable::Printable as _};

/// The longest name.
const MAX_NAME_LENGTH: usize = 200;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InputJson {
    #[serde(default)]
    pub(super) name: String,
    pub(super) description: Option<String>,
    #[serde(default, alias = "is_required", alias = "required")]
    pub(super) is_required: bool,
    #[serde(default, alias = "is_secret", alias = "secret")]
    pub(super) is_secret: bool,
    #[serde(default, deserialize_with = "text_or_scalar")]
    pub(super) default: Option<String>,
    #[serde(default, deserialize_with = "text_or_scalar")]
    pub(super) value: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) choices: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(super) variables: BTreeMap<String, InputJson>,
}

impl From<InputJson> for RegistryInput {
    fn from(json: InputJson) -> Self {
        let variable = |(name, json): (String, InputJson)| {
            let input = RegistryInput { name: name.clone(), ..json.into() };
            (name, input)
        };
        Self {
            name: json.name,
            description: json.description.as_deref().map(sanitize),
            required: json.is_required,
            secret: json.is_secret,
            default: json.default,
            value: json.value,
            choices: json.choices,
            variables: json.variables.into_iter().map(variable).collect(),
        }
    }
}

/// Rejects a name that cannot be typed or displayed.
pub(super) fn check_name(name: &str) -> Result<()> {
    let bad =
        name.is_empty() || name.len() > MAX_NAME_LENGTH || name.contains(|c: char| !c.is_ascii_graphic());
    match bad {
        false => Ok(()),
        true => {
            let shown: String = name.chars().take(60).collect::<String>().printable();
            let message = format!(
                "`{shown}` is not a valid server name: expected 1 to {MAX_NAME_LENGTH} visible ASCII characters"
            );
            Err(Error::new(ErrorKind::Registry, message))
        }
    }
}

/// Deserializes `null`, which some registries write, as the default.
pub(super) fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Deserializes a string that some registries write as a number or a boolean.
pub(super) fn text_or_scalar<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<String>, D::Error> {
    Ok(match Option::<Value>::deserialize(deserializer)? {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
        Some(_) => return Err(serde::de::Error::custom("expected a string")),
    })
}
