//! Tests that sandboxes join their control groups.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use tokio::io::AsyncReadExt as _;

use super::{sandbox_tests::*, *};
use crate::{random::random_token, runtime::Exit, testing::with_timeout};

#[tokio::test]
async fn control_groups_are_joined_first_and_say_what_lacked_memory() {
    let bed = TestBed::new();
    // Files instead of control groups, which an ordinary user may not have.
    fs::write(bed.path("tasks"), "").unwrap();
    fs::write(bed.path("memory.events"), "low 0\noom 1\noom_kill 1\n").unwrap();
    let limits = SandboxLimits {
        separate_cgroups: vec![bed.path("")],
        memory_events: Some(bed.path("memory.events")),
        ..SandboxLimits::default()
    };
    let plan = SandboxPlan { limits, ..bed.plan(&["sleep", "1000"]) };
    let mut process = bed.spawn(&plan).await.unwrap();
    assert_eq!(fs::read_to_string(bed.path("tasks")).unwrap(), "0");
    process.kill();
    let exit = with_timeout(process.wait()).await.unwrap();
    assert_eq!(
        (exit, bed.exit_record().as_str()),
        (Exit { out_of_memory: true, ..Exit::with_code(137) }, "137 1\n")
    );
    let [missing, other] = ["missing", "root"].map(|name| bed.path(name));
    let unified =
        |folder: &PathBuf| SandboxLimits { cgroup: Some(folder.clone()), ..SandboxLimits::default() };
    let separate = |folder: &PathBuf| SandboxLimits {
        separate_cgroups: vec![folder.clone()],
        ..SandboxLimits::default()
    };
    for (limits, folder, cause) in [
        (unified(&missing), &missing, "No such file"),
        (separate(&missing), &missing, "No such file"),
        // A folder that is no control group.
        (unified(&other), &other, "Bad file descriptor"),
    ] {
        let error = bed.start_error(&SandboxPlan { limits, ..bed.plan(&["true"]) }).await;
        assert_names(&error, folder, cause);
    }
    run_as_ordinary_user("control_group_tests::control_groups_are_joined_first_and_say_what_lacked_memory");
}

#[tokio::test]
async fn a_sandbox_is_created_in_a_control_group_of_version_2() {
    let bed = TestBed::new();
    if let Some(group) = UnifiedGroup::create(&bed) {
        start_in(&group, &bed).await;
    }
}

/// Checks that an error names a control group and the cause.
#[track_caller]
fn assert_names(error: &crate::Error, group: &Path, cause: &str) {
    let expected = format!("cannot add a process to the control group `{}`: {cause}", group.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn a_control_group_that_accepts_no_process_is_named() {
    let bed = TestBed::new();
    let Some(group) = UnifiedGroup::create(&bed) else { return };
    let [threaded, invalid] = ["threaded", "invalid"].map(|name| group.folder.join(name));
    for folder in [&threaded, &invalid] {
        fs::create_dir(folder).unwrap();
    }
    // The other group beside a threaded one cannot contain processes then.
    fs::write(threaded.join("cgroup.type"), "threaded").unwrap();
    let limits = SandboxLimits { cgroup: Some(invalid.clone()), ..SandboxLimits::default() };
    let error = bed.start_error(&SandboxPlan { limits, ..bed.plan(&["true"]) }).await;
    assert_names(&error, &invalid, "Operation not supported");
    assert!(error.next_step().is_some_and(|hint| hint.contains("delegated")), "{error}");
}

#[test]
fn a_sandbox_joins_a_control_group_of_version_2_without_clone3() {
    let bed = TestBed::new();
    let group = UnifiedGroup::create(&bed);
    let test = async || {
        // The error is that of the file `cgroup.procs`, and not that of `clone3`, which would reject the folder.
        let folder = bed.path("group");
        fs::create_dir(&folder).unwrap();
        let limits = SandboxLimits { cgroup: Some(folder.clone()), ..SandboxLimits::default() };
        let error = bed.start_error(&SandboxPlan { limits, ..bed.plan(&["true"]) }).await;
        assert_names(&error, &folder, "No such file");
        if let Some(group) = &group {
            start_in(group, &bed).await;
        }
    };
    // The filter applies to a thread of its own, and to the processes that this thread starts.
    let run = || {
        deny_system_call(libc::SYS_clone3, libc::ENOSYS);
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test());
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap();
    run_as_ordinary_user("control_group_tests::a_sandbox_joins_a_control_group_of_version_2_without_clone3");
}

/// Starts a sandbox in a group, which then contains the processes of the sandbox, and ends it.
async fn start_in(group: &UnifiedGroup, bed: &TestBed) {
    let limits = SandboxLimits { cgroup: Some(group.folder.clone()), ..SandboxLimits::default() };
    let plan = SandboxPlan { limits, ..bed.plan(&["sh", "-c", "echo started; exec sleep 1000"]) };
    let mut process = with_timeout(bed.spawn(&plan)).await.unwrap();
    let mut line = [0; 8];
    with_timeout(process.stdout.as_mut().unwrap().read_exact(&mut line)).await.unwrap();
    let members = fs::read_to_string(group.folder.join("cgroup.procs")).unwrap();
    let members: Vec<&str> = members.lines().collect();
    assert!(members.contains(&process.pid().to_string().as_str()), "{members:?}");
    assert_eq!(members.len(), 2, "the sandbox's first process and the server");
    process.kill();
    with_timeout(process.wait()).await.unwrap();
    assert!(!group.folder.exists(), "the monitor removes the group");
}

/// A new control group of version 2, removed when this is dropped.
struct UnifiedGroup {
    folder: PathBuf,
    /// Where the groups were mounted for this group; `None` if they were mounted already.
    mount: Option<PathBuf>,
}

impl UnifiedGroup {
    /// Creates a group. Returns `None`, and prints the reason, where this process may not create one.
    fn create(bed: &TestBed) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let find = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
            [_, path, "cgroup2", ..] => Some(PathBuf::from(path)),
            _ => None,
        };
        let (root, mount) = match mounts.lines().find_map(find) {
            Some(root) => (root, None),
            None => {
                let mount = Self::mount(bed.path("cgroups"))?;
                (mount.clone(), Some(mount))
            }
        };
        let group = Self { folder: root.join(format!("mcpm-test-{}", random_token().unwrap())), mount };
        match fs::create_dir(&group.folder) {
            Ok(()) => Some(group),
            Err(error) => {
                println!("skipped: `{}` cannot be created: {error}", group.folder.display());
                None
            }
        }
    }

    /// Mounts the groups below that of this process. A mount in the initial control group namespace would change the
    /// options of all mounts of version 2, such as `nsdelegate`.
    fn mount(path: PathBuf) -> Option<PathBuf> {
        fs::create_dir(&path).unwrap();
        let mut mount = Command::new("unshare");
        mount.args(["--cgroup", "mount", "-t", "cgroup2", "none"]).arg(&path);
        let is_mounted = mount.status().is_ok_and(|status| status.success());
        if !is_mounted {
            println!("skipped: control groups of version 2 are not mounted, and cannot be mounted");
        }
        is_mounted.then_some(path)
    }
}

impl Drop for UnifiedGroup {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
        for below in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(below.path());
        }
        // Killed processes leave the group a moment later, which no event reports to this thread.
        for _ in 0..500 {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_millis(10));
                }
                _ => break,
            }
        }
        if let Some(mount) = &self.mount {
            let _ = Command::new("umount").arg(mount).status();
        }
    }
}
