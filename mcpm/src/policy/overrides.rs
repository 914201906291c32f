//! The file of `--tools-override`: other names and descriptions for tools.

use std::{collections::BTreeMap, fmt, path::Path};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, MapAccess, Visitor},
};

use super::invalid;
use crate::{Result, config_file};

/// What clients see in place of a tool's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOverride {
    /// Its name; `None` or an empty one leaves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its description; `None` or an empty one leaves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OverridesDocument {
    #[serde(rename = "toolsOverride")]
    tools: Unique,
}

/// A map in which no key stands twice.
struct Unique(BTreeMap<String, ToolOverride>);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Unique;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tools by their own names")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
                let mut tools = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if tools.contains_key(&name) {
                        return Err(A::Error::custom(format!("the tool `{name}` stands twice")));
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
    let OverridesDocument { tools: Unique(mut tools) } = config_file::json(path, "file of tool overrides")?;
    for (name, one) in &mut tools {
        one.name = one.name.take().filter(|name| !name.is_empty());
        one.description = one.description.take().filter(|description| !description.is_empty());
        if *one == ToolOverride::default() {
            let shown = path.display();
            return Err(invalid(format!(
                "`{shown}` gives the tool `{name}` neither a name nor a description"
            )));
        }
    }
    Ok(tools)
}
