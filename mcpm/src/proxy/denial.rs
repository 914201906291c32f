//! Why a request was refused, for whoever records, counts or explains it.
//!
//! The layer that refuses makes a [`Denial`], [`respond::deny`](super::respond::deny) puts it into the extensions of
//! the answer, and its id into the JSON-RPC error, as `data.reason`. It never holds a secret.

/// Why a layer refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    /// Stable id of the reason, `layer.reason`, such as `auth.token_expired`.
    pub(crate) id: &'static str,
    /// The layer that refused.
    pub(crate) layer: &'static str,
    /// The rule it goes by, where it has several.
    pub(crate) rule: Option<String>,
    /// The smallest change that would let the request pass.
    pub(crate) fix: Option<String>,
}

impl Denial {
    pub(crate) fn new(layer: &'static str, id: &'static str) -> Self {
        Self { id, layer, rule: None, fix: None }
    }

    /// Names the rule that the refusal goes by.
    #[must_use]
    pub(crate) fn rule(self, rule: impl Into<String>) -> Self {
        Self { rule: Some(rule.into()), ..self }
    }

    /// Says what would let the request pass.
    #[must_use]
    pub(crate) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}
