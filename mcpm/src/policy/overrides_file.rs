//! Reads the file of `--tools-override`, which contains new names and descriptions of tools.

use std::{collections::BTreeMap, fmt, path::Path};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, Visitor},
};

use crate::{
    Result,
    config_file::{self, invalid},
};

/// A new name and description of a tool, which clients see instead of the server's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOverride {
    /// The new name; `None` or an empty string keeps the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The new description; `None` or an empty string keeps the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverridesDocument {
    #[serde(rename = "toolsOverride")]
    tools: Unique,
}

/// A map that rejects duplicate keys.
struct Unique(BTreeMap<String, ToolOverride>);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Unique;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("overrides by tool name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
                let mut tools = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if tools.contains_key(&name) {
                        return Err(A::Error::custom(format!("the tool `{name}` occurs twice")));
                    }
                    let one: ToolOverride = map.next_value()?;
                    tools.insert(name, one);
                }
                Ok(Unique(tools))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, ToolOverride>> {
    let OverridesDocument { tools: Unique(mut tools) } = config_file::json(path, "tool override file")?;
    for (name, one) in &mut tools {
        one.name = one.name.take().filter(|name| !name.is_empty());
        one.description = one.description.take().filter(|description| !description.is_empty());
        if *one == ToolOverride::default() {
            let shown = path.display();
            return Err(invalid(format!(
                "`{shown}` overrides neither the name nor the description of the tool `{name}`"
            )));
        }
    }
    Ok(tools)
}
