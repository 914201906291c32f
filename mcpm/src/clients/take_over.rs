//! Replaces a user's existing entries with entries of workloads, and restores the replaced entries.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::{
    ClientTarget, Clients, ImportCandidate, ImportedEntry, ImportedServer, WrittenEntry,
    change::{FileChange, NewEntry, is_in_file, map_of},
    config_file::{ConfigFile, unusable},
    edit::{self, EntryPath},
    entry, import, locate,
    record::{EntryRecord, ImportRecord, REFERENCE},
};
use crate::{Error, ErrorKind, Result, options::Secret};

impl Clients {
    /// Returns the entries of a client that mcpm has not written, as workloads that could replace them.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown client, and for a file that cannot be read.
    pub fn import_candidates(&self, client: &str, project: Option<&Path>) -> Result<Vec<ImportCandidate>> {
        let client = locate::client(client)?;
        let path = self.file(client, project)?;
        let file = ConfigFile::read(&path)?;
        let text = file.text().unwrap_or_default();
        let entries = edit::entries(client.syntax, text, map_of(client, text));
        let record = EntryRecord::read(&self.environment.state_dir)?;
        let own = record.files.iter().find(|file| file.client == client.id && file.path == path);
        let is_own = |name: &str| own.is_some_and(|file| file.entries.contains_key(name));
        let entries = entries.map_err(|problem| unusable(&path, &problem))?;
        let others = entries.iter().filter(|(name, _)| !is_own(name));
        Ok(others
            .map(|(name, value)| import::convert(client, name, value, &self.environment.variables))
            .collect())
    }

    /// Replaces an entry with that of a workload which was started from the entry.
    ///
    /// # Errors
    /// The errors of [`add`](Self::add); `Io` also when the entry has changed since the workload was started from it.
    pub fn take_over(
        &self,
        client: &str,
        entry: &str,
        server: &ImportedServer,
        target: &ClientTarget,
        project: Option<&Path>,
    ) -> Result<WrittenEntry> {
        let client = locate::client(client)?;
        let path = self.file(client, project)?;
        let (fields, url) = entry::entry(client, target, None, &self.bridge_command())?;
        let change = FileChange::begin(&self.environment.state_dir, client, path.clone())?;
        let problem = |problem: String| change.unusable(&problem);
        if change.entry(entry)?.map(|found| found.to_string()).as_deref() != Some(server.original.expose()) {
            let message =
                format!("the entry `{entry}` in `{}` was changed while its server started", path.display());
            return Err(
                Error::new(ErrorKind::Io, message).hint("the file was left as it is; import the entry again")
            );
        }
        let before = change.text().unwrap_or_default();
        let old = change.place(entry);
        let new = EntryPath { name: &target.name, ..old };
        if entry != target.name && change.entry(&target.name)?.is_some() {
            let message = format!("`{}` has an entry `{}` already", path.display(), target.name);
            return Err(Error::new(ErrorKind::NameTaken, message));
        }
        let (text, old_text) = edit::swap(client.syntax, before, old, new, &fields).map_err(problem)?;
        let hidden = hide(&old_text, &server.secrets);
        let shown = edit::swap_back(client.syntax, &text, new, old, &hidden).map_err(problem)?;
        let shown = edit::entry(client.syntax, &shown, old).map_err(problem)?.unwrap_or_default();
        if server.secrets.values().any(|secret| contains(&shown, secret.expose())) {
            return Err(problem(format!(
                "has secrets in the entry `{entry}` in a form that mcpm cannot move to the secret store"
            )));
        }
        let secrets = server.secrets.keys().cloned().collect();
        let mut written = change.write(
            &text,
            NewEntry {
                workload: &target.name,
                url,
                project: project.map(|folder| self.environment.working_dir.join(folder)),
                origin: None,
                import: Some(ImportRecord { entry: entry.to_owned(), text: hidden, secrets }),
            },
        )?;
        if let Some(backup) = &written.backup
            && !server.secrets.is_empty()
        {
            let note = format!("`{}`, a backup of the file, still contains the secrets", backup.display());
            written.notes.push(note);
        }
        Ok(written)
    }

    /// Returns the entries of a client that were replaced by those of workloads.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown client; `CorruptState` when the record is damaged.
    pub fn imported(&self, client: &str, project: Option<&Path>) -> Result<Vec<ImportedEntry>> {
        let client = locate::client(client)?;
        let path = self.file(client, project)?;
        let record = EntryRecord::read(&self.environment.state_dir)?;
        let file = record.files.into_iter().find(|file| file.client == client.id && file.path == path);
        let imported = file.into_iter().flat_map(|file| file.imported);
        Ok(imported
            .map(|(workload, import)| ImportedEntry {
                workload,
                entry: import.entry,
                secrets: import.secrets,
            })
            .collect())
    }

    /// Puts an entry back that was replaced by that of a workload. `secrets` has the values of its secrets. Returns the
    /// file.
    ///
    /// # Errors
    /// `NotFound` when the workload has replaced no entry, or a secret is missing; `InvalidOption` for a file that
    /// cannot be edited, or when somebody else has changed the entry of the workload.
    pub fn put_back(
        &self,
        client: &str,
        workload: &str,
        secrets: &BTreeMap<String, Secret>,
        project: Option<&Path>,
    ) -> Result<PathBuf> {
        let client = locate::client(client)?;
        let path = self.file(client, project)?;
        let change = FileChange::begin(&self.environment.state_dir, client, path.clone())?;
        let recorded = change.recorded();
        let Some(import) = recorded.and_then(|file| file.imported.get(workload)) else {
            let message = format!("`{workload}` has replaced no entry in `{}`", path.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        };
        let before = change.text().unwrap_or_default();
        let current = change.place(workload);
        if is_in_file(client, before, current, import) {
            let unchanged = before.to_owned();
            return change.forget(&unchanged, workload);
        }
        if let Some(missing) = import.secrets.iter().find(|name| !secrets.contains_key(*name)) {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("the secret `{missing}`, which the entry needs, does not exist"),
            ));
        }
        let url = recorded.and_then(|file| file.entries.get(workload)?.as_deref());
        if !change.entry(workload)?.is_some_and(|entry| entry::is_own(client, workload, url, &entry)) {
            return Err(change
                .unusable(&format!("has an entry `{workload}` that differs from the one that mcpm wrote")));
        }
        let earlier = EntryPath { name: &import.entry, ..current };
        let text = reveal(&import.text, secrets);
        let text = edit::swap_back(client.syntax, before, current, earlier, &text);
        let text = text.map_err(|problem| change.unusable(&problem))?;
        change.forget(&text, workload)
    }
}

/// The reference to a secret in a recorded text.
fn reference(name: &str) -> String {
    format!("{}{name}{}", REFERENCE.0, REFERENCE.1)
}

/// A secret, escaped as in a quoted string.
fn escaped(value: &str) -> String {
    let quoted = Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Replaces secrets with references.
fn hide(text: &str, secrets: &BTreeMap<String, Secret>) -> String {
    secrets.iter().fold(text.to_owned(), |text, (name, secret)| {
        text.replace(&escaped(secret.expose()), &reference(name))
    })
}

/// Replaces references with secrets, in the opposite order of [`hide`]: a reference may contain the value of a later
/// secret.
fn reveal(text: &str, secrets: &BTreeMap<String, Secret>) -> String {
    secrets.iter().rev().fold(text.to_owned(), |text, (name, secret)| {
        text.replace(&reference(name), &escaped(secret.expose()))
    })
}

/// Whether a text in a value contains a secret.
fn contains(value: &Value, secret: &str) -> bool {
    match value {
        Value::String(text) => text.contains(secret),
        Value::Array(items) => items.iter().any(|item| contains(item, secret)),
        Value::Object(fields) => fields.values().any(|field| contains(field, secret)),
        // Without quotes, a reference would not be valid.
        _ => false,
    }
}

#[cfg(test)]
#[path = "import_tests.rs"]
mod tests;
