//! Changes a client's configuration file together with the record of entries, under the lock that protects both.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    config_file::{ConfigFile, unusable},
    edit::{self, EntryPath, Origin},
    record::{EntryRecord, FileRecord, ImportRecord, LockedRecord, REFERENCE},
    table::ClientFormat,
    types::WrittenEntry,
};
use crate::{Error, Result};

/// A client's file and the record of entries, both locked against changes by other processes.
#[derive(Debug)]
pub(super) struct FileChange {
    client: &'static ClientFormat,
    path: PathBuf,
    locked: LockedRecord,
    record: EntryRecord,
    file: ConfigFile,
}

/// The entry of a workload that a change writes.
#[derive(Debug)]
pub(super) struct NewEntry<'a> {
    pub(super) workload: &'a str,
    pub(super) url: Option<&'a str>,
    /// The folder of the project that the file belongs to; `None` for the user's file.
    pub(super) project: Option<PathBuf>,
    /// How the place of the entry looked before.
    pub(super) origin: Option<Origin>,
    /// The entry that it replaces.
    pub(super) import: Option<ImportRecord>,
}

impl FileChange {
    /// Locks the record, and reads it and the file.
    pub(super) fn begin(state_dir: &Path, client: &'static ClientFormat, path: PathBuf) -> Result<Self> {
        let locked = LockedRecord::lock(state_dir)?;
        let record = locked.read()?;
        let file = ConfigFile::read(&path)?;
        Ok(Self { client, path, locked, record, file })
    }

    /// Returns the text of the file; `None` if it does not exist.
    pub(super) fn text(&self) -> Option<&str> {
        self.file.text()
    }

    /// Returns the place of an entry in the file.
    pub(super) fn place<'a>(&self, name: &'a str) -> EntryPath<'a> {
        EntryPath { map: map_of(self.client, self.text().unwrap_or_default()), name }
    }

    /// Returns an entry of the file.
    pub(super) fn entry(&self, name: &str) -> Result<Option<Value>> {
        let text = self.text().unwrap_or_default();
        edit::entry(self.client.syntax, text, self.place(name)).map_err(|problem| self.unusable(&problem))
    }

    /// Returns what is recorded of the file.
    pub(super) fn recorded(&self) -> Option<&FileRecord> {
        self.record.files.iter().find(|file| file.client == self.client.id && file.path == self.path)
    }

    /// The error for a file that cannot be edited; `problem` is the rest of the sentence.
    pub(super) fn unusable(&self, problem: &str) -> Error {
        unusable(&self.path, problem)
    }

    /// Writes the file, and records the entry. Makes a copy of a file that had no entry, or whose entry is replaced.
    pub(super) fn write(mut self, text: &str, entry: NewEntry<'_>) -> Result<WrittenEntry> {
        let before = self.record.clone();
        let backup = match self.text() {
            Some(old) if self.recorded().is_none() || entry.import.is_some() => {
                Some(self.locked.back_up(self.client.id, &self.path, old)?)
            }
            _ => None,
        };
        let is_shared = entry.project.is_some();
        let is_file = |file: &FileRecord| file.client == self.client.id && file.path == self.path;
        let at = self.record.files.iter().position(is_file).unwrap_or_else(|| {
            let depth = map_of(self.client, text).len();
            self.record.files.push(FileRecord {
                client: self.client.id.to_owned(),
                path: self.path.clone(),
                project: entry.project,
                created: self.file.text().is_none(),
                origin: entry.origin.unwrap_or(Origin::Object { depth, inside: None }),
                entries: [].into(),
                imported: [].into(),
            });
            self.record.files.len() - 1
        });
        let recorded = &mut self.record.files[at];
        let earlier = recorded.entries.insert(entry.workload.to_owned(), entry.url.map(str::to_owned));
        recorded.imported.extend(entry.import.map(|import| (entry.workload.to_owned(), import)));
        // A new entry is recorded before it is written: a recorded entry that is missing does no harm. A changed entry
        // is written before it is recorded: mcpm recognizes it by its new URL, too.
        if earlier.is_none() {
            self.locked.save(&self.record)?;
        }
        if self.text() != Some(text) {
            self.file.write(text, is_shared).inspect_err(|_| {
                // The file may have been replaced although an error was returned.
                if earlier.is_none() && !self.file.has_become(text) {
                    // The first error is the one to report.
                    let _ = self.locked.save(&before);
                }
            })?;
        }
        if earlier.is_some() {
            self.locked.save(&self.record)?;
        }
        Ok(WrittenEntry {
            workload: entry.workload.to_owned(),
            client: self.client.id,
            name: self.client.name,
            file: self.path,
            backup,
            notes: Vec::new(),
        })
    }

    /// Writes the text of a file without the entry of a workload, and removes the entry from the record. Returns the
    /// path of the file.
    pub(super) fn forget(mut self, text: &str, workload: &str) -> Result<PathBuf> {
        if self.text() != Some(text) {
            self.file.write(text, false)?;
        }
        let is_file = |file: &FileRecord| file.client == self.client.id && file.path == self.path;
        if let Some(at) = self.record.files.iter().position(is_file) {
            self.record.forget(at, workload);
        }
        self.locked.save(&self.record)?;
        Ok(self.path)
    }
}

/// The keys that lead to the map of servers in a file.
pub(super) fn map_of(client: &ClientFormat, text: &str) -> &'static [&'static str] {
    let has = |map: &[&str]| {
        let (last, outer) = map.split_last()?;
        let outer = edit::entries(client.syntax, text, outer).ok()?;
        outer.get(*last)?.as_object().map(drop)
    };
    client.other_map.filter(|map| has(map).is_some()).unwrap_or(client.map)
}

/// Whether a file still has the entry that a workload should have replaced, because mcpm ended after it had recorded
/// the replacement and before it wrote the file.
pub(super) fn is_in_file(
    client: &ClientFormat,
    text: &str,
    workload: EntryPath<'_>,
    import: &ImportRecord,
) -> bool {
    let place = EntryPath { name: &import.entry, ..workload };
    edit::entry_text(client.syntax, text, place).is_some_and(|found| is_text_of(found, &import.text))
}

/// Whether a text equals a recorded text, whatever values its secrets have.
fn is_text_of(text: &str, recorded: &str) -> bool {
    let (before, after) = REFERENCE;
    let mut parts = recorded.split(before);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.map(|part| part.split_once(after).map_or(part, |(_, after)| after)).peekable();
    while let Some(part) = parts.next() {
        let found = if parts.peek().is_some() { rest.find(part) } else { rest.rfind(part) };
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_compared_with_references_in_place_of_its_secrets() {
        for (text, recorded, is_same) in [
            ("a", "a", true),
            ("a", "b", false),
            ("xSy", "x{{mcpm-secret:n}}y", true),
            ("xSyz", "x{{mcpm-secret:n}}y", false),
            ("xSyTz", "x{{mcpm-secret:n}}y{{mcpm-secret:m}}z", true),
            ("xSyTzz", "x{{mcpm-secret:n}}y{{mcpm-secret:m}}z", true),
            ("xSzTy", "x{{mcpm-secret:n}}y{{mcpm-secret:m}}z", false),
        ] {
            assert_eq!(is_text_of(text, recorded), is_same, "{text} {recorded}");
        }
    }
}
