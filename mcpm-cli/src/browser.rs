//! Opens a URL in the user's browser, without a shell.

use std::process::{Command, Stdio};

/// The programs of macOS that open a URL.
const MACOS_OPENERS: &[&str] = &["/usr/bin/open"];
/// The programs of other systems; the last one is for Linux in Windows (WSL).
const OTHER_OPENERS: &[&str] = &["xdg-open", "x-www-browser", "wslview"];

/// Opens a URL, and returns whether a program for that was started.
pub(crate) fn open(url: &str) -> bool {
    let configured = std::env::var("BROWSER").unwrap_or_default();
    programs(&configured, cfg!(target_os = "macos")).any(|program| start(program, url))
}

/// Returns the programs to try: those in `BROWSER`, and then those of the platform.
fn programs(configured: &str, is_macos: bool) -> impl Iterator<Item = &str> {
    let configured = configured.split(':').filter(|program| !program.is_empty());
    let openers = if is_macos { MACOS_OPENERS } else { OTHER_OPENERS };
    configured.chain(openers.iter().copied())
}

fn start(program: &str, url: &str) -> bool {
    let mut command = Command::new(program);
    let streams = command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = streams.spawn() else { return false };
    // The program may run as long as the browser. A thread waits for its end, so that it leaves no zombie.
    std::thread::spawn(move || child.wait());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configured_browsers_are_tried_before_the_platforms_programs() {
        let all = |configured, is_macos| programs(configured, is_macos).collect::<Vec<_>>();
        assert_eq!(all("", true), ["/usr/bin/open"]);
        assert_eq!(all("firefox::lynx", true), ["firefox", "lynx", "/usr/bin/open"]);
        assert_eq!(all("", false)[0], "xdg-open");
    }
}
