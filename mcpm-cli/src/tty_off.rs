//! Replaces the terminal prompts on Windows, where mcpm does not prompt.

use mcpm::{Result, options::Secret, user_prompt::LoginPrompt};

pub(crate) fn prompt_visible(_question: &str) -> Result<Option<String>> {
    Ok(None)
}

pub(crate) fn prompt_hidden(_question: &str) -> Result<Option<Secret>> {
    Ok(None)
}

pub(crate) async fn ask_redirect(_login: &LoginPrompt) -> Result<Option<String>> {
    Ok(None)
}
