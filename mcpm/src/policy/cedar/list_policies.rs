//! Derives policies for filtering lists: a list omits an entity only if its use is denied whatever the arguments are.
//!
//! When a list is requested, the arguments of later calls are unknown. So the derived policies replace each condition
//! on arguments by `true` in `permit` and by `false` in `forbid`. A list omits an entity only if the derived policies
//! deny it. Such an entity is denied with any arguments, so a caller can only use entities that are listed.

use std::collections::BTreeSet;

use cedar_policy::{AuthorizationError, Decision, Effect, Policy, PolicyId, PolicySet, Response};
use serde_json::{Value, json};

use super::context::collect;

/// Prefix of arguments in the context.
const ARGUMENT: &str = "arg_";

/// The policies for lists.
pub(super) struct ListPolicies {
    pub(super) policies: PolicySet,
    /// Policies that read arguments. If one fails to evaluate here, it may evaluate with arguments, because a
    /// condition that is replaced here can short-circuit the failing one.
    reading_arguments: BTreeSet<PolicyId>,
}

impl ListPolicies {
    /// Derives the policies for lists. Policies that read no argument are unchanged.
    ///
    /// # Errors
    /// If Cedar rejects a derived policy.
    pub(super) fn relax(policies: &PolicySet) -> Result<Self, String> {
        let mut reading = BTreeSet::new();
        let relaxed = policies.policies().map(|policy| match relaxed_policy(policy) {
            Some(relaxed) => {
                reading.insert(policy.id().clone());
                relaxed
            }
            None => Ok(policy.clone()),
        });
        let relaxed = relaxed.collect::<Result<Vec<_>, _>>()?;
        let policies = PolicySet::from_policies(relaxed).map_err(|error| error.to_string())?;
        Ok(Self { policies, reading_arguments: reading })
    }

    /// Whether a list contains the entity.
    pub(super) fn is_listed(&self, response: &Response) -> bool {
        let (mut permitted, mut forbidden) = (response.decision() == Decision::Allow, false);
        for error in response.diagnostics().errors() {
            let AuthorizationError::PolicyEvaluationError(error) = error;
            let id = error.policy_id();
            let permits = self.policies.policy(id).is_some_and(|policy| policy.effect() == Effect::Permit);
            match (permits, self.reading_arguments.contains(id)) {
                // The failing `permit` policy may permit the entity with arguments. It counts as permitting if no
                // policy decided: a `forbid` policy would be named as the reason.
                (true, true) => permitted |= response.diagnostics().reason().next().is_none(),
                (true, false) | (false, true) => {}
                (false, false) => forbidden = true,
            }
        }
        permitted && !forbidden
    }
}

/// The policy for lists; `None` if the policy reads no argument.
fn relaxed_policy(policy: &Policy) -> Option<Result<Policy, String>> {
    let mut written = policy.to_json().ok()?;
    let conditions = written.get_mut("conditions")?.as_array_mut()?;
    if !conditions.iter().any(reads_arguments) {
        return None;
    }
    let taken_for = policy.effect() == Effect::Permit;
    for condition in conditions {
        let unless = condition["kind"] == "unless";
        condition["body"] = assume_arguments(&condition["body"], taken_for != unless);
    }
    Some(Policy::from_json(Some(policy.id().clone()), written).map_err(|error| error.to_string()))
}

/// Replaces each condition on arguments by `answer`.
fn assume_arguments(expression: &Value, answer: bool) -> Value {
    if !reads_arguments(expression) {
        return expression.clone();
    }
    for operator in ["&&", "||"] {
        if let Some(sides) = expression.get(operator) {
            let (left, right) =
                (assume_arguments(&sides["left"], answer), assume_arguments(&sides["right"], answer));
            return json!({ operator: { "left": left, "right": right } });
        }
    }
    match expression.get("!") {
        Some(negated) => json!({ "!": { "arg": assume_arguments(&negated["arg"], !answer) } }),
        None => json!({ "Value": answer }),
    }
}

/// Whether an expression reads arguments, or the context as a whole.
fn reads_arguments(expression: &Value) -> bool {
    let mut names = BTreeSet::new();
    !collect(expression, &mut names) || names.iter().any(|name| name.starts_with(ARGUMENT))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::{AccessedEntity, Authorization, AuthorizationSpec, Caller, Decision};

    fn authorizer(policies: &[&str]) -> super::super::CallerAuthorizer {
        let policies: Vec<String> = policies.iter().map(|policy| (*policy).to_owned()).collect();
        let spec = AuthorizationSpec { policies, ..AuthorizationSpec::default() };
        Arc::new(Authorization::new(&spec, "s").expect("policies")).for_caller(&Caller::default())
    }

    #[test]
    fn a_list_shows_what_some_arguments_allow() {
        let add = "permit(principal, action, resource == Tool::\"add\")";
        let all = "permit(principal, action, resource);";
        for (policies, shown) in [
            (&[&*format!("{add} when {{ context.arg_a > 5 }};")][..], true),
            (&[&*format!("{add} when {{ context has arg_a && context.arg_a > 5 }};")], true),
            (&[&*format!("{add} unless {{ context.arg_a > 5 }};")], true),
            (&[&*format!("{add} when {{ !(context.arg_a > 5) }};")], true),
            (&[&*format!("{add} when {{ context.arg_a > 5 && principal has claim_x }};")], false),
            (&[&*format!("{add} when {{ context.arg_a > 5 || principal has claim_x }};")], true),
            (&[&*format!("{add} when {{ if context has arg_a then context.arg_a > 5 else false }};")], true),
            (&[&*format!("{add} when {{ context == {{}} }};")], true),
            (&[&*format!("{add} when {{ context has claim_x }};")], false),
            (&["permit(principal, action, resource == Tool::\"sub\") when { context.arg_a > 5 };"], false),
            (&[all, "forbid(principal, action, resource) when { context.arg_a > 5 };"], true),
            (&[all, "forbid(principal, action, resource) unless { context has arg_a };"], true),
            (&[all, "forbid(principal, action, resource) when { !(context has arg_a) };"], true),
            (
                &[all, "forbid(principal, action, resource) when { resource has name || context.arg_a };"],
                false,
            ),
            (&[all, "forbid(principal, action, resource);"], false),
            (
                &[&*format!("{add} when {{ (context.arg_a > 5 && principal.claim_l == \"x\") || true }};")],
                true,
            ),
            (
                &[
                    all,
                    "forbid(principal, action, resource) when { (context has arg_a || principal.claim_l == \"x\") && false };",
                ],
                true,
            ),
            (&[all, "forbid(principal, action, resource) when { principal.claim_l == \"x\" };"], false),
        ] {
            assert_eq!(
                authorizer(policies).is_listed(&AccessedEntity::Tool("add", None)),
                shown,
                "{policies:?}"
            );
        }
    }

    /// Conditions on arguments and on other values.
    fn condition() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(vec![
            "context.arg_a > 1",
            "context has arg_a",
            "context.arg_b == \"x\"",
            "context has arg_b && context.arg_b like \"x*\"",
            "resource.name == \"add\"",
            "principal has claim_x",
            "principal.claim_x == \"y\"",
            "true",
        ]);
        leaf.prop_map(str::to_owned).prop_recursive(4, 16, 2, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) && ({other})")),
                (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) || ({other})")),
                (inner.clone(), inner.clone(), inner.clone())
                    .prop_map(|(one, other, third)| format!("(if {one} then {other} else {third})")),
                inner.prop_map(|one| format!("!({one})")),
            ]
        })
    }

    fn policy() -> impl Strategy<Value = String> {
        (any::<bool>(), any::<bool>(), condition()).prop_map(|(permits, when, condition)| {
            let effect = if permits { "permit" } else { "forbid" };
            let kind = if when { "when" } else { "unless" };
            format!("{effect}(principal, action, resource) {kind} {{ {condition} }};")
        })
    }

    proptest! {
        #[test]
        fn what_no_list_shows_is_refused_whatever_the_arguments_are(
            policies in prop::collection::vec(policy(), 1..4),
            a in prop::option::of(0..4_i64),
            b in prop::option::of("[xy]{1,2}"),
        ) {
            let policies: Vec<&str> = policies.iter().map(String::as_str).collect();
            let authorizer = authorizer(&policies);
            let mut arguments = serde_json::Map::new();
            arguments.extend(a.map(|a| ("a".to_owned(), a.into())));
            arguments.extend(b.map(|b| ("b".to_owned(), b.into())));
            let text = serde_json::Value::Object(arguments).to_string();
            let arguments = authorizer.authorization.arguments(&text).expect("arguments");
            let used = AccessedEntity::Tool("add", None);
            let allowed = authorizer.decide(&used, Some(&arguments)) == Decision::Allowed;
            prop_assert!(authorizer.is_listed(&used) || !allowed, "{policies:?} {text}");
        }
    }
}
