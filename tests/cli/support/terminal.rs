//! A terminal of a test's own.

use std::{
    io::{Read as _, Write as _},
    process::{Child, Stdio},
};

use super::Home;

/// A command on a terminal, which `script` is: it shows what a terminal shows.
pub(crate) struct PseudoTerminal {
    child: Child,
    shown: String,
}

impl PseudoTerminal {
    pub(crate) fn spawn(home: &Home, line: &str) -> Self {
        let mut command = home.command("script");
        command.args(["-q", "-e", "-c", line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Self { child: command.spawn().unwrap(), shown: String::new() }
    }

    /// Waits until something is shown, and returns all that was shown so far.
    #[track_caller]
    pub(crate) fn expect(&mut self, prompt: &str) -> &str {
        let mut buffer = [0; 1024];
        while !self.shown.contains(prompt) {
            let count = self.child.stdout.as_mut().unwrap().read(&mut buffer).unwrap();
            assert!(count > 0, "no {prompt:?} in {:?}", self.shown);
            self.shown += &String::from_utf8_lossy(&buffer[..count]);
        }
        &self.shown
    }

    /// Waits until something is shown, then types.
    #[track_caller]
    pub(crate) fn expect_then_type(&mut self, prompt: &str, typed: &str) {
        self.expect(prompt);
        self.child.stdin.as_mut().unwrap().write_all(typed.as_bytes()).unwrap();
    }

    /// Waits for the end, and returns all that was shown.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        self.child.stdout.as_mut().unwrap().read_to_string(&mut self.shown).unwrap();
        (self.child.wait().unwrap().code(), self.shown.clone())
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
