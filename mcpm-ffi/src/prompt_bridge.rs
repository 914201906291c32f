//! Adapts prompts in other languages, which block until the user answers, to the asynchronous prompts of the library.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use mcpm::{
    Environment, Error, ErrorKind, Result,
    options::Secret,
    user_prompt::{LoginPrompt, UserPrompt},
};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Maximum number of callbacks that run at a time, including callbacks of logins that have ended. Further callbacks
/// wait.
const MAX_CALLBACKS: usize = 64;

static CALLBACKS: Semaphore = Semaphore::const_new(MAX_CALLBACKS);

/// A prompt whose methods block until the user has answered.
///
/// They block because every language can wait for its user in a function: C has no other way, and a coroutine of
/// Python would need an event loop, which none of mcpm's threads has.
pub(crate) trait BlockingPrompt: Send + Sync + fmt::Debug + 'static {
    fn ask_secret(&self, question: &str) -> Result<Option<Secret>>;
    fn ask_text(&self, question: &str) -> Result<Option<String>>;
    fn approve(&self, question: &str) -> Result<bool>;
    fn show_login(&self, login: &LoginPrompt) -> Result<()>;
    fn ask_redirect(&self, login: &LoginPrompt) -> Result<Option<String>>;
}

/// Calls a prompt on threads that may block, so that mcpm can serve requests and continue logins meanwhile.
#[derive(Debug)]
pub(crate) struct PromptBridge<P>(Arc<P>);

impl<P: BlockingPrompt> PromptBridge<P> {
    pub(crate) fn adapt(prompt: P) -> Arc<dyn UserPrompt> {
        Arc::new(Self(Arc::new(prompt)))
    }

    async fn call<T: Send + 'static>(
        &self,
        callback: impl FnOnce(&P) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = CALLBACKS.acquire().await;
        let prompt = Arc::clone(&self.0);
        // A callback cannot be cancelled: it keeps its permit until it returns, even if its result is no longer
        // needed.
        let called = spawn_blocking(move || {
            let _permit = permit;
            callback(&prompt)
        });
        called.await.unwrap_or_else(|error| Err(failed("the callback did not return").source(error)))
    }
}

#[async_trait]
impl<P: BlockingPrompt> UserPrompt for PromptBridge<P> {
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        let question = question.to_owned();
        self.call(move |prompt| prompt.ask_secret(&question)).await
    }

    async fn ask_text(&self, question: &str) -> Result<Option<String>> {
        let question = question.to_owned();
        self.call(move |prompt| prompt.ask_text(&question)).await
    }

    async fn approve(&self, question: &str) -> Result<bool> {
        let question = question.to_owned();
        self.call(move |prompt| prompt.approve(&question)).await
    }

    async fn show_login(&self, login: &LoginPrompt) -> Result<()> {
        let shown = login.clone();
        self.call(move |prompt| prompt.show_login(&shown)).await.map_err(|error| without_url(error, login))
    }

    async fn ask_redirect(&self, login: &LoginPrompt) -> Result<Option<String>> {
        let shown = login.clone();
        self.call(move |prompt| prompt.ask_redirect(&shown)).await.map_err(|error| without_url(error, login))
    }
}

/// The error of a callback that failed with `reason`, in one line.
pub(crate) fn failed(reason: &str) -> Error {
    let reason = reason.replace(char::is_control, " ");
    Error::new(ErrorKind::Io, format!("the user prompt failed: {reason}"))
}

/// Removes the URL of a login from an error, which may be logged: exceptions often name their input.
fn without_url(error: Error, login: &LoginPrompt) -> Error {
    match error.message().contains(&login.url) {
        true => Error::new(error.kind(), error.message().replace(&login.url, "<login URL>")),
        false => error,
    }
}

/// The environment of this process, with a prompt.
pub(crate) fn environment(prompt: Option<Arc<dyn UserPrompt>>) -> Environment {
    let mut environment = Environment::from_process();
    environment.user_prompt = prompt;
    environment
}
