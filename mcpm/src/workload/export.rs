//! Writes and reads exported configurations: files with the options of a workload, for `from_config`.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{WorkloadSpec, toolhive};
use crate::{
    Error, ErrorKind, Result,
    config_file::read_error_kind,
    options::{Arity, OptionSet as _, ValueKind, WorkloadOptions},
    similar::suggest_field,
    state::FORMAT_VERSION,
};

/// The format of the file. Options are written as on a command line, in snake case; secrets are left out.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a mapping of `version` and `run`")]
struct ExportFile {
    version: u32,
    run: WorkloadOptions,
}

/// The field that files of all versions have.
#[derive(Deserialize)]
struct ExportVersion {
    version: u32,
}

/// Returns the text of a workload's exported configuration.
pub(super) fn render(spec: &WorkloadSpec) -> Result<String> {
    let mut run = spec.asked.clone();
    run.name = Some(spec.name.to_string());
    // Clients know the URL, so a port that mcpm selected is exported as well.
    run.proxy_port = Some(spec.proxy.port).filter(|port| *port != 0).or(run.proxy_port);
    let exported = ExportFile { version: FORMAT_VERSION, run };
    let text = serde_json::to_string_pretty(&exported).map_err(|error| {
        Error::new(ErrorKind::Internal, "cannot serialize the configuration").source(error)
    })?;
    Ok(text + "\n")
}

/// An imported configuration.
#[derive(Debug)]
pub(super) struct ImportedConfig {
    pub(super) options: WorkloadOptions,
    /// Notices for the user.
    pub(super) notices: Vec<String>,
}

/// Reads an exported configuration, or one that ToolHive exported.
///
/// # Errors
/// `NotFound` or `Io` when the file cannot be read; `InvalidOption` for another format or version, or an unknown
/// field; `Unsupported` for protection in a ToolHive configuration that would be lost.
pub(super) fn read(path: &Path) -> Result<ImportedConfig> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Error::new(read_error_kind(&error), format!("cannot read `{shown}`")).source(error)
    })?;
    let broken = |error: serde_json::Error| {
        let message = format!("`{shown}` is not an exported configuration");
        Error::new(ErrorKind::InvalidOption, message)
            .source(suggest_field(&error.to_string()))
            .hint("create one with `mcpm export NAME PATH`")
    };
    let document: Value = serde_json::from_str(&text).map_err(broken)?;
    if document.get(toolhive::VERSION_FIELD).is_some() {
        let (options, notices) = toolhive::import(document).map_err(|error| error.with("file", shown))?;
        return Ok(ImportedConfig { options, notices });
    }
    // The version is checked first, since other versions may have other fields.
    let ExportVersion { version } = serde_json::from_str(&text).map_err(broken)?;
    if version != FORMAT_VERSION {
        let message =
            format!("`{shown}` has version {version}, and this mcpm reads version {FORMAT_VERSION}");
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    let exported: ExportFile =
        serde_json::from_str(&text).map_err(|error| match bad_value(&document["run"]) {
            Some((field, why)) => {
                let message = format!("`{field}` in `{shown}` has an invalid value: {why}");
                Error::new(ErrorKind::InvalidOption, message)
            }
            None => broken(error),
        })?;
    if exported.run.from_config.is_some() {
        return Err(Error::new(
            ErrorKind::InvalidOption,
            format!("`{shown}` contains `from_config`, which an exported configuration cannot have"),
        ));
    }
    if exported.run.server.is_none() {
        return Err(Error::new(
            ErrorKind::InvalidOption,
            format!("`{shown}` does not contain `server`, which an exported configuration must have"),
        ));
    }
    Ok(ImportedConfig { options: exported.run, notices: Vec::new() })
}

/// Finds the field with an invalid value, and returns which values are valid. The value itself may be a secret.
fn bad_value(run: &Value) -> Option<(&'static str, String)> {
    run.as_object()?.iter().find_map(|(name, value)| {
        let spec = WorkloadOptions::SPECS.iter().find(|spec| spec.name == name)?;
        let alone = Value::Object([(name.clone(), value.clone())].into_iter().collect());
        serde_json::from_value::<WorkloadOptions>(alone).err()?;
        let items = match value {
            Value::Array(items) if spec.arity != Arity::One => items.as_slice(),
            _ if spec.arity != Arity::One => return Some((spec.name, "expected a list".to_owned())),
            one => std::slice::from_ref(one),
        };
        let expected = match spec.kind {
            ValueKind::Bool => "expected `true` or `false`",
            ValueKind::Port | ValueKind::Float => "expected a number",
            _ => "expected text",
        };
        // A value that is also invalid on a command line has an error of its own; other invalid values have the wrong
        // type.
        let typed = |item: &Value| match item {
            Value::String(text) => spec.check(text).err(),
            Value::Number(_) | Value::Bool(_) => spec.check(&item.to_string()).err(),
            _ => None,
        };
        Some((spec.name, items.iter().find_map(typed).unwrap_or_else(|| expected.to_owned())))
    })
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
