//! Describes why a layer or an endpoint denied a request.
//!
//! The layer or endpoint that denies a request creates a [`Denial`]. [`respond::deny`](super::respond::deny) adds the
//! denial to the extensions of the response, and two ids to the JSON-RPC error: `data.reason` is the id of the reason,
//! and `data.refusal` the id of the denial. Known secrets are redacted when a denial is recorded.

use crate::{
    explain::{DenialId, DenialLog, DenialRecord, Reason},
    options::Secret,
    redact::Redactor,
};

/// A denial of a request by a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    /// The reason, which the catalogue explains.
    pub(crate) reason: Reason,
    /// The id of this denial.
    pub(crate) id: DenialId,
    /// The rule that applied, if the layer has several.
    pub(crate) rule: Option<String>,
    /// What the decision was based on.
    pub(crate) inputs: Vec<(&'static str, String)>,
    /// The smallest change that would allow the request, if the layer knows a more specific one than the reason has.
    fix: Option<String>,
}

impl Denial {
    pub(crate) fn new(reason: Reason) -> Self {
        Self { reason, id: DenialId::new(), rule: None, inputs: Vec::new(), fix: None }
    }

    /// Sets the rule that applied.
    #[must_use]
    pub(crate) fn rule(self, rule: impl Into<String>) -> Self {
        Self { rule: Some(rule.into()), ..self }
    }

    /// Adds an input of the decision.
    #[must_use]
    pub(crate) fn input(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.inputs.push((name, value.into()));
        self
    }

    /// Sets the change that would allow the request.
    #[must_use]
    pub(crate) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// Redacts a secret that the layer knows and inner layers did not.
    pub(crate) fn redact(&mut self, secret: &Secret) {
        let masks = Redactor::new([secret.clone()], &[]);
        let texts = self.inputs.iter_mut().map(|(_, value)| value);
        for text in texts.chain(&mut self.rule).chain(&mut self.fix) {
            *text = masks.redact(text).into_owned();
        }
    }

    /// The `data` of the JSON-RPC error.
    pub(crate) fn error_data(&self) -> String {
        serde_json::json!({ "reason": self.reason.id(), "refusal": self.id.as_str() }).to_string()
    }

    /// The record of this denial.
    pub(crate) fn to_record(&self, recent: &DenialLog) -> DenialRecord {
        let record = recent.record(&self.id, self.reason);
        let record = record.rule(self.rule.as_deref()).fix(self.fix.as_deref());
        self.inputs.iter().fold(record, |record, (name, value)| record.input(name, value)).build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_redacted() {
        let denial = Denial::new(Reason::ToolNotListed).rule("no opaque-canary").fix("call opaque-canary");
        let mut denial = denial.input("tool", "the opaque-canary");
        denial.redact(&Secret::from("opaque-canary"));
        let refused = denial.to_record(&DenialLog::new("server", None));
        assert!(!format!("{denial:?} {refused:?}").contains("canary"), "{refused:?}");
        assert_eq!(refused.inputs["tool"], "the [redacted]");
    }
}
