//! Exports the prompt interface, which Python and Swift programs implement.

use std::{fmt, sync::Arc, time::Duration};

use mcpm::{Result, options::Secret};
use uniffi::UnexpectedUniFFICallbackError;

use crate::{
    McpmError,
    prompt_bridge::{self, BlockingPrompt, PromptBridge},
};

/// Prompts the user for input that only the user can supply. Implement this interface, and pass the implementation to
/// the start of a workload or proxy.
///
/// The methods may block until the user has answered: mcpm calls them on threads of their own, several at a time if it
/// needs several answers. If a method raises an error, the operation that needs the answer fails;
/// `McpmError.Interrupted` means that the user has cancelled. A workload or proxy keeps the prompt that was passed to
/// its start as long as it exists.
// Blocking methods need no event loop of the program, unlike asynchronous ones; see `BlockingPrompt`.
#[uniffi::export(with_foreign)]
pub trait UserPrompt: Send + Sync + fmt::Debug {
    /// Prompts for text that is not echoed, for example the password of the secret store. Returns none if the user
    /// cannot be prompted, as the default implementation does.
    fn ask_secret(&self, question: String) -> Result<Option<Secret>, McpmError>;

    /// Prompts for text that may be echoed. Returns none if the user cannot be prompted. The default implementation
    /// calls `ask_secret`.
    fn ask_text(&self, question: String) -> Result<Option<String>, McpmError>;

    /// Asks the user to allow access to this machine, such as a mount that a registry entry requests; `question`
    /// names the access. The default implementation asks for the text `yes` with `ask_text`; without an answer, the
    /// access is denied.
    fn approve(&self, question: String) -> Result<bool, McpmError>;

    /// Asks the user to log in to a remote server, and returns without waiting for the login. The implementation opens
    /// the browser, in which the login continues. The default implementation fails with `McpmError.LoginRequired`.
    fn show_login(&self, login: LoginPrompt) -> Result<(), McpmError>;

    /// Asks for the URL to which a login has redirected the browser, in case the browser runs on another machine.
    /// Returns none if the user cannot be asked, as the default implementation does.
    ///
    /// mcpm calls this method after `show_login`, and again if the user entered a URL that does not belong to this
    /// login. An answer that comes after the login has ended is ignored; return no later than the login's timeout.
    fn ask_redirect(&self, login: LoginPrompt) -> Result<Option<String>, McpmError>;
}

/// A login that the user is asked to complete. Its text form omits the URL and the code, which only the user may see.
#[derive(Clone, uniffi::Record)]
#[uniffi::export(Debug, Display)]
pub struct LoginPrompt {
    /// The host of the remote server.
    pub server: String,
    /// The URL to open in a browser.
    pub url: String,
    /// Whether the page redirects the browser to this machine. If the browser runs on another machine, the redirect
    /// fails, and `ask_redirect` asks for its URL.
    pub has_redirect: bool,
    /// How to log in on another device, if the authorization server allows that.
    pub device: Option<DeviceLogin>,
    /// Whether to open the browser; if not, the URL is only shown.
    pub open_browser: bool,
    /// How long the login may take.
    pub timeout: Duration,
}

/// A login on another device (RFC 8628 section 3.3). Its text form omits the code.
#[derive(Clone, uniffi::Record)]
#[uniffi::export(Debug, Display)]
pub struct DeviceLogin {
    /// The URL to open on the other device.
    pub url: String,
    /// The code to enter on the page of this URL. If the page does not ask for a code, it shows the code, so that the
    /// user can compare both.
    pub code: String,
}

impl fmt::Debug for LoginPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginPrompt").field("server", &self.server).finish_non_exhaustive()
    }
}

impl fmt::Display for LoginPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl fmt::Debug for DeviceLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLogin").finish_non_exhaustive()
    }
}

impl fmt::Display for DeviceLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl From<&mcpm::user_prompt::LoginPrompt> for LoginPrompt {
    fn from(login: &mcpm::user_prompt::LoginPrompt) -> Self {
        let device = login.device.clone();
        Self {
            server: login.server.clone(),
            url: login.url.clone(),
            has_redirect: login.has_redirect,
            device: device.map(|device| DeviceLogin { url: device.url, code: device.code }),
            open_browser: login.open_browser,
            timeout: login.timeout,
        }
    }
}

/// An exception of a method that is not an `McpmError`, or an answer of the wrong type.
impl From<UnexpectedUniFFICallbackError> for McpmError {
    fn from(error: UnexpectedUniFFICallbackError) -> Self {
        prompt_bridge::failed(&error.reason).into()
    }
}

/// A prompt that the program implements.
#[derive(Debug)]
struct ForeignPrompt(Arc<dyn UserPrompt>);

impl BlockingPrompt for ForeignPrompt {
    fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        Ok(self.0.ask_secret(question.to_owned())?)
    }

    fn ask_text(&self, question: &str) -> Result<Option<String>> {
        Ok(self.0.ask_text(question.to_owned())?)
    }

    fn approve(&self, question: &str) -> Result<bool> {
        Ok(self.0.approve(question.to_owned())?)
    }

    fn show_login(&self, login: &mcpm::user_prompt::LoginPrompt) -> Result<()> {
        Ok(self.0.show_login(login.into())?)
    }

    fn ask_redirect(&self, login: &mcpm::user_prompt::LoginPrompt) -> Result<Option<String>> {
        Ok(self.0.ask_redirect(login.into())?)
    }
}

/// Adapts the prompt of a start.
pub(crate) fn adapt(prompt: Option<Arc<dyn UserPrompt>>) -> Option<Arc<dyn mcpm::user_prompt::UserPrompt>> {
    prompt.map(|prompt| PromptBridge::adapt(ForeignPrompt(prompt)))
}
