//! What a client is given, and what it gives back.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Error, ErrorKind, Result, user_prompt::UserPrompt};

/// An object of JSON.
pub type JsonObject = Map<String, Value>;

/// Gets the progress of calls.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// How far a call is, as the server says (MCP 2025-11-25, "Progress").
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// It increases with each message.
    pub done: f64,
    /// What `done` is at the end, if that is known.
    pub total: Option<f64>,
    /// What the server does now.
    pub message: Option<String>,
}

/// Options of a client.
#[derive(Clone, Default)]
pub struct ClientOptions {
    /// Asks the user what a server wants to know (elicitation). By default, the client does not support it.
    pub user_prompt: Option<Arc<dyn UserPrompt>>,
    /// Gets the progress of calls; by default, it is ignored.
    pub on_progress: Option<OnProgress>,
}

impl std::fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions").field("user_prompt", &self.user_prompt).finish_non_exhaustive()
    }
}

/// Returns a value of the protocol as JSON.
pub(super) fn object(value: &impl Serialize) -> Result<JsonObject> {
    let invalid = |error| Error::new(ErrorKind::Internal, "a message cannot be shown as JSON").source(error);
    match serde_json::to_value(value).map_err(invalid)? {
        Value::Object(object) => Ok(object),
        other => Ok(JsonObject::from_iter([("value".to_owned(), other)])),
    }
}
