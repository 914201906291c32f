//! What the server says of its tools, for policies that go by it.
//!
//! It is in the lists that clients read; when none has come lately the server is asked, with the credentials of the
//! request at hand, so that a decision does not depend on who has listed tools before.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderValue, Method, Uri, header};
use serde_json::{Map, Value, json};

use crate::{
    auth::incoming::Principal,
    mcp::{fields::Fields, message::Message},
    memory::Account,
    proxy::{
        body::Body,
        layer::Next,
        messages::{Hook, HookVerdict, Hooks, RequestMessages, ResponseMessage, run_hooks},
        observe::Exchange,
        respond::{JSON, Request},
        session_owners::Owner,
    },
};

/// How long what was heard of a tool holds.
const CACHE_TTL: Duration = Duration::from_secs(60);
/// How long the server may take to say it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Most pages of a list.
const MAX_PAGES: usize = 100;
/// Most tools that are remembered.
const MAX_TOOLS: usize = 10_000;

/// What was said of each tool, by who heard it and its own name. A server may say different things to different callers,
/// and what one of them has it say decides nothing about another.
#[derive(Debug, Default)]
pub(super) struct AnnotationCache(Mutex<HashMap<(Option<Owner>, String), CachedAnnotations>>);

/// When it was said, and what.
type CachedAnnotations = (Instant, Arc<Map<String, Value>>);

impl AnnotationCache {
    /// Remembers what a list that was sent to `caller` says of a tool.
    pub(super) fn insert(&self, caller: Option<&Owner>, tool: &str, said: Map<String, Value>) {
        let key = (caller.cloned(), tool.to_owned());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_TOOLS && !known.contains_key(&key) {
            known.clear();
        }
        known.insert(key, (Instant::now(), Arc::new(said)));
    }

    /// Forgets everything, since the server says that it has changed.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What the server says of a tool; `None` when it cannot be found out. A tool that it does not list has nothing
    /// said of it.
    pub(super) async fn get_or_fetch(
        &self,
        tool: &str,
        asking: &ToolsListRequest,
        message: &Message,
        next: Next<'_>,
    ) -> Option<Arc<Map<String, Value>>> {
        if let Some(said) = self.get(asking.caller.as_ref(), tool) {
            return Some(said);
        }
        tokio::time::timeout(FETCH_TIMEOUT, self.fetch(asking, message, next)).await.ok()??;
        Some(self.get(asking.caller.as_ref(), tool).unwrap_or_default())
    }

    fn get(&self, caller: Option<&Owner>, tool: &str) -> Option<Arc<Map<String, Value>>> {
        let key = (caller.cloned(), tool.to_owned());
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).filter(|(heard, _)| heard.elapsed() < CACHE_TTL).map(|(_, said)| Arc::clone(said))
    }

    /// Reads all pages of the list; `None` when one does not come.
    async fn fetch(&self, asking: &ToolsListRequest, message: &Message, next: Next<'_>) -> Option<()> {
        let mut cursor = None;
        for page in 0..MAX_PAGES {
            let response = next.handle(asking.page(message, page, cursor.as_deref())).await;
            if !response.status().is_success() {
                return None;
            }
            let heard = Arc::new(Mutex::new(None));
            let hooks = Hooks::default();
            hooks.add(ResponseCapture(Arc::clone(&heard), id(page)));
            // The body is read for what the hook hears.
            let mut body =
                run_hooks(response, &hooks, None, None, true, true, Account::new()).await.into_body();
            while heard.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
                body.next_chunk().await.ok()??;
            }
            let result = heard.lock().unwrap_or_else(PoisonError::into_inner).take()?;
            let fields = Fields::read(&result)?;
            let tools: Vec<&serde_json::value::RawValue> =
                serde_json::from_str(fields.get_unique("tools").ok()??.get()).ok()?;
            for tool in tools {
                let Some(tool) = Fields::read(tool.get()) else { continue };
                let Ok(Some(name)) = tool.get_unique_string("name") else { continue };
                let said = tool.get_unique("annotations").ok().flatten();
                let said = said.and_then(|said| serde_json::from_str(said.get()).ok()).unwrap_or_default();
                self.insert(asking.caller.as_ref(), &name, said);
            }
            cursor = fields.get_unique_string("nextCursor").ok()?;
            if cursor.is_none() {
                return Some(());
            }
        }
        None
    }
}

fn id(page: usize) -> String {
    format!("mcpm-annotations-{page}")
}

/// Who has come with a request, if callers are asked who they are.
pub(super) fn caller_of(request: &Request) -> Option<Owner> {
    request.extensions().get::<Arc<Principal>>().map(|principal| Owner::of(principal))
}

/// The client in whose name the server is asked.
#[derive(Debug)]
pub(super) struct ToolsListRequest {
    caller: Option<Owner>,
    uri: Uri,
    headers: HeaderMap,
    extensions: Extensions,
}

impl ToolsListRequest {
    /// The client of a request.
    pub(super) fn from_request(request: &Request) -> Self {
        let caller = caller_of(request);
        let mut extensions = request.extensions().clone();
        // The answer is for nobody else, and what is measured and recorded is the request that waits for it.
        extensions.remove::<Hooks>();
        extensions.remove::<Exchange>();
        Self { caller, uri: request.uri().clone(), headers: request.headers().clone(), extensions }
    }

    /// A request for a page of the list of tools; `message` is what is decided about.
    fn page(&self, message: &Message, page: usize, cursor: Option<&str>) -> Request {
        let params: Value = serde_json::from_str(message.params()).unwrap_or_default();
        let mut wanted = Map::new();
        if let Some(meta) = params.get("_meta").and_then(Value::as_object) {
            let mut meta = meta.clone();
            // Progress would be told to the client.
            meta.remove("progressToken");
            wanted.insert("_meta".to_owned(), Value::Object(meta));
        }
        if let Some(cursor) = cursor {
            wanted.insert("cursor".to_owned(), cursor.into());
        }
        let body = json!({ "jsonrpc": "2.0", "id": id(page), "method": "tools/list", "params": wanted });
        let body = Bytes::from(body.to_string());
        let mut request = Request::new(Body::from(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.extensions_mut() = self.extensions.clone();
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.remove("mcp-name");
        let mirrored: Vec<_> =
            headers.keys().filter(|name| name.as_str().starts_with("mcp-param-")).cloned().collect();
        for name in mirrored {
            headers.remove(name);
        }
        if headers.contains_key("mcp-method") {
            headers.insert("mcp-method", HeaderValue::from_static("tools/list"));
        }
        if let Ok(asked) = RequestMessages::read(request.headers(), body) {
            request.extensions_mut().insert(Arc::new(asked));
        }
        request
    }
}

/// Hears the answer with that id.
struct ResponseCapture(Arc<Mutex<Option<String>>>, String);

impl Hook for ResponseCapture {
    fn on_message(&mut self, said: &ResponseMessage<'_>) -> HookVerdict {
        let is_it = serde_json::from_slice::<String>(said.message.id_text()).is_ok_and(|id| id == self.1);
        if is_it {
            let result = said.message.result().to_owned();
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
        HookVerdict::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_cached_per_caller() {
        let owner = |subject: &str| {
            let mut request = Request::new(Body::empty());
            let principal = Principal {
                issuer: "https://issuer.example".to_owned(),
                subject: subject.to_owned(),
                audience: Vec::new(),
                client_id: None,
                scopes: Vec::new(),
                claims: Map::new(),
                expires: std::time::SystemTime::now(),
                token: crate::options::Secret::from("x"),
            };
            request.extensions_mut().insert(Arc::new(principal));
            caller_of(&request)
        };
        let annotations = AnnotationCache::default();
        let said = |harmless: bool| Map::from_iter([("readOnlyHint".to_owned(), harmless.into())]);
        let (a, b) = (owner("a"), owner("b"));
        annotations.insert(a.as_ref(), "erase", said(true));
        assert_eq!(annotations.get(b.as_ref(), "erase"), None);
        annotations.insert(b.as_ref(), "erase", said(false));
        assert_eq!(annotations.get(a.as_ref(), "erase").as_deref(), Some(&said(true)));
        assert_eq!(annotations.get(b.as_ref(), "erase").as_deref(), Some(&said(false)));
        assert_eq!(annotations.get(None, "erase"), None);
        annotations.forget();
        assert_eq!(annotations.get(a.as_ref(), "erase"), None);
    }
}
