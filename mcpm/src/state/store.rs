//! Claims, reads, writes and removes the folders of workloads.
//!
//! The content of documents is defined by their types. While a process holds the [`Lock`](super::Lock), only that
//! process may write the status.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    document::{self, Document},
    file::{self, file_error},
};
use crate::{Error, ErrorKind, Result, name::WorkloadName};

/// Prefix of folders that are being removed; never listed, because no name starts with a dot.
const REMOVING: &str = ".removing-";

/// The workloads in one state folder.
#[derive(Debug, Clone)]
pub struct Store {
    workloads: PathBuf,
}

impl Store {
    /// Opens the store in `root`, which need not exist, and removes what an interrupted removal left.
    pub fn new(root: &Path) -> Self {
        let store = Self { workloads: root.join("workloads") };
        for leftover in store.entries().unwrap_or_default().iter().filter(|e| e.starts_with(REMOVING)) {
            if let Err(error) = remove_folder(&store.workloads.join(leftover)) {
                // The folder is not listed and blocks no name, so its removal can wait for the next attempt.
                tracing::warn!(%error, folder = leftover, "cannot delete the folder of a removed workload");
            }
        }
        store
    }

    /// Claims a name for a new workload. Of several concurrent callers, one succeeds.
    ///
    /// # Errors
    ///
    /// `NameTaken` if a folder of that name exists, damaged or not.
    pub fn create(&self, name: &WorkloadName) -> Result<Claim> {
        let path = self.folder(name);
        file::create_folders(&self.workloads)
            .map_err(|error| file_error("create", &self.workloads, error))?;
        let folder = file::create_folder(&path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::new(ErrorKind::NameTaken, format!("a workload named `{name}` exists already"))
                    .hint(format!("remove it with `mcpm rm {name}`, or set `name` to another"))
            }
            _ => file_error("create", &path, error),
        })?;
        Ok(Claim { store: self.clone(), name: name.clone(), folder, committed: false })
    }

    /// Returns the names of all workloads, sorted. A workload with damaged documents is included.
    pub fn names(&self) -> Result<Vec<WorkloadName>> {
        let entries = self.entries().map_err(|error| file_error("list", &self.workloads, error))?;
        let mut names: Vec<WorkloadName> = entries
            .into_iter()
            .filter(|entry| self.workloads.join(entry).is_dir())
            .filter_map(|entry| entry.parse().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    /// Replaces a document of a workload atomically.
    ///
    /// The value has a field `version`, which is [`FORMAT_VERSION`](super::FORMAT_VERSION).
    ///
    /// # Errors
    ///
    /// `NotFound` if the workload was removed, so that a late supervisor does not restore it.
    pub fn save<T: Serialize>(&self, name: &WorkloadName, document: Document, value: &T) -> Result<()> {
        let path = self.path(name, document);
        let bytes = document::encode(value, document.version())
            .map_err(|error| error.with("path", path.display()))?;
        file::replace(&path, &bytes).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => unknown(name),
            _ => file_error("write", &path, error),
        })
    }

    /// Reads a document of a workload.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such workload; `CorruptState` if its document is missing, is damaged, or has an
    /// unknown version or field. Nothing is changed on disk.
    pub fn load<T: DeserializeOwned>(&self, name: &WorkloadName, document: Document) -> Result<T> {
        let path = self.path(name, document);
        let loaded = match fs::read(&path) {
            Ok(bytes) => document::decode(&bytes, &path, document.version(), |version, old| {
                document.upgrade(version, old)
            }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error("read", &path, error)),
            Err(_) if self.folder(name).is_dir() => {
                Err(Error::new(ErrorKind::CorruptState, format!("`{}` is missing", path.display())))
            }
            Err(_) => Err(unknown(name)),
        };
        loaded.map_err(|error| match error.kind() {
            ErrorKind::CorruptState => {
                error.hint(format!("repair the file, or remove the workload with `mcpm rm {name}`"))
            }
            _ => error,
        })
    }

    /// Removes all files of a workload. Does nothing if there are none.
    pub fn remove(&self, name: &WorkloadName) -> Result<()> {
        let path = self.folder(name);
        let leaving = file::unique_sibling(&path, REMOVING, "");
        match fs::rename(&path, &leaving) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(file_error("remove", &path, error)),
        }
        file::sync_parent(&path)
            .and_then(|()| remove_folder(&leaving))
            .map_err(|error| file_error("remove", &leaving, error))
    }

    /// Returns the folder of all workloads, which may not exist.
    pub(crate) fn root(&self) -> &Path {
        &self.workloads
    }

    /// Returns the folder of a workload, which may not exist.
    pub fn folder(&self, name: &WorkloadName) -> PathBuf {
        self.workloads.join(name.as_str())
    }

    /// Returns the file that the supervisor of a workload locks.
    pub fn lock_path(&self, name: &WorkloadName) -> PathBuf {
        self.folder(name).join("lock")
    }

    /// Returns the log file of a workload's supervisor.
    pub fn log_path(&self, name: &WorkloadName) -> PathBuf {
        self.folder(name).join("supervisor.log")
    }

    fn path(&self, name: &WorkloadName, document: Document) -> PathBuf {
        self.folder(name).join(document.file_name())
    }

    /// The entries of the folder of all workloads that are valid UTF-8; all that are created here are.
    fn entries(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.workloads) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(io::Result::transpose).collect()
    }
}

/// A name that is claimed for a workload whose creation is not complete.
///
/// Dropping it removes the folder with its content, unless [`commit`](Self::commit) was called.
#[derive(Debug)]
#[must_use = "dropping a claim removes the workload"]
pub struct Claim {
    store: Store,
    name: WorkloadName,
    /// Kept open, so that no later folder can get the same inode.
    folder: File,
    committed: bool,
}

impl Claim {
    /// Returns the claimed name.
    pub fn name(&self) -> &WorkloadName {
        &self.name
    }

    /// Completes the creation: the workload stays recorded.
    pub fn commit(mut self) {
        self.committed = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        let path = self.store.folder(&self.name);
        // Another process may have removed this workload and created one of the same name.
        let removed = match file::is_same_file(&path, &self.folder) {
            Ok(true) => self.store.remove(&self.name),
            Ok(false) => Ok(()),
            Err(error) => Err(file_error("remove", &path, error)),
        };
        if let Err(error) = removed {
            tracing::warn!(%error, name = %self.name, "cannot remove a workload that did not start");
        }
    }
}

/// Removes a folder that another process may be removing, too.
fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn unknown(name: &WorkloadName) -> Error {
    Error::new(ErrorKind::NotFound, format!("no workload is named `{name}`"))
        .hint("`mcpm list` lists the workloads")
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
