//! The findings of checks.

use serde::Serialize;

use crate::Error;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Something does not work that not every user needs, or is left over.
    Warning,
    /// Workloads cannot run.
    Error,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable name of the check, such as `runtime.engine`.
    pub id: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What to do, if there is something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Whether [`repair`](super::repair) does it.
    pub can_repair: bool,
}

impl Finding {
    pub(super) fn ok(id: &'static str, message: impl Into<String>) -> Self {
        Self { id, severity: Severity::Ok, message: message.into(), fix: None, can_repair: false }
    }

    pub(super) fn warning(id: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        let fix = Some(fix.into());
        Self { id, severity: Severity::Warning, message: message.into(), fix, can_repair: false }
    }

    pub(super) fn of_error(id: &'static str, severity: Severity, error: &Error) -> Self {
        let fix = error.next_step().map(str::to_owned);
        // The next step is part of the text of an error.
        let text = error.to_string();
        let message = match &fix {
            Some(fix) => text.strip_suffix(&format!("; {fix}")).unwrap_or(&text).to_owned(),
            None => text,
        };
        Self { id, severity, message, fix, can_repair: false }
    }
}
