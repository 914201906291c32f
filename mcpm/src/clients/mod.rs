//! Adds entries for workloads to the configuration files of MCP clients, and replaces a user's entries with them.
//!
//! [`Clients::add`] writes the entry of a workload into the file of a client, in the form that the client documents: a
//! URL if the client and the workload's proxy both speak streamable HTTP, otherwise the command
//! `mcpm proxy stdio NAME`. The rest of the file stays unchanged. The entry is recorded in the state folder, so that
//! mcpm can delete it when the workload is removed, and update it when the URL changes.
//!
//! Entries contain no tokens. An entry can tell its client to read a token from an environment variable.

mod change;
mod config_file;
mod edit;
mod entry;
mod import;
mod locate;
mod record;
mod table;
mod take_over;
mod types;

use std::path::{Path, PathBuf};

use self::{
    change::{FileChange, NewEntry, is_in_file, map_of},
    config_file::{ConfigFile, unusable},
    edit::{EntryPath, FieldValue},
    entry::BridgeCommand,
    record::{EntryRecord, FileRecord, LockedRecord},
    table::{CLIENTS, ClientFormat},
};
pub use types::{
    ClientEntry, ClientStatus, ClientTarget, EntryOptions, EntryState, ImportCandidate, ImportedEntry,
    ImportedServer, WrittenEntry,
};

use crate::{Environment, Error, ErrorKind, Result};

/// The MCP clients of this machine.
#[derive(Debug, Clone)]
pub struct Clients {
    environment: Environment,
    program: PathBuf,
}

impl Clients {
    /// Opens the record of entries.
    pub fn new(environment: Environment) -> Self {
        Self { environment, program: PathBuf::from("mcpm") }
    }

    /// Sets the path of the program `mcpm` in entries that are commands; by default it is looked up on `PATH` by the
    /// client.
    #[must_use]
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = path.into();
        self
    }

    /// Returns the names of all clients on the command line.
    pub fn names() -> Vec<&'static str> {
        CLIENTS.iter().map(|client| client.id).collect()
    }

    /// Returns all clients, installed or not.
    ///
    /// # Errors
    /// `CorruptState` when the record is damaged. A file that cannot be edited is part of the status.
    pub fn status(&self) -> Result<Vec<ClientStatus>> {
        let record = EntryRecord::read(&self.environment.state_dir)?;
        let status = |client: &'static ClientFormat| {
            let file = client.user_file(&self.environment);
            let problem = file.as_deref().and_then(|file| check_editable(client, file).err());
            let files = record.files.iter().filter(|file| file.client == client.id);
            let mut workloads: Vec<String> = files.flat_map(|file| file.entries.keys().cloned()).collect();
            workloads.sort();
            workloads.dedup();
            ClientStatus {
                client: client.id,
                name: client.name,
                installed: client.is_installed(&self.environment),
                file,
                workloads,
                problem: problem.map(|error| error.message().to_owned()),
            }
        };
        Ok(CLIENTS.iter().map(status).collect())
    }

    /// Returns the entries that mcpm has written, in the order of the workloads' names.
    ///
    /// # Errors
    /// `CorruptState` when the record is damaged.
    pub fn entries(&self) -> Result<Vec<ClientEntry>> {
        let record = EntryRecord::read(&self.environment.state_dir)?;
        let mut entries = Vec::new();
        for file in &record.files {
            // A later version of mcpm may know more clients.
            let Ok(client) = locate::client(&file.client) else { continue };
            for (workload, url) in &file.entries {
                entries.push(ClientEntry {
                    workload: workload.clone(),
                    client: client.id,
                    file: file.path.clone(),
                    project: file.project.clone(),
                    url: url.clone(),
                    state: state_of(client, &file.path, workload, url.as_deref()),
                });
            }
        }
        entries.sort_by(|one, other| (&one.workload, one.client).cmp(&(&other.workload, other.client)));
        Ok(entries)
    }

    /// Checks that an entry can be written, for a workload if its name is known.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown client, and for a file that cannot be edited; `NotFound` when the client is not
    /// installed; `NameTaken` when the file has an entry of that name which mcpm has not written.
    pub fn check(&self, client: &str, workload: Option<&str>, options: &EntryOptions) -> Result<()> {
        let client = locate::client(client)?;
        let file = self.file(client, options.project.as_deref())?;
        self.check_installed(client, options)?;
        let entries = check_editable(client, &file)?;
        let record = EntryRecord::read(&self.environment.state_dir)?;
        let is_own = |name: &str| {
            let mut files = record.files.iter();
            files.any(|one| one.client == client.id && one.path == file && one.entries.contains_key(name))
        };
        match workload.filter(|name| entries.contains_key(*name) && !is_own(name)) {
            Some(name) => Err(foreign_entry(&file, name)),
            None => Ok(()),
        }
    }

    /// Writes the entry of a workload, or brings it up to date.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown client, and for a file that cannot be edited, which is left as it is; `NotFound`
    /// when the client is not installed; `NameTaken` when the file has an entry of that name which mcpm has not
    /// written; `Unsupported` when the client cannot read a token from a variable; `Io`, also when another program
    /// changes the file meanwhile.
    pub fn add(&self, client: &str, target: &ClientTarget, options: &EntryOptions) -> Result<WrittenEntry> {
        let client = locate::client(client)?;
        let path = self.file(client, options.project.as_deref())?;
        self.check_installed(client, options)?;
        let bridge = self.bridge_command();
        let (fields, url) = entry::entry(client, target, options.token_variable.as_deref(), &bridge)?;
        let change = FileChange::begin(&self.environment.state_dir, client, path)?;
        let name = target.name.as_str();
        let (text, place) = (change.text().unwrap_or_default(), change.place(name));
        let recorded = change.recorded().and_then(|file| file.entries.get(name));
        let (text, origin) = match (change.entry(name)?, recorded) {
            (None, _) => {
                edit::add(client.syntax, text, place, &fields).map(|(text, origin)| (text, Some(origin)))
            }
            (Some(found), Some(old))
                if [old.as_deref(), url].iter().any(|url| entry::is_own(client, name, *url, &found)) =>
            {
                if old.is_some() != url.is_some() {
                    let hint = format!("remove it first: `mcpm client remove {} {name}`", client.id);
                    let problem = format!(
                        "has an entry `{name}` of another kind (a URL instead of a command, or the reverse)"
                    );
                    return Err(change.unusable(&problem).hint(hint));
                }
                let fields = entry::without_fixed(client, fields, &found);
                edit::update(client.syntax, text, place, &fields).map(|text| (text, None))
            }
            (Some(_), _) => return Err(foreign_entry(&self.file(client, options.project.as_deref())?, name)),
        }
        .map_err(|problem| change.unusable(&problem))?;
        let project = options.project.as_ref().map(|folder| self.environment.working_dir.join(folder));
        let entry = NewEntry { workload: name, url, project, origin, import: None };
        let mut written = change.write(&text, entry)?;
        if target.requires_login && options.token_variable.is_none() {
            written.notes.push(match url {
                Some(_) => format!("`{name}` requires a login, which {} has to perform", client.name),
                None => format!("`{name}` requires a token, but the command in the entry sends none"),
            });
        }
        Ok(written)
    }

    /// Removes the entry of a workload, which need not exist any more. An entry that somebody else has changed stays in
    /// the file. Returns the file.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown client, and for a file that cannot be edited, which is left as it is; `NotFound`
    /// when mcpm has written no such entry; `Io`, also when another program changes the file meanwhile.
    pub fn remove(&self, client: &str, workload: &str, project: Option<&Path>) -> Result<PathBuf> {
        let client = locate::client(client)?;
        let path = self.file(client, project)?;
        let locked = LockedRecord::lock(&self.environment.state_dir)?;
        let mut record = locked.read()?;
        let is_file = |file: &FileRecord| file.client == client.id && file.path == path;
        let found = record.files.iter().position(|file| is_file(file) && file.entries.contains_key(workload));
        let Some(at) = found else {
            let message = format!("mcpm has not added an entry for `{workload}` to `{}`", path.display());
            return Err(Error::new(ErrorKind::NotFound, message).hint("`mcpm client list` shows all entries"));
        };
        self.remove_from(&locked, &mut record, at, workload)?;
        Ok(path)
    }

    /// Removes the entries of a workload that was removed. A file that cannot be edited is reported in the log, and the
    /// entry stays recorded.
    pub(crate) fn remove_workload(&self, workload: &str) {
        self.for_each_file(workload, |locked, record, at| self.remove_from(locked, record, at, workload));
    }

    /// Writes the new URL of a workload to the files that contain its old one. A file that cannot be edited is reported
    /// in the log.
    pub(crate) fn update_url(&self, workload: &str, url: &str) {
        self.for_each_file(workload, |locked, record, at| {
            let file = &record.files[at];
            let client = locate::client(&file.client)?;
            let (Some(Some(old)), Some(http)) = (file.entries.get(workload), &client.http) else {
                return Ok(());
            };
            if old == url {
                return Ok(());
            }
            let config = ConfigFile::read(&file.path)?;
            let text = config.text().unwrap_or_default();
            let place = EntryPath { map: map_of(client, text), name: workload };
            let problem = |problem: String| unusable(&file.path, &problem);
            let found = edit::entry(client.syntax, text, place).map_err(problem)?;
            let is_own = |found: &serde_json::Value| {
                [old.as_str(), url].iter().any(|url| entry::is_own(client, workload, Some(url), found))
            };
            if !found.as_ref().is_some_and(is_own) {
                return Ok(());
            }
            let fields = vec![(http.url, FieldValue::Text(url.to_owned()))];
            let new = edit::update(client.syntax, text, place, &fields).map_err(problem)?;
            // The file is written before the record: mcpm recognizes an entry with the new URL, too.
            if text != new {
                config.write(&new, false)?;
            }
            record.files[at].entries.insert(workload.to_owned(), Some(url.to_owned()));
            locked.save(record)
        });
    }

    /// Changes each file that contains a workload.
    fn for_each_file(
        &self,
        workload: &str,
        change: impl Fn(&LockedRecord, &mut EntryRecord, usize) -> Result<()>,
    ) {
        let change_all = || {
            // Most workloads are in no file, and the lock is not needed to see that.
            if !EntryRecord::read(&self.environment.state_dir)?.contains(workload) {
                return Ok(());
            }
            let locked = LockedRecord::lock(&self.environment.state_dir)?;
            let mut record = locked.read()?;
            for at in (0..record.files.len()).rev() {
                if record.files[at].entries.contains_key(workload)
                    && let Err(error) = change(&locked, &mut record, at)
                {
                    tracing::warn!(%error, workload, "the configuration of a client was not changed");
                }
            }
            Ok::<(), Error>(())
        };
        if let Err(error) = change_all() {
            tracing::warn!(%error, workload, "the configurations of clients were not changed");
        }
    }

    /// Removes an entry from a file and from the record.
    fn remove_from(
        &self,
        locked: &LockedRecord,
        record: &mut EntryRecord,
        at: usize,
        workload: &str,
    ) -> Result<()> {
        let file = &record.files[at];
        let client = locate::client(&file.client)?;
        let config = ConfigFile::read(&file.path)?;
        let before = config.text().unwrap_or_default();
        let place = EntryPath { map: map_of(client, before), name: workload };
        if let Some(import) = file.imported.get(workload)
            && !is_in_file(client, before, place, import)
        {
            // Removing it would lose the entry that the user had.
            let message = format!(
                "the entry of `{workload}` in `{}` was not removed: it has replaced an entry of your own",
                file.path.display()
            );
            let project = file.project.as_ref().map(|folder| format!(" --project {}", folder.display()));
            let undo = format!(
                "mcpm client import {} --undo {}{}",
                client.id,
                import.entry,
                project.unwrap_or_default()
            );
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint(format!("`{undo}` restores your entry, and removes the workload")));
        }
        let problem = |problem: String| unusable(&file.path, &problem);
        let found = edit::entry(client.syntax, before, place).map_err(problem)?;
        let url = file.entries.get(workload).and_then(Option::as_deref);
        if found.is_some_and(|found| entry::is_own(client, workload, url, &found)) {
            let origin = (file.entries.len() == 1).then_some(&file.origin);
            let text = edit::remove(client.syntax, before, place, origin).map_err(problem)?;
            if file.created && origin.is_some() && edit::is_blank(client.syntax, &text) {
                config.delete()?;
            } else if text != before {
                config.write(&text, false)?;
            }
        }
        record.forget(at, workload);
        locked.save(record)
    }

    /// The file that entries are written to.
    fn file(&self, client: &ClientFormat, project: Option<&Path>) -> Result<PathBuf> {
        match project {
            Some(folder) => client.project_file(&self.environment.working_dir.join(folder)),
            None => client.user_file(&self.environment).ok_or_else(|| {
                Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "cannot find the configuration file of {}: the home folder is unknown",
                        client.name
                    ),
                )
            }),
        }
    }

    fn check_installed(&self, client: &ClientFormat, options: &EntryOptions) -> Result<()> {
        if options.project.is_some() || client.is_installed(&self.environment) {
            return Ok(());
        }
        let programs: Vec<String> = client.programs.iter().map(|program| format!("`{program}`")).collect();
        let message = format!(
            "{} is not installed: neither its folder nor the program {} was found",
            client.name,
            programs.join(" or ")
        );
        Err(Error::new(ErrorKind::NotFound, message).hint("`mcpm client status` shows the installed clients"))
    }

    fn bridge_command(&self) -> BridgeCommand {
        // The command looks for the workload in the state folder, and clients start commands without the user's shell.
        let moved = self.environment.variables.get("XDG_STATE_HOME").filter(|folder| folder.starts_with('/'));
        BridgeCommand {
            program: self.program.to_string_lossy().into_owned(),
            env: moved.map(|folder| ("XDG_STATE_HOME".to_owned(), folder.to_owned())).into_iter().collect(),
        }
    }
}

/// Returns the entries of a file that can be edited.
fn check_editable(client: &ClientFormat, path: &Path) -> Result<serde_json::Map<String, serde_json::Value>> {
    let file = ConfigFile::read(path)?;
    file.check_writable()?;
    let text = file.text().unwrap_or_default();
    edit::entries(client.syntax, text, map_of(client, text)).map_err(|problem| unusable(path, &problem))
}

fn foreign_entry(path: &Path, name: &str) -> Error {
    let message = format!(
        "`{}` has an entry `{name}` that mcpm has not written, or that was changed since",
        path.display()
    );
    Error::new(ErrorKind::NameTaken, message).hint("remove it, or give the workload another name")
}

fn state_of(client: &ClientFormat, path: &Path, workload: &str, url: Option<&str>) -> EntryState {
    let Ok(file) = ConfigFile::read(path) else { return EntryState::Unreadable };
    let text = file.text().unwrap_or_default();
    match edit::entry(client.syntax, text, EntryPath { map: map_of(client, text), name: workload }) {
        Err(_) => EntryState::Unreadable,
        Ok(None) => EntryState::Missing,
        Ok(Some(found)) if entry::is_own(client, workload, url, &found) => EntryState::Present,
        Ok(Some(_)) => EntryState::Changed,
    }
}

#[cfg(test)]
mod change_tests;
#[cfg(test)]
#[path = "clients_tests.rs"]
mod tests;
