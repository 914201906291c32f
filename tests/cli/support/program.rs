//! The real program: built once for a run of the tests, and run beside a test.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::OnceLock,
};

use super::{Outcome, kill};

/// Where `mcpm` is.
///
/// nextest runs each test in a process of its own: they share the answer through a file that names their run.
pub(crate) fn path() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let Ok(run) = env::var("NEXTEST_RUN_ID") else { return build() };
        let known = env::current_exe().unwrap().with_file_name("mcpm-of-this-run");
        // Opened to be locked, so that one of many builds.
        let lock = fs::File::create(known.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        let told = fs::read_to_string(&known).unwrap_or_default();
        if let Some(path) = told.strip_prefix(&run) {
            return path.trim().into();
        }
        let built = build();
        fs::write(&known, format!("{run} {}", built.display())).unwrap();
        built
    })
}

fn build() -> PathBuf {
    // Cargo builds no binary of another package for a test.
    let messages = mcpm_tests::build(&["--bin", "mcpm"]);
    let path = messages.iter().find_map(|message| message["executable"].as_str().map(PathBuf::from));
    path.unwrap_or_else(|| panic!("cargo built no mcpm"))
}

/// A program that runs beside the test, and ends with it.
pub(crate) struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
    read: String,
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout, read: String::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line on standard output.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let from = self.read.len();
        let read = self.stdout.read_line(&mut self.read).unwrap();
        assert!(read > 0, "it ended without a line");
        self.read[from..].trim_end().to_owned()
    }

    pub(crate) fn signal(&self, signal: &str) {
        kill(signal, self.pid());
    }

    /// Waits for its end; what it said includes the lines that were read.
    #[track_caller]
    pub(crate) fn end(mut self) -> Outcome {
        super::until("the program ends", || self.child.try_wait().unwrap().is_some());
        self.stdout.read_to_string(&mut self.read).unwrap();
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code();
        Outcome { code, stdout: std::mem::take(&mut self.read), stderr }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended by itself, as a rule.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
