//! Merges the `subscriptions/listen` requests of many clients into one request to the server (MCP 2026-07-28,
//! "Subscriptions").
//!
//! Servers keep only one listener of each kind per connection, so the multiplexer sends one request for all lists and
//! all requested resources. Each client receives only the list changes and resource updates that it requested, with
//! the id of its own request.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    LINE_OVERHEAD, MuxState, RpcError, cancelled_notification, error_response_with_data, is_within,
    subscription_limit::{check_uris, too_many_subscriptions},
};
use crate::{
    explain::Reason,
    mcp::{
        error_code,
        message::{Message, Span, each_element, splice},
    },
    memory::Account,
    stdio::{
        owner::Owner,
        replay_stream::{MessageStream, StreamEnd},
    },
};

/// Maximum size of a `subscriptions/listen` request in bytes.
const MAX_LISTEN_BYTES: usize = 512 << 10;
/// Maximum number of resources of all listeners of a process, and maximum total size of their URIs in bytes.
const MAX_LISTENED: usize = 4000;
const MAX_LISTENED_BYTES: usize = 1 << 20;
/// Bytes charged for a URI in addition to its length.
const URI_OVERHEAD: usize = 64;

/// The kinds of lists: their names in the filter, and their notifications.
const LIST_CHANGED_KINDS: [(&str, &str); 3] = [
    ("toolsListChanged", "notifications/tools/list_changed"),
    ("promptsListChanged", "notifications/prompts/list_changed"),
    ("resourcesListChanged", "notifications/resources/list_changed"),
];
const RESOURCE_SUBSCRIPTIONS: &str = "resourceSubscriptions";

/// All listeners, and the one request to the server.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    subscribers: BTreeMap<u64, Subscriber>,
    upstream: Option<UpstreamSubscription>,
    /// The `_meta` of a request that the server acknowledged. It is used again, because a `_meta` that the server
    /// rejects would end the streams of all listeners.
    proven: Option<Arc<str>>,
}

impl Subscriptions {
    pub(super) fn len(&self) -> usize {
        self.subscribers.len()
    }

    /// The owners of the listeners whose callers are authenticated.
    pub(super) fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.subscribers.values().filter_map(|listener| listener.owner.as_ref())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.subscribers.is_empty()
    }

    /// Checks that the listeners of one caller request no more than is left for all others. All unauthenticated callers
    /// together count as one caller.
    fn check_share(&self, owner: Option<&Owner>, wanted: &Filter) -> Result<(), RpcError> {
        let person = owner.map(Owner::caller_key);
        let is_same = |one: &&Subscriber| one.owner.as_ref().map(Owner::caller_key) == person;
        let own = self.subscribers.values().filter(is_same).flat_map(|one| &one.filter.resources);
        let own: BTreeSet<&String> = own.chain(&wanted.resources).collect();
        check_uris(own.iter().copied())?;
        let all = self.subscribers.values().flat_map(|one| &one.filter.resources).chain(&wanted.resources);
        let all: BTreeSet<&String> = all.collect();
        let bytes = |uris: &BTreeSet<&String>| uris.iter().map(|uri| uri.len()).sum::<usize>();
        let fits = all.len() + own.len() <= MAX_LISTENED && bytes(&all) + bytes(&own) <= MAX_LISTENED_BYTES;
        if wanted.resources.is_empty() || fits {
            return Ok(());
        }
        Err(too_many_subscriptions("all clients together subscribe to too many resources"))
    }
}

#[derive(Debug)]
struct Subscriber {
    /// The owner, if callers are authenticated.
    owner: Option<Owner>,
    id: Bytes,
    /// Its `_meta`, without the progress token.
    meta: Option<Arc<str>>,
    filter: Filter,
    stream: Arc<MessageStream>,
    acknowledged: bool,
}

#[derive(Debug)]
struct UpstreamSubscription {
    id: u64,
    /// The id of the request that this one has replaced; notifications with that id are still accepted.
    replaced_id: Option<u64>,
    /// The new listener that caused this request.
    newcomer: Option<u64>,
    meta: Option<Arc<str>>,
    resources: BTreeSet<String>,
    /// The filter that the server acknowledged; `None` until then.
    accepted: Option<Filter>,
}

/// The filter of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Filter {
    lists: BTreeSet<&'static str>,
    resources: BTreeSet<String>,
}

impl Filter {
    /// Parses a filter. It keeps at most one resource more than the limit, so that a check detects the excess.
    fn read(text: Option<&RawValue>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Wanted<'a> {
            #[serde(borrow)]
            tools_list_changed: Option<&'a RawValue>,
            #[serde(borrow)]
            prompts_list_changed: Option<&'a RawValue>,
            #[serde(borrow)]
            resources_list_changed: Option<&'a RawValue>,
            #[serde(borrow)]
            resource_subscriptions: Option<&'a RawValue>,
        }
        let text = text.map_or("{}", RawValue::get);
        let wanted: Wanted<'_> = serde_json::from_str(text).unwrap_or_default();
        let lists = [wanted.tools_list_changed, wanted.prompts_list_changed, wanted.resources_list_changed];
        let lists = LIST_CHANGED_KINDS
            .iter()
            .zip(lists)
            .filter(|(_, value)| value.is_some_and(|value| value.get() == "true"));
        let mut resources = BTreeSet::new();
        // An invalid array, or one that is too long, is read as far as possible.
        let _ = each_element(wanted.resource_subscriptions.map_or("[]", RawValue::get), |uri| {
            resources.extend(serde_json::from_str::<String>(uri.get()));
            if resources.len() > MAX_LISTENED { Err("too many resources".to_owned()) } else { Ok(()) }
        });
        Self { lists: lists.map(|((name, _), _)| *name).collect(), resources }
    }

    fn intersection(&self, other: &Self) -> Value {
        let mut out = Map::new();
        for list in self.lists.intersection(&other.lists) {
            out.insert((*list).to_owned(), true.into());
        }
        let resources: Vec<_> = self.resources.intersection(&other.resources).collect();
        if !resources.is_empty() {
            out.insert(RESOURCE_SUBSCRIPTIONS.to_owned(), json!(resources));
        }
        Value::Object(out)
    }

    fn matches(&self, method: &str, uri: Option<&str>) -> bool {
        match LIST_CHANGED_KINDS.iter().find(|(_, notification)| *notification == method) {
            Some((name, _)) => self.lists.contains(name),
            None if method == "notifications/resources/updated" => {
                uri.is_none_or(|uri| self.resources.iter().any(|wanted| is_within(uri, wanted)))
            }
            None => true,
        }
    }
}

#[derive(Default, Deserialize)]
struct ListenParams<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    notifications: Option<&'a RawValue>,
    #[serde(default)]
    uri: Option<String>,
}

impl<'a> ListenParams<'a> {
    fn of(message: &'a Message) -> Self {
        serde_json::from_str(message.params()).unwrap_or_default()
    }

    /// Returns the `_meta` without the progress token, because the token belongs to one of many listeners, and may
    /// equal the number of another client's call.
    fn meta(&self) -> Option<Arc<str>> {
        let mut meta: Map<String, Value> = serde_json::from_str(self.meta?.get()).ok()?;
        meta.remove("progressToken");
        Some(Value::Object(meta).to_string().into())
    }
}

impl MuxState {
    /// Adds the stream of a client, which is charged to `account`, and returns its number.
    pub(super) fn listen(
        &mut self,
        message: &Message,
        owner: Option<&Owner>,
        stream: Arc<MessageStream>,
        account: &Account,
    ) -> Result<u64, RpcError> {
        if message.bytes().len() > MAX_LISTEN_BYTES {
            let text = format!("`subscriptions/listen` is larger than {} KiB", MAX_LISTEN_BYTES >> 10);
            let refusal = RpcError::new(StatusCode::PAYLOAD_TOO_LARGE, error_code::INVALID_REQUEST, text);
            return Err(refusal.reason(Reason::TooManySubscriptions));
        }
        let params = ListenParams::of(message);
        let (wanted, meta) = (Filter::read(params.notifications), params.meta());
        self.subscriptions.check_share(owner, &wanted)?;
        let cost = wanted.resources.iter().map(|uri| uri.len() + URI_OVERHEAD).sum::<usize>();
        if !account.try_reserve(cost + meta.as_ref().map_or(0, |meta| meta.len())) {
            return Err(too_many_subscriptions("the memory budget for clients is used up; try again later"));
        }
        let number = self.new_id();
        let owner = owner.cloned();
        let listener =
            Subscriber { owner, id: message.id(), meta, filter: wanted, stream, acknowledged: false };
        self.subscriptions.subscribers.insert(number, listener);
        self.acknowledge();
        Ok(number)
    }

    /// Removes the stream of a client; returns `false` if there is no such number.
    pub(super) fn stop_listening(&mut self, number: u64) -> bool {
        if self.subscriptions.subscribers.remove(&number).is_none() {
            return false;
        }
        if self.subscriptions.subscribers.is_empty() {
            self.subscriptions.proven = None;
            if let Some(upstream) = self.subscriptions.upstream.take() {
                self.send(cancelled_notification(upstream.id, "no client is subscribed any more"));
            }
        }
        true
    }

    /// Ends all streams, because the process has ended.
    pub(super) fn end_subscribers(&mut self, end: &StreamEnd) {
        for listener in std::mem::take(&mut self.subscriptions).subscribers.into_values() {
            listener.stream.end(end.clone());
        }
    }

    /// Handles a notification that has the id of the multiplexer's listen request at `span`.
    pub(super) fn notify_subscribers(&mut self, message: &Message, span: &Span) {
        let number =
            std::str::from_utf8(&message.bytes()[span.clone()]).ok().and_then(|text| text.parse().ok());
        let Some(upstream) = self.subscriptions.upstream.as_mut() else { return };
        let is_current = Some(upstream.id) == number;
        if number.is_none() || !is_current && upstream.replaced_id != number {
            return;
        }
        if message.method() == "notifications/subscriptions/acknowledged" {
            if is_current {
                let widened = upstream.accepted.is_none() && upstream.replaced_id.is_some();
                let mut accepted = Filter::read(ListenParams::of(message).notifications);
                accepted.resources.retain(|uri| upstream.resources.contains(uri));
                upstream.accepted = Some(accepted);
                self.subscriptions.proven.clone_from(&upstream.meta);
                if widened {
                    self.notify_missed_changes();
                }
                self.acknowledge();
            }
            return;
        }
        if message.method() == "notifications/tools/list_changed" {
            self.tool_headers.invalidate();
        }
        let uri = ListenParams::of(message).uri;
        for listener in self.subscriptions.subscribers.values().filter(|listener| listener.acknowledged) {
            if listener.filter.matches(message.method(), uri.as_deref()) {
                listener.stream.push(splice(message.bytes(), &mut [(span.clone(), &listener.id)]).freeze());
            }
        }
    }

    /// Handles the response to the listen request: an error, or the end of all streams. Returns `false` if the
    /// response belongs to another request.
    pub(super) fn handle_listen_response(&mut self, message: &Message) -> bool {
        let Some(upstream) = self.subscriptions.upstream.take_if(|up| Some(up.id) == message.numeric_id())
        else {
            return false;
        };
        if !message.error().is_empty() && upstream.newcomer.is_some() && upstream.accepted.is_none() {
            // The error is about the filter of the new listener; the others get their streams back without it.
            let newcomer =
                upstream.newcomer.and_then(|number| self.subscriptions.subscribers.remove(&number));
            if let Some(listener) = newcomer {
                listener.stream.push_response(
                    splice(message.bytes(), &mut [(message.id_span(), &listener.id)]).freeze(),
                );
            }
            if self.subscriptions.subscribers.values().any(|listener| listener.acknowledged) {
                self.listen_upstream(None, Some(upstream.id));
            } else {
                self.acknowledge();
            }
            return true;
        }
        let subscription = crate::stdio::mux::from_server::subscription_id_span(message, message.result());
        for listener in std::mem::take(&mut self.subscriptions).subscribers.into_values() {
            let mut edits: Vec<(Span, &[u8])> = vec![(message.id_span(), &listener.id)];
            if let Some(span) = &subscription {
                edits.push((span.clone(), &listener.id));
            }
            listener.stream.push_response(splice(message.bytes(), &mut edits).freeze());
        }
        tracing::debug!(id = upstream.id, "the server ended the subscription");
        true
    }

    /// Handles the server's `notifications/cancelled` for the listen request, which ends the streams over stdio.
    pub(super) fn handle_listen_cancelled(&mut self, id: u64) -> bool {
        if self.subscriptions.upstream.as_ref().is_none_or(|upstream| upstream.id != id) {
            return false;
        }
        for listener in std::mem::take(&mut self.subscriptions).subscribers.into_values() {
            let id: Value = serde_json::from_slice(&listener.id).unwrap_or_default();
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
            let answer =
                json!({ "jsonrpc": "2.0", "id": id, "result": { "resultType": "complete", "_meta": meta } });
            listener.stream.push_response(answer.to_string().into());
        }
        true
    }

    /// Extends the request to the server for the first listener that needs more. It waits until the server has
    /// acknowledged the previous request, so that an error can be attributed to one listener.
    fn listen_to_more(&mut self) {
        while self.subscriptions.upstream.as_ref().is_none_or(|upstream| upstream.accepted.is_some())
            && let Some((number, _)) =
                self.subscriptions.subscribers.iter().find(|(_, one)| !one.acknowledged)
        {
            let former = self.subscriptions.upstream.as_ref().map(|before| before.id);
            self.listen_upstream(Some(*number), former);
        }
    }

    /// Replaces the request to the server by one for all lists and for all resources of the listeners, including a
    /// new one.
    fn listen_upstream(&mut self, newcomer: Option<u64>, former: Option<u64>) {
        let listeners = &self.subscriptions.subscribers;
        let told = listeners.iter().filter(|(number, one)| one.acknowledged || newcomer == Some(**number));
        let resources: BTreeSet<String> =
            told.flat_map(|(_, listener)| listener.filter.resources.iter().cloned()).collect();
        let mut filter: Map<String, Value> =
            LIST_CHANGED_KINDS.iter().map(|(name, _)| ((*name).to_owned(), true.into())).collect();
        if !resources.is_empty() {
            filter.insert(RESOURCE_SUBSCRIPTIONS.to_owned(), json!(resources));
        }
        let newest = newcomer.and_then(|number| listeners.get(&number));
        let meta = self.subscriptions.proven.clone().or_else(|| newest.and_then(|one| one.meta.clone()));
        let mut params = Map::from_iter([("notifications".to_owned(), Value::Object(filter))]);
        if let Some(meta) = meta.as_ref().and_then(|meta| serde_json::from_str(meta).ok()) {
            params.insert("_meta".to_owned(), meta);
        }
        let id = self.new_id();
        let request =
            json!({ "jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params });
        let request = BytesMut::from(request.to_string().as_bytes());
        let cost = request.len() + LINE_OVERHEAD;
        if let Some(number) = newcomer
            && self.pipe.as_ref().is_some_and(|pipe| !pipe.queue_account.has_room(cost))
        {
            if let Some(listener) = self.subscriptions.subscribers.remove(&number) {
                let data = json!({ "reason": Reason::QueueFull.id() }).to_string();
                let text = "the queue to the server has no room for the subscriptions; try again later";
                let answer =
                    error_response_with_data(&listener.id, error_code::INTERNAL_ERROR, text, Some(&data));
                listener.stream.push_response(answer.freeze());
            }
            return;
        }
        if let Some(before) = self.subscriptions.upstream.take() {
            // Servers drop all listeners of a pipe when one of them ends, so the previous request is cancelled first.
            self.send(cancelled_notification(before.id, "replaced by a new subscription"));
        }
        self.subscriptions.upstream =
            Some(UpstreamSubscription { id, replaced_id: former, newcomer, meta, resources, accepted: None });
        self.send(request);
    }

    /// Notifies the older listeners of every change that may have been missed: between the end of one request and the
    /// beginning of the next, the server had no listener. An unnecessary notification costs one request, but a missed
    /// change would never be noticed.
    fn notify_missed_changes(&mut self) {
        self.tool_headers.invalidate();
        let Some(accepted) = self.subscriptions.upstream.as_ref().and_then(|up| up.accepted.as_ref()) else {
            return;
        };
        for listener in self.subscriptions.subscribers.values().filter(|listener| listener.acknowledged) {
            let id: Value = serde_json::from_slice(&listener.id).unwrap_or_default();
            let notice = |method: &str, mut params: Value| {
                params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
                listener
                    .stream
                    .push(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string().into());
            };
            for (name, method) in LIST_CHANGED_KINDS {
                if listener.filter.lists.contains(name) && accepted.lists.contains(name) {
                    notice(method, json!({}));
                }
            }
            for uri in listener.filter.resources.intersection(&accepted.resources) {
                notice("notifications/resources/updated", json!({ "uri": uri }));
            }
        }
    }

    /// Acknowledges listeners whose filter the server's request covers, and extends the request for those that need
    /// more.
    fn acknowledge(&mut self) {
        if let Some(upstream) = &self.subscriptions.upstream
            && let Some(accepted) = &upstream.accepted
        {
            let new = self.subscriptions.subscribers.values_mut().filter(|listener| !listener.acknowledged);
            for listener in new.filter(|listener| listener.filter.resources.is_subset(&upstream.resources)) {
                listener.acknowledged = true;
                let id: Value = serde_json::from_slice(&listener.id).unwrap_or_default();
                let acknowledged = json!({
                    "jsonrpc": "2.0",
                    "method": "notifications/subscriptions/acknowledged",
                    "params": {
                        "_meta": { "io.modelcontextprotocol/subscriptionId": id },
                        "notifications": listener.filter.intersection(accepted),
                    },
                });
                listener.stream.push(acknowledged.to_string().into());
            }
        }
        self.listen_to_more();
    }
}
