//! Caches which tools and prompts one caller may use, so that policies are not evaluated for each call.
//!
//! A decision depends on the caller, the entity and the context. For one caller and policy set, the context of calls
//! differs only by the arguments that policies read, and a tool may have annotations. So the cache contains only
//! permitted calls without such arguments and annotations. For a denied call, the policies are evaluated each time,
//! because the reasons of the denial are logged.

use std::{
    collections::HashSet,
    sync::{PoisonError, RwLock},
};

use foldhash::quality::RandomState;

use super::{entities::AccessedEntity, values::Arguments};

/// Maximum number of tool names, and of prompt names, that are cached for one caller.
const MAX_ALLOWED_NAMES: usize = 64;
/// Maximum length of a cached name.
const MAX_ALLOWED_NAME_BYTES: usize = 128;

type Names = HashSet<Box<str>, RandomState>;

/// The tools and prompts that a caller may use.
#[derive(Debug, Default)]
pub(super) struct AllowedCalls {
    tools: RwLock<Names>,
    prompts: RwLock<Names>,
}

impl AllowedCalls {
    /// Returns whether a call is known to be permitted.
    pub(super) fn contains(&self, used: &AccessedEntity<'_>, arguments: Option<&Arguments>) -> bool {
        self.slot(used, arguments)
            .is_some_and(|(names, name)| names.read().unwrap_or_else(PoisonError::into_inner).contains(name))
    }

    /// Caches that a call is permitted, if the decision depends only on the caller and the name.
    pub(super) fn insert(&self, used: &AccessedEntity<'_>, arguments: Option<&Arguments>) {
        let Some((names, name)) = self.slot(used, arguments) else { return };
        let mut names = names.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() == MAX_ALLOWED_NAMES {
            names.clear();
        }
        names.insert(name.into());
    }

    /// The cached names of entities of this kind, and the name of this entity; `None` if a decision depends on more
    /// than the name.
    fn slot<'a>(
        &self,
        used: &AccessedEntity<'a>,
        arguments: Option<&Arguments>,
    ) -> Option<(&RwLock<Names>, &'a str)> {
        if arguments.is_some_and(Arguments::are_read) {
            return None;
        }
        let (names, name) = match used {
            AccessedEntity::Tool(name, None) => (&self.tools, *name),
            AccessedEntity::Prompt(name) => (&self.prompts, *name),
            AccessedEntity::Tool(_, Some(_)) | AccessedEntity::Resource(_) | AccessedEntity::Template(_) => {
                return None;
            }
        };
        (name.len() <= MAX_ALLOWED_NAME_BYTES).then_some((names, name))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{AccessedEntity, Authorization, AuthorizationSpec, Caller, Decision};

    #[test]
    fn a_kept_decision_holds_for_no_other_arguments_tools_and_annotations() {
        let policies = [
            "permit(principal, action, resource == Tool::\"add\") unless { context has arg_a && context.arg_a > 5 };",
            "permit(principal, action, resource == Tool::\"hint\") when { resource has readOnlyHint && resource.readOnlyHint };",
        ];
        let policies = policies.map(str::to_owned).to_vec();
        let spec = AuthorizationSpec { policies, ..AuthorizationSpec::default() };
        let authorization = Arc::new(Authorization::new(&spec, "s").expect("policies"));
        let caller = authorization.for_caller(&Caller::default());
        let read_only = serde_json::json!({ "readOnlyHint": true });
        let allowed = |used: &AccessedEntity<'_>, arguments: &str| {
            let arguments = authorization.arguments(arguments).expect("arguments");
            caller.decide(used, Some(&arguments)) == Decision::Allowed
        };
        let add = AccessedEntity::Tool("add", None);
        for _ in 0..2 {
            for (arguments, expected) in
                [("{}", true), (r#"{"b":9}"#, true), (r#"{"a":9}"#, false), (r#"{"a":1}"#, true)]
            {
                assert_eq!(allowed(&add, arguments), expected, "{arguments}");
            }
            assert!(!allowed(&AccessedEntity::Tool("sub", None), "{}"));
            assert!(!allowed(&AccessedEntity::Prompt("add"), "{}"));
            assert!(allowed(&AccessedEntity::Tool("hint", read_only.as_object()), "{}"));
            assert!(!allowed(&AccessedEntity::Tool("hint", None), "{}"));
        }
    }
}
