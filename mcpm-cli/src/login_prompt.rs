//! Shows a login prompt: the URL to open, the time limit, and the code of a device login.

use std::io::{self, Write as _};

use mcpm::user_prompt::LoginPrompt;

/// Shows a login; `opened` is whether the browser was started.
pub(crate) fn show(login: &LoginPrompt, opened: bool) {
    let how = match opened {
        true => "the browser opens this page; if it does not, open it yourself",
        false => "open this page in a browser",
    };
    let within = login.timeout.as_secs();
    let mut text = format!("Log in to {} within {within} s: {how}\n  {}\n", login.server, login.url);
    if let Some(device) = &login.device {
        text += &match login.has_redirect {
            true => {
                format!("Or, on another device, open {} and enter the code {}\n", device.url, device.code)
            }
            false => format!("The page shows the code {}, or asks for it.\n", device.code),
        };
    }
    // If standard error is closed, the user still has the browser.
    let _ = io::stderr().write_all(text.as_bytes());
}
