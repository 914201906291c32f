//! Parses the manifest of a bundle, which says how the server is started and which values the user supplies.
//!
//! Variables that do not depend on the user are replaced here. `${user_config.KEY}` stays in [`Template`]s, because
//! each workload has its own values for these keys. Unknown fields are ignored, because newer versions of the format
//! may add fields.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::{Error, ErrorKind, Result};

/// Where the files of a bundle are in its image.
pub(crate) const BUNDLE_FOLDER: &str = "/app/src";
/// The home folder of servers.
const SERVER_HOME: &str = "/home/mcpm";
/// The supported versions of the format. Version 0.4 added the kind `uv`.
const VERSIONS: [&str; 4] = ["0.1", "0.2", "0.3", "0.4"];
/// The platform of containers.
const PLATFORM: &str = "linux";
/// The most values, arguments and variables.
const MAX_FIELDS: usize = 100;
/// The longest text that is shown.
const MAX_SHOWN_CHARS: usize = 200;

/// The kind of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BundleKind {
    /// Run by Node.js, with its packages in the bundle.
    Node,
    /// Run by Python, with its packages in the bundle.
    Python,
    /// Run by Python, with packages that are installed.
    Uv,
    /// A program.
    Binary,
}

/// The type of a value that the user supplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ConfigKind {
    /// Any text.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A folder of this machine.
    Directory,
    /// A file of this machine.
    File,
}

/// A value that the user supplies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfigField {
    /// Its type.
    pub(crate) kind: ConfigKind,
    /// What it is, for the user.
    pub(crate) description: String,
    /// Whether the server needs it.
    pub(crate) required: bool,
    /// The default values, as text.
    pub(crate) default: Vec<String>,
    /// Whether there may be several.
    pub(crate) multiple: bool,
    /// Whether it is a secret.
    pub(crate) sensitive: bool,
    /// The smallest and the largest number.
    pub(crate) range: (Option<f64>, Option<f64>),
}

/// An argument or the value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(pub(crate) Vec<TemplatePart>);

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TemplatePart {
    /// Fixed text.
    Text(String),
    /// The value of a key.
    Key(String),
}

/// A manifest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Manifest {
    /// The version of the server.
    pub(crate) version: String,
    /// The kind of the server.
    pub(crate) kind: BundleKind,
    /// The file that the server begins with, below the bundle.
    pub(crate) entry_point: String,
    /// The program and its first arguments, which are the same for all users; empty for [`BundleKind::Uv`].
    pub(crate) command: Vec<String>,
    /// The other arguments.
    pub(crate) args: Vec<Template>,
    /// The variables.
    pub(crate) env: BTreeMap<String, Template>,
    /// The values that the user supplies, by key.
    pub(crate) config: BTreeMap<String, ConfigField>,
    /// Whether its author names only platforms other than Linux.
    pub(crate) is_for_others: bool,
    /// Whether it has arguments for `uv` that do not name the entry point, and so are not used.
    pub(crate) ignores_args: bool,
}

#[derive(Deserialize)]
struct ManifestJson {
    manifest_version: Option<String>,
    dxt_version: Option<String>,
    version: String,
    server: ServerJson,
    #[serde(default)]
    user_config: BTreeMap<String, ConfigJson>,
    #[serde(default)]
    compatibility: CompatibilityJson,
}

#[derive(Deserialize)]
struct ServerJson {
    #[serde(rename = "type")]
    kind: BundleKind,
    entry_point: String,
    mcp_config: Option<McpConfigJson>,
}

#[derive(Deserialize)]
struct McpConfigJson {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    platform_overrides: BTreeMap<String, OverrideJson>,
}

#[derive(Deserialize)]
struct OverrideJson {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct ConfigJson {
    #[serde(rename = "type")]
    kind: ConfigKind,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    required: bool,
    default: Option<Value>,
    #[serde(default)]
    multiple: bool,
    #[serde(default)]
    sensitive: bool,
    min: Option<f64>,
    max: Option<f64>,
}

#[derive(Default, Deserialize)]
struct CompatibilityJson {
    platforms: Option<Vec<String>>,
}

impl Manifest {
    /// Parses a manifest.
    ///
    /// # Errors
    /// `InvalidOption` names the invalid part.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let json: ManifestJson = serde_json::from_slice(bytes)
            .map_err(|error| invalid("the manifest of the bundle is invalid".to_owned()).source(error))?;
        let version = json.manifest_version.or(json.dxt_version).unwrap_or_default();
        if !VERSIONS.contains(&version.as_str()) {
            let message =
                format!("the manifest has the version `{}`, which is not supported", plain(&version));
            return Err(invalid(message).hint(format!("supported versions: {}", VERSIONS.join(", "))));
        }
        let kind = json.server.kind;
        let is_for_others =
            json.compatibility.platforms.is_some_and(|all| all.iter().all(|platform| platform != PLATFORM));
        let (command, args, mut env) = match json.server.mcp_config {
            Some(config) => {
                let mut overrides = config.platform_overrides;
                let own = overrides.remove(PLATFORM);
                if kind == BundleKind::Binary && is_for_others && own.is_none() {
                    return Err(invalid("the bundle has no program for Linux".to_owned()));
                }
                let (command, args, env) =
                    own.map_or((None, None, None), |own| (own.command, own.args, own.env));
                (command.unwrap_or(config.command), args.unwrap_or(config.args), env.unwrap_or(config.env))
            }
            None if kind == BundleKind::Uv => Default::default(),
            None => return Err(invalid("the manifest has no `mcp_config`".to_owned())),
        };
        if json.user_config.len().max(args.len()).max(env.len()) > MAX_FIELDS {
            return Err(invalid(format!(
                "the manifest has more than {MAX_FIELDS} values, arguments or variables"
            )));
        }
        env.retain(|_, value| !value.is_empty());
        let config = json.user_config.into_iter().map(field).collect::<Result<BTreeMap<_, _>>>()?;
        let parse = |text: &str| template(text, &config);
        let mut args = args.iter().map(|arg| parse(arg)).collect::<Result<Vec<_>>>()?;
        let entry = entry_point(&json.server.entry_point)?;
        let mut ignores_args = false;
        if kind == BundleKind::Uv {
            // For `uv`, mcpm installs the packages and starts the file, so only the arguments after the file are used.
            let found = args.iter().position(|arg| arg.is_path_of(&entry));
            ignores_args = found.is_none() && !args.is_empty();
            args = found.map_or_else(Vec::new, |at| args.split_off(at + 1));
        }
        let env = env.iter().map(|(name, value)| Ok((name.clone(), parse(value)?))).collect::<Result<_>>()?;
        // With `uv`, all arguments follow the script, and all belong to the workload.
        let is_fixed = |arg: &&Template| kind != BundleKind::Uv && arg.keys().next().is_none();
        let fixed = args.iter().take_while(is_fixed).count();
        let (first, rest) = args.split_at(fixed);
        let command =
            Some(parse(&command)?).into_iter().filter(|_| kind != BundleKind::Uv).collect::<Vec<_>>();
        if command.iter().any(|program| program.keys().next().is_some() || program.text().is_empty()) {
            return Err(invalid(
                "`command` in the manifest is empty, or contains a value that the user supplies".to_owned(),
            ));
        }
        Ok(Self {
            version: plain(&json.version),
            kind,
            entry_point: entry,
            command: command.iter().chain(first).map(Template::text).collect(),
            args: rest.to_vec(),
            env,
            config,
            is_for_others,
            ignores_args,
        })
    }
}

impl Manifest {
    /// Returns the key of the only secret in a template; `None` if it contains none, or several.
    pub(crate) fn only_secret<'a>(&self, template: &'a Template) -> Option<&'a String> {
        let mut secrets = template.keys().filter(|key| self.config[*key].sensitive);
        secrets.next().filter(|_| secrets.next().is_none())
    }
}

impl Template {
    /// Returns the keys of its values.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        self.0.iter().filter_map(|part| match part {
            TemplatePart::Text(_) => None,
            TemplatePart::Key(key) => Some(key),
        })
    }

    /// Tells whether it is the path of a file of the bundle.
    fn is_path_of(&self, file: &str) -> bool {
        let text = self.text();
        let path = text.strip_prefix(BUNDLE_FOLDER).and_then(|path| path.strip_prefix('/')).unwrap_or(&text);
        self.keys().next().is_none() && entry_point(path).is_ok_and(|path| path == file)
    }

    /// Returns the fixed text.
    fn text(&self) -> String {
        self.0.iter().map(|part| if let TemplatePart::Text(text) = part { text } else { "" }).collect()
    }
}

/// Returns the path of the entry point below the bundle.
fn entry_point(path: &str) -> Result<String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(char::is_control);
    if path.len() <= 1024 && path.split('/').all(is_part) {
        return Ok(path.to_owned());
    }
    Err(invalid(format!("the entry point `{}` is not a valid path inside the bundle", plain(path))))
}

fn field((key, json): (String, ConfigJson)) -> Result<(String, ConfigField)> {
    let is_key = |key: &str| {
        (1..=64).contains(&key.len())
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
    };
    if !is_key(&key) {
        return Err(invalid(format!("`{}` is not a valid key in `user_config`", plain(&key))));
    }
    let mut description = plain(&json.title);
    if !json.description.is_empty() && json.description != json.title {
        description += if description.is_empty() { "" } else { ": " };
        description += &plain(&json.description);
    }
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    let default = match &json.default {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(all)) => all.iter().map(text).collect(),
        Some(value) => text(value).map(|text| vec![text]),
    };
    let default = default.ok_or_else(|| {
        invalid(format!("the default of `{key}` is not a string, a number, a boolean or a list of these"))
    })?;
    let field = ConfigField {
        kind: json.kind,
        description,
        required: json.required,
        // An empty text means none.
        default: default.into_iter().filter(|text| !text.is_empty()).collect(),
        multiple: json.multiple,
        sensitive: json.sensitive,
        range: (json.min, json.max),
    };
    Ok((key, field))
}

/// Splits a text at its variables, and replaces those that do not depend on the user.
fn template(text: &str, config: &BTreeMap<String, ConfigField>) -> Result<Template> {
    let mut parts = Vec::new();
    let mut fixed = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        fixed += before;
        let Some((name, remaining)) = after.split_once('}') else {
            fixed += "${";
            rest = after;
            continue;
        };
        rest = remaining;
        match (name, name.strip_prefix("user_config.")) {
            (_, Some(key)) if config.contains_key(key) => {
                parts.extend(
                    Some(std::mem::take(&mut fixed)).filter(|text| !text.is_empty()).map(TemplatePart::Text),
                );
                parts.push(TemplatePart::Key(key.to_owned()));
            }
            (_, Some(key)) => {
                return Err(invalid(format!(
                    "the manifest uses the value `{}`, but does not declare it in `user_config`",
                    plain(key)
                )));
            }
            ("__dirname", _) => fixed += BUNDLE_FOLDER,
            ("/" | "pathSeparator", _) => fixed.push('/'),
            ("HOME", _) => fixed += SERVER_HOME,
            ("DESKTOP", _) => fixed += "/home/mcpm/Desktop",
            ("DOCUMENTS", _) => fixed += "/home/mcpm/Documents",
            ("DOWNLOADS", _) => fixed += "/home/mcpm/Downloads",
            // The server may have variables of its own.
            (other, _) => fixed += &format!("${{{other}}}"),
        }
    }
    fixed += rest;
    parts.extend(Some(fixed).filter(|text| !text.is_empty()).map(TemplatePart::Text));
    Ok(Template(parts))
}

/// A text of a bundle that may be shown.
fn plain(text: &str) -> String {
    let text: String =
        text.chars().take(MAX_SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().to_owned()
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
