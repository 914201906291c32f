//! Creates, lists and removes groups of workloads.
//!
//! The file of a group only records that the group exists. The spec of a workload records which group it belongs to.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    document::{self, FORMAT_VERSION},
    file::{self, file_error},
};
use crate::{Error, ErrorKind, Result, printable::Printable as _};

/// The group of workloads that are in no other group. It always exists.
pub const DEFAULT_GROUP: &str = "default";

const MAX_LENGTH: usize = 63;

/// The groups in one state folder.
#[derive(Debug, Clone)]
pub struct Groups {
    folder: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    version: u32,
    name: String,
}

impl Groups {
    /// Opens the groups in the state folder `root`, which need not exist.
    pub fn new(root: &Path) -> Self {
        Self { folder: root.join("groups") }
    }

    /// Creates a group.
    ///
    /// # Errors
    ///
    /// `InvalidOption` for an invalid name; `NameTaken` if the group exists.
    pub fn create(&self, name: &str) -> Result<()> {
        check(name)?;
        let taken = || Error::new(ErrorKind::NameTaken, format!("a group named `{name}` exists already"));
        if name == DEFAULT_GROUP {
            return Err(taken());
        }
        let path = self.path(name);
        let group =
            document::encode(&Group { version: FORMAT_VERSION, name: name.to_owned() }, FORMAT_VERSION)?;
        file::create_folders(&self.folder).map_err(|error| file_error("create", &self.folder, error))?;
        file::create(&path, &group).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => taken(),
            _ => file_error("write", &path, error),
        })
    }

    /// Returns the names of all groups, sorted. A group with a damaged file is included.
    pub fn list(&self) -> Result<Vec<String>> {
        let failed = |error| file_error("list", &self.folder, error);
        let mut names = vec![DEFAULT_GROUP.to_owned()];
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let file = entry.map_err(failed)?.file_name();
            let name = file.to_str().and_then(|file| file.strip_suffix(".json"));
            names.extend(name.filter(|name| broken_rule(name).is_none()).map(str::to_owned));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Returns whether a group exists.
    ///
    /// # Errors
    ///
    /// `InvalidOption` for an invalid name; `CorruptState` if the file is damaged.
    pub fn exists(&self, name: &str) -> Result<bool> {
        check(name)?;
        if name == DEFAULT_GROUP {
            return Ok(true);
        }
        let path = self.path(name);
        let hint = || {
            format!("repair the file, or remove the group with `mcpm group rm '{name}'` and create it again")
        };
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            bytes => bytes.map_err(|error| file_error("read", &path, error))?,
        };
        let group: Group = document::decode(&bytes, &path, FORMAT_VERSION, |_, _| None)
            .map_err(|error| error.hint(hint()))?;
        if group.name != name {
            let message = format!(
                "`{}` contains the group `{}` instead of `{name}`",
                path.display(),
                group.name.printable()
            );
            return Err(Error::new(ErrorKind::CorruptState, message).hint(hint()));
        }
        Ok(true)
    }

    /// Removes a group. Its workloads are not changed.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none; `InvalidOption` for `default` and for an invalid name.
    pub fn remove(&self, name: &str) -> Result<()> {
        check(name)?;
        if name == DEFAULT_GROUP {
            return Err(Error::new(ErrorKind::InvalidOption, "the group `default` cannot be removed"));
        }
        let path = self.path(name);
        fs::remove_file(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("no group is named `{name}`"))
                .hint("`mcpm group list` lists the groups"),
            _ => file_error("remove", &path, error),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

fn check(name: &str) -> Result<()> {
    let Some(rule) = broken_rule(name) else { return Ok(()) };
    let message = format!("`{}` is not a valid group name: {rule}", name.printable());
    Err(Error::new(ErrorKind::InvalidOption, message))
}

fn broken_rule(name: &str) -> Option<&'static str> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | ' ');
    if name.is_empty() {
        Some("a name cannot be empty")
    } else if !name.chars().all(allowed) {
        Some("a name can contain only lower-case letters, digits, `_`, `-` and spaces")
    } else if name.starts_with(' ') || name.ends_with(' ') || name.contains("  ") {
        Some("a name cannot begin or end with a space, or contain two spaces in a row")
    } else if name.len() > MAX_LENGTH {
        Some("a name can have at most 63 characters")
    } else {
        None
    }
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
