//! Which attributes of the context policies read.
//!
//! A call's arguments may be large, and most of them, and of a caller's claims, are nothing to policies: what none of them
//! reads is not made into values for them.

use std::collections::BTreeSet;

use cedar_policy::PolicySet;
use serde_json::Value;

/// What is read of the context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContextAttributes {
    Only(BTreeSet<String>),
    /// A policy goes by the context as a whole.
    All,
}

impl ContextAttributes {
    /// What some policies read.
    pub(super) fn used_by(policies: &PolicySet) -> Self {
        let mut names = BTreeSet::new();
        let known = policies.policies().all(|policy| {
            // In Cedar's own JSON an attribute of the context is the one thing in which it stands for more than itself.
            policy.to_json().is_ok_and(|policy| collect(&policy, &mut names))
        });
        if known { Self::Only(names) } else { Self::All }
    }

    /// Whether some policy may read that attribute.
    pub(super) fn contains(&self, attribute: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(attribute),
            Self::All => true,
        }
    }
}

/// Collects the attributes that an expression reads of the context; `false` when it reads it in another way.
pub(super) fn collect(expression: &Value, names: &mut BTreeSet<String>) -> bool {
    match expression {
        Value::Object(fields) => {
            let access = fields.get(".").or_else(|| fields.get("has")).filter(|_| fields.len() == 1);
            if let Some(access) = access
                && is_context(&access["left"])
                // Of `context has a.b`, a list.
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
