//! Prompts for values that only the user can supply.

use std::fmt;

use async_trait::async_trait;

use crate::{Result, options::Secret};

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
}
