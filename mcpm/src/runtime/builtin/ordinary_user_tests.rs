//! Tests of the rights that an administrator can give to an ordinary user: control groups, and ids for containers.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
};

use super::{
    hierarchy::Hierarchy,
    sandbox::sandbox_tests::{ORDINARY_USER, run_as_ordinary_user},
    subordinate_ids::SubordinateIds,
    tests::Fixture,
    *,
};
use crate::testing::with_timeout;

/// Control groups that an ordinary user owns, and that this process is in.
struct DelegatedGroups {
    folders: Vec<PathBuf>,
    /// The groups that this process was in.
    before: Vec<PathBuf>,
}

impl DelegatedGroups {
    fn new() -> Self {
        let all = Hierarchy::all(Path::new("/sys/fs/cgroup")).unwrap();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let before = all.below(&own).unwrap().folders().to_vec();
        let folders = all.join(Path::new(&format!("mcpm-test-{}", std::process::id()))).folders().to_vec();
        let groups = Self { folders, before };
        for folder in &groups.folders {
            let is_unified = folder.parent().unwrap().join("cgroup.controllers").exists();
            if is_unified {
                let control = folder.parent().unwrap().join("cgroup.subtree_control");
                fs::write(control, "+memory +pids +cpu").unwrap();
            }
            fs::create_dir(folder).unwrap();
            let files: &[&str] = if is_unified {
                &["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"]
            } else {
                &["cgroup.procs"]
            };
            for path in files.iter().map(|name| folder.join(name)).chain([folder.clone()]) {
                chown(path, Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
            }
        }
        join(&groups.folders);
        groups
    }
}

/// Moves this process to other groups.
fn join(folders: &[PathBuf]) {
    for folder in folders {
        fs::write(folder.join("cgroup.procs"), std::process::id().to_string()).unwrap();
    }
}

impl Drop for DelegatedGroups {
    fn drop(&mut self) {
        join(&self.before);
        for folder in &self.folders {
            for below in fs::read_dir(folder).into_iter().flatten().flatten() {
                let _ = fs::remove_dir(below.path());
            }
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Runs a container with limits; returns how it exited.
async fn run_limited(fixture: &Fixture, script: &str) -> Exit {
    let mut spec = fixture.spec("w", script);
    spec.confinement.memory = Some(64 << 20);
    spec.confinement.nano_cpus = Some(500_000_000);
    spec.pids_limit = 16;
    let id = fixture.runtime.create(&spec).await.unwrap();
    with_timeout(fixture.runtime.start(&id)).await.unwrap();
    let exit = with_timeout(fixture.runtime.wait(&id)).await.unwrap();
    fixture.runtime.remove(&id).await.unwrap();
    exit
}

#[tokio::test]
async fn a_delegated_control_group_limits_the_containers_of_an_ordinary_user() {
    const NAME: &str = "a_delegated_control_group_limits_the_containers_of_an_ordinary_user";
    if rustix::process::geteuid().is_root() {
        // In most containers, nobody can make control groups.
        if rustix::fs::access("/sys/fs/cgroup", rustix::fs::Access::WRITE_OK).is_ok() {
            let _groups = DelegatedGroups::new();
            run_as_ordinary_user(&format!("runtime::builtin::ordinary_user_tests::{NAME}"));
        }
        return;
    }
    let fixture = Fixture::new();
    let Some(hierarchy) = Hierarchy::of_this_user() else {
        assert_ne!(
            rustix::process::geteuid().as_raw(),
            ORDINARY_USER,
            "the groups are delegated to this user"
        );
        return;
    };
    let exit = run_limited(&fixture, "head -c 200000000 /dev/zero | tail -c 190000000 > /dev/null").await;
    assert!(exit.out_of_memory && exit.code == 137, "{exit:?}");
    let exit = run_limited(&fixture, "for i in $(seq 32); do sleep 100 & done").await;
    assert!(exit.code != 0 && !exit.out_of_memory, "{exit:?}");
    assert_eq!(run_limited(&fixture, "true").await.code, 0);
    for parent in hierarchy.join(Path::new("mcpm")).folders() {
        let groups = fs::read_dir(parent).unwrap().flatten().filter(|entry| entry.path().is_dir());
        assert_eq!(groups.count(), 0);
    }
}

#[tokio::test]
async fn a_container_of_an_ordinary_user_has_the_ids_that_are_reserved_for_it() {
    const NAME: &str = "a_container_of_an_ordinary_user_has_the_ids_that_are_reserved_for_it";
    run_as_ordinary_user(&format!("runtime::builtin::ordinary_user_tests::{NAME}"));
    if rustix::process::geteuid().is_root() {
        return;
    }
    let reserved = SubordinateIds::find();
    assert!(
        reserved.is_ok() || rustix::process::geteuid().as_raw() != ORDINARY_USER,
        "{reserved:?}: tests/testbed/host reserves them"
    );
    let fixture = Fixture::new();
    let script = "awk '{ sum += $3 } END { print sum }' /proc/self/uid_map /proc/self/gid_map; \
                  cat /proc/self/setgroups; id -G; touch /file; stat -c %u:%g /file";
    let (code, text) = fixture.run(script, |_| ()).await;
    let expected = if reserved.is_ok() { "131072\nallow\n0\n0:0\n" } else { "2\ndeny\n" };
    assert!(code == 0 && text.starts_with(expected), "{text}");
}
