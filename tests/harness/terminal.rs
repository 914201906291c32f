//! Runs a command in a terminal for one test.

use std::{
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
};

/// A command on a terminal, which the program `script` provides: its output is what the terminal shows.
pub struct PseudoTerminal {
    child: Child,
    shown: String,
}

impl PseudoTerminal {
    /// Starts a command line; `script` is the command `script`, with its environment variables.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn spawn(mut script: Command, line: &str) -> Self {
        script.args(["-q", "-e", "-c", line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { child: script.spawn().unwrap(), shown: String::new() }
    }

    /// Waits until the terminal shows a text, and returns everything that was shown so far.
    ///
    /// # Panics
    /// If the command ends before.
    #[track_caller]
    pub fn expect(&mut self, prompt: &str) -> &str {
        let mut buffer = [0; 1024];
        while !self.shown.contains(prompt) {
            let count = self.child.stdout.as_mut().unwrap().read(&mut buffer).unwrap();
            assert!(count > 0, "no {prompt:?} in {:?}", self.shown);
            self.shown += &String::from_utf8_lossy(&buffer[..count]);
        }
        &self.shown
    }

    /// Waits until the terminal shows a text, then types.
    ///
    /// # Panics
    /// If the command ends before.
    #[track_caller]
    pub fn expect_then_type(&mut self, prompt: &str, typed: &str) {
        self.expect(prompt);
        self.child.stdin.as_mut().unwrap().write_all(typed.as_bytes()).unwrap();
    }

    /// Waits for the end of the command, and returns the exit code and everything that was shown.
    ///
    /// # Panics
    /// If the output is not UTF-8.
    pub fn wait(mut self) -> (Option<i32>, String) {
        self.child.stdout.as_mut().unwrap().read_to_string(&mut self.shown).unwrap();
        (self.child.wait().unwrap().code(), self.shown.clone())
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
