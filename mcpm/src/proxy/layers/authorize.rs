//! Lets callers use what policies permit, and shows them no more than that.
//!
//! The decision is [`policy::cedar`](crate::policy::cedar)'s; here questions are read out of messages. A method
//! that is in no table here is refused: nobody knows what it would do. Policies see a server's own names.

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use serde_json::{Map, Value, value::RawValue};

use super::{
    annotations::{Annotations, Asking, owner},
    askers::Askers,
};
use crate::{
    auth::incoming::Principal,
    explain::Reason,
    mcp::{
        error_code,
        fields::{Ambiguous, Fields},
        message::{Kind, Message, splice},
    },
    policy::cedar::{Arguments, Asker, Authorization, Caller, Decision, Unfit, Used},
    proxy::{
        denial::Denial,
        layer::{Answer, Layer, Next},
        messages::{Asked, Hook, Hooks, Item, Said, Verdict, rewrite},
        owners::Owner,
        refusal,
        respond::{Request, Response},
    },
};

/// The layer.
#[derive(Debug)]
pub(crate) struct Authorize {
    authorization: Arc<Authorization>,
    askers: Askers,
    /// Whoever calls when callers are not asked who they are.
    anybody: OnceLock<Arc<Asker>>,
    annotations: Arc<Annotations>,
}

/// What a message of a client wants.
enum Want {
    /// Nothing that policies are about.
    Nothing,
    /// To call that tool with these arguments.
    Tool(String, Arguments),
    Prompt(String, Arguments),
    /// To read or to hear of resources.
    Resources(Vec<String>),
    /// To complete an argument of that template.
    Template(String),
    /// It cannot be decided about, and why.
    Unfit(Unfit),
    /// It is in no table.
    Unknown,
}

/// Methods that anybody may use: they open, keep and end a conversation, and lists are filtered by item.
fn is_open(method: &str) -> bool {
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
            // Whoever knows the id of a task was told it when a call began that was decided about.
            | "tasks/get"
            | "tasks/result"
            | "tasks/update"
            | "tasks/cancel"
    )
}

impl Want {
    fn of(message: &Message, authorization: &Authorization) -> Self {
        let method = message.method();
        if message.kind() == Kind::Response || is_open(method) {
            return Self::Nothing;
        }
        if message.kind() == Kind::Notification && method.starts_with("notifications/") {
            return Self::Nothing;
        }
        match method {
            "tools/call"
            | "prompts/get"
            | "resources/read"
            | "resources/subscribe"
            | "completion/complete"
            | "subscriptions/listen" => Self::read(message, authorization).unwrap_or_else(Self::Unfit),
            _ => Self::Unknown,
        }
    }

    fn read(message: &Message, authorization: &Authorization) -> Result<Self, Unfit> {
        let unclear = |reason: &str| Unfit::Unclear(reason.to_owned());
        let ambiguous = |ambiguous: Ambiguous| Unfit::Unclear(ambiguous.to_string());
        let params = Fields::read(message.params()).ok_or_else(|| unclear("the parameters are no object"))?;
        let text = |fields: &Fields<'_>, name: &str| {
            let text = fields.string(name).map_err(ambiguous)?;
            text.ok_or_else(|| unclear(&format!("`{name}` is missing or no text")))
        };
        let arguments = || match params.one("arguments").map_err(ambiguous)?.map(RawValue::get) {
            None | Some("null") => Ok(Arguments::default()),
            Some(arguments) => authorization.arguments(arguments),
        };
        Ok(match message.method() {
            "tools/call" => Self::Tool(text(&params, "name")?, arguments()?),
            "prompts/get" => Self::Prompt(text(&params, "name")?, arguments()?),
            "completion/complete" => {
                let reference = params.one("ref").map_err(ambiguous)?;
                let reference = reference.and_then(|reference| Fields::read(reference.get()));
                let reference = reference.ok_or_else(|| unclear("`ref` is missing or no object"))?;
                match text(&reference, "type")?.as_str() {
                    "ref/prompt" => Self::Prompt(text(&reference, "name")?, Arguments::default()),
                    "ref/resource" => Self::Template(text(&reference, "uri")?),
                    _ => return Err(unclear("`ref` is of no known type")),
                }
            }
            "subscriptions/listen" => {
                let wanted = params.one("notifications").map_err(ambiguous)?;
                let wanted = wanted.and_then(|wanted| Fields::read(wanted.get()));
                let uris = match wanted {
                    Some(wanted) => wanted.one("resourceSubscriptions").map_err(ambiguous)?,
                    None => None,
                };
                let uris = uris.map(|uris| serde_json::from_str::<Vec<String>>(uris.get())).transpose();
                let uris = uris.map_err(|_| unclear("`resourceSubscriptions` is no list of texts"))?;
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
            askers: Askers::default(),
            anybody: OnceLock::new(),
            annotations: Arc::default(),
        }
    }

    async fn authorize(&self, mut request: Request, next: Next<'_>) -> Response {
        let asker = self.asker(&request);
        let annotations = Arc::clone(&self.annotations);
        let owner = self.authorization.uses_annotations().then(|| owner(&request)).flatten();
        Hooks::of(&mut request).add(Answers { asker: Arc::clone(&asker), owner, annotations });
        if let Some(asked) = request.extensions().get::<Arc<Asked>>().cloned() {
            let asking = self.authorization.uses_annotations().then(|| Asking::of(&request));
            for message in asked.messages() {
                let verdict = self.verdict(&asker, message, asking.as_ref(), next).await;
                if let Err(denial) = verdict {
                    return denied(&asked, message, denial.input("method", message.method()));
                }
            }
        }
        next.handle(request).await
    }

    /// The questions about who is asking.
    fn asker(&self, request: &Request) -> Arc<Asker> {
        let prepare = |caller: &Caller| self.authorization.of(caller);
        match request.extensions().get::<Arc<Principal>>() {
            Some(principal) => self.askers.of(principal, || {
                let subject = Some(principal.subject.clone());
                prepare(&Caller { subject, claims: principal.claims.clone() })
            }),
            None => Arc::clone(self.anybody.get_or_init(|| Arc::new(prepare(&Caller::default())))),
        }
    }

    async fn verdict(
        &self,
        asker: &Asker,
        message: &Message,
        asking: Option<&Asking>,
        next: Next<'_>,
    ) -> Result<(), Denial> {
        match Want::of(message, &self.authorization) {
            Want::Nothing => Ok(()),
            Want::Tool(name, arguments) => {
                let said = match asking {
                    Some(asking) => Some(self.said(&name, asking, message, next).await?),
                    None => None,
                };
                judged(asker, &Used::Tool(&name, said.as_deref()), Some(&arguments))
            }
            Want::Prompt(name, arguments) => judged(asker, &Used::Prompt(&name), Some(&arguments)),
            Want::Template(uri) => judged(asker, &Used::Template(&uri), None),
            Want::Resources(uris) => {
                uris.iter().try_for_each(|uri| judged(asker, &Used::Resource(uri), None))
            }
            Want::Unfit(Unfit::Unclear(reason)) => {
                Err(Denial::new(Reason::AuthorizationUnclear).rule(reason))
            }
            Want::Unfit(Unfit::Undecided(reason)) => {
                Err(Denial::new(Reason::AuthorizationUndecided).rule(reason))
            }
            Want::Unknown => {
                Err(Denial::new(Reason::AuthorizationUnknownMethod).rule("the method is in no table"))
            }
        }
    }

    /// What the server says of a tool.
    async fn said(
        &self,
        tool: &str,
        asking: &Asking,
        message: &Message,
        next: Next<'_>,
    ) -> Result<Arc<Map<String, Value>>, Denial> {
        let said = Box::pin(self.annotations.of(tool, asking, message, next)).await;
        said.ok_or_else(|| {
            Denial::new(Reason::AnnotationsUnknown)
                .rule("what the server says of the tool")
                .input("tool", tool)
        })
    }
}

fn judged(asker: &Asker, used: &Used<'_>, arguments: Option<&Arguments>) -> Result<(), Denial> {
    let denial = match asker.decide(used, arguments) {
        Decision::Allowed => return Ok(()),
        Decision::Denied(rules) if rules.is_empty() => {
            Denial::new(Reason::AuthorizationDenied).rule("no policy permits it").fix(format!(
                "if the caller is to do it, add the policy `{}`",
                asker.permits(used).join("` and the policy `")
            ))
        }
        Decision::Denied(rules) => {
            let rules = rules.join(", ");
            Denial::new(Reason::AuthorizationForbidden)
                .fix(format!("if the caller is to do it, change {rules} so that it does not forbid this"))
                .rule(rules)
        }
        Decision::Undecided(reason) => Denial::new(Reason::AuthorizationUndecided).rule(reason),
        Decision::Unclear(reason) => Denial::new(Reason::AuthorizationUnclear).rule(reason),
    };
    // Of arguments no more than their names: their values are the caller's.
    let named = arguments.map(Arguments::names);
    let denial = denial.input("principal", asker.caller()).input("resource", used.shown());
    Err(match named.filter(|named| !named.is_empty()) {
        Some(named) => denial.input("arguments", named),
        None => denial,
    })
}

fn denied(asked: &Asked, message: &Message, denial: Denial) -> Response {
    // Why is the operator's to know: the client has the ids.
    let error = (error_code::INVALID_REQUEST, "not authorized");
    refusal::refuse(asked, message, StatusCode::FORBIDDEN, error, denial)
}

/// The lists of answers, and what tells their items apart.
const LISTS: [(&str, &str); 4] =
    [("tools", "name"), ("prompts", "name"), ("resources", "uri"), ("resourceTemplates", "uriTemplate")];

/// Shows in answers what the caller may use.
struct Answers {
    asker: Arc<Asker>,
    /// Who is asking, where it matters what the server says of its tools.
    owner: Option<Owner>,
    annotations: Arc<Annotations>,
}

impl Hook for Answers {
    fn message(&mut self, said: &Said<'_>) -> Verdict {
        match said.message.method() {
            "notifications/tools/list_changed" => self.annotations.forget(),
            "notifications/resources/updated" => return self.update(said.message),
            _ => {}
        }
        let mut verdict = Verdict::Keep;
        let mut message = said.message.clone();
        let changed = rewrite(&message, LISTS.map(|(key, _)| key), |list, item| self.item(LISTS[list], item));
        match follow(changed, &mut message) {
            Ok(None) => {}
            Ok(Some(changed)) => verdict = changed,
            Err(verdict) => return verdict,
        }
        match follow(private(&message), &mut message) {
            Ok(None) => verdict,
            Ok(Some(changed)) => changed,
            Err(verdict) => verdict,
        }
    }
}

/// Goes on with a message that was changed.
fn follow(verdict: Verdict, message: &mut Message) -> Result<Option<Verdict>, Verdict> {
    match &verdict {
        Verdict::Keep => Ok(None),
        Verdict::Drop | Verdict::Refuse(..) => Err(verdict),
        Verdict::Replace(text) => match Message::parse(text.clone()) {
            Ok(changed) => {
                *message = changed;
                Ok(Some(verdict))
            }
            Err(_) => Err(Verdict::Drop),
        },
    }
}

impl Answers {
    fn item(&self, (key, id): (&str, &str), item: &str) -> Item {
        let Some(fields) = Fields::read(item) else { return Item::Drop };
        let Ok(Some(id)) = fields.string(id) else { return Item::Drop };
        let permitted = |used: &Used<'_>| self.asker.decide(used, None) == Decision::Allowed;
        let shown = match key {
            "tools" => {
                let said = fields.one("annotations").ok().flatten();
                let said: Map<String, Value> =
                    said.and_then(|said| serde_json::from_str(said.get()).ok()).unwrap_or_default();
                let shown = self.asker.shows(&Used::Tool(&id, Some(&said)));
                self.annotations.learn(self.owner.as_ref(), &id, said);
                shown
            }
            "prompts" => self.asker.shows(&Used::Prompt(&id)),
            "resources" => permitted(&Used::Resource(&id)),
            _ => permitted(&Used::Template(&id)),
        };
        if shown { Item::Keep } else { Item::Drop }
    }

    /// A change of a resource is told to those who may read it.
    fn update(&self, message: &Message) -> Verdict {
        let uri = Fields::read(message.params()).and_then(|params| params.string("uri").ok().flatten());
        let allowed =
            uri.is_some_and(|uri| self.asker.decide(&Used::Resource(&uri), None) == Decision::Allowed);
        if allowed { Verdict::Keep } else { Verdict::Drop }
    }
}

/// Keeps what was made for one caller out of shared caches (MCP 2026-07-28, `cacheScope`).
fn private(message: &Message) -> Verdict {
    let fields = if message.kind() == Kind::Response { Fields::read(message.result()) } else { None };
    let Some(fields) = fields else { return Verdict::Keep };
    match fields.one("cacheScope") {
        Ok(Some(scope)) if scope.get() != "\"private\"" => {
            let edits = &mut [(message.span_of(scope), &b"\"private\""[..])];
            Verdict::Replace(splice(message.bytes(), edits).freeze())
        }
        Ok(_) => Verdict::Keep,
        // Which of two a cache would go by nobody knows.
        Err(ambiguous) => {
            let text = format!("the server's answer cannot be passed on: {ambiguous}");
            let denial = Denial::new(Reason::AnswerUnclear).input("cause", ambiguous.to_string());
            Verdict::Refuse(Box::new(denial), text)
        }
    }
}

impl Layer for Authorize {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        Box::pin(self.authorize(request, next))
    }
}

#[cfg(test)]
#[path = "authorize_tests.rs"]
mod tests;
