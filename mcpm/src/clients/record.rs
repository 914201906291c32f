//! Records which entries mcpm has written into the files of clients, so that it can find them later.
//!
//! ```text
//! STATE/clients/entries.json     the files and their entries
//! STATE/clients/lock             held while a file is changed
//! STATE/clients/backups/         copies of files before their first change, and before an entry is replaced
//! ```

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

use super::edit::Origin;
use crate::{
    Error, ErrorKind, Result,
    fnv1a::fnv1a,
    state::{
        FORMAT_VERSION,
        document::{decode, encode},
        file::{create_folders, file_error, replace},
        file_lock::FileLock,
    },
};

/// The beginning and the end of a reference to a secret.
pub(super) const REFERENCE: (&str, &str) = ("{{mcpm-secret:", "}}");
/// How many copies of one file are kept.
const MAX_BACKUPS: usize = 5;
/// How long to wait while another process changes files of clients.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The record of all entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EntryRecord {
    version: u32,
    pub(super) files: Vec<FileRecord>,
}

/// A file with entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileRecord {
    /// The id of the client.
    pub(super) client: String,
    pub(super) path: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) project: Option<PathBuf>,
    /// Whether the file did not exist before.
    #[serde(default)]
    pub(super) created: bool,
    pub(super) origin: Origin,
    /// The URLs of the entries by the names of the workloads; `None` for a command.
    pub(super) entries: BTreeMap<String, Option<String>>,
    /// The entries that were replaced by those of workloads, by the names of the workloads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) imported: BTreeMap<String, ImportRecord>,
}

/// An entry that was replaced by that of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportRecord {
    /// Its name.
    pub(super) entry: String,
    /// Its text, with references instead of secrets.
    pub(super) text: String,
    /// The names of the secrets.
    pub(super) secrets: Vec<String>,
}

/// The folder of the record, locked until this is dropped.
#[derive(Debug)]
pub(super) struct LockedRecord {
    folder: PathBuf,
    _lock: FileLock,
}

impl EntryRecord {
    /// Reads the record without a lock; other processes may be changing it.
    pub(super) fn read(state_dir: &Path) -> Result<Self> {
        let path = state_dir.join("clients/entries.json");
        match fs::read(&path) {
            Ok(bytes) => decode(&bytes, &path, FORMAT_VERSION, |_, _| None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Self { version: FORMAT_VERSION, files: Vec::new() })
            }
            Err(error) => Err(file_error("read", &path, error)),
        }
    }

    /// Whether a workload has entries.
    pub(super) fn contains(&self, workload: &str) -> bool {
        self.files.iter().any(|file| file.entries.contains_key(workload))
    }

    /// Removes an entry of a file, and the file with its last entry.
    pub(super) fn forget(&mut self, at: usize, workload: &str) {
        let file = &mut self.files[at];
        file.entries.remove(workload);
        file.imported.remove(workload);
        if file.entries.is_empty() {
            self.files.remove(at);
        }
    }
}

impl LockedRecord {
    /// Waits until no other process changes files of clients, which takes milliseconds.
    ///
    /// # Errors
    /// `Io`, also when another process holds the lock for too long.
    pub(super) fn lock(state_dir: &Path) -> Result<Self> {
        let folder = state_dir.join("clients");
        create_folders(&folder).map_err(|error| file_error("create", &folder, error))?;
        let lock =
            FileLock::exclusive_if_supported(&folder.join("lock"), LOCK_TIMEOUT)?.ok_or_else(|| {
                let message = "another process is changing the configuration of clients";
                Error::new(ErrorKind::Io, message).hint("try again")
            })?;
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn read(&self) -> Result<EntryRecord> {
        EntryRecord::read(self.folder.parent().unwrap_or(&self.folder))
    }

    pub(super) fn save(&self, record: &EntryRecord) -> Result<()> {
        let path = self.folder.join("entries.json");
        replace(&path, &encode(record, FORMAT_VERSION)?).map_err(|error| file_error("write", &path, error))
    }

    /// Keeps a copy of a file that is about to be changed, and removes its oldest copies.
    pub(super) fn back_up(&self, client: &str, path: &Path, text: &str) -> Result<PathBuf> {
        let folder = self.folder.join("backups");
        let failed = |error| file_error("write", &folder, error);
        create_folders(&folder).map_err(failed)?;
        let prefix = format!("{client}-{:016x}-", fnv1a(path.as_os_str().as_encoded_bytes()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let copy = folder.join(format!("{prefix}{now:014}"));
        replace(&copy, text.as_bytes()).map_err(failed)?;
        let mut copies: Vec<PathBuf> = fs::read_dir(&folder)
            .map_err(failed)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| {
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
            })
            .collect();
        copies.sort();
        for old in copies.iter().rev().skip(MAX_BACKUPS) {
            fs::remove_file(old).map_err(failed)?;
        }
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_sample_is_read_and_written_unchanged() {
        let sample = include_bytes!("samples/entries.v1.json");
        let record: EntryRecord =
            decode(sample, Path::new("entries.v1.json"), FORMAT_VERSION, |_, _| None).unwrap();
        assert_eq!(String::from_utf8(encode(&record, FORMAT_VERSION).unwrap()).unwrap().as_bytes(), sample);
        assert!(record.contains("time"));
    }

    #[test]
    fn five_backups_of_a_file_are_kept() {
        use std::os::unix::fs::PermissionsExt as _;

        let state = tempfile::tempdir().unwrap();
        let record = LockedRecord::lock(state.path()).unwrap();
        let copy = record.back_up("cursor", Path::new("/other"), "other").unwrap();
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
        for age in 0..7 {
            let path = copy.with_file_name(format!("zed-{:016x}-{age:014}", fnv1a(b"/file")));
            fs::write(path, age.to_string()).unwrap();
        }
        record.back_up("zed", Path::new("/file"), "new").unwrap();
        let mut texts: Vec<String> = fs::read_dir(copy.parent().unwrap())
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        texts.sort();
        assert_eq!(texts, ["3", "4", "5", "6", "new", "other"]);
    }
}
