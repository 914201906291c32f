//! Authorizes callers by Cedar policies.
//!
//! [`file`] reads the configuration, and [`schema`] checks the names in policies. [`entities`] maps callers, tools,
//! prompts and resources to Cedar entities, [`values`] maps JSON to Cedar values, and [`context`] finds the attributes
//! that policies read. [`list_policies`] derives the policies for lists, [`uri_forms`] computes the forms of a URI for
//! which policies are evaluated, and [`allowed_calls`] caches permissions. Decisions fail closed: a request that no
//! policy permits is denied, and a `forbid` policy that cannot be evaluated forbids the request.

mod allowed_calls;
mod context;
mod entities;
mod file;
mod list_policies;
mod schema;
mod uri_forms;
mod values;

use std::{path::Path, sync::Arc};

use cedar_policy::{
    Authorizer, Context, Decision as Outcome, Effect, Entities, Policy, PolicyId, PolicySet, Request,
    Response,
};
pub use file::AuthorizationSpec;

pub(crate) use entities::{AccessedEntity, Caller};
pub(crate) use values::{Arguments, ArgumentsError};

use allowed_calls::AllowedCalls;
use context::ContextAttributes;
use entities::{ANNOTATIONS, EntityMapping, action};
use list_policies::ListPolicies;
use schema::{SchemaNames, chain};

use crate::{Error, Result, config_file::invalid};

/// Reads the file of `--authz-config`, and checks the policies in it, before anything is started.
pub(super) fn read(path: &Path) -> Result<AuthorizationSpec> {
    let spec = file::read(path)?;
    Authorization::new(&spec, "server").map_err(|error| error.with("file", path.display()))?;
    Ok(spec)
}

/// The loaded policies.
pub(crate) struct Authorization {
    policies: PolicySet,
    /// The policies for lists of entities that take arguments.
    lists: ListPolicies,
    /// The entities of the configuration.
    entities: Entities,
    scheme: EntityMapping,
    uses_annotations: bool,
    context_attributes: ContextAttributes,
}

/// The result of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    /// Denied by these policies; empty if no policy permits it.
    Denied(Vec<String>),
    /// Denied because `forbid` policies failed to evaluate, or because the request cannot be represented for
    /// policies.
    Undecided(String),
    /// Denied because the request is ambiguous.
    Unclear(String),
}

impl Authorization {
    /// Parses policies and entities. `server` is the server's name.
    ///
    /// # Errors
    /// `InvalidOption` with the number of the policy and the position in it, or with the unknown name.
    pub(super) fn new(spec: &AuthorizationSpec, server: &str) -> Result<Self> {
        let mut policies = PolicySet::new();
        for (number, text) in spec.policies.iter().enumerate() {
            let policy = Policy::parse(Some(PolicyId::new(format!("policy{number}"))), text)
                .map_err(|error| bad_policy(number, text, &error))?;
            policies
                .add(policy)
                .map_err(|error| invalid(format!("`policies[{number}]` is invalid: {error}")))?;
        }
        if spec.policies.is_empty() {
            return Err(invalid("the authorization configuration has no policies".to_owned()));
        }
        let entities = match spec.entities.as_deref().map(str::trim) {
            None | Some("") => Entities::empty(),
            Some(text) => Entities::from_json_str(text, None)
                .map_err(|error| invalid(format!("`entities_json` is invalid: {}", chain(&error))))?,
        };
        let scheme = EntityMapping::new(spec, server)?;
        let names = SchemaNames::known(scheme.group(), &entities)
            .map_err(|error| invalid(format!("`entities_json` is invalid: {error}")))?;
        // The policies are reported in the order of the configuration.
        for number in 0..spec.policies.len() {
            let id = PolicyId::new(format!("policy{number}"));
            if let Some(Err((what, hint))) = policies.policy(&id).map(|policy| names.check(policy)) {
                let named = policies.annotation(&id, "id").map(|name| format!(" ({name})"));
                let named = named.unwrap_or_default();
                return Err(
                    invalid(format!("`policies[{number}]`{named} can never apply: {what}")).hint(hint)
                );
            }
        }
        let uses_annotations =
            spec.policies.iter().any(|text| ANNOTATIONS.iter().any(|name| text.contains(name)));
        let read = ContextAttributes::used_by(&policies);
        let lists = ListPolicies::relax(&policies)
            .map_err(|error| invalid(format!("cannot derive the policies for lists: {error}")))?;
        Ok(Self { policies, lists, entities, scheme, uses_annotations, context_attributes: read })
    }

    /// Parses the arguments of a call, which must be an object.
    ///
    /// # Errors
    /// If they cannot be represented for policies.
    pub(crate) fn arguments(&self, text: &str) -> std::result::Result<Arguments, ArgumentsError> {
        Arguments::read(text, &self.context_attributes)
    }

    /// Whether tool annotations can change a decision.
    pub(crate) fn uses_annotations(&self) -> bool {
        self.uses_annotations
    }

    /// Prepares decisions for one caller. Only claims that a policy reads from the context are converted.
    pub(crate) fn for_caller(self: &Arc<Self>, caller: &Caller) -> CallerAuthorizer {
        let (entity, mut claims) = self.scheme.caller(caller);
        claims.retain(|(name, _)| self.context_attributes.contains(name));
        let principal = entity.uid();
        let entities = self.with_entity(self.entities.clone(), entity);
        let allowed = AllowedCalls::default();
        CallerAuthorizer { authorization: Arc::clone(self), principal, entities, claims, allowed }
    }

    /// Adds an entity to those of the configuration, which may add attributes and parents to it.
    fn with_entity(&self, entities: Entities, entity: cedar_policy::Entity) -> Result<Entities, String> {
        let entity = match self.entities.get(&entity.uid()) {
            Some(known) => entities::merge(known, entity)?,
            None => entity,
        };
        entities.upsert_entities([entity], None).map_err(|error| chain(&error))
    }
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Authorization({} policies)", self.policies.num_of_policies())
    }
}

/// Makes decisions for one caller.
pub(crate) struct CallerAuthorizer {
    authorization: Arc<Authorization>,
    principal: cedar_policy::EntityUid,
    /// The entities of the configuration and the caller; an error if they cannot be combined.
    entities: Result<Entities, String>,
    claims: Vec<(String, cedar_policy::RestrictedExpression)>,
    allowed: AllowedCalls,
}

impl std::fmt::Debug for CallerAuthorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CallerAuthorizer({})", self.principal)
    }
}

impl CallerAuthorizer {
    /// The caller in Cedar syntax.
    pub(crate) fn caller(&self) -> String {
        self.principal.to_string()
    }

    /// The smallest policies that would permit this caller this access.
    pub(crate) fn suggested_policies(&self, used: &AccessedEntity<'_>) -> Vec<String> {
        let others = used.uri_forms().map(|forms| forms.distinct).unwrap_or_default();
        let forms = others.iter().map(|form| used.with_uri(form));
        let missing = |used: &AccessedEntity<'_>| self.decide_as_written(used, None) != Decision::Allowed;
        [*used].into_iter().chain(forms.filter(missing)).map(|used| self.suggested_policy(&used)).collect()
    }

    fn suggested_policy(&self, used: &AccessedEntity<'_>) -> String {
        let (action, principal) = (action(used.cedar_names()), &self.principal);
        match used.uri_pattern() {
            Some(pattern) => {
                format!(
                    "permit(principal == {principal}, action == {action}, resource) when {{ {pattern} }};"
                )
            }
            None => {
                let resource = used.display();
                format!("permit(principal == {principal}, action == {action}, resource == {resource});")
            }
        }
    }

    /// Decides whether the caller may use an entity with these arguments, in all forms of its URI.
    pub(crate) fn decide(&self, used: &AccessedEntity<'_>, arguments: Option<&Arguments>) -> Decision {
        if self.allowed.contains(used, arguments) {
            return Decision::Allowed;
        }
        let decision = self.evaluate_forms(used, arguments);
        if decision == Decision::Allowed {
            self.allowed.insert(used, arguments);
        }
        decision
    }

    fn evaluate_forms(&self, used: &AccessedEntity<'_>, arguments: Option<&Arguments>) -> Decision {
        let forms = match used.uri_forms() {
            Ok(forms) => forms,
            Err(reason) => return Decision::Unclear(reason),
        };
        let mut decision = self.decide_as_written(used, arguments);
        for form in &forms.distinct {
            if decision == Decision::Allowed {
                decision = self.decide_as_written(&used.with_uri(form), arguments);
            }
        }
        for form in &forms.equivalent {
            if decision == Decision::Allowed {
                decision = match self.decide_as_written(&used.with_uri(form), arguments) {
                    // The form in the request is permitted; equivalent forms must only not be forbidden.
                    Decision::Denied(rules) if rules.is_empty() => Decision::Allowed,
                    decision => decision,
                };
            }
        }
        decision
    }

    /// Whether a list contains a tool or prompt: whether the caller may use it with some arguments.
    pub(crate) fn is_listed(&self, used: &AccessedEntity<'_>) -> bool {
        let lists = &self.authorization.lists;
        used.uri_forms().is_ok()
            && self.evaluate(&lists.policies, used, None).is_ok_and(|response| lists.is_listed(&response))
    }

    fn decide_as_written(&self, used: &AccessedEntity<'_>, arguments: Option<&Arguments>) -> Decision {
        self.decision(used, arguments).unwrap_or_else(|reason| {
            tracing::warn!(reason, "cannot evaluate the policies for a request, so the request is denied");
            Decision::Undecided(reason)
        })
    }

    /// Evaluates a set of policies.
    fn evaluate(
        &self,
        policies: &PolicySet,
        resource: &AccessedEntity<'_>,
        arguments: Option<&Arguments>,
    ) -> Result<Response, String> {
        let authorization = &*self.authorization;
        let entity = authorization.scheme.resource(resource)?;
        let uid = entity.uid();
        let entities = authorization.with_entity(self.entities.clone()?, entity)?;
        let mut pairs = self.claims.clone();
        pairs.extend(values::context_pairs(arguments).map_err(ArgumentsError::reason)?);
        let context = Context::from_pairs(pairs).map_err(|error| chain(&error))?;
        let action = action(resource.cedar_names());
        let request = Request::new(self.principal.clone(), action, uid, context, None)
            .map_err(|error| chain(&error))?;
        Ok(Authorizer::new().is_authorized(&request, policies, &entities))
    }

    fn decision(&self, used: &AccessedEntity<'_>, arguments: Option<&Arguments>) -> Result<Decision, String> {
        let authorization = &*self.authorization;
        let response = self.evaluate(&authorization.policies, used, arguments)?;
        let mut failed = Vec::new();
        for error in response.diagnostics().errors() {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
            let id = error.policy_id();
            // A `permit` policy that fails to evaluate permits nothing, and the other policies still count.
            let forbids =
                authorization.policies.policy(id).is_none_or(|policy| policy.effect() == Effect::Forbid);
            tracing::debug!(policy = %id, error = %error.inner(), forbids, "a policy could not be evaluated");
            if forbids {
                failed.push(authorization.policy_name(id));
            }
        }
        if !failed.is_empty() {
            return Ok(Decision::Undecided(failed.join(", ")));
        }
        Ok(match response.decision() {
            Outcome::Allow => Decision::Allowed,
            Outcome::Deny => {
                let mut rules: Vec<String> =
                    response.diagnostics().reason().map(|id| authorization.policy_name(id)).collect();
                rules.sort_unstable();
                Decision::Denied(rules)
            }
        })
    }
}

impl Authorization {
    /// The id of a policy and its annotation `@id("...")`.
    fn policy_name(&self, id: &PolicyId) -> String {
        match self.policies.annotation(id, "id") {
            Some(name) => format!("{id} ({name})"),
            None => id.to_string(),
        }
    }
}

fn bad_policy(number: usize, text: &str, error: &cedar_policy::ParseErrors) -> Error {
    use miette::Diagnostic as _;
    let place = error.labels().and_then(|mut labels| labels.next()).map_or_else(String::new, |label| {
        let before = &text[..text.floor_char_boundary(label.offset())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!(" at line {line}, column {column}")
    });
    invalid(format!("`policies[{number}]` cannot be parsed{place}: {}", chain(error)))
}

#[cfg(test)]
#[path = "cedar_tests.rs"]
mod tests;
