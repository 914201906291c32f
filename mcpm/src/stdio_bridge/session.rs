//! Stores the session of a client of the older era, and the messages that are needed to reopen it.
//!
//! Servers keep sessions in memory, so a restart loses them, and a client on a pipe cannot open a new one. So the
//! bridge sends the client's handshake, its log level and its subscriptions again. The client must not notice a
//! difference: if the server chooses another version or has other capabilities, the session cannot be recovered.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;

use super::client::MCP_SESSION_ID;
use crate::mcp::{message::Message, request_headers::MCP_PROTOCOL_VERSION};

/// Maximum number of resources that are subscribed to again, and maximum total size of these requests.
const MAX_SUBSCRIPTIONS: usize = 1000;
const MAX_SUBSCRIPTION_BYTES: usize = 256 << 10;

/// The headers that name the session in a request.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionHeaders {
    /// The session id, if the server assigned one.
    pub(super) id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// A number that changes when the session is opened again.
    pub(super) generation: u64,
}

impl SessionHeaders {
    /// Returns the same headers with another session id.
    pub(super) fn with_id(self, id: Option<HeaderValue>) -> Self {
        Self { id, ..self }
    }

    /// Adds the headers to those of a request.
    pub(super) fn apply(&self, headers: &mut HeaderMap) {
        let version = HeaderName::from_static(MCP_PROTOCOL_VERSION);
        for (name, value) in [(MCP_SESSION_ID, &self.id), (version, &self.version)] {
            headers.extend(value.clone().map(|value| (name, value)));
        }
    }
}

/// The part of the response to `initialize` that must be the same when the session is opened again.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult {
    protocol_version: String,
    #[serde(default)]
    capabilities: Value,
}

/// The session of a client.
#[derive(Debug, Default)]
pub(super) struct Session {
    state: Mutex<SessionState>,
    /// Held by the request that opens the session again on behalf of all requests.
    pub(super) reopening: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct SessionState {
    headers: SessionHeaders,
    /// The client's `initialize`, and the server's response.
    handshake: Option<(Message, InitializeResult)>,
    initialized: Option<Message>,
    log_level: Option<Message>,
    subscriptions: BTreeMap<String, Message>,
    subscription_bytes: usize,
    /// Set if there are more subscriptions than can be recorded.
    is_unrecoverable: bool,
}

impl Session {
    /// Returns the headers of the current session.
    pub(super) fn headers(&self) -> SessionHeaders {
        self.lock().headers.clone()
    }

    /// Whether the handshake is complete.
    pub(super) fn is_open(&self) -> bool {
        self.lock().handshake.is_some()
    }

    /// Records the server's response to the client's `initialize`.
    pub(super) fn open(&self, initialize: &Message, response: &Message, id: Option<HeaderValue>) {
        let Ok(result) = serde_json::from_str::<InitializeResult>(response.result()) else { return };
        let version = HeaderValue::try_from(&result.protocol_version).ok();
        let mut state = self.lock();
        let generation = state.headers.generation + 1;
        *state = SessionState {
            headers: SessionHeaders { id, version, generation },
            handshake: Some((initialize.clone().into_owned(), result)),
            ..SessionState::default()
        };
    }

    /// Returns the client's `initialize`, if the session can be opened again.
    pub(super) fn saved_initialize(&self) -> Option<Message> {
        let state = self.lock();
        state.handshake.as_ref().filter(|_| !state.is_unrecoverable).map(|(initialize, _)| initialize.clone())
    }

    /// Returns the headers of a session that was opened with the same `initialize`; `None` if the client would notice a
    /// difference.
    pub(super) fn replacement(&self, response: &Message, id: Option<HeaderValue>) -> Option<SessionHeaders> {
        let state = self.lock();
        let result = serde_json::from_str::<InitializeResult>(response.result()).ok()?;
        let (_, former) = state.handshake.as_ref()?;
        let generation = state.headers.generation + 1;
        (result == *former).then(|| SessionHeaders { id, generation, ..state.headers.clone() })
    }

    /// Replaces the session by a new one.
    pub(super) fn replace(&self, headers: SessionHeaders) {
        self.lock().headers = headers;
    }

    /// Returns the messages that bring a new session to the state of the old one, in order.
    pub(super) fn saved_messages(&self) -> Vec<Message> {
        let state = self.lock();
        let first = state.initialized.iter().chain(&state.log_level);
        first.chain(state.subscriptions.values()).cloned().collect()
    }

    /// Records a message of the client that the server has accepted, if it changes the state of the session.
    pub(super) fn record(&self, message: &Message) {
        let mut state = self.lock();
        match message.method() {
            "notifications/initialized" => state.initialized = Some(message.clone().into_owned()),
            "logging/setLevel" => state.log_level = Some(message.clone().into_owned()),
            "resources/subscribe" => state.subscribe(message),
            "resources/unsubscribe" => {
                let former = uri(message).and_then(|uri| state.subscriptions.remove(&uri));
                state.subscription_bytes -= former.map_or(0, |former| former.bytes().len());
            }
            _ => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, SessionState> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionState {
    fn subscribe(&mut self, message: &Message) {
        let Some(uri) = uri(message) else { return };
        let bytes = self.subscription_bytes + message.bytes().len();
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS || bytes > MAX_SUBSCRIPTION_BYTES {
            self.is_unrecoverable = true;
            return;
        }
        let former = self.subscriptions.insert(uri, message.clone().into_owned());
        self.subscription_bytes = bytes - former.map_or(0, |former| former.bytes().len());
    }
}

fn uri(message: &Message) -> Option<String> {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    serde_json::from_str(message.params()).ok().map(|Params { uri }| uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(text.to_owned().into()).expect("a message")
    }

    fn initialized(version: &str, capabilities: &str) -> Message {
        let result = format!(r#"{{"protocolVersion":"{version}","capabilities":{capabilities},"x":1}}"#);
        message(&format!(r#"{{"jsonrpc":"2.0","id":0,"result":{result}}}"#))
    }

    fn subscription(method: &str, uri: &str) -> Message {
        message(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"resources/{method}","params":{{"uri":"{uri}"}}}}"#
        ))
    }

    fn open() -> Session {
        let session = Session::default();
        let initialize = message(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#);
        session.open(&initialize, &initialized("2025-11-25", r#"{"tools":{}}"#), None);
        session
    }

    #[test]
    fn a_session_is_replaced_only_by_one_that_looks_the_same() {
        let session = open();
        let id = || Some(HeaderValue::from_static("new"));
        for other in [
            initialized("2025-06-18", r#"{"tools":{}}"#),
            initialized("2025-11-25", "{}"),
            message(r#"{"jsonrpc":"2.0","id":0,"error":{"code":1}}"#),
        ] {
            assert!(session.replacement(&other, id()).is_none(), "{other:?}");
        }
        let same = initialized("2025-11-25", r#"{"tools":{}}"#);
        session.replace(session.replacement(&same, id()).expect("the same"));
        assert_eq!((session.headers().id, session.headers().generation), (id(), 2));
    }

    #[test]
    fn what_changes_a_session_is_recorded_up_to_a_limit() {
        let session = open();
        for changing in [
            subscription("subscribe", "a"),
            subscription("subscribe", "b"),
            subscription("subscribe", "a"),
            subscription("unsubscribe", "b"),
            subscription("unsubscribe", "c"),
            message(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            message(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#),
        ] {
            session.record(&changing);
        }
        let saved = session.saved_messages();
        let methods: Vec<&str> = saved.iter().map(Message::method).collect();
        assert_eq!(methods, ["notifications/initialized", "resources/subscribe"]);
        assert!(session.saved_initialize().is_some());
        for number in 0..=MAX_SUBSCRIPTIONS {
            session.record(&subscription("subscribe", &number.to_string()));
        }
        assert!(session.saved_initialize().is_none());
    }
}
