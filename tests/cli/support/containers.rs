//! Lists the containers of a home's runtime, and their processes.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use mcpm_tests::harness::runtimes::TestRuntime;
use serde_json::Value;

use super::{Home, docker, engine_variable, inspect, is_alive, kill};

impl Home {
    pub(crate) fn is_builtin(&self) -> bool {
        self.runtime != TestRuntime::Engine
    }

    /// Provides images for workloads. An engine has them already.
    #[track_caller]
    pub(crate) fn provide_images(&self, images: &[&str]) {
        if self.is_builtin() {
            self.copy_images(images);
        }
    }

    /// Copies images of the engine to the store of the built-in runtime.
    #[track_caller]
    pub(crate) fn copy_images(&self, images: &[&str]) {
        let archive = self.text("images.tar");
        docker(&[&["save", "--output", &archive][..], images].concat());
        fs::set_permissions(&archive, fs::Permissions::from_mode(0o644)).unwrap();
        self.run(&["image", "load", &archive]).succeeded();
        fs::remove_file(&archive).unwrap();
    }

    /// The containers of this test, whatever their state.
    pub(crate) fn containers(&self) -> Vec<String> {
        if self.is_builtin() {
            let entries = fs::read_dir(self.path("state/mcpm/containers")).into_iter().flatten().flatten();
            return entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        }
        let listed =
            docker(&["ps", "--all", "--format", "{{.Names}}", "--filter", &format!("name={}", self.prefix)]);
        listed.lines().map(str::to_owned).collect()
    }

    /// The control groups of containers of this test that the built-in runtime has created. Their names begin with those
    /// of the containers.
    pub(crate) fn control_groups(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        find_folders(Path::new("/sys/fs/cgroup"), &format!("{}-", self.prefix), &mut found);
        found
    }

    /// The mounts in the folder of this test, in the mount namespace of this machine.
    pub(super) fn mounts(&self) -> Vec<String> {
        let folder = fs::canonicalize(self.path("")).unwrap();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let targets = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        targets.filter(|target| Path::new(target).starts_with(&folder)).map(str::to_owned).collect()
    }

    /// Removes containers that are left in an engine. Containers of the built-in runtime end with their supervisors.
    pub(super) fn remove_containers(&self) {
        let containers = if self.is_builtin() { Vec::new() } else { self.containers() };
        if !containers.is_empty() {
            let mut remove = Command::new("docker");
            let _ =
                remove.args(["rm", "--force", "--volumes"]).args(containers).envs(engine_variable()).output();
        }
    }

    /// The first process of a container, on this machine.
    #[track_caller]
    pub(crate) fn first_process(&self, name: &str) -> u32 {
        let pid = if self.is_builtin() {
            let record = self.path(&format!("state/mcpm/containers/{name}/process.json"));
            let process: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
            process["first"]["pid"].as_u64()
        } else {
            inspect(name)["State"]["Pid"].as_u64()
        };
        pid.unwrap().try_into().unwrap()
    }

    /// The processes of a running container, on this machine.
    #[track_caller]
    pub(crate) fn processes_in(&self, name: &str) -> Vec<u32> {
        let namespace = |pid: u32| -> Option<PathBuf> { fs::read_link(format!("/proc/{pid}/ns/pid")).ok() };
        let own = namespace(self.first_process(name)).unwrap();
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(|pid| namespace(*pid).as_ref() == Some(&own)).collect()
    }

    /// Returns whether the container of a workload is running.
    #[track_caller]
    pub(crate) fn is_running(&self, name: &str) -> bool {
        if self.is_builtin() {
            is_alive(self.first_process(name))
        } else {
            inspect(name)["State"]["Running"] == true
        }
    }

    /// Kills the server of a workload, with its container.
    #[track_caller]
    pub(crate) fn kill_server(&self, name: &str) {
        if self.is_builtin() {
            kill("KILL", self.first_process(name));
        } else {
            docker(&["kill", name]);
        }
    }
}

/// Finds the folders at any depth whose names begin with a text.
fn find_folders(folder: &Path, begin: &str, found: &mut Vec<PathBuf>) {
    // Other tests remove groups meanwhile.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().starts_with(begin) {
                found.push(entry.path());
            }
            find_folders(&entry.path(), begin, found);
        }
    }
}
