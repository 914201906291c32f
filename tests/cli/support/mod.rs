//! Provides the shared parts of the command line's tests: the program, a separate home folder for each test, and the
//! outcomes of commands.
//!
//! The complete output of a command is compared in a transcript: `tests/cli/transcripts/THEME/TEST.txt` contains each
//! command, its standard output, its standard error with `! ` before each line, and its exit code in brackets.
//! `MCPM_UPDATE=1` rewrites the transcripts.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use mcpm_tests::harness::{
    poll,
    runtimes::{ORDINARY_USER, TestRuntime},
};
use serde_json::Value;

mod containers;
mod engine;
mod program;
mod redact;
pub(crate) mod schema;
mod session;

pub(crate) use engine::OwnEngine;
pub(crate) use mcpm_tests::harness::terminal::PseudoTerminal;
pub(crate) use program::Program;
use redact::Redactions;
pub(crate) use session::Session;

/// Waits until a condition is true.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    poll::wait_for(what, || is_so().then_some(()));
}

/// Returns a variable that `tests/testbed/env` sets.
#[track_caller]
pub(crate) fn testbed_variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run the tests with `tests/run`"))
}

/// The variable that selects another engine than the one at Docker's usual socket, for the tests that run on each
/// runtime.
pub(crate) fn engine_variable() -> Option<(String, String)> {
    std::env::var("MCPM_TEST_ENGINE").ok().map(|engine| ("DOCKER_HOST".to_owned(), engine))
}

/// Runs the `docker` command.
#[track_caller]
pub(crate) fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).envs(engine_variable()).output().unwrap();
    assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Inspects a container with the engine.
#[track_caller]
pub(crate) fn inspect(container: &str) -> Value {
    let text = docker(&["container", "inspect", container]);
    let mut all: Vec<Value> = serde_json::from_str(&text).unwrap();
    all.remove(0)
}

/// The engine as a plan shows it.
pub(crate) fn engine_shown() -> String {
    let version = docker(&["version", "--format", "{{.Server.Version}}"]);
    format!("docker {version} at unix:///var/run/docker.sock")
}

/// The output of a command, and how it exited.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The JSON document on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The URL that `run` printed after the name.
    #[track_caller]
    pub(crate) fn url(&self) -> String {
        let url = self.stdout.split_whitespace().nth(1);
        url.unwrap_or_else(|| panic!("no URL: {self:?}")).to_owned()
    }

    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }
}

/// A user of mcpm with a separate home. Everything that is left at the end is removed, even if the test fails.
pub(crate) struct Home {
    root: tempfile::TempDir,
    prefix: String,
    variables: Mutex<Vec<(String, String)>>,
    transcript: Mutex<String>,
    redactions: Mutex<Redactions>,
    runtime: TestRuntime,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self::on(TestRuntime::Engine)
    }

    /// Creates a home whose workloads run on a runtime, as the user of that runtime.
    pub(crate) fn on(runtime: TestRuntime) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = tempfile::tempdir().unwrap();
        // Another user searches this folder, too.
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for folder in ["home", "runtime"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        if runtime.changes_user() {
            for folder in ["", "home", "runtime"] {
                chown(root.path().join(folder), Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
            }
        }
        let prefix = format!("t-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut redactions = Redactions::default();
        redactions.replace(&prefix, "T");
        redactions.replace(root.path().to_str().unwrap(), "DIR");
        redactions.replace(program::path().file_name().unwrap().to_str().unwrap(), "mcpm");
        if let Ok(registry) = std::env::var("MCPM_TEST_REGISTRY") {
            redactions.replace(&registry, "REGISTRY");
        }
        let variables = Mutex::new(engine_variable().into_iter().collect());
        Self {
            root,
            prefix,
            variables,
            transcript: Mutex::default(),
            redactions: Mutex::new(redactions),
            runtime,
        }
    }

    /// Creates a home whose engine does not exist.
    pub(crate) fn without_engine() -> Self {
        let home = Self::new();
        home.set("DOCKER_HOST", &format!("unix://{}", home.text("no-engine")));
        home
    }

    /// Sets a variable in the environment of commands.
    pub(crate) fn set(&self, name: &str, value: &str) {
        self.variables.lock().unwrap().push((name.to_owned(), value.to_owned()));
    }

    /// Returns a name for a workload, an image or a network that no other test uses.
    pub(crate) fn name(&self, what: &str) -> String {
        format!("{}-{what}", self.prefix)
    }

    /// Returns a path below the home.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    /// Returns a path below the home as text.
    pub(crate) fn text(&self, below: &str) -> String {
        self.path(below).to_str().unwrap().to_owned()
    }

    /// Writes a file below the home.
    pub(crate) fn write(&self, below: &str, content: &str) -> String {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        self.text(below)
    }

    /// The folder of a workload's record.
    pub(crate) fn record_dir(&self, name: &str) -> PathBuf {
        self.path("state/mcpm/workloads").join(name)
    }

    /// Makes the transcript show `by` in place of `what`.
    pub(crate) fn replace(&self, what: &str, by: &str) {
        self.redactions.lock().unwrap().replace(what, by);
    }

    /// A program that runs as this user.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_RUNTIME_DIR", self.path("runtime"))
            .envs(self.variables.lock().unwrap().iter().map(|(name, value)| (name, value)))
            .current_dir(self.root.path())
            .stdin(Stdio::null());
        command
    }

    /// The path of the program, for scripts.
    pub(crate) fn program(&self) -> String {
        program::path().to_str().unwrap().to_owned()
    }

    /// Returns an mcpm command with these arguments, which the caller can change and run.
    pub(crate) fn mcpm(&self, args: &[&str]) -> Command {
        let mut command = if self.runtime.changes_user() {
            self.ordinary_users_mcpm()
        } else {
            self.command(program::path())
        };
        match args {
            // An exported file names its runtime.
            ["run", rest @ ..] if self.is_builtin() && !rest.contains(&"--from-config") => {
                command.args(["run", "--runtime", "builtin"]).args(rest)
            }
            _ => command.args(args),
        };
        command
    }

    /// Returns an mcpm command that runs as a user without privileges.
    fn ordinary_users_mcpm(&self) -> Command {
        // Only the owner may be able to enter the folder of the program.
        let program = self.path("mcpm");
        if !program.exists() {
            fs::copy(program::path(), &program).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        }
        if !rustix::process::geteuid().is_root() {
            return self.command(&program);
        }
        let mut command = self.command("setpriv");
        let ids = [format!("--reuid={ORDINARY_USER}"), format!("--regid={ORDINARY_USER}")];
        command.args(ids).arg("--clear-groups").arg(&program);
        command
    }

    /// Runs mcpm.
    pub(crate) fn run(&self, args: &[&str]) -> Outcome {
        let outcome = Outcome::of(self.mcpm(args).output().unwrap());
        schema::assert_output(args, &outcome.stdout);
        outcome
    }

    /// Runs mcpm, and writes its output into the transcript.
    pub(crate) fn run_and_record(&self, args: &[&str]) -> Outcome {
        let shown = args
            .iter()
            .map(|arg| if arg.contains([' ', '"']) { format!("'{arg}'") } else { (*arg).to_owned() });
        let shown = shown.collect::<Vec<_>>().join(" ");
        let outcome = self.record_command(&format!("mcpm {shown}"), &mut self.mcpm(args));
        schema::assert_output(args, &outcome.stdout);
        outcome
    }

    /// Writes a comment into the transcript.
    pub(crate) fn comment(&self, text: &str) {
        *self.transcript.lock().unwrap() += &format!("# {text}\n");
    }

    /// Runs a command, and writes its output into the transcript.
    pub(crate) fn record_command(&self, shown: &str, command: &mut Command) -> Outcome {
        let outcome = Outcome::of(command.output().unwrap());
        self.append_to_transcript(shown, &outcome);
        outcome
    }

    /// Runs mcpm as a user without privileges, and writes its output into the transcript.
    pub(crate) fn run_unprivileged(&self, args: &[&str]) -> Outcome {
        let mut command = self.ordinary_users_mcpm();
        self.record_command(&format!("mcpm {}", args.join(" ")), command.args(args))
    }

    /// Writes the output of a command into the transcript.
    pub(crate) fn append_to_transcript(&self, shown: &str, outcome: &Outcome) {
        let mut text = format!("$ {shown}\n{}", outcome.stdout);
        if !text.ends_with('\n') {
            text += "\n";
        }
        for line in outcome.stderr.lines() {
            text += format!("! {line}").trim_end();
            text += "\n";
        }
        text += &match outcome.code {
            Some(code) => format!("[{code}]\n"),
            None => "[killed]\n".to_owned(),
        };
        *self.transcript.lock().unwrap() += &text;
    }

    /// Compares the transcript with the stored one, `THEME/TEST`.
    #[track_caller]
    pub(crate) fn assert_transcript(&self, kept: &str) {
        let said = self.redactions.lock().unwrap().apply(&self.transcript.lock().unwrap());
        let path = mcpm_tests::root().join(format!("tests/cli/transcripts/{kept}.txt"));
        if std::env::var_os("MCPM_UPDATE").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, said).unwrap();
            return;
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            said == expected,
            "other than in {} (MCPM_UPDATE=1 writes it anew):\n{}",
            path.display(),
            difference(&expected, &said)
        );
    }

    /// Returns a workload as `mcpm list` shows it.
    #[track_caller]
    pub(crate) fn status(&self, name: &str) -> Value {
        self.run(&["status", name, "--output", "json"]).succeeded().json()
    }

    /// Waits until a workload has a status.
    #[track_caller]
    pub(crate) fn wait_for_status(&self, name: &str, status: &str) {
        wait_until(&format!("{name} is {status}: {}", self.status(name)), || {
            self.status(name)["status"] == status
        });
    }

    /// Returns the pid of a workload's supervisor.
    #[track_caller]
    pub(crate) fn supervisor(&self, name: &str) -> u32 {
        let text = fs::read_to_string(self.record_dir(name).join("lock")).unwrap();
        let holder: Value = serde_json::from_str(&text).unwrap();
        u32::try_from(holder["pid"].as_u64().unwrap()).unwrap()
    }

    /// The processes of this user, identified by their environment.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mark = format!("XDG_STATE_HOME={}", self.text("state"));
        let pids = fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours = |pid: &u32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        pids.filter(is_ours).collect()
    }

    /// Asserts that no container, record, process, control group and mount of this test is left.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(self.containers(), [""; 0], "containers");
        // A supervisor finishes its work a moment before its process is gone.
        wait_until("no process is left", || self.processes().is_empty());
        let records = fs::read_dir(self.path("state/mcpm/workloads"));
        let records: Vec<_> = records.into_iter().flatten().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(records, [""; 0], "records");
        assert_eq!(self.control_groups(), Vec::<PathBuf>::new(), "control groups");
        assert_eq!(self.mounts(), [""; 0], "mounts");
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for pid in self.processes() {
            kill("KILL", pid);
        }
        self.remove_containers();
    }
}

/// Sends a signal.
pub(crate) fn kill(signal: &str, pid: u32) {
    let _ = Command::new("kill").args(["-s", signal, &pid.to_string()]).output();
}

/// Returns whether a process is alive; a zombie is not.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The differing lines of two texts, with as much context as a reader needs.
fn difference(expected: &str, said: &str) -> String {
    let common = expected.lines().zip(said.lines()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str, mark: char| {
        text.lines().skip(common).take(12).map(|line| format!("{mark}{line}\n")).collect::<String>()
    };
    let before: String = said.lines().take(common).map(|line| format!(" {line}\n")).collect();
    format!("{before}{}{}", rest(expected, '-'), rest(said, '+'))
}
