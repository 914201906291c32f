//! Handles the requests and notifications of a server to its client.

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
        ElicitationCapability, FormElicitationCapability, Implementation, ProgressNotificationParam,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::Value;

use super::{
    arguments,
    options::{ClientOptions, JsonObject, Progress, object},
};
use crate::{ErrorKind, Result, user_prompt::UserPrompt};

/// Maximum number of prompts for a field whose entered text does not have its type.
const MAX_ATTEMPTS: usize = 3;
/// Maximum number of fields of one request.
const MAX_QUESTIONS: usize = 50;

/// Handles elicitation requests and progress notifications of the server.
#[derive(Debug)]
pub(super) struct Handler(ClientOptions);

impl Handler {
    pub(super) fn new(options: ClientOptions) -> Self {
        Self(options)
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.0.user_prompt.is_some() {
            let forms = ElicitationCapability::new().with_form(FormElicitationCapability::default());
            capabilities.elicitation = Some(forms);
        }
        ClientConfig::new(capabilities, Implementation::new("mcpm", env!("CARGO_PKG_VERSION")))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> std::result::Result<ElicitResult, ErrorData> {
        let declined = || ElicitResult::new(ElicitationAction::Decline);
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            return Ok(declined());
        };
        let Some(prompt) = &self.0.user_prompt else { return Ok(declined()) };
        let schema = object(&requested_schema).unwrap_or_default();
        Ok(match fill_in(prompt.as_ref(), &message, &schema).await {
            Ok(Some(answers)) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(answers))
            }
            Ok(None) => declined(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                ElicitResult::new(ElicitationAction::Cancel)
            }
            Err(error) => return Err(ErrorData::internal_error(error.to_string(), None)),
        })
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        if let Some(on_progress) = &self.0.on_progress {
            let ProgressNotificationParam { progress: done, total, message, .. } = progress;
            on_progress(Progress { done, total, message });
        }
    }
}

/// Prompts the user for each field of a form; `None` if the user cannot be prompted, or enters no valid value for a
/// required field.
async fn fill_in(prompt: &dyn UserPrompt, message: &str, schema: &JsonObject) -> Result<Option<JsonObject>> {
    let mut answers = JsonObject::new();
    let Some(fields) =
        schema.get("properties").and_then(Value::as_object).filter(|fields| fields.len() <= MAX_QUESTIONS)
    else {
        return Ok(None);
    };
    if fields.is_empty() {
        return Ok(prompt.approve(message).await?.then_some(answers));
    }
    let required = arguments::required(schema);
    for (name, field) in fields {
        let question = question(message, name, field, required.contains(&name.as_str()));
        let mut answer = None;
        for _ in 0..MAX_ATTEMPTS {
            let Some(text) = prompt.ask_text(&question).await? else { return Ok(None) };
            answer = match text.trim() {
                "" => field.get("default").cloned(),
                text => arguments::convert(name, field, text).ok(),
            };
            if answer.is_some() || text.trim().is_empty() && !required.contains(&name.as_str()) {
                break;
            }
        }
        match answer {
            Some(answer) => drop(answers.insert(name.clone(), answer)),
            None if required.contains(&name.as_str()) => return Ok(None),
            None => {}
        }
    }
    Ok(Some(answers))
}

/// The prompt for a field: the server's message, the field, and the accepted values.
fn question(message: &str, name: &str, field: &Value, is_required: bool) -> String {
    let described = field["description"].as_str().or(field["title"].as_str());
    let mut question = match described {
        Some(described) => format!("{message}\n{name} ({described})"),
        None => format!("{message}\n{name}"),
    };
    question += &format!(" [{}", arguments::expected(field));
    if let Some(default) = field.get("default") {
        question += &format!(", default {default}");
    } else if !is_required {
        question += ", may be empty";
    }
    question + "]"
}
