//! Provides the server's tool annotations to policies that read them.
//!
//! The annotations are taken from the lists that clients request. If there is no recent list, the proxy requests one
//! with the credentials of the current request, so that a decision does not depend on whether a client has listed the
//! tools before.

use std::{
    borrow::Cow,
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
    memory::LazyAccount,
    proxy::{
        body::Body,
        layer::Next,
        messages::{Hook, HookVerdict, Hooks, RequestMessages, ResponseMessage, run_hooks},
        observe::Exchange,
        respond::{JSON, Request},
        session_owners::Owner,
    },
};

/// Lifetime of the annotations of a tool.
const CACHE_TTL: Duration = Duration::from_secs(60);
/// Timeout for the server's list.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 100;
/// Maximum number of tools in the cache.
const MAX_TOOLS: usize = 10_000;

/// Annotations by caller and the server's name of the tool. A server may send different annotations to different
/// callers, and those sent to one caller must not affect another.
#[derive(Debug, Default)]
pub(super) struct AnnotationCache(Mutex<HashMap<(Option<Owner>, String), CachedAnnotations>>);

/// When they were received, and the annotations.
type CachedAnnotations = (Instant, Arc<Map<String, Value>>);

impl AnnotationCache {
    /// Stores the annotations in a list that was sent to `caller`.
    pub(super) fn insert(&self, caller: Option<&Owner>, tool: &str, annotations: Map<String, Value>) {
        let key = (caller.cloned(), tool.to_owned());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_TOOLS && !known.contains_key(&key) {
            known.clear();
        }
        known.insert(key, (Instant::now(), Arc::new(annotations)));
    }

    /// Clears the cache, because the server has announced a change of its list.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The annotations of a tool; `None` if they cannot be obtained. A tool that the server does not list has no
    /// annotations.
    pub(super) async fn get_or_fetch(
        &self,
        tool: &str,
        asking: &ToolsListRequest,
        message: &Message,
        next: Next<'_>,
    ) -> Option<Arc<Map<String, Value>>> {
        if let Some(annotations) = self.get(asking.caller.as_ref(), tool) {
            return Some(annotations);
        }
        tokio::time::timeout(FETCH_TIMEOUT, self.fetch(asking, message, next)).await.ok()??;
        Some(self.get(asking.caller.as_ref(), tool).unwrap_or_default())
    }

    fn get(&self, caller: Option<&Owner>, tool: &str) -> Option<Arc<Map<String, Value>>> {
        let key = (caller.cloned(), tool.to_owned());
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&key)
            .filter(|(since, _)| since.elapsed() < CACHE_TTL)
            .map(|(_, annotations)| Arc::clone(annotations))
    }

    /// Fetches all pages of the list; `None` if one fails.
    async fn fetch(&self, asking: &ToolsListRequest, message: &Message, next: Next<'_>) -> Option<()> {
        let mut cursor = None;
        for page in 0..MAX_PAGES {
            let response = next.handle(asking.page(message, page, cursor.as_deref())).await;
            if !response.status().is_success() {
                return None;
            }
            let heard = Arc::new(Mutex::new(None));
            let hooks = Hooks::default();
            hooks.add(Arc::new(ResponseCapture(Arc::clone(&heard), id(page))));
            // The hook captures the response while the body is read.
            let mut body =
                run_hooks(response, &hooks, None, None, true, true, LazyAccount::new(None)).await.into_body();
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
                let annotations = tool.get_unique("annotations").ok().flatten();
                let annotations = annotations
                    .and_then(|annotations| serde_json::from_str(annotations.get()).ok())
                    .unwrap_or_default();
                self.insert(asking.caller.as_ref(), &name, annotations);
            }
            cursor = fields.get_unique_string("nextCursor").ok()?.map(Cow::into_owned);
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

/// The caller of a request, if there is authentication.
pub(super) fn caller_of(request: &Request) -> Option<Owner> {
    request.extensions().get::<Arc<Principal>>().map(|principal| Owner::of(principal))
}

/// The client on whose behalf the list is requested.
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
        // Hooks and observers belong to the waiting request, not to this one.
        extensions.remove::<Hooks>();
        extensions.remove::<Exchange>();
        Self { caller, uri: request.uri().clone(), headers: request.headers().clone(), extensions }
    }

    /// A request for a page of the list; `message` is the message that the decision is about.
    fn page(&self, message: &Message, page: usize, cursor: Option<&str>) -> Request {
        let params: Value = serde_json::from_str(message.params()).unwrap_or_default();
        let mut query = Map::new();
        if let Some(meta) = params.get("_meta").and_then(Value::as_object) {
            let mut meta = meta.clone();
            // Progress notifications would be sent to the client.
            meta.remove("progressToken");
            query.insert("_meta".to_owned(), Value::Object(meta));
        }
        if let Some(cursor) = cursor {
            query.insert("cursor".to_owned(), cursor.into());
        }
        let body = json!({ "jsonrpc": "2.0", "id": id(page), "method": "tools/list", "params": query });
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
        if let Ok(messages) = RequestMessages::read(request.headers(), body) {
            request.extensions_mut().insert(Arc::new(messages));
        }
        request
    }
}

/// Captures the response with this id.
struct ResponseCapture(Arc<Mutex<Option<String>>>, String);

impl Hook for ResponseCapture {
    fn on_message(&self, said: &ResponseMessage<'_>) -> HookVerdict {
        let is_response =
            serde_json::from_slice::<String>(said.message.id_text()).is_ok_and(|id| id == self.1);
        if is_response {
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
