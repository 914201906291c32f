//! Control groups of containers: limits of memory, processor time and processes.
//!
//! Root makes a group for each container below `mcpm`, in the version of control groups that the machine has. Ordinary
//! users may make none without a service manager; for them, the kernel limits processes by user, and nothing limits
//! memory and processor time.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{Error, ErrorKind, Result, runtime::ContainerSpec, state::file::file_error};

const ROOT: &str = "/sys/fs/cgroup";
/// The group of all containers.
const PARENT: &str = "mcpm";
/// The period that processor time is measured in, in microseconds.
const CPU_PERIOD: u64 = 100_000;
const NANOS_PER_CPU: u64 = 1_000_000_000;

/// The control groups of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ControlGroups {
    pub(super) folders: Vec<PathBuf>,
    /// The file in which the kernel counts processes that it killed for lack of memory.
    pub(super) memory_events: Option<PathBuf>,
}

impl ControlGroups {
    /// Creates the groups of a container, with its limits.
    ///
    /// # Errors
    /// `Unsupported` if the container has limits that this machine does not let this user set; `Io`.
    pub(super) fn create(spec: &ContainerSpec) -> Result<Self> {
        let confinement = &spec.confinement;
        let has_limits = confinement.memory.is_some() || confinement.nano_cpus.is_some();
        let hierarchy =
            if rustix::process::geteuid().is_root() { Hierarchy::find(Path::new(ROOT)) } else { None };
        match hierarchy {
            Some(hierarchy) => hierarchy.create(spec),
            None if has_limits => {
                let message = "the built-in runtime cannot limit memory or processor time as this user";
                Err(Error::new(ErrorKind::Unsupported, message)
                    .hint("run mcpm as root, use a container engine with `runtime`, or lift these limits in the profile"))
            }
            None => Ok(Self::default()),
        }
    }

    /// Removes the groups of a container that has exited.
    pub(super) fn remove(name: &str) {
        let Some(hierarchy) = Hierarchy::find(Path::new(ROOT)) else { return };
        for folder in hierarchy.folders(name) {
            match fs::remove_dir(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, folder = %folder.display(), "a control group could not be removed");
                }
                _ => {}
            }
        }
    }
}

/// How control groups are mounted.
#[derive(Debug, PartialEq, Eq)]
enum Hierarchy {
    /// Version 2: one folder for all controllers.
    Unified(PathBuf),
    /// Version 1: a folder for each controller.
    Separate(PathBuf),
}

impl Hierarchy {
    const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

    fn find(root: &Path) -> Option<Self> {
        if root.join("cgroup.controllers").exists() {
            return Some(Self::Unified(root.to_owned()));
        }
        let has_all = Self::CONTROLLERS.iter().all(|name| root.join(name).join("cgroup.procs").exists());
        has_all.then(|| Self::Separate(root.to_owned()))
    }

    /// Returns the folders of a container.
    fn folders(&self, name: &str) -> Vec<PathBuf> {
        match self {
            Self::Unified(root) => vec![root.join(PARENT).join(name)],
            Self::Separate(root) => Self::CONTROLLERS
                .iter()
                .map(|controller| root.join(controller).join(PARENT).join(name))
                .collect(),
        }
    }

    fn create(&self, spec: &ContainerSpec) -> Result<ControlGroups> {
        let folders = self.folders(&spec.name);
        for folder in &folders {
            // One that a killed process has left would have its limits and its counts.
            let _ = fs::remove_dir(folder);
            fs::create_dir_all(folder).map_err(|error| file_error("make", folder, error))?;
        }
        let confinement = &spec.confinement;
        let quota = confinement.nano_cpus.map(|nanos| nanos.saturating_mul(CPU_PERIOD) / NANOS_PER_CPU);
        match (self, &folders[..]) {
            (Self::Unified(root), [folder]) => {
                for parent in [root.clone(), root.join(PARENT)] {
                    write(&parent.join("cgroup.subtree_control"), "+memory +pids +cpu")?;
                }
                write(&folder.join("pids.max"), &spec.pids_limit.to_string())?;
                if let Some(memory) = confinement.memory {
                    write(&folder.join("memory.max"), &memory.to_string())?;
                    write_optional(&folder.join("memory.swap.max"), "0")?;
                }
                if let Some(quota) = quota {
                    write(&folder.join("cpu.max"), &format!("{quota} {CPU_PERIOD}"))?;
                }
                let memory_events = Some(folder.join("memory.events"));
                Ok(ControlGroups { folders, memory_events })
            }
            (_, [memory, pids, cpu]) => {
                write(&pids.join("pids.max"), &spec.pids_limit.to_string())?;
                if let Some(bytes) = confinement.memory {
                    write(&memory.join("memory.limit_in_bytes"), &bytes.to_string())?;
                    // The same limit leaves no additional swap.
                    write_optional(&memory.join("memory.memsw.limit_in_bytes"), &bytes.to_string())?;
                }
                if let Some(quota) = quota {
                    write(&cpu.join("cpu.cfs_period_us"), &CPU_PERIOD.to_string())?;
                    write(&cpu.join("cpu.cfs_quota_us"), &quota.to_string())?;
                }
                let memory_events = Some(memory.join("memory.oom_control"));
                Ok(ControlGroups { folders, memory_events })
            }
            _ => Err(Error::new(ErrorKind::Internal, "a container has the wrong number of control groups")),
        }
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| file_error("write", path, error))
}

/// Writes a file that kernels without the feature do not have.
fn write_optional(path: &Path, text: &str) -> Result<()> {
    if path.exists() { write(path, text) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{Confinement, builtin::container::tests::spec};

    fn limited() -> ContainerSpec {
        let confinement =
            Confinement { memory: Some(64 << 20), nano_cpus: Some(1_500_000_000), ..Confinement::default() };
        ContainerSpec { confinement, ..spec("w") }
    }

    #[test]
    fn each_version_gets_its_files() {
        let separate = tempfile::tempdir().unwrap();
        assert_eq!(Hierarchy::find(separate.path()), None);
        for name in Hierarchy::CONTROLLERS {
            fs::create_dir(separate.path().join(name)).unwrap();
            fs::write(separate.path().join(name).join("cgroup.procs"), "").unwrap();
        }
        let found = Hierarchy::find(separate.path()).unwrap();
        let groups = found.create(&limited()).unwrap();
        let read = |path: &str| fs::read_to_string(separate.path().join(path)).unwrap();
        assert_eq!(groups.folders.len(), 3);
        assert_eq!(read("memory/mcpm/w/memory.limit_in_bytes"), "67108864");
        assert_eq!(read("pids/mcpm/w/pids.max"), "64");
        assert_eq!(read("cpu/mcpm/w/cpu.cfs_quota_us"), "150000");
        let unified = tempfile::tempdir().unwrap();
        fs::write(unified.path().join("cgroup.controllers"), "memory pids cpu").unwrap();
        let groups = Hierarchy::find(unified.path()).unwrap().create(&limited()).unwrap();
        let read = |path: &str| fs::read_to_string(unified.path().join(path)).unwrap();
        assert_eq!(groups.folders, [unified.path().join("mcpm/w")]);
        assert_eq!(
            (read("mcpm/w/memory.max"), read("mcpm/w/pids.max")),
            ("67108864".to_owned(), "64".to_owned())
        );
        assert_eq!(read("mcpm/w/cpu.max"), "150000 100000");
        assert_eq!(read("cgroup.subtree_control"), "+memory +pids +cpu");
    }
}
