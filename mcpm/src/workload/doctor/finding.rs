//! Defines the findings of checks.

use serde::Serialize;

use crate::Error;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Everything is as it should be.
    Ok,
    /// Something that not every user needs does not work, or something is left over.
    Warning,
    /// Workloads cannot run.
    Error,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable name of the check, such as `runtime.engine`.
    pub id: &'static str,
    /// The severity of the finding.
    pub severity: Severity,
    /// What was found.
    pub message: String,
    /// What the user can do about it, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// Whether [`repair`](super::repair) applies the fix.
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
        // The text of an error contains the next step, which is reported separately here.
        let text = error.to_string();
        let message = match &fix {
            Some(fix) => text.strip_suffix(&format!("; {fix}")).unwrap_or(&text).to_owned(),
            None => text,
        };
        Self { id, severity, message, fix, can_repair: false }
    }
}
