//! Exported configurations: what was asked of a workload, in a file that can be given to `--from-config`.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use super::{WorkloadSpec, file_error_kind};
use crate::{Error, ErrorKind, Result, options::WorkloadOptions, state::FORMAT_VERSION};

/// The file's form. Options are written as on a command line, in snake case; secrets are left out.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exported {
    version: u32,
    run: WorkloadOptions,
}

/// Returns the text of a workload's exported configuration.
pub(super) fn text(spec: &WorkloadSpec) -> Result<String> {
    let mut run = spec.asked.clone();
    run.name = Some(spec.name.to_string());
    let exported = Exported { version: FORMAT_VERSION, run };
    let text = serde_json::to_string_pretty(&exported)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the configuration").source(error))?;
    Ok(text + "\n")
}

/// Reads an exported configuration.
///
/// # Errors
/// `NotFound` or `Io` when the file cannot be read, `InvalidOption` when it is none, of another version, or holds an unknown field.
pub(super) fn read(path: &Path) -> Result<WorkloadOptions> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Error::new(file_error_kind(&error), format!("cannot read `{shown}`")).source(error)
    })?;
    let exported: Exported = serde_json::from_str(&text).map_err(|error| {
        let message = format!("`{shown}` is no exported configuration");
        Error::new(ErrorKind::InvalidOption, message)
            .source(error)
            .hint("make one with `mcpm export NAME PATH`")
    })?;
    if exported.version != FORMAT_VERSION {
        let message = format!(
            "`{shown}` has version {}, and this mcpm reads version {FORMAT_VERSION}",
            exported.version
        );
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    if exported.run.from_config.is_some() {
        return Err(Error::new(
            ErrorKind::InvalidOption,
            format!("`{shown}` names another exported configuration"),
        ));
    }
    Ok(exported.run)
}
