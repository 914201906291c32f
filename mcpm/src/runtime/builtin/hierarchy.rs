//! Finds where this user may create control groups: root anywhere; an ordinary user only below the group of this
//! process, if that group was delegated, as with `systemd-run --user --scope --property=Delegate=yes`.
//!
//! A writable group of version 1 counts as delegated. In version 2, systemd makes all groups below a user's group
//! writable for that user, but still manages those that it has not delegated (systemd.resource-control(5), "Delegate").
//! So a writable group must also be marked as delegated, be the outermost group that the user may change, or be the group
//! of a unit with `Delegate=yes` of the user manager of systemd, which does not mark groups.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    slice,
};

use rustix::fs::{Access, access, getxattr};

use super::subordinate_ids::PROGRAM_FOLDERS;
use crate::{Result, state::file::file_error};

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];
/// The group that the processes of a delegated group are moved to: in version 2, a group whose subgroups have limits
/// cannot contain processes itself.
const LEAF: &str = "mcpm-own";
/// How often processes are moved, which may start others meanwhile.
const MOVE_ATTEMPTS: u32 = 10;
/// The extended attribute of a group that the system manager of systemd has delegated.
const DELEGATED: &str = "user.delegate";
/// Timeout of a query to the user manager of systemd, in seconds.
const QUERY_SECONDS: &str = "5";

/// A group of each controller: the groups below which this user may create others, or those of a container or a build.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hierarchy {
    /// Version 2: one folder for all controllers.
    Unified(PathBuf),
    /// Version 1: a folder for memory, one for processes, and one for processor time.
    Separate([PathBuf; 3]),
}

impl Hierarchy {
    /// Returns the hierarchy of this user, if there is one. Blocks, because it may query systemd.
    pub(super) fn of_this_user() -> Option<Self> {
        Self::writable().filter(|found| rustix::process::geteuid().is_root() || found.is_delegated())
    }

    /// Returns the groups below which this user may create others: all for root; otherwise those of this process, which
    /// systemd may still manage.
    pub(super) fn writable() -> Option<Self> {
        let all = Self::all(Path::new(ROOT))?;
        if rustix::process::geteuid().is_root() {
            return Some(all);
        }
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        all.below(&own).filter(Self::is_writable)
    }

    /// Returns all groups of the machine.
    pub(super) fn all(root: &Path) -> Option<Self> {
        if root.join("cgroup.controllers").exists() {
            return Some(Self::Unified(root.to_owned()));
        }
        let folders = CONTROLLERS.map(|name| root.join(name));
        folders.iter().all(|folder| folder.join("cgroup.procs").exists()).then_some(Self::Separate(folders))
    }

    /// Returns the part below the groups of a process, from the content of its file `cgroup`.
    pub(super) fn below(&self, cgroup: &str) -> Option<Self> {
        let entries = || cgroup.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
        let find = |folder: &Path, controller: &str| {
            let (_, path) = entries().find(|(names, _)| names.split(',').any(|name| name == controller))?;
            // The path of a process outside of the mounted groups begins with `..`.
            let path = path.strip_prefix('/').filter(|path| !path.split('/').any(|part| part == ".."))?;
            Some(folder.join(path))
        };
        match self {
            Self::Unified(root) => {
                let own = find(root, "")?;
                Some(Self::Unified(match own.parent() {
                    Some(parent) if own.ends_with(LEAF) => parent.to_owned(),
                    _ => own,
                }))
            }
            Self::Separate([memory, pids, cpu]) => {
                let [of_memory, of_pids, of_cpu] = CONTROLLERS;
                Some(Self::Separate([find(memory, of_memory)?, find(pids, of_pids)?, find(cpu, of_cpu)?]))
            }
        }
    }

    /// Whether this user may create groups below it.
    fn is_writable(&self) -> bool {
        let is_writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
        self.folders().iter().all(|folder| is_writable(folder) && is_writable(&folder.join("cgroup.procs")))
    }

    /// Whether groups below this writable one can have limits, and systemd does not manage them.
    fn is_delegated(&self) -> bool {
        let Self::Unified(folder) = self else { return true };
        let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        let has = |name: &&str| controllers.split_whitespace().any(|found| found == *name);
        CONTROLLERS.iter().all(has)
            && (is_marked_or_outermost(folder) || is_delegated_by_user_manager(folder))
    }

    /// Returns the group with a path below these groups.
    pub(super) fn join(&self, path: &Path) -> Self {
        match self {
            Self::Unified(folder) => Self::Unified(folder.join(path)),
            Self::Separate(folders) => Self::Separate(folders.each_ref().map(|folder| folder.join(path))),
        }
    }

    /// Returns the folders.
    pub(super) fn folders(&self) -> &[PathBuf] {
        match self {
            Self::Unified(folder) => slice::from_ref(folder),
            Self::Separate(folders) => folders,
        }
    }
}

/// Whether a group is marked as delegated, or the outermost one that this user may change.
fn is_marked_or_outermost(folder: &Path) -> bool {
    let mut value = [0_u8; 8];
    let length = getxattr(folder, DELEGATED, &mut value[..]);
    length.is_ok_and(|length| value[..length] == *b"1")
        || folder.parent().is_some_and(|parent| access(parent, Access::WRITE_OK).is_err())
}

/// Whether a group is the one of a unit of the user manager with `Delegate=yes`.
fn is_delegated_by_user_manager(folder: &Path) -> bool {
    // mcpm, or systemd because of `DelegateSubgroup=`, has created it in a delegated group.
    if folder.join(LEAF).is_dir() {
        return true;
    }
    let (Some(unit), Ok(path)) = (folder.file_name(), folder.strip_prefix(ROOT)) else { return false };
    let mut query = Command::new("timeout");
    query.args([
        QUERY_SECONDS,
        "systemctl",
        "--user",
        "show",
        "--property=Delegate",
        "--property=ControlGroup",
        "--",
    ]);
    let output = match query.arg(unit).env("PATH", PROGRAM_FOLDERS.join(":")).stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => {
            tracing::debug!(%error, "`timeout` cannot be started to query the user manager of systemd");
            return false;
        }
    };
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        tracing::debug!(status = %output.status, %stderr, "`systemctl --user show` failed");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    // A unit with the same name may have another group.
    let group = format!("ControlGroup=/{}", path.display());
    ["Delegate=yes", &group].iter().all(|wanted| text.lines().any(|line| line == *wanted))
}

/// Enables the controllers for the groups below a folder of version 2, so that these groups can have limits.
pub(super) fn enable_controllers(folder: &Path) -> Result<()> {
    let file = folder.join("cgroup.subtree_control");
    let enable = || fs::write(&file, "+memory +pids +cpu");
    let mut enabled = enable();
    for _ in 0..MOVE_ATTEMPTS {
        // A delegated group only contains processes of this user, so they may be moved.
        if !enabled.as_ref().is_err_and(is_busy) || rustix::process::geteuid().is_root() {
            break;
        }
        move_processes(folder, &folder.join(LEAF))?;
        enabled = enable();
    }
    enabled.map_err(|error| file_error("write", &file, error))
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

/// Moves all processes of a group into another one, which is created.
fn move_processes(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(|error| file_error("create", to, error))?;
    let (from, to) = (from.join("cgroup.procs"), to.join("cgroup.procs"));
    let processes = fs::read_to_string(&from).map_err(|error| file_error("read", &from, error))?;
    for process in processes.lines() {
        // A process may have ended meanwhile.
        if let Err(error) = fs::write(&to, process)
            && Path::new("/proc").join(process).exists()
        {
            return Err(file_error("write", &to, error));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{XattrFlags, setxattr};

    use super::*;

    #[test]
    fn each_version_is_found() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Hierarchy::all(root.path()), None);
        for name in CONTROLLERS {
            fs::create_dir(root.path().join(name)).unwrap();
            fs::write(root.path().join(name).join("cgroup.procs"), "").unwrap();
        }
        let found = Hierarchy::all(root.path());
        assert_eq!(found, Some(Hierarchy::Separate(CONTROLLERS.map(|name| root.path().join(name)))));
        fs::write(root.path().join("cgroup.controllers"), "memory pids cpu").unwrap();
        assert_eq!(Hierarchy::all(root.path()), Some(Hierarchy::Unified(root.path().to_owned())));
    }

    #[test]
    fn the_groups_of_a_process_are_read() {
        let unified = Hierarchy::Unified("/c".into());
        let separate = Hierarchy::Separate(["/c/memory", "/c/pids", "/c/cpu"].map(PathBuf::from));
        let below = |text: &str| Some(Hierarchy::Unified(text.into()));
        for (text, expected) in [
            ("0::/user.slice/a.scope\n", below("/c/user.slice/a.scope")),
            ("0::/user.slice/a.scope/mcpm-own\n", below("/c/user.slice/a.scope")),
            ("1:name=systemd:/x\n0::/\n", below("/c")),
            ("0::/../a\n", None),
            ("1:memory:/a\n", None),
        ] {
            assert_eq!(unified.below(text), expected, "{text}");
        }
        let found = separate.below("8:pids:/p\n4:memory:/m\n2:cpu,cpuacct:/a/b\n0::/\n");
        assert_eq!(
            found,
            Some(Hierarchy::Separate(["/c/memory/m", "/c/pids/p", "/c/cpu/a/b"].map(PathBuf::from)))
        );
        assert_eq!(separate.below("8:pids:/p\n4:memory:/m\n0::/\n"), None);
    }

    #[test]
    fn a_group_is_delegated_with_all_controllers_only() {
        let folder = tempfile::tempdir().unwrap();
        let unified = Hierarchy::Unified(folder.path().to_owned());
        fs::write(folder.path().join("cgroup.procs"), "").unwrap();
        fs::write(folder.path().join("cgroup.controllers"), "cpu memory pids").unwrap();
        assert!(unified.is_writable());
        assert!(!unified.is_delegated(), "systemd manages a group in a writable one");
        setxattr(folder.path(), DELEGATED, b"1", XattrFlags::empty()).unwrap();
        for (controllers, expected) in
            [("cpuset cpu io memory pids\n", true), ("memory pids\n", false), ("", false)]
        {
            fs::write(folder.path().join("cgroup.controllers"), controllers).unwrap();
            assert_eq!(unified.is_delegated(), expected, "{controllers}");
        }
        let missing = Hierarchy::Separate([(); 3].map(|()| folder.path().join("missing")));
        assert!(!missing.is_writable());
    }
}
