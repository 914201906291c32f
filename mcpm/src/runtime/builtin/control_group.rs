//! Control groups of containers and builds: limits of memory, processor time and processes.
//!
//! Each container and each build gets a group below `mcpm` (with version 1 of control groups, one for each controller),
//! where [`Hierarchy`] finds that this user may create one. Ordinary users can create groups only below a group that
//! was delegated to them, and no user can where the groups are mounted read-only, as in most containers.
//!
//! Without a group, memory and processor time cannot be limited, so containers with such limits are rejected. The
//! number of processes is then limited by `RLIMIT_NPROC`, which the kernel counts for each user in each sandbox. The
//! kernel exempts root of the machine from `RLIMIT_NPROC`, so containers and builds that would run as root of the
//! machine without a group are rejected as well.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::runtime::Handle;

use super::{
    hierarchy::{Hierarchy, enable_controllers},
    sandbox::SandboxLimits,
};
use crate::{Error, ErrorKind, Result, fnv1a::fnv1a, runtime::ContainerSpec, state::file::file_error};

/// The group of all containers.
const PARENT: &str = "mcpm";
/// The file that lists the paths of the groups, in the folder of a container or a build. It is empty if there are none.
const RECORD: &str = "control-groups";
/// The period that processor time is measured in, in microseconds.
const CPU_PERIOD: u64 = 100_000;
const NANOS_PER_CPU: u64 = 1_000_000_000;
/// Most processes of a build at once.
const MAX_BUILD_PROCESSES: u64 = 4096;
/// How many attempts to make to remove a group whose processes are being killed, and the delay between them.
const REMOVAL_ATTEMPTS: u32 = 200;
const REMOVAL_DELAY: Duration = Duration::from_millis(50);

/// The limits of a control group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GroupLimits {
    processes: Option<u64>,
    memory: Option<u64>,
    nano_cpus: Option<u64>,
    /// Whether nothing is started if memory or processor time cannot be limited.
    are_required: bool,
}

impl GroupLimits {
    pub(super) fn of_container(spec: &ContainerSpec) -> Self {
        let confinement = &spec.confinement;
        Self {
            processes: u64::try_from(spec.pids_limit).ok(),
            memory: confinement.memory,
            nano_cpus: confinement.nano_cpus,
            are_required: confinement.memory.is_some() || confinement.nano_cpus.is_some(),
        }
    }

    /// The limits of a build, which has none of its own: three quarters of the memory, so that the machine stays
    /// usable.
    pub(super) fn of_build() -> Self {
        let machine = rustix::system::sysinfo();
        let memory = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit)) / 4 * 3;
        Self { processes: Some(MAX_BUILD_PROCESSES), memory: Some(memory), ..Self::default() }
    }
}

/// Creates the groups of the container or build with this private folder, and returns the limits of its sandbox, whose
/// processes run as `user`. Blocks, because it may query systemd.
///
/// # Errors
/// `Unsupported` for limits that this machine does not let this user set; `Io`.
pub(super) fn limit(folder: &Path, limits: &GroupLimits, user: u32) -> Result<SandboxLimits> {
    let is_exempt = rustix::process::geteuid().is_root() && is_root_of_machine(user, &uid_map());
    let created = create(Hierarchy::of_this_user().as_ref(), &name_of(folder), limits, is_exempt)?;
    let folders = created.cgroup.iter().chain(&created.separate_cgroups);
    let record = folders.map(|path| path.to_string_lossy()).collect::<Vec<_>>().join("\n");
    // The process that removes the groups may be in another group, and could not derive the paths.
    write(&folder.join(RECORD), &record)?;
    Ok(SandboxLimits { processes: limits.processes, ..created })
}

/// Creates groups, unless that is not possible and not necessary.
fn create(
    hierarchy: Option<&Hierarchy>,
    name: &str,
    limits: &GroupLimits,
    is_exempt: bool,
) -> Result<SandboxLimits> {
    let problem = match hierarchy.map(|hierarchy| create_in(hierarchy, name, limits)) {
        Some(Ok(created)) => return Ok(created),
        Some(Err(error)) => Some(error),
        None => None,
    };
    let group = hierarchy.map(|hierarchy| hierarchy.join(&path_of(name)));
    for folder in group.iter().flat_map(Hierarchy::folders) {
        // The group may exist only for some of the controllers.
        let _ = fs::remove_dir(folder);
    }
    let rejected = |error: Error| {
        Err(match &problem {
            Some(problem) => error.source(problem.to_string()),
            None => error,
        })
    };
    if limits.are_required {
        return rejected(no_groups(
            "the built-in runtime cannot limit memory or processor time: this user cannot create control groups",
        ));
    }
    if is_exempt {
        let message =
            "without control groups, the built-in runtime cannot limit the number of processes of root";
        return rejected(Error::new(ErrorKind::Unsupported, message).hint(
            "run mcpm as an ordinary user, make `/sys/fs/cgroup` writable, or use a container engine with `runtime`",
        ));
    }
    tracing::debug!(?problem, "no control group limits memory and processor time");
    Ok(SandboxLimits::default())
}

/// Removes the groups of the exited container or finished build with this folder.
pub(super) fn remove(folder: &Path) {
    if let Err(error) = try_remove(folder) {
        tracing::warn!(%error, "a control group could not be removed");
    }
}

/// Whether the container with this folder was last started without groups.
pub(super) fn are_missing(folder: &Path) -> bool {
    fs::read(folder.join(RECORD)).is_ok_and(|record| record.is_empty())
}

/// Returns the folders of the groups of the container or build with this folder.
pub(super) fn folders_of(folder: &Path) -> Vec<PathBuf> {
    match fs::read_to_string(folder.join(RECORD)) {
        Ok(recorded) => recorded.lines().map(PathBuf::from).collect(),
        Err(_) => {
            let group = Hierarchy::writable().map(|found| found.join(&path_of(&name_of(folder))));
            group.map_or(Vec::new(), |group| group.folders().to_vec())
        }
    }
}

fn try_remove(folder: &Path) -> Result<()> {
    for group in folders_of(folder) {
        match fs::remove_dir(&group) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(file_error("remove", &group, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Creates the error for limits that need control groups which this user does not have.
pub(super) fn no_groups(message: &'static str) -> Error {
    let hint = if rustix::process::geteuid().is_root() {
        "make `/sys/fs/cgroup` writable, or use a container engine with `runtime`"
    } else {
        "start mcpm in a control group that is delegated to this user, with `systemd-run --user --scope \
         --property=Delegate=yes mcpm ..`, run it as root, or use a container engine with `runtime`"
    };
    Error::new(ErrorKind::Unsupported, message).hint(hint)
}

/// Removes the control groups of a build when it is dropped. Processes of a build that was cancelled may still be
/// ending then.
#[derive(Debug)]
pub(super) struct RemoveOnDrop(pub(super) PathBuf);

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let folder = std::mem::take(&mut self.0);
        let Err(error) = try_remove(&folder) else { return };
        let Ok(tasks) = Handle::try_current() else { return };
        tasks.spawn(async move {
            let mut error = error;
            for _ in 0..REMOVAL_ATTEMPTS {
                tokio::time::sleep(REMOVAL_DELAY).await;
                match try_remove(&folder) {
                    Ok(()) => return,
                    Err(again) => error = again,
                }
            }
            tracing::warn!(%error, "a control group could not be removed");
        });
    }
}

/// Returns the name of the group for the container or build with this folder. Folders with the same name in different
/// state folders have different groups.
fn name_of(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}-{:016x}", fnv1a(folder.as_os_str().as_encoded_bytes()))
}

/// Returns the map from users of this process's user namespace to users of the machine.
fn uid_map() -> String {
    fs::read_to_string("/proc/self/uid_map").unwrap_or_default()
}

/// Whether a user is root of the machine, for whom the kernel does not count processes. A map that cannot be read
/// counts as one that maps every user to itself.
fn is_root_of_machine(user: u32, uid_map: &str) -> bool {
    let is_mapped_to_another = uid_map.lines().any(|line| {
        let numbers: Vec<u32> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [0, outside, _] if outside != 0)
    });
    user == 0 && !is_mapped_to_another
}

/// Returns the path of a group.
fn path_of(name: &str) -> PathBuf {
    Path::new(PARENT).join(name)
}

fn create_in(hierarchy: &Hierarchy, name: &str, limits: &GroupLimits) -> Result<SandboxLimits> {
    let group = hierarchy.join(&path_of(name));
    if let Hierarchy::Unified(root) = hierarchy {
        let parent = root.join(PARENT);
        fs::create_dir_all(&parent).map_err(|error| file_error("create", &parent, error))?;
        enable_controllers(root)?;
        enable_controllers(&parent)?;
    }
    for folder in group.folders() {
        // A group left by a killed process would still have its old limits and counts.
        let _ = fs::remove_dir(folder);
        fs::create_dir_all(folder).map_err(|error| file_error("create", folder, error))?;
    }
    let quota = limits.nano_cpus.map(|nanos| nanos.saturating_mul(CPU_PERIOD) / NANOS_PER_CPU);
    match group {
        Hierarchy::Unified(folder) => {
            if let Some(processes) = limits.processes {
                write(&folder.join("pids.max"), &processes.to_string())?;
            }
            if let Some(memory) = limits.memory {
                write(&folder.join("memory.max"), &memory.to_string())?;
                write_optional(&folder.join("memory.swap.max"), "0")?;
            }
            if let Some(quota) = quota {
                write(&folder.join("cpu.max"), &format!("{quota} {CPU_PERIOD}"))?;
            }
            let memory_events = Some(folder.join("memory.events"));
            Ok(SandboxLimits { cgroup: Some(folder), memory_events, ..SandboxLimits::default() })
        }
        Hierarchy::Separate([memory, pids, cpu]) => {
            if let Some(processes) = limits.processes {
                write(&pids.join("pids.max"), &processes.to_string())?;
            }
            if let Some(bytes) = limits.memory {
                write(&memory.join("memory.limit_in_bytes"), &bytes.to_string())?;
                // The limit for memory and swap together is the same, so no swap is added.
                write_optional(&memory.join("memory.memsw.limit_in_bytes"), &bytes.to_string())?;
            }
            if let Some(quota) = quota {
                write(&cpu.join("cpu.cfs_period_us"), &CPU_PERIOD.to_string())?;
                write(&cpu.join("cpu.cfs_quota_us"), &quota.to_string())?;
            }
            let memory_events = Some(memory.join("memory.oom_control"));
            let separate_cgroups = vec![memory, pids, cpu];
            Ok(SandboxLimits { separate_cgroups, memory_events, ..SandboxLimits::default() })
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

    fn limits() -> GroupLimits {
        GroupLimits {
            processes: Some(64),
            memory: Some(64 << 20),
            nano_cpus: Some(1_500_000_000),
            are_required: true,
        }
    }

    #[test]
    fn each_version_gets_its_files() {
        let separate = tempfile::tempdir().unwrap();
        let folders = ["memory", "pids", "cpu"].map(|name| separate.path().join(name));
        let groups = create_in(&Hierarchy::Separate(folders), "w", &limits()).unwrap();
        let read = |path: &str| fs::read_to_string(separate.path().join(path)).unwrap();
        assert_eq!(groups.separate_cgroups.len(), 3);
        assert_eq!(read("memory/mcpm/w/memory.limit_in_bytes"), "67108864");
        assert_eq!(read("pids/mcpm/w/pids.max"), "64");
        assert_eq!(read("cpu/mcpm/w/cpu.cfs_quota_us"), "150000");
        let unified = tempfile::tempdir().unwrap();
        let groups = create_in(&Hierarchy::Unified(unified.path().to_owned()), "w", &limits()).unwrap();
        let read = |path: &str| fs::read_to_string(unified.path().join(path)).unwrap();
        assert_eq!(groups.cgroup, Some(unified.path().join("mcpm/w")));
        assert_eq!(
            (read("mcpm/w/memory.max"), read("mcpm/w/pids.max")),
            ("67108864".to_owned(), "64".to_owned())
        );
        assert_eq!(read("mcpm/w/cpu.max"), "150000 100000");
        assert_eq!(read("cgroup.subtree_control"), "+memory +pids +cpu");
    }

    #[test]
    fn without_a_group_only_what_the_kernel_limits_is_started() {
        // A hierarchy in which no group can be made.
        let file = tempfile::NamedTempFile::new().unwrap();
        let unusable = Hierarchy::Unified(file.path().to_owned());
        let processes_only = GroupLimits { memory: None, nano_cpus: None, are_required: false, ..limits() };
        for hierarchy in [None, Some(&unusable)] {
            for (limits, is_exempt, expected) in [
                (&processes_only, false, None),
                (&processes_only, true, Some("processes of root")),
                (&GroupLimits::of_build(), false, None),
                (&GroupLimits::of_build(), true, Some("processes of root")),
                (&limits(), false, Some("memory or processor time")),
                (&limits(), true, Some("memory or processor time")),
            ] {
                let outcome = create(hierarchy, "w", limits, is_exempt);
                match (outcome, expected) {
                    (Ok(created), None) => assert_eq!(created, SandboxLimits::default()),
                    (Err(error), Some(expected)) => {
                        assert_eq!(error.kind(), ErrorKind::Unsupported);
                        assert!(error.message().contains(expected), "{error}");
                    }
                    (outcome, _) => panic!("{limits:?} {is_exempt}: {outcome:?}"),
                }
            }
        }
    }

    #[test]
    fn root_of_the_machine_is_told_from_that_of_a_container() {
        for (user, map, expected) in [
            (0, "         0          0 4294967295\n", true),
            (0, "", true),
            (0, "0 1000 1\n1 100000 65536\n", false),
            (0, "1 5 1\n0 0 1\n", true),
            (65532, "0 0 4294967295\n", false),
        ] {
            assert_eq!(is_root_of_machine(user, map), expected, "{user} {map:?}");
        }
    }

    #[test]
    fn two_state_folders_have_no_group_in_common() {
        let names =
            ["/a/containers/w", "/b/containers/w", "/a/containers/w.P1"].map(|path| name_of(Path::new(path)));
        assert!(names[0] != names[1] && names[0] != names[2], "{names:?}");
        assert_eq!(names[0], name_of(Path::new("/a/containers/w")));
    }
}
