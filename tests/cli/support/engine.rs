//! Starts a separate Docker engine for one test. The test may kill this engine.
//!
//! The engine has its own network and mount namespaces, so that it shares neither the bridge nor firewall rules with
//! the engine of the machine. The addresses of its containers cannot be reached from outside these namespaces, so it
//! runs only stdio servers.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use super::{Home, kill, wait_until};

pub(crate) struct OwnEngine {
    root: tempfile::TempDir,
    daemon: Child,
}

impl OwnEngine {
    /// Starts an engine with a copy of an image, and sets it as the engine of `home`.
    #[track_caller]
    pub(crate) fn start(home: &Home, image: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let daemon = Self::spawn(root.path());
        let engine = Self { root, daemon };
        engine.wait_until_ready();
        let copy = "docker save \"$1\" | docker --host \"$2\" load --quiet";
        let copied = Command::new("sh").args(["-c", copy, "sh", image, &engine.host()]).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        home.set("DOCKER_HOST", &engine.host());
        engine
    }

    fn spawn(root: &std::path::Path) -> Child {
        let log = fs::File::options().create(true).append(true).open(root.join("log")).unwrap();
        let path = |below: &str| root.join(below).to_str().unwrap().to_owned();
        Command::new("unshare")
            .args(["--mount", "--net", "dockerd", "--iptables=false", "--storage-driver", "vfs"])
            .args(["--host", &format!("unix://{}", path("socket")), "--pidfile", &path("pid")])
            .args(["--data-root", &path("data"), "--exec-root", &path("exec")])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// The address on which the engine listens.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}/socket", self.root.path().display())
    }

    /// Runs the `docker` command with this engine, and returns whether that succeeded, and its output.
    pub(crate) fn docker(&self, args: &[&str]) -> (bool, String) {
        let output = Command::new("docker").args(["--host", &self.host()]).args(args).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
    }

    #[track_caller]
    fn wait_until_ready(&self) {
        wait_until("the engine answers", || self.docker(&["version"]).0);
    }

    /// Kills the engine, which has no time to write or log anything.
    #[track_caller]
    pub(crate) fn kill(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        // The pid files of the killed processes; the next engine would trust them while other processes have these
        // pids.
        for pid_file in ["pid", "exec/containerd/containerd.pid"] {
            let path = self.root.path().join(pid_file);
            if let Ok(pid) = fs::read_to_string(&path).unwrap_or_default().trim().parse() {
                wait_until("its containerd is gone", || !super::is_alive(pid));
            }
            let _ = fs::remove_file(path);
        }
    }

    /// Starts the engine again with all its data.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        self.daemon = Self::spawn(self.root.path());
        self.wait_until_ready();
    }
}

impl Drop for OwnEngine {
    fn drop(&mut self) {
        let (_, containers) = self.docker(&["ps", "--all", "--quiet"]);
        for id in containers.lines() {
            self.docker(&["rm", "--force", "--volumes", id]);
        }
        kill("TERM", self.daemon.id());
        let _ = self.daemon.wait();
    }
}
