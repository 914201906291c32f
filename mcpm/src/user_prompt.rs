//! Prompts for values that only the user can supply.

use std::{
    fmt,
    time::{Duration, Instant},
};

use async_trait::async_trait;

use crate::{Error, ErrorKind, Result, options::Secret};

/// Prompts the user. A command-line program uses the terminal, an application a dialog.
#[async_trait]
pub trait UserPrompt: Send + Sync + fmt::Debug {
    /// Prompts for text that is not echoed; `None` if the user cannot be prompted.
    ///
    /// # Errors
    /// `Interrupted` if the user cancels; `Io`.
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>>;

    /// Prompts for text that may be echoed; `None` if the user cannot be prompted.
    ///
    /// # Errors
    /// As for [`ask_secret`](Self::ask_secret).
    async fn ask_text(&self, question: &str) -> Result<Option<String>> {
        Ok(self.ask_secret(question).await?.map(|answer| answer.expose().to_owned()))
    }

    /// Asks the user to allow access to this machine, such as a mount that a registry entry requests. `question` names the
    /// access. Without an answer it is denied. The default asks for the text `yes` with [`ask_text`](Self::ask_text).
    ///
    /// # Errors
    /// As for [`ask_secret`](Self::ask_secret).
    async fn approve(&self, question: &str) -> Result<bool> {
        let answer = self.ask_text(&format!("{question} [yes, no]")).await?;
        Ok(answer.is_some_and(|answer| answer.trim() == "yes"))
    }

    /// Asks the user to log in to a remote server, and returns as soon as the request is shown: the login itself
    /// happens in the browser. The URL is only for the user and must not be logged.
    ///
    /// # Errors
    /// `LoginRequired` if the user cannot be asked, which is the default; `Io`.
    async fn show_login(&self, login: &LoginPrompt) -> Result<()> {
        let message = format!("the remote server `{}` requires a login", login.server);
        Err(Error::new(ErrorKind::LoginRequired, message))
    }

    /// Asks for the URL to which a login has redirected, for a browser on another machine, and may show how much time
    /// is left; `None` if the user cannot be asked. It is called after [`show_login`](Self::show_login), and again
    /// after a URL that does not belong to this login. The future is dropped when the login ends in another way.
    ///
    /// # Errors
    /// `Interrupted` if the user cancels, which ends the login; `Io`.
    async fn ask_redirect(&self, _login: &LoginPrompt) -> Result<Option<String>> {
        Ok(None)
    }
}

/// A login that the user is asked to complete. `Debug` shows neither URLs nor codes, with which others could log in.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoginPrompt {
    /// The host of the remote server.
    pub server: String,
    /// The URL to open in a browser.
    pub url: String,
    /// Whether the page redirects the browser to this machine. If the browser is on another one, that fails, and the
    /// URL of the redirect is what [`UserPrompt::ask_redirect`] asks for.
    pub has_redirect: bool,
    /// How to log in on another device, if the authorization server allows it.
    pub device: Option<DeviceLogin>,
    /// Whether to open the browser; if not, the URL is only shown.
    pub open_browser: bool,
    /// How long the login may take.
    pub timeout: Duration,
    /// When that time is over.
    pub deadline: Instant,
}

impl fmt::Debug for LoginPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginPrompt")
            .field("server", &self.server)
            .field("has_redirect", &self.has_redirect)
            .field("open_browser", &self.open_browser)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// A login on another device (RFC 8628 section 3.3). `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceLogin {
    /// The URL to open on the other device.
    pub url: String,
    /// The code to enter there. If the URL already contains the code, the page shows it, and the user compares the two.
    pub code: String,
}

impl fmt::Debug for DeviceLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLogin").finish_non_exhaustive()
    }
}
