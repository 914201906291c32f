//! Defines the options of a client, and the types of its results.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{Error, ErrorKind, Result, user_prompt::UserPrompt};

/// A JSON object.
pub type JsonObject = Map<String, Value>;

/// Receives the progress of calls.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// The progress of a call, as the server reports it (MCP 2025-11-25, "Progress").
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The progress so far, which increases with each message.
    pub done: f64,
    /// The value of `done` when the call is complete, if that is known.
    pub total: Option<f64>,
    /// A description of what the server is doing.
    pub message: Option<String>,
}

/// Options of a client.
#[derive(Clone, Default)]
pub struct ClientOptions {
    /// Prompts the user for information that a server requests (elicitation). By default, the client does not support
    /// elicitation.
    pub user_prompt: Option<Arc<dyn UserPrompt>>,
    /// Receives the progress of calls; by default, progress is ignored.
    pub on_progress: Option<OnProgress>,
}

impl std::fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientOptions").field("user_prompt", &self.user_prompt).finish_non_exhaustive()
    }
}

/// Converts a value of the protocol to JSON.
pub(super) fn object(value: &impl Serialize) -> Result<JsonObject> {
    let invalid = |error| Error::new(ErrorKind::Internal, "cannot convert a message to JSON").source(error);
    match serde_json::to_value(value).map_err(invalid)? {
        Value::Object(object) => Ok(object),
        other => Ok(JsonObject::from_iter([("value".to_owned(), other)])),
    }
}
