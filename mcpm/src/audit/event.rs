//! Audit events and their format: one JSON object per line.

use std::{
    cell::Cell,
    io::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::AuditId;
use crate::redact::hex_digits;

macro_rules! event_types {
    ($($(#[doc = $what:literal])+ $name:ident = $text:literal;)+) => {
        /// The type of an audit event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum EventType { $($(#[doc = $what])+ #[serde(rename = $text)] $name,)+ }

        impl EventType {
            /// All types.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns its name in the log and in the configuration.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Returns a short description.
            pub fn about(self) -> &'static str {
                let about = match self { $(Self::$name => concat!($($what),+),)+ };
                about.trim()
            }
        }
    };
}

event_types! {
    /// A client initialized a session.
    Initialize = "mcp_initialize";
    /// A client opened an SSE stream with GET.
    SseConnection = "sse_connection";
    /// A tool was called.
    ToolCall = "mcp_tool_call";
    /// Tools were listed.
    ToolsList = "mcp_tools_list";
    /// A resource was read.
    ResourceRead = "mcp_resource_read";
    /// Resources or their templates were listed.
    ResourcesList = "mcp_resources_list";
    /// A prompt was fetched.
    PromptGet = "mcp_prompt_get";
    /// Prompts were listed.
    PromptsList = "mcp_prompts_list";
    /// A notification was sent.
    Notification = "mcp_notification";
    /// A ping was sent.
    Ping = "mcp_ping";
    /// The log level was set.
    Logging = "mcp_logging";
    /// A completion of an argument was requested.
    Completion = "mcp_completion";
    /// The client reported that its roots have changed.
    RootsListChanged = "mcp_roots_list_changed";
    /// The client responded to a request of the server.
    Response = "mcp_response";
    /// Any other message, including one that could not be parsed.
    Request = "mcp_request";
    /// The server sent an error on a stream that belongs to no request.
    StreamError = "mcp_stream_error";
    /// A session was ended with DELETE.
    SessionEnd = "mcp_session_end";
    /// Any other HTTP request.
    Http = "http_request";
    /// A request was rejected because it had no valid token.
    AuthFailure = "auth_failure";
    /// A connection of an isolated server was denied.
    ConnectionRefused = "connection_refused";
    /// Events were lost; recorded whatever types are selected.
    EventsLost = "events_lost";
    /// Events beyond a limit were only counted; recorded whatever types are selected.
    EventsSuppressed = "events_suppressed";
}

impl EventType {
    /// Types that report gaps in the log, and are recorded whatever types are selected.
    pub(crate) const ALWAYS: [Self; 2] = [Self::EventsLost, Self::EventsSuppressed];

    /// Returns the type with that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The type of a message with this method.
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

/// The outcome of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditOutcome {
    /// The response was successful.
    Success,
    /// The response has a success status and contains an error of the server or of a tool.
    ApplicationError,
    /// The request was invalid.
    Failure,
    /// A layer denied the request.
    Denied,
    /// The server or the proxy failed.
    Error,
    /// The client disconnected before the response.
    ClientGone,
    /// The request was accepted, and its response follows on the SSE stream.
    Accepted,
    /// The response stream ended before the JSON-RPC response, which may follow on another stream.
    Unanswered,
    /// The request is about to be forwarded; another event reports the outcome.
    Pending,
}

impl AuditOutcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::ApplicationError => "application_error",
            Self::Failure => "failure",
            Self::Denied => "denied",
            Self::Error => "error",
            Self::ClientGone => "client_gone",
            Self::Accepted => "accepted",
            Self::Unanswered => "unanswered",
            Self::Pending => "pending",
        }
    }
}

/// An audit event: a line of JSON, with a line feed.
#[derive(Debug)]
pub(crate) struct Event {
    pub(super) kind: EventType,
    pub(super) line: Vec<u8>,
}

/// The fields that every event begins with.
pub(super) struct EventHead<'a> {
    pub(super) kind: EventType,
    pub(super) outcome: AuditOutcome,
    pub(super) audit_id: &'a AuditId,
    /// When the request began.
    pub(super) since: SystemTime,
    pub(super) component: &'a str,
}

impl Event {
    /// Creates an event with the current time. `write` adds the fields that depend on its type.
    pub(super) fn new(head: &EventHead<'_>, write: impl FnOnce(&mut EventFields<'_>)) -> Self {
        let mut line = Vec::with_capacity(1024);
        line.extend_from_slice(br#"{"time":""#);
        write_time(&mut line, SystemTime::now());
        for part in [
            r#"","level":"AUDIT","msg":"audit_event","audit_id":""#,
            head.audit_id.as_str(),
            r#"","type":""#,
            head.kind.name(),
            r#"","logged_at":""#,
        ] {
            line.extend_from_slice(part.as_bytes());
        }
        write_time(&mut line, head.since);
        for part in [r#"","outcome":""#, head.outcome.name(), "\""] {
            line.extend_from_slice(part.as_bytes());
        }
        let mut event = EventFields { line: &mut line, is_empty: false };
        event.put("component", Some(head.component));
        write(&mut event);
        event.end();
        line.push(b'\n');
        Self { kind: head.kind, line }
    }
}

#[cfg(test)]
impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event: Value = serde_json::from_slice(&self.line).map_err(serde::ser::Error::custom)?;
        event.serialize(serializer)
    }
}

/// Writes the fields of a JSON object.
pub(crate) struct EventFields<'a> {
    line: &'a mut Vec<u8>,
    is_empty: bool,
}

impl<'a> EventFields<'a> {
    fn begin(line: &'a mut Vec<u8>) -> Self {
        line.push(b'{');
        Self { line, is_empty: true }
    }

    /// Serializes fields in advance, without the braces of an object.
    pub(super) fn written(write: impl FnOnce(&mut EventFields<'_>)) -> Vec<u8> {
        let mut line = Vec::new();
        write(&mut EventFields { line: &mut line, is_empty: true });
        line
    }

    fn end(self) {
        self.line.push(b'}');
    }

    /// Field names are identifiers, which need no escapes.
    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.is_empty) {
            self.line.push(b',');
        }
        self.line.push(b'"');
        self.line.extend_from_slice(name.as_bytes());
        self.line.extend_from_slice(b"\":");
    }

    /// Writes a field if it has a value.
    pub(crate) fn put(&mut self, name: &str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.name(name);
            // Writing to memory cannot fail, and neither can serializing these values.
            let _ = serde_json::to_writer(&mut *self.line, &value);
        }
    }

    /// Writes a text that consists only of characters that need no escapes.
    pub(crate) fn put_plain(&mut self, name: &str, text: &str) {
        debug_assert!(text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte)));
        self.name(name);
        self.line.push(b'"');
        self.line.extend_from_slice(text.as_bytes());
        self.line.push(b'"');
    }

    /// Writes bytes as hexadecimal digits.
    pub(crate) fn put_hex<const N: usize>(&mut self, name: &str, bytes: &[u8; N]) {
        self.name(name);
        self.line.push(b'"');
        self.line.extend_from_slice(hex_digits(bytes).as_flattened());
        self.line.push(b'"');
    }

    /// Writes fields that were serialized by [`written`](Self::written).
    pub(crate) fn put_written(&mut self, fields: &[u8]) {
        if !fields.is_empty() && !std::mem::take(&mut self.is_empty) {
            self.line.push(b',');
        }
        self.line.extend_from_slice(fields);
    }

    /// Writes all fields of a map.
    pub(crate) fn put_all(&mut self, fields: &Map<String, Value>) {
        for (name, value) in fields {
            if !std::mem::take(&mut self.is_empty) {
                self.line.push(b',');
            }
            let _ = serde_json::to_writer(&mut *self.line, name);
            self.line.push(b':');
            let _ = serde_json::to_writer(&mut *self.line, value);
        }
    }

    /// Writes an object.
    pub(crate) fn object(&mut self, name: &str, write: impl FnOnce(&mut EventFields<'_>)) {
        self.name(name);
        let mut object = EventFields::begin(self.line);
        write(&mut object);
        object.end();
    }

    /// Writes an object if it has fields.
    pub(crate) fn object_if_any(&mut self, name: &str, write: impl FnOnce(&mut EventFields<'_>)) {
        let (length, was_empty) = (self.line.len(), self.is_empty);
        self.name(name);
        let mut object = EventFields::begin(self.line);
        write(&mut object);
        let is_empty = object.is_empty;
        object.end();
        if is_empty {
            self.line.truncate(length);
            self.is_empty = was_empty;
        }
    }
}

/// Writes a time with milliseconds (RFC 3339). The formatted second is cached, because many events occur in the same
/// second.
fn write_time(line: &mut Vec<u8>, time: SystemTime) {
    thread_local! {
        static LAST_SECOND: Cell<(u64, [u8; 19])> =
            const { Cell::new((u64::MAX, [0; 19])) };
    }
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (mut second, mut text) = LAST_SECOND.get();
    if second != since_epoch.as_secs() {
        second = since_epoch.as_secs();
        let mut formatted = Vec::with_capacity(text.len() + 1);
        let start = UNIX_EPOCH + Duration::from_secs(second);
        let _ = write!(formatted, "{}", humantime::format_rfc3339_seconds(start));
        text = formatted.first_chunk().copied().unwrap_or(text);
        LAST_SECOND.set((second, text));
    }
    line.extend_from_slice(&text);
    let millis = since_epoch.subsec_millis() as u16;
    let digit = |place: u16| b'0' + (millis / place % 10) as u8;
    line.extend_from_slice(&[b'.', digit(100), digit(10), digit(1), b'Z']);
}

/// Inserts a field if it has a value.
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
    fn times_have_milliseconds() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_007, "2000-02-29T00:00:00.007Z"),
            (951_782_400_120, "2000-02-29T00:00:00.120Z"),
        ] {
            let mut line = Vec::new();
            write_time(&mut line, UNIX_EPOCH + Duration::from_millis(millis));
            assert_eq!(String::from_utf8(line).expect("text"), text);
        }
    }

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
