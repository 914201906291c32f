//! Prompts the user on the terminal, and creates the environment of commands that may prompt.

use async_trait::async_trait;
use mcpm::{
    Environment, Error, ErrorKind, Result,
    options::Secret,
    user_prompt::{LoginPrompt, UserPrompt},
};

use crate::{browser, login_prompt, progress, tty};

pub(crate) use tty::prompt_hidden;

/// The environment of a command that may prompt.
pub(crate) fn environment() -> Environment {
    let mut environment = Environment::from_process();
    environment.user_prompt = Some(std::sync::Arc::new(Terminal));
    environment
}

/// Prompts on the controlling terminal, whatever the standard streams are.
#[derive(Debug)]
struct Terminal;

#[async_trait]
impl UserPrompt for Terminal {
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>> {
        progress::yield_terminal();
        let question = question.to_owned();
        let lost =
            |error| Error::new(ErrorKind::Internal, "cannot read the answer to the prompt").source(error);
        tokio::task::spawn_blocking(move || prompt_hidden(&question)).await.map_err(lost)?
    }

    async fn ask_text(&self, question: &str) -> Result<Option<String>> {
        progress::yield_terminal();
        let question = question.to_owned();
        let lost =
            |error| Error::new(ErrorKind::Internal, "cannot read the answer to the prompt").source(error);
        tokio::task::spawn_blocking(move || tty::prompt_visible(&question)).await.map_err(lost)?
    }

    async fn show_login(&self, login: &LoginPrompt) -> Result<()> {
        progress::yield_terminal();
        let opened = login.open_browser && browser::open(&login.url);
        login_prompt::show(login, opened);
        Ok(())
    }

    async fn ask_redirect(&self, login: &LoginPrompt) -> Result<Option<String>> {
        progress::yield_terminal();
        tty::ask_redirect(login).await
    }
}
