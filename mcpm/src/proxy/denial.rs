//! Why a request was refused, for whoever records, counts or explains it.
//!
//! The layer that refuses makes a [`Denial`], [`respond::deny`](super::respond::deny) puts it into the extensions of
//! the answer, and its ids into the JSON-RPC error, as `data.reason` and `data.refusal`. It never holds a secret that
//! is known to be one.

use crate::{
    explain::{DenialId, DenialLog, DenialRecord, Reason},
    options::Secret,
    redact::Redactor,
};

/// Why a layer refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    /// The reason, of which the catalogue tells more.
    pub(crate) reason: Reason,
    /// Which refusal it is.
    pub(crate) id: DenialId,
    /// The rule it goes by, where the layer has several.
    pub(crate) rule: Option<String>,
    /// What the layer looked at.
    pub(crate) inputs: Vec<(&'static str, String)>,
    /// The smallest change that would let the request pass, where more can be said than of the reason.
    fix: Option<String>,
}

impl Denial {
    pub(crate) fn new(reason: Reason) -> Self {
        Self { reason, id: DenialId::new(), rule: None, inputs: Vec::new(), fix: None }
    }

    /// Names the rule that the refusal goes by.
    #[must_use]
    pub(crate) fn rule(self, rule: impl Into<String>) -> Self {
        Self { rule: Some(rule.into()), ..self }
    }

    /// Says what was looked at.
    #[must_use]
    pub(crate) fn input(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.inputs.push((name, value.into()));
        self
    }

    /// Says what would let the request pass.
    #[must_use]
    pub(crate) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }

    /// Takes out a secret that the layer knows by which it was made further in.
    pub(crate) fn redact(&mut self, secret: &Secret) {
        let masks = Redactor::new([secret.clone()], &[]);
        let texts = self.inputs.iter_mut().map(|(_, value)| value);
        for text in texts.chain(&mut self.rule).chain(&mut self.fix) {
            *text = masks.redact(text).into_owned();
        }
    }

    /// What is said of it in the `data` of an error.
    pub(crate) fn error_data(&self) -> String {
        serde_json::json!({ "reason": self.reason.id(), "refusal": self.id.as_str() }).to_string()
    }

    /// What is kept of it.
    pub(crate) fn to_record(&self, recent: &DenialLog) -> DenialRecord {
        let refused = recent.record(&self.id, self.reason);
        let refused = refused.rule(self.rule.as_deref()).fix(self.fix.as_deref());
        self.inputs.iter().fold(refused, |refused, (name, value)| refused.input(name, value)).build()
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
