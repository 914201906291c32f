//! Runs the real program beside a test.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
};

use super::{Outcome, kill};

/// The path of `mcpm`.
pub(crate) fn path() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_mcpm-under-test"))
}

/// A program that runs beside the test, and is killed at the end of the test.
pub(crate) struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    read: String,
    read_of_stderr: String,
}

impl Program {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stdout, stderr, read: String::new(), read_of_stderr: String::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line on standard output.
    #[track_caller]
    pub(crate) fn read_line(&mut self) -> String {
        let from = self.read.len();
        let read = self.stdout.read_line(&mut self.read).unwrap();
        assert!(read > 0, "it ended without a line");
        self.read[from..].trim_end().to_owned()
    }

    /// Waits for a line on standard error that contains these words. Only the time limit of the test ends the wait.
    #[track_caller]
    pub(crate) fn wait_for_stderr(&mut self, words: &str) {
        while !self.read_of_stderr.contains(words) {
            let read = self.stderr.read_line(&mut self.read_of_stderr).unwrap();
            assert!(read > 0, "it ended without saying `{words}`: {}", self.read_of_stderr);
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        kill(signal, self.pid());
    }

    /// Waits until the program exits; its output includes the lines that were read.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Outcome {
        super::wait_until("the program ends", || self.child.try_wait().unwrap().is_some());
        self.stdout.read_to_string(&mut self.read).unwrap();
        let mut stderr = std::mem::take(&mut self.read_of_stderr);
        self.stderr.read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code();
        Outcome { code, stdout: std::mem::take(&mut self.read), stderr }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Usually, the program has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
