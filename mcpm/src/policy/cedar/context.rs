//! Determines which context attributes policies read.
//!
//! Arguments can be large, and policies usually read few of them and few claims. Attributes that no policy reads are
//! left out of the context.

use std::collections::BTreeSet;

use cedar_policy::PolicySet;
use serde_json::Value;

/// The context attributes that policies read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContextAttributes {
    Only(BTreeSet<String>),
    /// All attributes, because a policy uses the context as a whole.
    All,
}

impl ContextAttributes {
    /// Collects the attributes that some policies read.
    pub(super) fn used_by(policies: &PolicySet) -> Self {
        let mut names = BTreeSet::new();
        let known = policies.policies().all(|policy| {
            // In Cedar's JSON format, any use of the context other than an attribute access is a use of the whole
            // context.
            policy.to_json().is_ok_and(|policy| collect(&policy, &mut names))
        });
        if known { Self::Only(names) } else { Self::All }
    }

    /// Whether a policy may read an attribute that `is_wanted`.
    pub(super) fn contains_any(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Only(names) => names.iter().any(|name| is_wanted(name)),
            Self::All => true,
        }
    }

    /// Whether a policy may read the attribute.
    pub(super) fn contains(&self, attribute: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(attribute),
            Self::All => true,
        }
    }
}

/// Collects the context attributes that an expression reads; `false` if it uses the context as a whole.
pub(super) fn collect(expression: &Value, names: &mut BTreeSet<String>) -> bool {
    match expression {
        Value::Object(fields) => {
            let access = fields.get(".").or_else(|| fields.get("has")).filter(|_| fields.len() == 1);
            if let Some(access) = access
                && is_context(&access["left"])
                // For `context has a.b`, the attribute is a list.
                && let Some(attribute) = access["attr"].as_str().or_else(|| access["attr"][0].as_str())
            {
                names.insert(attribute.to_owned());
                return true;
            }
            !is_context(expression) && fields.values().all(|part| collect(part, names))
        }
        Value::Array(parts) => parts.iter().all(|part| collect(part, names)),
        _ => true,
    }
}

fn is_context(expression: &Value) -> bool {
    expression["Var"] == "context"
}
