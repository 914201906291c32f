//! Opens a URL in the user's browser, without a shell.

use std::process::{Command, Stdio};

/// The programs that open a URL, after those of `BROWSER`.
const OPENERS: [&str; 4] = ["xdg-open", "x-www-browser", "open", "wslview"];

/// Opens a URL; returns whether a program for that was started.
pub(crate) fn open(url: &str) -> bool {
    let configured = std::env::var("BROWSER").unwrap_or_default();
    let configured = configured.split(':').filter(|program| !program.is_empty());
    configured.chain(OPENERS).any(|program| start(program, url))
}

fn start(program: &str, url: &str) -> bool {
    let mut command = Command::new(program);
    let streams = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = streams.spawn() else { return false };
    // It may run as long as the browser; when it ends, it leaves no zombie.
    std::thread::spawn(move || child.wait());
    true
}
