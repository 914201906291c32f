//! A terminal of a test's own.

use std::{
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
};

/// A command on a terminal, which `script` is: it shows what a terminal shows.
pub struct PseudoTerminal {
    child: Child,
    shown: String,
}

impl PseudoTerminal {
    /// Starts a command line; `script` is the command `script`, with the variables that it is to have.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn spawn(mut script: Command, line: &str) -> Self {
        script.args(["-q", "-e", "-c", line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { child: script.spawn().unwrap(), shown: String::new() }
    }

    /// Waits until something is shown, and returns all that was shown so far.
    ///
    /// # Panics
    /// When the command ends before.
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

    /// Waits until something is shown, then types.
    ///
    /// # Panics
    /// When the command ends before.
    #[track_caller]
    pub fn expect_then_type(&mut self, prompt: &str, typed: &str) {
        self.expect(prompt);
        self.child.stdin.as_mut().unwrap().write_all(typed.as_bytes()).unwrap();
    }

    /// Waits for the end, and returns the exit code and all that was shown.
    ///
    /// # Panics
    /// When what is shown is not UTF-8.
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
