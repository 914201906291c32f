//! The records of containers: a folder for each, with its spec, its process, its exit code and its output.
//!
//! Any process of the user can read a record, and remove a container. Only three processes write to the folder of a
//! container: the process that creates it, the process that starts it, and the monitor of its sandbox, which records
//! the exit code. The monitor ends a container when the process that started it ends, and the kernel ends a container
//! when its monitor ends. So if the monitor in a record has ended, the container has exited.
//!
//! ```text
//! STATE/containers/NAME/               a container
//! STATE/containers/.NAME.lock          held while it is created, started or removed
//! STATE/containers/.NAME.removed-X     what is left of a removed container
//! ```

use std::{
    collections::BTreeSet,
    fs::{self, DirEntry, File},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{control_group, sandbox::parse_exit_record};
use crate::{
    Error, ErrorKind, Result,
    image::Digest,
    printable::Printable as _,
    random::random_token,
    runtime::{
        ContainerId, ContainerInfo, ContainerSpec, ContainerState, Exit, missing_source, output_log::LogFile,
    },
    state::{
        ProcessId,
        file::{self, create_folder, create_folders, file_error, replace},
        file_lock::FileLock,
        remove_tree::remove_tree,
    },
};

/// The exit code of a killed process, which is assumed for a container whose end was not recorded.
const KILLED: i64 = 137;

const RECORD_FILE: &str = "container.json";
const PROCESS_FILE: &str = "process.json";
const EXIT_FILE: &str = "exit";
const LOG: &str = "log";

/// How long to wait for the lock of a container. A start takes milliseconds, unless it mounts a slow file system.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// Most remains of other containers that are removed when one is created.
const MAX_SWEPT: usize = 16;
/// Longest name of a container; the longer names of its lock and its control group must still be valid file names.
const MAX_NAME_LENGTH: usize = 128;
// No container's name begins with a dot.
const LOCK_SUFFIX: &str = ".lock";
const REMOVED_INFIX: &str = ".removed-";

/// The record from which a container is started.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) spec: ContainerSpec,
    /// The id of its image.
    pub(super) image: String,
}

/// The processes of a running container.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContainerProcess {
    /// The process outside of the sandbox that watches it.
    pub(super) monitor: ProcessId,
    /// The first process of the sandbox, as a process of this machine.
    pub(super) first: ProcessId,
}

impl ContainerProcess {
    /// Whether the container runs. A process that had exited before it was recorded has no start time. It counts as
    /// ended, since its id may belong to another process by now.
    fn is_alive(&self) -> bool {
        self.monitor.start_time.is_some() && self.monitor.is_alive()
    }
}

/// The containers of one state folder.
#[derive(Debug, Clone)]
pub(super) struct Containers(PathBuf);

impl Containers {
    pub(super) fn new(state_dir: &Path) -> Self {
        Self(state_dir.join("containers"))
    }

    /// Returns the folder of a container, if it exists.
    pub(super) fn find(&self, name: &str) -> Option<ContainerFolder> {
        if !is_name(name) {
            return None;
        }
        let folder = ContainerFolder(self.0.join(name));
        // A record that cannot be examined may exist.
        folder.file(RECORD_FILE).try_exists().unwrap_or(true).then_some(folder)
    }

    /// Returns the folder of a container.
    ///
    /// # Errors
    /// `NotFound`.
    pub(super) fn require(&self, id: &ContainerId) -> Result<ContainerFolder> {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no container `{id}`"));
        self.find(&id.0).ok_or_else(missing)
    }

    /// Returns the ids of the images on which the containers are based.
    ///
    /// # Errors
    /// `Io`; `CorruptState` for a container whose record is damaged, since its image is then unknown.
    pub(super) fn images(&self) -> Result<BTreeSet<Digest>> {
        let records = self.all()?.into_iter().map(|folder| folder.find_record());
        let records: Vec<Option<Record>> = records.collect::<Result<_>>()?;
        Ok(records.into_iter().flatten().filter_map(|record| Digest::parse(&record.image)).collect())
    }

    /// Returns all containers in the order of their names.
    pub(super) fn all(&self) -> Result<Vec<ContainerFolder>> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(file_error("read", &self.0, error)),
        };
        let entries: Vec<DirEntry> =
            entries.collect::<io::Result<_>>().map_err(|error| file_error("read", &self.0, error))?;
        let name = |entry: DirEntry| entry.file_name().into_string().ok();
        let mut names: Vec<String> = entries.into_iter().filter_map(name).collect();
        names.sort();
        Ok(names.iter().filter_map(|name| self.find(name)).collect())
    }

    /// Takes the lock of a container, so that no other process creates, starts or removes it. Blocks meanwhile.
    ///
    /// # Errors
    /// `NameTaken` if another process holds it for too long.
    pub(super) fn lock(&self, id: &ContainerId) -> Result<FileLock> {
        create_folders(&self.0).map_err(|error| file_error("create", &self.0, error))?;
        FileLock::exclusive(&self.lock_path(&id.0), LOCK_TIMEOUT)?.ok_or_else(|| {
            let message = format!("the container `{id}` is being started or removed by another process");
            Error::new(ErrorKind::NameTaken, message).hint("try again when that process has finished")
        })
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        self.0.join(format!(".{name}{LOCK_SUFFIX}"))
    }

    /// Creates a container.
    ///
    /// # Errors
    /// `NameTaken` if a container of that name exists; `InvalidOption` for a mount whose source does not exist.
    pub(super) fn create(&self, record: &Record) -> Result<ContainerFolder> {
        let spec = &record.spec;
        self.sweep();
        for mount in spec.mounts.iter().chain(&spec.overlays) {
            if let Ok(false) = mount.source.try_exists() {
                return Err(missing_source(&mount.source.display().to_string()));
            }
        }
        if !is_name(&spec.name) {
            let message = format!("`{}` is not a valid name of a container", spec.name.printable());
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let _lock = self.lock(&ContainerId(spec.name.clone()))?;
        if self.find(&spec.name).is_some() {
            let message = format!("a container named `{}` exists already", spec.name);
            return Err(Error::new(ErrorKind::NameTaken, message));
        }
        let folder = ContainerFolder(self.0.join(&spec.name));
        // A process that is killed while it creates a container leaves a folder without a record.
        self.discard(&spec.name)?;
        create_folder(&folder.0).map_err(|error| file_error("create", &folder.0, error))?;
        folder.write_json(RECORD_FILE, record)?;
        Ok(folder)
    }

    /// Removes a container with all its files; the caller passes the lock of the container. The name is free when this
    /// returns, even if some files cannot be removed yet.
    pub(super) fn remove(&self, id: &ContainerId, lock: FileLock) -> Result<()> {
        self.discard(&id.0)?;
        let path = self.lock_path(&id.0);
        // A process that waits for this lock then locks a new file instead.
        fs::remove_file(&path).map_err(|error| file_error("remove", &path, error))?;
        drop(lock);
        Ok(())
    }

    /// Removes the folder of a container, which need not exist. The caller holds the lock of the container.
    fn discard(&self, name: &str) -> Result<()> {
        let folder = self.0.join(name);
        let removed = self.0.join(format!(".{name}{REMOVED_INFIX}{}", random_token()?));
        match fs::rename(&folder, &removed) {
            Ok(()) => remove_remains(&removed),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(file_error("remove", &folder, error)),
        }
        Ok(())
    }

    /// Removes what killed processes have left of other containers: folders without a record, and locks without a
    /// folder.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.0) else { return };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| self.sweep_entry(name)).take(MAX_SWEPT).for_each(drop);
    }

    /// Removes an entry if no process needs it; returns whether it was removed.
    fn sweep_entry(&self, entry: &str) -> bool {
        let path = self.0.join(entry);
        let hidden = entry.strip_prefix('.');
        if hidden.is_some_and(|name| name.contains(REMOVED_INFIX)) {
            remove_remains(&path);
            return !path.exists();
        }
        let name = hidden.map_or(Some(entry), |name| name.strip_suffix(LOCK_SUFFIX));
        let is_needed = |name: &str| match hidden {
            Some(_) => self.0.join(name).exists(),
            None => self.find(name).is_some(),
        };
        let Some(name) = name.filter(|name| is_name(name) && !is_needed(name)) else { return false };
        // A process that holds the lock is creating or removing the container.
        let Ok(Some(lock)) = FileLock::exclusive(&self.lock_path(name), Duration::ZERO) else { return false };
        !is_needed(name) && self.remove(&ContainerId(name.to_owned()), lock).is_ok()
    }
}

/// Removes the files of a removed container. Files that cannot be removed now are removed by a later attempt.
fn remove_remains(folder: &Path) {
    if let Err(error) = remove_tree(folder) {
        tracing::warn!(%error, folder = %folder.display(), "the files of a removed container cannot be removed");
    }
}

/// Whether a text is a valid container name, and not a path.
fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty()
        && name.len() <= MAX_NAME_LENGTH
        && !name.starts_with('.')
        && name.bytes().all(is_allowed)
}

/// The folder of one container.
#[derive(Debug, Clone)]
pub(super) struct ContainerFolder(PathBuf);

impl ContainerFolder {
    pub(super) fn id(&self) -> ContainerId {
        ContainerId(self.0.file_name().unwrap_or_default().to_string_lossy().into_owned())
    }

    /// Returns the log of its output.
    pub(super) fn log(&self) -> LogFile {
        LogFile::new(self.0.clone(), LOG)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a folder in it, unless it exists.
    pub(super) fn subfolder(&self, name: &str) -> Result<PathBuf> {
        let path = self.file(name);
        create_folders(&path).map_err(|error| file_error("create", &path, error))?;
        Ok(path)
    }

    pub(super) fn record(&self) -> Result<Record> {
        self.read_json(RECORD_FILE)
    }

    /// Returns the record; `None` if the container was removed meanwhile.
    pub(super) fn find_record(&self) -> Result<Option<Record>> {
        match self.record() {
            Err(_) if matches!(self.file(RECORD_FILE).try_exists(), Ok(false)) => Ok(None),
            record => record.map(Some),
        }
    }

    /// Forgets the last process, and creates the file that the exit code of the next one is written to.
    pub(super) fn begin_run(&self) -> Result<File> {
        let process = self.file(PROCESS_FILE);
        match fs::remove_file(&process) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(file_error("remove", &process, error));
            }
            _ => {}
        }
        let path = self.file(EXIT_FILE);
        file::open(&path)
            .and_then(|file| file.set_len(0).map(|()| file))
            .map_err(|error| file_error("write", &path, error))
    }

    pub(super) fn set_process(&self, process: ContainerProcess) -> Result<()> {
        self.write_json(PROCESS_FILE, &process)
    }

    /// Returns the process, if the container was ever started.
    fn process(&self) -> Option<ContainerProcess> {
        self.read_json(PROCESS_FILE).ok()
    }

    /// Returns the process, if it runs.
    pub(super) fn running_process(&self) -> Option<ContainerProcess> {
        self.process().filter(ContainerProcess::is_alive)
    }

    /// Whether the container was started and does not run.
    pub(super) fn has_exited(&self) -> bool {
        self.process().is_some_and(|process| !process.is_alive())
    }

    /// Returns how the last process exited.
    pub(super) fn exit(&self) -> Exit {
        let text = fs::read_to_string(self.file(EXIT_FILE)).unwrap_or_default();
        parse_exit_record(&text).unwrap_or(Exit::with_code(KILLED))
    }

    /// Returns what is known of the container; `None` if it was removed meanwhile.
    pub(super) fn info(&self) -> Result<Option<ContainerInfo>> {
        let Some(Record { spec, .. }) = self.find_record()? else { return Ok(None) };
        let process = self.process();
        let running = process.filter(ContainerProcess::is_alive);
        let state = match (process, running) {
            (None, _) => ContainerState::Created,
            (Some(_), Some(_)) => ContainerState::Running,
            (Some(_), None) => ContainerState::Exited(self.exit()),
        };
        Ok(Some(ContainerInfo {
            id: self.id(),
            name: spec.name,
            labels: spec.labels,
            state,
            pid: running.map(|process| process.first.pid),
            addresses: Default::default(),
            ports: Vec::new(),
            network_mode: spec.network.to_string(),
            lacks_control_groups: running.is_some() && control_group::are_missing(&self.0),
        }))
    }

    fn read_json<T: for<'a> Deserialize<'a>>(&self, name: &str) -> Result<T> {
        let path = self.file(name);
        let text = fs::read(&path).map_err(|error| file_error("read", &path, error))?;
        serde_json::from_slice(&text).map_err(|error| {
            Error::new(ErrorKind::CorruptState, format!("`{}` is damaged", path.display())).source(error)
        })
    }

    fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<()> {
        let path = self.file(name);
        let text = serde_json::to_vec(value).map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot serialize the record of a container").source(error)
        })?;
        replace(&path, &text).map_err(|error| file_error("write", &path, error))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _};

    use super::*;
    use crate::runtime::{Confinement, Mount, Network};

    /// Returns the spec of a container without anything.
    pub(in crate::runtime::builtin) fn spec(name: &str) -> ContainerSpec {
        ContainerSpec {
            name: name.to_owned(),
            image: "image".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            labels: BTreeMap::new(),
            mounts: Vec::new(),
            overlays: Vec::new(),
            network: Network::None,
            ports: Vec::new(),
            stdin: true,
            unlogged: false,
            pids_limit: 64,
            confinement: Confinement::default(),
            entry: None,
        }
    }

    #[test]
    fn a_container_is_created_once_and_removed_with_what_nobody_may_read() {
        let state = tempfile::tempdir().unwrap();
        let containers = Containers::new(state.path());
        assert!(containers.all().unwrap().is_empty());
        let record = Record { spec: spec("w.P1"), image: "sha256:0".to_owned() };
        let folder = containers.create(&record).unwrap();
        assert_eq!(containers.create(&record).unwrap_err().kind(), ErrorKind::NameTaken);
        assert_eq!(folder.info().unwrap().unwrap().state, ContainerState::Created);
        let hidden = folder.subfolder("work/work").unwrap();
        fs::write(hidden.join("file"), "").unwrap();
        fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).unwrap();
        assert_eq!(containers.all().unwrap().len(), 1);
        let remove = || containers.remove(&folder.id(), containers.lock(&folder.id()).unwrap()).unwrap();
        remove();
        assert!(containers.all().unwrap().is_empty());
        assert_eq!(fs::read_dir(state.path().join("containers")).unwrap().count(), 0);
        remove();
        // A caller that has listed the container before does not find it any more.
        assert!(folder.info().unwrap().is_none());
        // The remains of an interrupted creation do not prevent a new one.
        fs::create_dir_all(folder.file("upper")).unwrap();
        containers.create(&record).unwrap();
    }

    #[test]
    fn what_killed_processes_have_left_is_swept_in_parts() {
        let state = tempfile::tempdir().unwrap();
        let containers = Containers::new(state.path());
        let entries = || fs::read_dir(state.path().join("containers")).unwrap().count();
        let path = |name: String| state.path().join("containers").join(name);
        for number in 0..2 * MAX_SWEPT {
            fs::create_dir_all(path(format!("interrupted-{number}")).join("upper/a")).unwrap();
            fs::create_dir_all(path(format!(".old{REMOVED_INFIX}{number}")).join("upper/a")).unwrap();
            fs::write(path(format!(".left-{number}{LOCK_SUFFIX}")), "").unwrap();
        }
        let record = |name: String| Record { spec: spec(&name), image: String::new() };
        let being_created = containers.lock(&ContainerId("new".to_owned())).unwrap();
        fs::create_dir(path("new".to_owned())).unwrap();
        let before = entries();
        containers.create(&record("w0".to_owned())).unwrap();
        assert_eq!(entries(), before - MAX_SWEPT + 2);
        for number in 1..8 {
            containers.create(&record(format!("w{number}"))).unwrap();
        }
        // A folder and a lock for each container, and those of the one that is being created.
        assert_eq!((entries(), containers.all().unwrap().len()), (8 * 2 + 2, 8));
        drop(being_created);
    }

    #[test]
    fn a_name_with_a_path_is_no_container() {
        let state = tempfile::tempdir().unwrap();
        let containers = Containers::new(state.path());
        fs::create_dir_all(state.path().join("outside")).unwrap();
        fs::write(state.path().join("outside").join(RECORD_FILE), "{}").unwrap();
        for name in ["", ".", "..", "../outside", "a/b", ".hidden"] {
            assert!(containers.find(name).is_none(), "{name}");
            let record = Record { spec: spec(name), image: String::new() };
            assert_eq!(containers.create(&record).unwrap_err().kind(), ErrorKind::InvalidOption, "{name}");
        }
    }

    #[test]
    fn a_mount_that_does_not_exist_creates_nothing() {
        let state = tempfile::tempdir().unwrap();
        let containers = Containers::new(state.path());
        let source = state.path().join("missing");
        let mount = Mount { source, target: "/data".to_owned(), read_only: true, relabel: None };
        let spec = ContainerSpec { mounts: vec![mount], ..spec("w") };
        let error = containers.create(&Record { spec, image: String::new() }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        assert!(containers.all().unwrap().is_empty());
    }

    #[test]
    fn the_last_exit_is_that_of_the_record_or_of_a_kill() {
        let state = tempfile::tempdir().unwrap();
        let record = Record { spec: spec("w"), image: String::new() };
        let folder = Containers::new(state.path()).create(&record).unwrap();
        for (text, code, out_of_memory) in [
            ("", KILLED, false),
            ("0 0\n", 0, false),
            ("3 0\n", 3, false),
            ("137 1\n", 137, true),
            ("x", KILLED, false),
        ] {
            fs::write(folder.file(EXIT_FILE), text).unwrap();
            assert_eq!(folder.exit(), Exit { out_of_memory, ..Exit::with_code(code) }, "{text:?}");
        }
    }
}
