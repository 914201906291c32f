//! Who is asked when the library needs something that only a person knows.

use std::fmt;

use async_trait::async_trait;

use crate::{Result, options::Secret};

/// Asks a person. A command line has a terminal for it, an application a dialogue.
#[async_trait]
pub trait UserPrompt: Send + Sync + fmt::Debug {
    /// Asks for text that is not shown while it is written; `None` when nobody is there to be asked.
    ///
    /// # Errors
    /// `Interrupted` when the person does not want to answer; `Io`.
    async fn ask_secret(&self, question: &str) -> Result<Option<Secret>>;

    /// Asks for text that may be seen while it is written, where that can be done; `None` when nobody is there.
    ///
    /// # Errors
    /// As for [`ask_secret`](Self::ask_secret).
    async fn ask_text(&self, question: &str) -> Result<Option<String>> {
        Ok(self.ask_secret(question).await?.map(|answer| answer.expose().to_owned()))
    }
}
