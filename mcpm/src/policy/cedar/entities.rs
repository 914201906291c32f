//! Maps callers, tools, prompts and resources to Cedar entities.
//!
//! | What | Entity | Attributes | Parents |
//! |---|---|---|---|
//! | a caller | `Client::"SUBJECT"` | `claim_NAME`, `claimset_NAME` | groups, roles: by default `McpmGroup::"NAME"` |
//! | a tool | `Tool::"NAME"`, the server's name of it | `name`, annotations | `MCP::"SERVER"` |
//! | a prompt | `Prompt::"NAME"` | `name` | `MCP::"SERVER"` |
//! | a resource | `Resource::"URI"` | `name`, `uri` | `MCP::"SERVER"` |
//! | a resource template | `Resource::"URI TEMPLATE"` | `name`, `uri`, `template` | `MCP::"SERVER"` |
//!
//! Tools, prompts, resources and resource templates also have the attributes `feature` and `operation`. The context
//! contains those claims of the caller and arguments of the call that policies read.

use std::collections::{BTreeSet, HashMap, HashSet};

use cedar_policy::{Entity, EntityId, EntityTypeName, EntityUid, RestrictedExpression as Expression};
use serde_json::{Map, Value};

use super::{file::AuthorizationSpec, uri_forms::UriForms, values};
use crate::{Result, config_file::invalid, redact::strip_query};

/// Tool annotations that policies may read (MCP 2025-11-25, `ToolAnnotations`).
pub(super) const ANNOTATIONS: [&str; 4] =
    ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
/// Maximum length of a name or URI in bytes.
const MAX_NAME_BYTES: usize = 8 << 10;

/// Claims that contain groups; the first one present is used.
const GROUP_CLAIMS: [&str; 3] = ["groups", "roles", "cognito:groups"];
const GROUP: &str = "McpmGroup";
/// The subject when there is no authentication.
const ANONYMOUS: &str = "anonymous";

/// The caller as policies see it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// `None` when there is no authentication.
    pub(crate) subject: Option<String>,
    pub(crate) claims: Map<String, Value>,
}

/// The tool, prompt or resource that a request uses.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AccessedEntity<'a> {
    /// A tool by the server's name, and its annotations.
    Tool(&'a str, Option<&'a Map<String, Value>>),
    Prompt(&'a str),
    /// A resource by its URI.
    Resource(&'a str),
    /// A resource template by its URI template.
    Template(&'a str),
}

/// The Cedar names for one kind of entity.
#[derive(Debug, Clone, Copy)]
pub(super) struct CedarNames {
    action: &'static str,
    entity: &'static str,
    feature: &'static str,
    operation: &'static str,
}

impl<'a> AccessedEntity<'a> {
    /// The alternative forms of the entity's URI, for which policies are evaluated as well.
    ///
    /// # Errors
    /// Why no decision about the entity is possible.
    pub(super) fn uri_forms(&self) -> Result<UriForms, String> {
        if self.id().len() > MAX_NAME_BYTES {
            return Err(format!("the name is longer than {MAX_NAME_BYTES} bytes"));
        }
        match self {
            Self::Tool(..) | Self::Prompt(_) => Ok(UriForms::default()),
            Self::Resource(uri) | Self::Template(uri) => {
                UriForms::new(uri).map_err(|reason| format!("the URI is ambiguous: {reason}"))
            }
        }
    }

    /// The same entity with another form of its URI.
    pub(super) fn with_uri<'b>(&self, form: &'b str) -> AccessedEntity<'b>
    where
        'a: 'b,
    {
        match self {
            Self::Resource(_) => AccessedEntity::Resource(form),
            Self::Template(_) => AccessedEntity::Template(form),
            other => *other,
        }
    }

    pub(super) fn cedar_names(&self) -> CedarNames {
        let words = |action, entity, feature, operation| CedarNames { action, entity, feature, operation };
        match self {
            Self::Tool(..) => words("call_tool", "Tool", "tool", "call"),
            Self::Prompt(_) => words("get_prompt", "Prompt", "prompt", "get"),
            Self::Resource(_) | Self::Template(_) => words("read_resource", "Resource", "resource", "read"),
        }
    }

    /// The entity in Cedar syntax, without the query of a URI.
    pub(crate) fn display(&self) -> String {
        uid(self.cedar_names().entity, self.redacted_id()).to_string()
    }

    /// A Cedar condition for a URI with any query; `None` if it has no query.
    pub(super) fn uri_pattern(&self) -> Option<String> {
        let (plain, id) = (self.redacted_id(), self.id());
        let mark = id[plain.len()..].chars().next()?;
        let plain = EntityId::new(plain).escaped().replace('*', "\\*");
        Some(format!("resource has uri && resource.uri like \"{plain}{mark}*\""))
    }

    /// The id without its query, which may be secret.
    fn redacted_id(&self) -> &str {
        match self {
            Self::Tool(id, _) | Self::Prompt(id) => id,
            Self::Resource(uri) | Self::Template(uri) => strip_query(uri),
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Tool(id, _) | Self::Prompt(id) | Self::Resource(id) | Self::Template(id) => id,
        }
    }
}

/// The action on this kind of entity.
pub(super) fn action(words: CedarNames) -> EntityUid {
    uid("Action", words.action)
}

/// The configuration of entities.
#[derive(Debug)]
pub(super) struct EntityMapping {
    server: EntityUid,
    group: EntityTypeName,
    group_claim: Option<String>,
    role_claim: Option<String>,
    multi_valued: BTreeSet<String>,
}

impl EntityMapping {
    pub(super) fn new(spec: &AuthorizationSpec, server: &str) -> Result<Self> {
        let group = spec.group_entity_type.as_deref().unwrap_or(GROUP);
        let group = group.parse::<EntityTypeName>().map_err(|_| {
            invalid(format!("`group_entity_type`: `{group}` is not a valid Cedar entity type"))
        })?;
        Ok(Self {
            server: uid("MCP", server),
            group,
            group_claim: spec.group_claim.clone(),
            role_claim: spec.role_claim.clone(),
            multi_valued: spec.multi_valued_claims.iter().cloned().collect(),
        })
    }

    /// The entity type of groups.
    pub(super) fn group(&self) -> &EntityTypeName {
        &self.group
    }

    /// The entity of a caller, and its claims for the context.
    pub(super) fn caller(&self, caller: &Caller) -> (Entity, Vec<(String, Expression)>) {
        let mut claims = Vec::new();
        for (name, claim) in &caller.claims {
            let shown = if self.multi_valued.contains(name) {
                let words = claim_elements(claim);
                let set = Expression::new_set(words.iter().cloned().map(Expression::new_string));
                claims.push((format!("claimset_{name}"), set));
                match claim {
                    Value::String(text) => Some(Expression::new_string(text.clone())),
                    _ => Some(Expression::new_string(words.join(" "))),
                }
            } else {
                // A claim that Cedar cannot represent is omitted; a missing claim cannot permit anything.
                values::to_cedar(claim).ok().flatten()
            };
            claims.extend(shown.map(|shown| (format!("claim_{name}"), shown)));
        }
        let id = uid("Client", caller.subject.as_deref().unwrap_or(ANONYMOUS));
        let groups: HashSet<EntityUid> = self
            .groups(&caller.claims)
            .into_iter()
            .map(|name| EntityUid::from_type_name_and_id(self.group.clone(), EntityId::new(name)))
            .collect();
        let attributes: HashMap<String, Expression> = claims.iter().cloned().collect();
        let entity = Entity::new(id.clone(), attributes, groups.clone())
            .unwrap_or_else(|_| Entity::new_no_attrs(id, groups));
        (entity, claims)
    }

    fn groups(&self, claims: &Map<String, Value>) -> BTreeSet<String> {
        let group = match &self.group_claim {
            Some(name) => claim(claims, name),
            None => None,
        };
        let group = group.or_else(|| GROUP_CLAIMS.iter().find_map(|name| claims.get(*name)));
        let role = self.role_claim.as_ref().and_then(|name| claim(claims, name));
        [group, role].into_iter().flatten().flat_map(names).collect()
    }

    /// The entity of a tool, prompt or resource.
    pub(super) fn resource(&self, resource: &AccessedEntity<'_>) -> Result<Entity, String> {
        let words = resource.cedar_names();
        let text = |text: &str| Expression::new_string(text.to_owned());
        let mut attributes = HashMap::from([
            ("name".to_owned(), text(resource.id())),
            ("feature".to_owned(), text(words.feature)),
            ("operation".to_owned(), text(words.operation)),
        ]);
        match resource {
            AccessedEntity::Tool(_, annotations) => {
                for (name, hint) in annotations.iter().flat_map(|annotations| annotations.iter()) {
                    if let (true, Value::Bool(hint)) = (ANNOTATIONS.contains(&name.as_str()), hint) {
                        attributes.insert(name.clone(), Expression::new_bool(*hint));
                    }
                }
            }
            AccessedEntity::Prompt(_) => {}
            AccessedEntity::Resource(uri) | AccessedEntity::Template(uri) => {
                attributes.insert("uri".to_owned(), text(uri));
                let template = matches!(resource, AccessedEntity::Template(_));
                attributes.insert("template".to_owned(), Expression::new_bool(template));
            }
        }
        let id = uid(words.entity, resource.id());
        Entity::new(id, attributes, HashSet::from([self.server.clone()])).map_err(|error| error.to_string())
    }
}

/// Merges an entity of the configuration with that of the request, which takes precedence.
pub(super) fn merge(known: &Entity, requested: Entity) -> Result<Entity, String> {
    let (_, mut attributes, mut parents) = known.clone().into_inner();
    let (uid, of_request, more) = requested.into_inner();
    attributes.extend(of_request);
    parents.extend(more);
    Entity::new(uid, attributes, parents).map_err(|error| error.to_string())
}

/// A claim by its name, or by a path of names separated by dots.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        claim(claims.get(first)?.as_object()?, rest)
    })
}

/// The strings of a claim that is an array or one string.
fn names(claim: &Value) -> Vec<String> {
    match claim {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// The elements of a claim that is an array, or a string of values separated by spaces.
fn claim_elements(claim: &Value) -> Vec<String> {
    match claim {
        Value::String(text) => text.split_whitespace().map(str::to_owned).collect(),
        other => names(other),
    }
}

fn uid(kind: &'static str, id: &str) -> EntityUid {
    // The kinds are constants of this file.
    #[expect(clippy::expect_used, reason = "the kinds are constants of this file and valid names")]
    let kind: EntityTypeName = kind.parse().expect("a name");
    EntityUid::from_type_name_and_id(kind, EntityId::new(id))
}
