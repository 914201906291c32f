//! Exports the prompt interface to C, as a set of callbacks that C programs implement.

use std::{
    ffi::{CStr, CString, c_char, c_void},
    ptr,
    sync::Arc,
};

use mcpm::{
    Error, ErrorKind, Result,
    options::Secret,
    user_prompt::{LoginPrompt, UserPrompt},
};

use super::{
    callback::{CFreeUserData, UserData},
    handle::{self, Owned},
};
use crate::prompt_bridge::{self, BlockingPrompt, PromptBridge};

/// The text of an approval.
const YES: &str = "yes";

/// Prompts for a text or an approval, and puts the user's reply into `answer`. If `answer` is not set, mcpm assumes
/// that the user cannot be prompted.
pub type CAskQuestion =
    Option<unsafe extern "C" fn(user_data: *mut c_void, question: *const c_char, answer: *mut CPromptAnswer)>;

/// Shows a login to the user, or asks for the URL of its redirect.
pub type CAskLogin = Option<
    unsafe extern "C" fn(user_data: *mut c_void, login: *const CLoginPrompt, answer: *mut CPromptAnswer),
>;

/// The callbacks that prompt the user for input that only the user can supply, such as a login to a remote server. All
/// callbacks are optional.
///
/// The callbacks may block until the user has answered. mcpm calls them on threads of its own, several at a time if it
/// needs several answers, and from any thread: the callbacks and the user data must be thread-safe. They must not
/// throw, call `longjmp`, or call a function of mcpm that blocks, such as one that starts, stops or checks a workload
/// or proxy, or `mcpm_shutdown`; such a call returns `MCPM_STATUS_NOT_HERE`.
///
/// `question`, `login`, `answer` and the strings of `login` are valid only during the call; copy what must last
/// longer. Strings that are put into `answer` are copied.
#[derive(Debug)]
pub struct CUserPrompt {
    callbacks: Callbacks,
    user_data: Arc<UserData>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Callbacks {
    ask_secret: CAskQuestion,
    ask_text: CAskQuestion,
    approve: CAskQuestion,
    show_login: CAskLogin,
    ask_redirect: CAskLogin,
}

/// A login that the user is asked to complete.
#[derive(Debug)]
pub struct CLoginPrompt {
    server: CString,
    url: CString,
    has_redirect: bool,
    /// The URL and the code.
    device: Option<(CString, CString)>,
    open_browser: bool,
    timeout_ms: u64,
}

impl From<&LoginPrompt> for CLoginPrompt {
    fn from(login: &LoginPrompt) -> Self {
        let device = login.device.as_ref();
        Self {
            server: handle::c_text(&login.server),
            url: handle::c_text(&login.url),
            has_redirect: login.has_redirect,
            device: device.map(|device| (handle::c_text(&device.url), handle::c_text(&device.code))),
            open_browser: login.open_browser,
            timeout_ms: login.timeout.as_millis().try_into().unwrap_or(u64::MAX),
        }
    }
}

/// The answer of a callback.
#[derive(Debug, Default)]
pub struct CPromptAnswer(Option<Result<Secret>>);

impl CUserPrompt {
    /// The prompt with the callbacks that are set now.
    pub(super) fn adapt(&self) -> Arc<dyn UserPrompt> {
        PromptBridge::adapt(CallbackPrompt {
            callbacks: self.callbacks,
            user_data: Arc::clone(&self.user_data),
        })
    }
}

/// A prompt as a workload or proxy uses it.
#[derive(Debug)]
struct CallbackPrompt {
    callbacks: Callbacks,
    user_data: Arc<UserData>,
}

impl CallbackPrompt {
    fn ask(&self, callback: CAskQuestion, question: &str) -> Result<Option<Secret>> {
        let Some(callback) = callback else { return Ok(None) };
        let (question, mut answer) = (handle::c_text(question), CPromptAnswer::default());
        // SAFETY: the pointers are valid during the call; the program guarantees the rest.
        unsafe { callback(self.user_data.pointer(), question.as_ptr(), &raw mut answer) };
        answer.0.transpose()
    }

    fn ask_about(&self, callback: CAskLogin, login: &LoginPrompt) -> Result<Option<Secret>> {
        let Some(callback) = callback else { return Ok(None) };
        let (login, mut answer) = (CLoginPrompt::from(login), CPromptAnswer::default());
        // SAFETY: the pointers are valid during the call; the program guarantees the rest.
        unsafe { callback(self.user_data.pointer(), &raw const login, &raw mut answer) };
        answer.0.transpose()
    }
}

fn exposed(answer: Option<Secret>) -> Option<String> {
    answer.map(|answer| answer.expose().to_owned())
}

impl BlockingPrompt for CallbackPrompt {
    fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        self.ask(self.callbacks.ask_secret, question)
    }

    fn ask_text(&self, question: &str) -> Result<Option<String>> {
        let callback = self.callbacks.ask_text.or(self.callbacks.ask_secret);
        self.ask(callback, question).map(exposed)
    }

    fn approve(&self, question: &str) -> Result<bool> {
        let answer = match self.callbacks.approve {
            None => self.ask_text(&format!("{question} [yes, no]"))?,
            callback => self.ask(callback, question).map(exposed)?,
        };
        Ok(answer.is_some_and(|answer| answer.trim() == YES))
    }

    fn show_login(&self, login: &LoginPrompt) -> Result<()> {
        if self.callbacks.show_login.is_none() {
            let message = format!("the remote server `{}` requires a login", login.server);
            return Err(Error::new(ErrorKind::LoginRequired, message)
                .hint("set a callback that shows logins with `mcpm_user_prompt_show_login`"));
        }
        self.ask_about(self.callbacks.show_login, login).map(drop)
    }

    fn ask_redirect(&self, login: &LoginPrompt) -> Result<Option<String>> {
        self.ask_about(self.callbacks.ask_redirect, login).map(exposed)
    }
}

/// Frees a prompt; null is allowed. Builders, workloads and proxies that use the prompt keep it until they end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_user_prompt_free(prompt: *mut Owned<CUserPrompt>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free_catching_panics(prompt) }
}

/// Creates a prompt without callbacks; free it with `mcpm_user_prompt_free`.
///
/// `user_data` is passed to each callback; it may be null. `free_user_data` is called once with `user_data`, on any
/// thread, when the prompt is freed and no builder, workload or proxy uses it any more; it may be null and must not
/// block.
/// cbindgen:postfix=MCPM_FREED_BY(mcpm_user_prompt_free)
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn mcpm_user_prompt_new(
    user_data: *mut c_void,
    free_user_data: CFreeUserData,
) -> *mut Owned<CUserPrompt> {
    let user_data = Arc::new(UserData::new(user_data, free_user_data));
    handle::into_raw(CUserPrompt { callbacks: Callbacks::default(), user_data })
}

/// Changes the callbacks of a prompt.
///
/// # Safety
/// As for [`handle::as_mut`].
unsafe fn set(prompt: *mut CUserPrompt, change: impl FnOnce(&mut Callbacks)) {
    // SAFETY: guaranteed by the caller.
    if let Some(prompt) = unsafe { handle::as_mut(prompt) } {
        change(&mut prompt.callbacks);
    }
}

/// Sets the callback that prompts for text that is not echoed, for example the password of the secret store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_user_prompt_ask_secret(prompt: *mut CUserPrompt, callback: CAskQuestion) {
    // SAFETY: the conventions in the header.
    unsafe { set(prompt, |callbacks| callbacks.ask_secret = callback) }
}

/// Sets the callback that prompts for text that may be echoed. By default, mcpm calls the callback for text that is not
/// echoed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_user_prompt_ask_text(prompt: *mut CUserPrompt, callback: CAskQuestion) {
    // SAFETY: the conventions in the header.
    unsafe { set(prompt, |callbacks| callbacks.ask_text = callback) }
}

/// Sets the callback that asks the user to allow access to this machine, such as a mount that a registry entry
/// requests; the question names the access. The callback answers with `mcpm_prompt_answer_approval`; without an answer,
/// the access is denied. By default, mcpm calls the callback for text that may be echoed, and the answer `yes` allows
/// the access.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_user_prompt_approve(prompt: *mut CUserPrompt, callback: CAskQuestion) {
    // SAFETY: the conventions in the header.
    unsafe { set(prompt, |callbacks| callbacks.approve = callback) }
}

/// Sets the callback that asks the user to log in to a remote server. The callback opens the browser, and returns
/// without waiting for the login, which continues in the browser. The callback sets an answer only if it fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_user_prompt_show_login(prompt: *mut CUserPrompt, callback: CAskLogin) {
    // SAFETY: the conventions in the header.
    unsafe { set(prompt, |callbacks| callbacks.show_login = callback) }
}

/// Sets the callback that asks for the URL to which a login has redirected the browser, in case the browser runs on
/// another machine.
///
/// mcpm calls it after the login was shown, and again if the user entered a URL that does not belong to this login. An
/// answer that comes after the login has ended is ignored; return no later than the login's timeout.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_user_prompt_ask_redirect(prompt: *mut CUserPrompt, callback: CAskLogin) {
    // SAFETY: the conventions in the header.
    unsafe { set(prompt, |callbacks| callbacks.ask_redirect = callback) }
}

/// Answers with a text. The text is copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_prompt_answer_text(answer: *mut CPromptAnswer, text: *const c_char) {
    // SAFETY: the conventions in the header.
    let (answer, text) = unsafe { (handle::as_mut(answer), handle::text(text, "text")) };
    if let Some(answer) = answer {
        let invalid = |_| prompt_bridge::failed("its answer is null or not valid UTF-8");
        answer.0 = Some(text.map(Secret::from).map_err(invalid));
    }
}

/// Answers whether the user allows the access.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_prompt_answer_approval(answer: *mut CPromptAnswer, allowed: bool) {
    // SAFETY: the conventions in the header.
    if let Some(answer) = unsafe { handle::as_mut(answer) } {
        answer.0 = Some(Ok(Secret::from(if allowed { YES } else { "no" })));
    }
}

/// Answers that the user has cancelled. The operation that needs the answer ends with `MCPM_STATUS_INTERRUPTED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_prompt_answer_cancel(answer: *mut CPromptAnswer) {
    // SAFETY: the conventions in the header.
    if let Some(answer) = unsafe { handle::as_mut(answer) } {
        answer.0 = Some(Err(Error::new(ErrorKind::Interrupted, "the user cancelled the prompt")));
    }
}

/// Answers that the callback failed. The operation that needs the answer ends with `MCPM_STATUS_IO`. The message is
/// copied; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_prompt_answer_fail(answer: *mut CPromptAnswer, message: *const c_char) {
    // SAFETY: the conventions in the header.
    let (answer, message) = unsafe { (handle::as_mut(answer), handle::text(message, "message")) };
    if let Some(answer) = answer {
        answer.0 = Some(Err(prompt_bridge::failed(message.unwrap_or("no message was given"))));
    }
}

/// Returns a string of a login; null for none.
///
/// # Safety
/// As for [`handle::as_ref`].
unsafe fn text(
    login: *const CLoginPrompt,
    text: impl FnOnce(&CLoginPrompt) -> Option<&CStr>,
) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    unsafe { handle::as_ref(login) }.and_then(text).map_or(ptr::null(), CStr::as_ptr)
}

/// Returns the host of the remote server. Returns null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_login_prompt_server(login: *const CLoginPrompt) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { text(login, |login| Some(&login.server)) }
}

/// Returns the URL to open in a browser. Only the user may see this URL: do not write it to logs. Returns null for a
/// null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_login_prompt_url(login: *const CLoginPrompt) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { text(login, |login| Some(&login.url)) }
}

/// Returns whether the page redirects the browser to this machine. If the browser runs on another machine, the redirect
/// fails, and the callback for the URL of the redirect can ask for that URL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_login_prompt_has_redirect(login: *const CLoginPrompt) -> bool {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(login) }.is_some_and(|login| login.has_redirect)
}

/// Returns the URL to open on another device; null if the authorization server allows no login on another device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_login_prompt_device_url(login: *const CLoginPrompt) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { text(login, |login| login.device.as_ref().map(|(url, _)| &**url)) }
}

/// Returns the code to enter on another device; null if the authorization server allows no login on another device. If
/// the page does not ask for a code, it shows the code, so that the user can compare both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_login_prompt_device_code(login: *const CLoginPrompt) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { text(login, |login| login.device.as_ref().map(|(_, code)| &**code)) }
}

/// Returns whether to open the browser; if not, the URL is only shown.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_login_prompt_open_browser(login: *const CLoginPrompt) -> bool {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(login) }.is_some_and(|login| login.open_browser)
}

/// Returns how long the login may take, in milliseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_login_prompt_timeout(login: *const CLoginPrompt) -> u64 {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(login) }.map_or(0, |login| login.timeout_ms)
}
