//! What an event says, and in which form: one JSON object a line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! event_types {
    ($($(#[doc = $what:literal])+ $name:ident = $text:literal;)+) => {
        /// What an event is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum EventType { $($(#[doc = $what])+ #[serde(rename = $text)] $name,)+ }

        impl EventType {
            /// Every type.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns its name in the log and in the configuration.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Returns what it is about, in a few words.
            pub fn about(self) -> &'static str {
                let about = match self { $(Self::$name => concat!($($what),+),)+ };
                about.trim()
            }
        }
    };
}

event_types! {
    /// A session was asked for.
    Initialize = "mcp_initialize";
    /// A stream of events was opened with a GET.
    SseConnection = "sse_connection";
    /// A tool was called.
    ToolCall = "mcp_tool_call";
    /// Tools were listed.
    ToolsList = "mcp_tools_list";
    /// A resource was read.
    ResourceRead = "mcp_resource_read";
    /// Resources or their templates were listed.
    ResourcesList = "mcp_resources_list";
    /// A prompt was taken.
    PromptGet = "mcp_prompt_get";
    /// Prompts were listed.
    PromptsList = "mcp_prompts_list";
    /// A notification was sent.
    Notification = "mcp_notification";
    /// A ping was sent.
    Ping = "mcp_ping";
    /// The log level was set.
    Logging = "mcp_logging";
    /// An argument was completed.
    Completion = "mcp_completion";
    /// The client told that its roots have changed.
    RootsListChanged = "mcp_roots_list_changed";
    /// The client answered a request of the server.
    Response = "mcp_response";
    /// Any other message, and one that could not be read.
    Request = "mcp_request";
    /// The server answered with an error on a stream that belongs to no request.
    StreamError = "mcp_stream_error";
    /// A session was ended with a DELETE.
    SessionEnd = "mcp_session_end";
    /// Any other request over HTTP.
    Http = "http_request";
    /// A request did not get in: it had no good token.
    AuthFailure = "auth_failure";
    /// A connection of an isolated server was refused.
    ConnectionRefused = "connection_refused";
    /// Events were lost; it is written whatever types are chosen.
    EventsLost = "events_lost";
    /// Events beyond a limit were counted only; it is written whatever types are chosen.
    EventsSuppressed = "events_suppressed";
}

impl EventType {
    /// Types that say what the log lacks, and are written whatever types are chosen.
    pub(crate) const ALWAYS: [Self; 2] = [Self::EventsLost, Self::EventsSuppressed];

    /// Returns the type of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The type of a message with that method.
    pub(crate) fn of_method(method: &str) -> Self {
        match method {
            "initialize" => Self::Initialize,
            "tools/call" => Self::ToolCall,
            "tools/list" => Self::ToolsList,
            "resources/read" => Self::ResourceRead,
            "resources/list" | "resources/templates/list" => Self::ResourcesList,
            "prompts/get" => Self::PromptGet,
            "prompts/list" => Self::PromptsList,
            "ping" => Self::Ping,
            "logging/setLevel" => Self::Logging,
            "completion/complete" => Self::Completion,
            "notifications/roots/list_changed" => Self::RootsListChanged,
            method if method.starts_with("notifications/") => Self::Notification,
            _ => Self::Request,
        }
    }
}

/// How it came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuditOutcome {
    /// It was answered.
    Success,
    /// The answer is an error of the server or of a tool, under a status of success.
    ApplicationError,
    /// The request was at fault.
    Failure,
    /// A layer refused it.
    Denied,
    /// The server or the proxy was at fault.
    Error,
    /// Its client went before the answer came.
    ClientGone,
    /// It was taken, and the answer comes on the stream of an SSE pair.
    Accepted,
    /// The response ended without the answer, which may come on another stream.
    Unanswered,
    /// It is about to be sent on; another event tells how it came out.
    Pending,
}

/// One event.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Event {
    /// When it was written down.
    pub(crate) time: String,
    pub(crate) level: &'static str,
    pub(crate) msg: &'static str,
    pub(crate) audit_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: EventType,
    /// When it began.
    pub(crate) logged_at: String,
    pub(crate) outcome: AuditOutcome,
    pub(crate) component: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<AuditSource>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) subjects: Map<String, Value>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) target: Map<String, Value>,
    pub(crate) metadata: AuditMetadata,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) data: Map<String, Value>,
    /// On whose behalf the subject acts, the nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) delegation: Vec<Value>,
}

/// Where a request came from.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AuditSource {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) value: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) extra: Map<String, Value>,
}

/// All else.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct AuditMetadata {
    pub(crate) extra: Map<String, Value>,
}

impl Event {
    /// The line, with its end.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// Puts a field there if it has a value.
pub(crate) fn put(map: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        map.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_type_has_a_name_of_its_own_by_which_it_is_found() {
        let names: HashSet<_> = EventType::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), EventType::ALL.len());
        for kind in EventType::ALL {
            assert_eq!(EventType::of_name(kind.name()), Some(*kind));
            assert_eq!(serde_json::to_value(kind).expect("JSON"), kind.name());
        }
        assert_eq!(EventType::of_method("notifications/initialized"), EventType::Notification);
        assert_eq!(EventType::of_method("tools/x"), EventType::Request);
    }
}
