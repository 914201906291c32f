//! Denies requests that no policy permits, and removes from lists the items that the caller may not use.
//!
//! [`policy::cedar`](crate::policy::cedar) decides; this layer reads from each message which tools, prompts and
//! resources it uses. A message with an unknown method is denied, unless it is a notification (`notifications/*`).
//! Policies use the server's own names of tools, not the names that clients see.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use http::StatusCode;
use serde_json::{Map, Value};

use super::annotations::{AnnotationCache, ToolsListRequest};
use crate::{
    auth::incoming::{Principal, PrincipalCache},
    explain::Reason,
    mcp::{
        error_code,
        fields::{AmbiguousField, FieldValue, Fields},
        message::{Message, MessageKind, splice},
    },
    policy::cedar::{
        AccessedEntity, Arguments, ArgumentsError, Authorization, Caller, CallerAuthorizer, Decision,
    },
    proxy::{
        denial::Denial,
        layer::{Inspection, Layer, Next, ResponseFuture},
        message_errors,
        messages::{Hook, HookVerdict, Hooks, ListItem, RequestMessages, ResponseMessage, rewrite_lists},
        respond::{Request, Response},
        session_owners::Owner,
    },
};

/// The layer.
#[derive(Debug)]
pub(crate) struct Authorize {
    authorization: Arc<Authorization>,
    filters: PrincipalCache<Arc<ResultFilter>>,
    /// The filter of all callers when there is no authentication.
    anonymous: OnceLock<Arc<ResultFilter>>,
    annotations: Arc<AnnotationCache>,
}

/// The access that a message needs.
enum RequestedAccess {
    /// Nothing that policies apply to.
    Unrestricted,
    /// Calling this tool with these arguments.
    Tool(String, Arguments),
    Prompt(String, Arguments),
    /// Reading or subscribing to resources.
    Resources(Vec<String>),
    /// Completing an argument of this resource template.
    Template(String),
    /// No decision is possible, for this reason.
    Undecidable(ArgumentsError),
    /// The method is unknown.
    UnknownMethod,
}

/// Methods that all callers may use: they manage the session, or are lists, which are filtered by item.
fn is_unrestricted(method: &str) -> bool {
    matches!(
        method,
        "initialize"
            | "ping"
            | "server/discover"
            | "logging/setLevel"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/unsubscribe"
            // A task's id is known only to the caller of the call that started it, which was authorized.
            | "tasks/get"
            | "tasks/result"
            | "tasks/update"
            | "tasks/cancel"
    )
}

impl RequestedAccess {
    fn of(message: &Message, authorization: &Authorization) -> Self {
        let method = message.method();
        if message.kind() == MessageKind::Response || is_unrestricted(method) {
            return Self::Unrestricted;
        }
        if message.kind() == MessageKind::Notification && method.starts_with("notifications/") {
            return Self::Unrestricted;
        }
        match method {
            "tools/call"
            | "prompts/get"
            | "resources/read"
            | "resources/subscribe"
            | "completion/complete"
            | "subscriptions/listen" => Self::read(message, authorization).unwrap_or_else(Self::Undecidable),
            _ => Self::UnknownMethod,
        }
    }

    fn read(message: &Message, authorization: &Authorization) -> Result<Self, ArgumentsError> {
        let unclear = |reason: &str| ArgumentsError::Unclear(reason.to_owned());
        let ambiguous = |ambiguous: AmbiguousField| ArgumentsError::Unclear(ambiguous.to_string());
        let params = message.params_fields().ok_or_else(|| unclear("the parameters are not an object"))?;
        let text = |fields: &Fields<'_>, name: &str| {
            let text = fields.get_unique_string(name).map_err(ambiguous)?;
            let text = text.ok_or_else(|| unclear(&format!("`{name}` is missing or not a string")))?;
            Ok(text.into_owned())
        };
        let arguments = || match params.get_unique("arguments").map_err(ambiguous)?.map(FieldValue::get) {
            None | Some("null") => Ok(Arguments::default()),
            Some(arguments) => authorization.arguments(arguments),
        };
        Ok(match message.method() {
            "tools/call" => Self::Tool(text(&params, "name")?, arguments()?),
            "prompts/get" => Self::Prompt(text(&params, "name")?, arguments()?),
            "completion/complete" => {
                let reference = params.get_unique("ref").map_err(ambiguous)?;
                let reference = reference.and_then(|reference| Fields::read(reference.get()));
                let reference = reference.ok_or_else(|| unclear("`ref` is missing or not an object"))?;
                match text(&reference, "type")?.as_str() {
                    "ref/prompt" => Self::Prompt(text(&reference, "name")?, Arguments::default()),
                    "ref/resource" => Self::Template(text(&reference, "uri")?),
                    _ => return Err(unclear("`ref` has an unknown type")),
                }
            }
            "subscriptions/listen" => {
                let notifications = params.get_unique("notifications").map_err(ambiguous)?;
                let notifications = notifications.and_then(|notifications| Fields::read(notifications.get()));
                let uris = match notifications {
                    Some(notifications) => {
                        notifications.get_unique("resourceSubscriptions").map_err(ambiguous)?
                    }
                    None => None,
                };
                let uris = uris.map(|uris| serde_json::from_str::<Vec<String>>(uris.get())).transpose();
                let uris = uris.map_err(|_| unclear("`resourceSubscriptions` is not an array of strings"))?;
                Self::Resources(uris.unwrap_or_default())
            }
            _ => Self::Resources(vec![text(&params, "uri")?]),
        })
    }
}

impl Authorize {
    pub(crate) fn new(authorization: Arc<Authorization>) -> Self {
        Self {
            authorization,
            filters: PrincipalCache::default(),
            anonymous: OnceLock::new(),
            annotations: Arc::default(),
        }
    }

    /// Authorizes by policies that read annotations of tools, which may have to be fetched from the server.
    async fn authorize_with_annotations(
        &self,
        filter: Arc<ResultFilter>,
        request: Request,
        next: Next<'_>,
    ) -> Response {
        if let Some(messages) = request.extensions().get::<Arc<RequestMessages>>().cloned() {
            let list_request = ToolsListRequest::from_request(&request);
            for message in messages.messages() {
                let access = RequestedAccess::of(message, &self.authorization);
                let said = match &access {
                    RequestedAccess::Tool(name, _) => {
                        self.tool_annotations(name, &list_request, message, next).await.map(Some)
                    }
                    _ => Ok(None),
                };
                let verdict = said.and_then(|said| check(&filter.authorizer, &access, said.as_deref()));
                if let Err(denial) = verdict {
                    return denied(&messages, message, denial.input("method", message.method()));
                }
            }
        }
        next.handle(request).await
    }

    /// The authorizer of the caller, and the filter of their responses.
    fn filter(&self, request: &Request) -> Arc<ResultFilter> {
        let prepare = |caller: &Caller, owner: Option<Owner>| {
            Arc::new(ResultFilter {
                authorizer: self.authorization.for_caller(caller),
                owner: owner.filter(|_| self.authorization.uses_annotations()),
                annotations: Arc::clone(&self.annotations),
            })
        };
        match request.extensions().get::<Arc<Principal>>() {
            Some(principal) => self.filters.get_or_insert(principal, || {
                let subject = Some(principal.subject.clone());
                let caller = Caller { subject, claims: principal.claims.clone() };
                prepare(&caller, Some(Owner::of(principal)))
            }),
            None => Arc::clone(self.anonymous.get_or_init(|| prepare(&Caller::default(), None))),
        }
    }

    /// The annotations of a tool.
    async fn tool_annotations(
        &self,
        tool: &str,
        asking: &ToolsListRequest,
        message: &Message,
        next: Next<'_>,
    ) -> Result<Arc<Map<String, Value>>, Denial> {
        let said = Box::pin(self.annotations.get_or_fetch(tool, asking, message, next)).await;
        said.ok_or_else(|| {
            Denial::new(Reason::AnnotationsUnknown)
                .rule("policies need the annotations of the tool")
                .input("tool", tool)
        })
    }
}

/// Decides about the access that a message requests; `annotations` are those of the tool, if policies read them.
fn check(
    authorizer: &CallerAuthorizer,
    access: &RequestedAccess,
    annotations: Option<&Map<String, Value>>,
) -> Result<(), Denial> {
    match access {
        RequestedAccess::Unrestricted => Ok(()),
        RequestedAccess::Tool(name, arguments) => {
            decide(authorizer, &AccessedEntity::Tool(name, annotations), Some(arguments))
        }
        RequestedAccess::Prompt(name, arguments) => {
            decide(authorizer, &AccessedEntity::Prompt(name), Some(arguments))
        }
        RequestedAccess::Template(uri) => decide(authorizer, &AccessedEntity::Template(uri), None),
        RequestedAccess::Resources(uris) => {
            uris.iter().try_for_each(|uri| decide(authorizer, &AccessedEntity::Resource(uri), None))
        }
        RequestedAccess::Undecidable(ArgumentsError::Unclear(reason)) => {
            Err(Denial::new(Reason::AuthorizationUnclear).rule(reason.clone()))
        }
        RequestedAccess::Undecidable(ArgumentsError::Undecided(reason)) => {
            Err(Denial::new(Reason::AuthorizationUndecided).rule(reason.clone()))
        }
        RequestedAccess::UnknownMethod => {
            Err(Denial::new(Reason::AuthorizationUnknownMethod).rule("the method is unknown"))
        }
    }
}

fn decide(
    authorizer: &CallerAuthorizer,
    used: &AccessedEntity<'_>,
    arguments: Option<&Arguments>,
) -> Result<(), Denial> {
    let denial = match authorizer.decide(used, arguments) {
        Decision::Allowed => return Ok(()),
        Decision::Denied(rules) if rules.is_empty() => {
            Denial::new(Reason::AuthorizationDenied).rule("no policy permits the request").fix(format!(
                "if the caller should be allowed, add the policy `{}`",
                authorizer.suggested_policies(used).join("` and the policy `")
            ))
        }
        Decision::Denied(rules) => {
            let rules = rules.join(", ");
            Denial::new(Reason::AuthorizationForbidden)
                .fix(format!(
                    "if the caller should be allowed, change {rules} so that this request is not forbidden"
                ))
                .rule(rules)
        }
        Decision::Undecided(reason) => Denial::new(Reason::AuthorizationUndecided).rule(reason),
        Decision::Unclear(reason) => Denial::new(Reason::AuthorizationUnclear).rule(reason),
    };
    // Only the names of arguments are recorded, because their values may be sensitive.
    let named = arguments.map(Arguments::names);
    let denial = denial.input("principal", authorizer.caller()).input("resource", used.display());
    Err(match named.filter(|named| !named.is_empty()) {
        Some(named) => denial.input("arguments", named),
        None => denial,
    })
}

fn denied(asked: &RequestMessages, message: &Message, denial: Denial) -> Response {
    // The explanation is only for the operator: the client gets only the ids of the denial and of its reason.
    let error = (error_code::INVALID_REQUEST, "not authorized");
    message_errors::deny_message(asked, message, StatusCode::FORBIDDEN, error, denial)
}

/// The lists in responses, and the identifying fields of their items.
const LISTS: [(&str, &str); 4] =
    [("tools", "name"), ("prompts", "name"), ("resources", "uri"), ("resourceTemplates", "uriTemplate")];

/// Removes from responses what the caller may not use.
#[derive(Debug)]
struct ResultFilter {
    authorizer: CallerAuthorizer,
    /// The caller, if annotations matter.
    owner: Option<Owner>,
    annotations: Arc<AnnotationCache>,
}

impl Hook for ResultFilter {
    fn on_message(&self, said: &ResponseMessage<'_>) -> HookVerdict {
        match said.message.method() {
            "notifications/tools/list_changed" => self.annotations.forget(),
            "notifications/resources/updated" => return self.filter_update(said.message),
            _ => {}
        }
        let mut verdict = HookVerdict::Keep;
        let mut message = Cow::Borrowed(said.message);
        let changed =
            rewrite_lists(&message, LISTS.map(|(key, _)| key), |list, item| self.item(LISTS[list], item));
        match apply(changed, &mut message) {
            Ok(None) => {}
            Ok(Some(changed)) => verdict = changed,
            Err(verdict) => return verdict,
        }
        match apply(force_private_cache_scope(&message), &mut message) {
            Ok(None) => verdict,
            Ok(Some(changed)) => changed,
            Err(verdict) => verdict,
        }
    }
}

/// Applies a verdict to `message`, so that the next filter sees the changed message.
fn apply(verdict: HookVerdict, message: &mut Cow<'_, Message>) -> Result<Option<HookVerdict>, HookVerdict> {
    match &verdict {
        HookVerdict::Keep => Ok(None),
        HookVerdict::Drop | HookVerdict::Deny(..) => Err(verdict),
        HookVerdict::Replace(text) => match Message::parse(text.clone()) {
            Ok(changed) => {
                *message = Cow::Owned(changed);
                Ok(Some(verdict))
            }
            Err(_) => Err(HookVerdict::Drop),
        },
    }
}

impl ResultFilter {
    fn item(&self, (key, id): (&str, &str), item: &str) -> ListItem {
        let Some(fields) = Fields::read(item) else { return ListItem::Drop };
        let Ok(Some(id)) = fields.get_unique_string(id) else { return ListItem::Drop };
        let permitted = |used: &AccessedEntity<'_>| self.authorizer.decide(used, None) == Decision::Allowed;
        let shown = match key {
            "tools" => {
                let said = fields.get_unique("annotations").ok().flatten();
                let said: Map<String, Value> =
                    said.and_then(|said| serde_json::from_str(said.get()).ok()).unwrap_or_default();
                let shown = self.authorizer.is_listed(&AccessedEntity::Tool(&id, Some(&said)));
                self.annotations.insert(self.owner.as_ref(), &id, said);
                shown
            }
            "prompts" => self.authorizer.is_listed(&AccessedEntity::Prompt(&id)),
            "resources" => permitted(&AccessedEntity::Resource(&id)),
            _ => permitted(&AccessedEntity::Template(&id)),
        };
        if shown { ListItem::Keep } else { ListItem::Drop }
    }

    /// Passes an update of a resource to callers who may read it.
    fn filter_update(&self, message: &Message) -> HookVerdict {
        let uri = message.params_fields().and_then(|params| params.get_unique_string("uri").ok().flatten());
        let allowed = uri.is_some_and(|uri| {
            self.authorizer.decide(&AccessedEntity::Resource(&uri), None) == Decision::Allowed
        });
        if allowed { HookVerdict::Keep } else { HookVerdict::Drop }
    }
}

/// Prevents shared caching of a filtered list (MCP 2026-07-28, `cacheScope`).
fn force_private_cache_scope(message: &Message) -> HookVerdict {
    let fields = if message.kind() == MessageKind::Response { message.result_fields() } else { None };
    let Some(fields) = fields else { return HookVerdict::Keep };
    match fields.get_unique("cacheScope") {
        Ok(Some(scope)) if scope.get() != "\"private\"" => {
            let edits = &mut [(message.span_of_text(scope.get()), &b"\"private\""[..])];
            HookVerdict::Replace(splice(message.bytes(), edits).freeze())
        }
        Ok(_) => HookVerdict::Keep,
        // The response has two such fields, and it is unknown which one a cache would use.
        Err(ambiguous) => {
            let text = format!("the server's response cannot be forwarded: {ambiguous}");
            let denial = Denial::new(Reason::AnswerUnclear).input("cause", ambiguous.to_string());
            HookVerdict::Deny(Box::new(denial), text)
        }
    }
}

impl Layer for Authorize {
    fn inspect(&self, request: &mut Request) -> Inspection {
        let filter = self.filter(request);
        Hooks::of_request(request).add(Arc::clone(&filter));
        if self.authorization.uses_annotations() {
            return Inspection::Handle;
        }
        if let Some(messages) = request.extensions().get::<Arc<RequestMessages>>() {
            for message in messages.messages() {
                let access = RequestedAccess::of(message, &self.authorization);
                if let Err(denial) = check(&filter.authorizer, &access, None) {
                    let denial = denial.input("method", message.method());
                    return Inspection::Respond(Box::new(denied(messages, message, denial)));
                }
            }
        }
        Inspection::Pass
    }

    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        Box::pin(self.authorize_with_annotations(self.filter(&request), request, next))
    }
}

#[cfg(test)]
#[path = "authorize_tests.rs"]
mod tests;
