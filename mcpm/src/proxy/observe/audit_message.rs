//! Collects what the audit log records about one message of a request and its response.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::Method;
use memchr::memmem::Finder;
use serde_json::Value;

use crate::{
    audit::{Audit, AuditId, CallInfo, EventFields, EventType, InFlightGuard},
    mcp::{
        fields::{FieldValue, Fields},
        message::{Message, MessageKind, same_id},
        methods::known_method,
    },
    proxy::denial::Denial,
    redact::{extended::ExtendedRedactor, strip_query, truncate},
};

/// Maximum recorded length of the name of a tool, a prompt or a resource, and of an error message.
const MAX_TEXT_BYTES: usize = 256;
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// A text that occurs in every tool error, but in few other results.
static TOOL_ERROR_MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("isError"));

/// A message, or an HTTP request without messages.
#[derive(Debug)]
pub(super) struct AuditedMessage {
    pub(super) kind: EventType,
    pub(super) call: Arc<CallInfo>,
    pub(super) is_request: bool,
    /// Name and version of the client, if the message has them.
    pub(super) client: Option<(String, Option<String>)>,
    pub(super) response: Option<AuditedResponse>,
    pub(super) settled: bool,
    pub(super) in_flight: Option<InFlightGuard>,
    id: Bytes,
    /// The kind of thing that the recorded name refers to, such as a tool.
    target: Option<&'static str>,
    batch: bool,
    trace: Option<(String, String)>,
    data: Option<Value>,
}

/// The response to a message.
#[derive(Debug)]
pub(super) struct AuditedResponse {
    /// Whether it is a JSON-RPC error or a tool error.
    pub(super) failed: bool,
    code: Option<i64>,
    message: Option<String>,
    is_tool_error: bool,
    size: u64,
    data: Option<Value>,
    /// The denial, if the response replaces that of the server.
    denial: Option<Denial>,
}

impl AuditedMessage {
    pub(super) fn new(
        audit: &Arc<Audit>,
        message: &Message,
        batch: bool,
        masks: &ExtendedRedactor<'_>,
        traceparent: Option<&str>,
    ) -> Self {
        let is_request = message.kind() == MessageKind::Request;
        let kind = match message.kind() {
            MessageKind::Response => EventType::Response,
            _ => EventType::of_method(message.method()),
        };
        let params = message.params_fields();
        let text = |name: &str| params.as_ref()?.get_unique_string(name).ok().flatten();
        let plain = |text: &str| truncate(&masks.redact(text), MAX_TEXT_BYTES).into_owned();
        let of = match message.method() {
            "tools/call" => text("name").map(|name| ("tool", plain(&name))),
            "prompts/get" => text("name").map(|name| ("prompt", plain(&name))),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                text("uri").map(|uri| ("resource", plain(strip_query(&uri))))
            }
            _ => None,
        };
        let meta = if message.may_have_meta() {
            params.as_ref().and_then(|params| params.get_unique("_meta").ok().flatten())
        } else {
            None
        };
        let meta = meta.and_then(|meta| Fields::read(meta.get()));
        let told = meta.as_ref().and_then(|meta| meta.get_unique_string("traceparent").ok().flatten());
        let client = match message.method() {
            "initialize" => params.as_ref().and_then(|params| params.get_unique("clientInfo").ok().flatten()),
            _ => meta.as_ref().and_then(|meta| meta.get_unique(CLIENT_INFO).ok().flatten()),
        };
        let client = client.and_then(|client| Fields::read(client.get())).and_then(|client| {
            let text = |name: &str| client.get_unique_string(name).ok().flatten();
            Some((plain(&text("name")?), text("version").map(|version| plain(&version))))
        });
        let shown = if message.kind() == MessageKind::Response { message.result() } else { message.params() };
        let data = (audit.spec().include_request_data && !shown.is_empty()).then(|| audit.data(shown, masks));
        let (target, name) = of.unzip();
        let method = match known_method(message.method()) {
            Some(known) => known.into(),
            None => plain(message.method()).into(),
        };
        let call = Arc::new(CallInfo { audit_id: AuditId::random(), method, name });
        let in_flight = is_request.then(|| audit.track_call(&call));
        Self {
            kind,
            call,
            is_request,
            client,
            response: None,
            settled: false,
            in_flight,
            id: message.id(),
            target,
            batch,
            trace: told
                .as_deref()
                .and_then(parse_traceparent)
                .or_else(|| traceparent.and_then(parse_traceparent)),
            data,
        }
    }

    /// A request without messages, or whose messages were not parsed.
    pub(super) fn without_message(kind: EventType, method: &Method, traceparent: Option<&str>) -> Self {
        Self {
            kind,
            call: Arc::new(CallInfo {
                audit_id: AuditId::random(),
                method: truncate(method.as_str(), MAX_TEXT_BYTES).into_owned().into(),
                name: None,
            }),
            is_request: false,
            client: None,
            response: None,
            settled: false,
            in_flight: None,
            id: Bytes::new(),
            target: None,
            batch: false,
            trace: traceparent.and_then(parse_traceparent),
            data: None,
        }
    }

    pub(super) fn matches_response(&self, answer: &Message) -> bool {
        self.is_request && self.response.is_none() && same_id(&self.id, answer.id_text())
    }

    pub(super) fn failed(&self) -> bool {
        self.response.as_ref().is_some_and(|answered| answered.failed)
    }

    /// Whether the server's response was withheld.
    pub(super) fn is_denied(&self) -> bool {
        self.denial().is_some()
    }

    /// Why the server's response was withheld.
    pub(super) fn denial(&self) -> Option<&Denial> {
        self.response.as_ref().and_then(|answered| answered.denial.as_ref())
    }

    pub(super) fn response_size(&self) -> Option<u64> {
        self.response.as_ref().map(|answered| answered.size)
    }

    pub(super) fn write_target(&self, target: &mut EventFields<'_>) {
        target.put("method", Some(&*self.call.method));
        target.put("name", self.call.name.as_ref());
        if let Some(kind) = self.target {
            target.put_plain("type", kind);
        }
    }

    /// `own` are the ids of the request's own span; they take precedence over those of its parent.
    pub(super) fn write_metadata(&self, extra: &mut EventFields<'_>, own: Option<([u8; 16], [u8; 8])>) {
        if self.batch {
            extra.put("batch", Some(true));
        }
        if let Some((trace, span)) = own {
            extra.put_hex("trace_id", &trace);
            extra.put_hex("span_id", &span);
        } else if let Some((trace, span)) = &self.trace {
            extra.put_plain("trace_id", trace);
            extra.put_plain("span_id", span);
        }
        if let Some(answered) = &self.response {
            extra.put("jsonrpc_error_code", answered.code);
            extra.put("jsonrpc_error_message", answered.message.as_deref());
            if answered.is_tool_error {
                extra.put("tool_error", Some(true));
            }
        }
    }

    pub(super) fn write_data(&self, data: &mut EventFields<'_>) {
        data.put("request", self.data.as_ref());
        data.put("response", self.response.as_ref().and_then(|answered| answered.data.as_ref()));
    }
}

impl AuditedResponse {
    pub(super) fn of(
        audit: &Audit,
        message: &Message,
        denial: Option<&Denial>,
        masks: &ExtendedRedactor<'_>,
    ) -> Self {
        let code = message.error_code();
        let error = message.error();
        let fields = if error.is_empty() { None } else { Fields::read(error) };
        let of_error = fields.and_then(|error| error.get_unique_string("message").ok().flatten());
        let text = of_error.map(|text| truncate(&masks.redact_with_urls(&text), MAX_TEXT_BYTES).into_owned());
        let is_true = |value: FieldValue<'_>| value.get() == "true";
        let of_tool = message.result_contains(&TOOL_ERROR_MARK)
            && message.result_fields().and_then(|result| result.get_only("isError")).is_some_and(is_true);
        let shown = if error.is_empty() { message.result() } else { error };
        let data = audit.spec().include_response_data.then(|| audit.data(shown, masks));
        let size = message.bytes().len() as u64;
        let (failed, denial) = (of_tool || !error.is_empty(), denial.cloned());
        Self { failed, code, message: text, is_tool_error: of_tool, size, data, denial }
    }
}

/// Writes the ids of a denial.
pub(super) fn put_denial(extra: &mut EventFields<'_>, denial: &Denial) {
    extra.put("reason", Some(denial.reason.id()));
    extra.put("refusal", Some(denial.id.as_str()));
}

/// The ids of a trace and of the span in it (W3C Trace Context, "traceparent").
fn parse_traceparent(text: &str) -> Option<(String, String)> {
    let mut parts = text.trim().split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let digits = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_some = |text: &str| text.bytes().any(|byte| byte != b'0');
    let sound =
        digits(version, 2) && version != "ff" && digits(trace, 32) && digits(span, 16) && digits(flags, 2);
    // Only a later version may have more parts.
    let whole = version != "00" || parts.next().is_none();
    (sound && whole && is_some(trace) && is_some(span)).then(|| (trace.to_owned(), span.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parse_traceparent;

    #[test]
    fn a_trace_is_read_or_left_out() {
        let (trace_id, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let read = |text: &str| parse_traceparent(text);
        let whole = Some((trace_id.to_owned(), span.to_owned()));
        assert_eq!(read(&format!("00-{trace_id}-{span}-01")), whole);
        assert_eq!(read(&format!("01-{trace_id}-{span}-01-more")), whole);
        for text in [
            String::new(),
            format!("00-{trace_id}-{span}-01-more"),
            format!("ff-{trace_id}-{span}-01"),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{}-{span}-01", trace_id.to_uppercase()),
            format!("00-{trace_id}-{span}"),
            "Bearer canary".to_owned(),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
    }
}
