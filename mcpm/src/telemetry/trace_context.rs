//! Reads the W3C Trace Context of a request from its message or headers, and writes it for servers.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{
    Context,
    propagation::{Extractor, TextMapPropagator as _},
    trace::{SpanContext, TraceContextExt as _},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use serde::Deserialize;

use super::traceparent::{TRACEPARENT, traceparent_header};
use crate::redact::hex_digits;

/// The name of the field, both in headers and in `_meta` (SEP-414).
pub(crate) const TRACESTATE: &str = "tracestate";

/// The `traceparent` and `tracestate` of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct TraceContext {
    #[serde(default)]
    traceparent: Option<String>,
    #[serde(default)]
    tracestate: Option<String>,
}

impl TraceContext {
    /// Reads the context from headers.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let traceparent = traceparent_header(headers).map(str::to_owned);
        let tracestate = traceparent.is_some().then(|| joined_tracestate(headers)).flatten();
        Self { traceparent, tracestate }
    }

    /// Reads the context from the `_meta` of a message's params; empty if it is malformed.
    pub(crate) fn from_params(params: &str) -> Self {
        #[derive(Deserialize)]
        struct MetaParams {
            #[serde(default, rename = "_meta")]
            meta: Option<TraceContext>,
        }
        let params = serde_json::from_str::<MetaParams>(params).ok();
        params.and_then(|params| params.meta).unwrap_or_default()
    }

    /// The remote span context, if the fields are valid.
    pub(crate) fn span_context(&self) -> Option<SpanContext> {
        self.traceparent.as_ref()?;
        let context = TraceContextPropagator::new().extract_with_context(&Context::new(), self);
        Some(context.span().span_context().clone()).filter(SpanContext::is_valid)
    }

    /// The context that makes `span` the parent of later spans.
    pub(crate) fn from_span(span: &SpanContext) -> Self {
        if !span.is_valid() {
            return Self::default();
        }
        // The same text as the SDK's propagator writes, but without its formatting code, which is slower.
        let (trace, id) = (hex_digits(&span.trace_id().to_bytes()), hex_digits(&span.span_id().to_bytes()));
        let flags = if span.is_sampled() { b"-01" } else { b"-00" };
        let traceparent = [b"00-", trace.as_flattened(), b"-", id.as_flattened(), flags].concat();
        Self {
            traceparent: String::from_utf8(traceparent).ok(),
            tracestate: Some(span.trace_state().header()),
        }
    }

    /// Writes the context into headers, replacing existing fields.
    pub(crate) fn write_headers(self, headers: &mut HeaderMap) {
        for (name, value) in [(TRACEPARENT, self.traceparent), (TRACESTATE, self.tracestate)] {
            let name = HeaderName::from_static(name);
            match value.filter(|value| !value.is_empty()).map(HeaderValue::try_from) {
                Some(Ok(value)) => drop(headers.insert(name, value)),
                _ => drop(headers.remove(name)),
            }
        }
    }

    /// The `traceparent`, if there is one.
    pub(crate) fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    /// The `tracestate`, if there is one.
    pub(crate) fn tracestate(&self) -> Option<&str> {
        self.tracestate.as_deref().filter(|state| !state.is_empty())
    }
}

/// `tracestate` may be split into several header lines (W3C Trace Context, section 3.3.1).
fn joined_tracestate(headers: &HeaderMap) -> Option<String> {
    let lines = headers.get_all(TRACESTATE).iter().map(HeaderValue::to_str);
    let lines: Vec<&str> = lines.collect::<Result<_, _>>().ok()?;
    (!lines.is_empty()).then(|| lines.join(","))
}

impl Extractor for TraceContext {
    fn get(&self, key: &str) -> Option<&str> {
        match key {
            TRACEPARENT => self.traceparent.as_deref(),
            TRACESTATE => self.tracestate.as_deref(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT, TRACESTATE]
    }
}

/// The parent of a request's span, and a linked span: the context of the message takes precedence over that of its
/// HTTP request (SEP-414), which may come from a gateway.
pub(crate) fn parent_and_link(
    message: &TraceContext,
    headers: &TraceContext,
) -> (Option<SpanContext>, Option<SpanContext>) {
    match (message.span_context(), headers.span_context()) {
        (Some(own), Some(other)) if own != other => (Some(own), Some(other)),
        (Some(one), _) | (None, Some(one)) => (Some(one), None),
        (None, None) => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-00";

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().expect("a value"));
        }
        headers
    }

    #[test]
    fn the_message_context_takes_precedence_and_the_header_context_is_linked() {
        let message = TraceContext::from_params(&format!(
            r#"{{"_meta":{{"traceparent":"{ONE}","x":[1]}},"name":"a"}}"#
        ));
        let header = TraceContext::from_headers(&headers(&[("traceparent", OTHER)]));
        let (parent, link) = parent_and_link(&message, &header);
        let trace = |place: Option<SpanContext>| place.expect("a place").trace_id().to_string();
        assert_eq!((trace(parent), trace(link)), (ONE[3..35].to_owned(), OTHER[3..35].to_owned()));
        let (parent, link) = parent_and_link(&TraceContext::default(), &header);
        assert_eq!((trace(parent), link), (OTHER[3..35].to_owned(), None));
        let (_, link) = parent_and_link(&header, &header);
        assert_eq!(link, None);
    }

    #[test]
    fn invalid_trace_context_is_ignored() {
        for params in [
            "",
            "[]",
            r#"{"_meta":null}"#,
            r#"{"_meta":{"traceparent":7}}"#,
            r#"{"_meta":{"traceparent":"00-0-0-0"}}"#,
            r#"{"_meta":{"traceparent":"00-00000000000000000000000000000000-b7ad6b7169203331-01"}}"#,
        ] {
            assert_eq!(TraceContext::from_params(params).span_context(), None, "{params}");
        }
        let twice = headers(&[("traceparent", ONE), ("traceparent", ONE)]);
        assert_eq!(TraceContext::from_headers(&twice).span_context(), None);
    }

    #[test]
    fn trace_context_headers_are_replaced() {
        let came = headers(&[("traceparent", ONE), ("tracestate", "a=1"), ("tracestate", "b=2")]);
        let place = TraceContext::from_headers(&came).span_context().expect("a place");
        let mut sent = headers(&[("traceparent", OTHER), ("tracestate", "c=3"), ("tracestate", "d=4")]);
        TraceContext::from_span(&place).write_headers(&mut sent);
        assert_eq!(sent, headers(&[("traceparent", ONE), ("tracestate", "a=1,b=2")]));
        let place =
            TraceContext::from_headers(&headers(&[("traceparent", OTHER)])).span_context().expect("a place");
        TraceContext::from_span(&place).write_headers(&mut sent);
        assert_eq!(sent, headers(&[("traceparent", OTHER)]));
    }
}
