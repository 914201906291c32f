//! `subscriptions/listen` of many clients over one that the server sees (MCP 2026-07-28, "Subscriptions").
//!
//! Servers keep one listener of a kind per pipe, so the lane asks once for everything and hands on to each
//! client what that client asked for, under the client's own id.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Refusal, State, cancelled, client::check_uris, is_within};
use crate::mcp::{
    message::{Message, Span, splice},
    outlet::{End, Outlet},
    owner::Owner,
};

/// Kinds of lists, as the filter names them and as their notifications do.
const LISTS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];
const RESOURCES: &str = "resourceSubscriptions";

/// Everybody who listens, and the one request the server knows of.
#[derive(Debug, Default)]
pub(super) struct Listening {
    listeners: BTreeMap<u64, Listener>,
    upstream: Option<Upstream>,
}

impl Listening {
    pub(super) fn len(&self) -> usize {
        self.listeners.len()
    }

    /// Whose they are, as far as that is known.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.listeners.values().filter_map(|listener| listener.owner.as_ref())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }
}

#[derive(Debug)]
struct Listener {
    /// Whose it is, where callers are asked who they are.
    owner: Option<Owner>,
    id: Bytes,
    wanted: Filter,
    outlet: Arc<Outlet>,
    acknowledged: bool,
}

#[derive(Debug)]
struct Upstream {
    id: u64,
    /// The request that this one took the place of: what the server says under its id is still meant.
    former: Option<u64>,
    resources: BTreeSet<String>,
    /// What the server said it will send; `None` until it did.
    accepted: Option<Filter>,
}

/// What to be told of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Filter {
    lists: BTreeSet<&'static str>,
    resources: BTreeSet<String>,
}

impl Filter {
    fn read(value: &Value) -> Self {
        let lists = LISTS.iter().map(|(name, _)| *name).filter(|name| value[*name] == true).collect();
        let uris = value[RESOURCES].as_array().into_iter().flatten();
        Self { lists, resources: uris.filter_map(|uri| uri.as_str().map(str::to_owned)).collect() }
    }

    fn and(&self, other: &Self) -> Value {
        let mut out = Map::new();
        for list in self.lists.intersection(&other.lists) {
            out.insert((*list).to_owned(), true.into());
        }
        let resources: Vec<_> = self.resources.intersection(&other.resources).collect();
        if !resources.is_empty() {
            out.insert(RESOURCES.to_owned(), json!(resources));
        }
        Value::Object(out)
    }

    fn wants(&self, method: &str, uri: Option<&str>) -> bool {
        match LISTS.iter().find(|(_, notification)| *notification == method) {
            Some((name, _)) => self.lists.contains(name),
            None if method == "notifications/resources/updated" => {
                uri.is_none_or(|uri| self.resources.iter().any(|wanted| is_within(uri, wanted)))
            }
            None => true,
        }
    }
}

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    notifications: Value,
    #[serde(default)]
    uri: Option<String>,
}

impl Params {
    fn of(message: &Message) -> Self {
        serde_json::from_str(message.params()).unwrap_or(Self { notifications: Value::Null, uri: None })
    }
}

impl State {
    /// Adds a client's stream and returns its number.
    pub(super) fn listen(
        &mut self,
        message: &Message,
        owner: Option<&Owner>,
        outlet: Arc<Outlet>,
    ) -> Result<u64, Refusal> {
        let wanted = Filter::read(&Params::of(message).notifications);
        let person = owner.map(Owner::person);
        let is_same = |one: &&Listener| person.is_some() && one.owner.as_ref().map(Owner::person) == person;
        let same = self.listening.listeners.values().filter(is_same);
        check_uris(same.flat_map(|one| &one.wanted.resources).chain(&wanted.resources))?;
        let number = self.new_id();
        let owner = owner.cloned();
        let listener = Listener { owner, id: message.id(), wanted, outlet, acknowledged: false };
        let known = self
            .listening
            .upstream
            .as_ref()
            .is_some_and(|up| listener.wanted.resources.is_subset(&up.resources));
        self.listening.listeners.insert(number, listener);
        if known {
            self.acknowledge();
        } else {
            self.listen_upstream(message);
        }
        Ok(number)
    }

    /// Takes a client's stream away; `false` when the number is none.
    pub(super) fn unlisten(&mut self, number: u64) -> bool {
        if self.listening.listeners.remove(&number).is_none() {
            return false;
        }
        if self.listening.listeners.is_empty()
            && let Some(upstream) = self.listening.upstream.take()
        {
            self.send(cancelled(upstream.id, "nobody listens any more"));
        }
        true
    }

    /// Ends all streams, since the process is gone.
    pub(super) fn end_listeners(&mut self, end: &End) {
        self.listening.upstream = None;
        for listener in std::mem::take(&mut self.listening.listeners).into_values() {
            listener.outlet.end(end.clone());
        }
    }

    /// Takes a notification that carries the id of the lane's listen request at `span`.
    pub(super) fn told_listeners(&mut self, message: &Message, span: &Span) {
        let number =
            std::str::from_utf8(&message.bytes()[span.clone()]).ok().and_then(|text| text.parse().ok());
        let Some(upstream) = self.listening.upstream.as_mut() else { return };
        let is_current = Some(upstream.id) == number;
        if number.is_none() || !is_current && upstream.former != number {
            return;
        }
        if message.method() == "notifications/subscriptions/acknowledged" {
            if is_current {
                let widened = upstream.accepted.is_none() && upstream.former.is_some();
                upstream.accepted = Some(Filter::read(&Params::of(message).notifications));
                if widened {
                    self.tell_missed();
                }
                self.acknowledge();
            }
            return;
        }
        if message.method() == "notifications/tools/list_changed" {
            self.tools.changed();
        }
        let uri = Params::of(message).uri;
        for listener in self.listening.listeners.values().filter(|listener| listener.acknowledged) {
            if listener.wanted.wants(message.method(), uri.as_deref()) {
                listener.outlet.push(splice(message.bytes(), &mut [(span.clone(), &listener.id)]).freeze());
            }
        }
    }

    /// Takes the answer to the lane's listen request: an error, or the end of all streams.
    /// Returns `false` when the answer is to something else.
    pub(super) fn answered_listen(&mut self, message: &Message) -> bool {
        let Some(upstream) = self.listening.upstream.take_if(|up| Some(up.id) == message.numeric_id()) else {
            return false;
        };
        let subscription = super::server::subscription_span(message, message.result());
        for listener in std::mem::take(&mut self.listening.listeners).into_values() {
            let mut edits: Vec<(Span, &[u8])> = vec![(message.id_span(), &listener.id)];
            if let Some(span) = &subscription {
                edits.push((span.clone(), &listener.id));
            }
            listener.outlet.answer(splice(message.bytes(), &mut edits).freeze());
        }
        tracing::debug!(id = upstream.id, "the server ended the subscription");
        true
    }

    /// Takes the server's `notifications/cancelled` for the listen request: a graceful end on a pipe.
    pub(super) fn cancelled_listen(&mut self, id: u64) -> bool {
        if self.listening.upstream.take_if(|upstream| upstream.id == id).is_none() {
            return false;
        }
        for listener in std::mem::take(&mut self.listening.listeners).into_values() {
            let id: Value = serde_json::from_slice(&listener.id).unwrap_or_default();
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
            let answer =
                json!({ "jsonrpc": "2.0", "id": id, "result": { "resultType": "complete", "_meta": meta } });
            listener.outlet.answer(answer.to_string().into());
        }
        true
    }

    /// Asks the server for all lists and for every resource that somebody wants, in place of what was asked before.
    fn listen_upstream(&mut self, message: &Message) {
        let former = self.listening.upstream.as_ref().map(|before| before.id);
        if let Some(before) = self.listening.upstream.take() {
            // Servers forget all of a pipe's listeners when one of them ends, so the old one ends first.
            self.send(cancelled(before.id, "replaced by a wider one"));
        }
        let resources: BTreeSet<String> = self
            .listening
            .listeners
            .values()
            .flat_map(|listener| listener.wanted.resources.iter().cloned())
            .collect();
        let mut filter: Map<String, Value> =
            LISTS.iter().map(|(name, _)| ((*name).to_owned(), true.into())).collect();
        if !resources.is_empty() {
            filter.insert(RESOURCES.to_owned(), json!(resources));
        }
        let id = self.new_id();
        let mut params: Map<String, Value> = serde_json::from_str(message.params()).unwrap_or_default();
        params.insert("notifications".to_owned(), Value::Object(filter));
        if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
            // It is one listener's of many, and could be the number of another client's call.
            meta.remove("progressToken");
        }
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": message.method(), "params": params });
        self.listening.upstream = Some(Upstream { id, former, resources, accepted: None });
        self.send(BytesMut::from(request.to_string().as_bytes()));
    }

    /// Tells who listened before of every change that there may have been: the server had nobody to tell it to between
    /// the end of one request and the beginning of the next. One notice too many costs a look, one too few is never
    /// made up for.
    fn tell_missed(&mut self) {
        self.tools.changed();
        let Some(accepted) = self.listening.upstream.as_ref().and_then(|up| up.accepted.as_ref()) else {
            return;
        };
        for listener in self.listening.listeners.values().filter(|listener| listener.acknowledged) {
            let id: Value = serde_json::from_slice(&listener.id).unwrap_or_default();
            let notice = |method: &str, mut params: Value| {
                params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
                listener
                    .outlet
                    .push(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string().into());
            };
            for (name, method) in LISTS {
                if listener.wanted.lists.contains(name) && accepted.lists.contains(name) {
                    notice(method, json!({}));
                }
            }
            for uri in listener.wanted.resources.intersection(&accepted.resources) {
                notice("notifications/resources/updated", json!({ "uri": uri }));
            }
        }
    }

    /// Tells the listeners that were not told yet what they will get.
    fn acknowledge(&mut self) {
        let Some(accepted) = self.listening.upstream.as_ref().and_then(|up| up.accepted.as_ref()) else {
            return;
        };
        for listener in self.listening.listeners.values_mut().filter(|listener| !listener.acknowledged) {
            listener.acknowledged = true;
            let id: Value = serde_json::from_slice(&listener.id).unwrap_or_default();
            let acknowledged = json!({
                "jsonrpc": "2.0",
                "method": "notifications/subscriptions/acknowledged",
                "params": {
                    "_meta": { "io.modelcontextprotocol/subscriptionId": id },
                    "notifications": listener.wanted.and(accepted),
                },
            });
            listener.outlet.push(acknowledged.to_string().into());
        }
    }
}
