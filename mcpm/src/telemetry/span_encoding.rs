//! Encodes spans for OTLP over HTTP (opentelemetry-proto 1, `ExportTraceServiceRequest`).
//!
//! The exporter's own types, which are generated from the `.proto` files, copy each name and value of an attribute, and
//! compute the length of each message several times. Here, each field is written once, in the order of the field
//! numbers.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::{
    KeyValue, SpanId, Value,
    trace::{SpanContext, SpanKind, Status},
};
use opentelemetry_sdk::{Resource, trace::SpanData};

/// Encodes a resource as the first fields of `ResourceSpans`.
pub(super) fn encode_resource(resource: &Resource) -> Vec<u8> {
    let mut encoded = Encoder(Vec::new());
    encoded.message(1, |encoded| {
        for (key, value) in resource {
            encoded.attribute(1, key.as_str(), value);
        }
    });
    encoded.0
}

/// Encodes the spans of one resource, which [`encode_resource`] has encoded, and of one scope, of which only the name
/// is encoded.
pub(super) fn encode_spans(resource: &[u8], spans: &[SpanData]) -> Vec<u8> {
    let scope = spans.first().map_or("", |span| span.instrumentation_scope.name());
    // About the size of usual spans.
    let mut encoded = Encoder(Vec::with_capacity(resource.len() + spans.len() * 512));
    encoded.message(1, |encoded| {
        encoded.0.extend_from_slice(resource);
        encoded.message(2, |encoded| {
            encoded.message(1, |encoded| encoded.bytes(1, scope.as_bytes()));
            for span in spans {
                encoded.message(2, |encoded| encoded.span(span));
            }
        });
    });
    encoded.0
}

/// Writes the fields of messages (Protocol Buffers, "Encoding"). Fields with the default value are omitted.
struct Encoder(Vec<u8>);

impl Encoder {
    fn span(&mut self, span: &SpanData) {
        self.ids(&span.span_context);
        if span.parent_span_id != SpanId::INVALID {
            self.bytes(4, &span.parent_span_id.to_bytes());
        }
        self.bytes(5, span.name.as_bytes());
        self.number(
            6,
            match span.span_kind {
                SpanKind::Internal => 1,
                SpanKind::Server => 2,
                SpanKind::Client => 3,
                SpanKind::Producer => 4,
                SpanKind::Consumer => 5,
            },
        );
        self.fixed64(7, nanos(span.start_time));
        self.fixed64(8, nanos(span.end_time));
        self.attributes(9, &span.attributes);
        self.number(10, span.dropped_attributes_count.into());
        for event in &span.events.events {
            self.message(11, |encoded| {
                encoded.fixed64(1, nanos(event.timestamp));
                encoded.bytes(2, event.name.as_bytes());
                encoded.attributes(3, &event.attributes);
                encoded.number(4, event.dropped_attributes_count.into());
            });
        }
        self.number(12, span.events.dropped_count.into());
        for link in &span.links.links {
            self.message(13, |encoded| {
                encoded.ids(&link.span_context);
                encoded.attributes(4, &link.attributes);
                encoded.number(5, link.dropped_attributes_count.into());
                encoded.flags(6, &link.span_context, link.span_context.is_remote());
            });
        }
        self.number(14, span.links.dropped_count.into());
        self.message(15, |encoded| match &span.status {
            Status::Unset => {}
            Status::Ok => encoded.number(3, 1),
            Status::Error { description } => {
                encoded.bytes(2, description.as_bytes());
                encoded.number(3, 2);
            }
        });
        self.flags(16, &span.span_context, span.parent_span_is_remote);
    }

    fn ids(&mut self, context: &SpanContext) {
        self.bytes(1, &context.trace_id().to_bytes());
        self.bytes(2, &context.span_id().to_bytes());
        self.bytes(3, context.trace_state().header().as_bytes());
    }

    fn flags(&mut self, field: u64, context: &SpanContext, is_remote: bool) {
        // Two bits: that it is known whether the parent is remote, and whether it is remote (trace.proto, `SpanFlags`).
        let remote: u32 = if is_remote { 0x300 } else { 0x100 };
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&(u32::from(context.trace_flags().to_u8()) | remote).to_le_bytes());
    }

    fn attributes(&mut self, field: u64, attributes: &[KeyValue]) {
        for attribute in attributes {
            self.attribute(field, attribute.key.as_str(), &attribute.value);
        }
    }

    fn attribute(&mut self, field: u64, key: &str, value: &Value) {
        self.message(field, |encoded| {
            encoded.bytes(1, key.as_bytes());
            // A value is written even if it is the default value.
            encoded.message(2, |encoded| match value {
                Value::Bool(value) => encoded.0.extend_from_slice(&[2 << 3, u8::from(*value)]),
                Value::I64(value) => {
                    encoded.varint(3 << 3);
                    encoded.varint(value.cast_unsigned());
                }
                Value::F64(value) => {
                    encoded.varint(4 << 3 | 1);
                    encoded.0.extend_from_slice(&value.to_le_bytes());
                }
                // Strings. mcpm uses no arrays; an array would be written as text, so that it is not lost.
                text => {
                    let text = text.as_str();
                    encoded.varint(1 << 3 | 2);
                    encoded.varint(text.len() as u64);
                    encoded.0.extend_from_slice(text.as_bytes());
                }
            });
        });
    }

    /// Writes a message, whose length is known only after it has been written.
    fn message(&mut self, field: u64, write: impl FnOnce(&mut Self)) {
        self.varint(field << 3 | 2);
        let start = self.0.len();
        // One byte is reserved for the length, which is enough for most messages.
        self.0.push(0);
        write(self);
        let (begin, end) = (start + 1, self.0.len());
        let length = end - begin;
        if length < 0x80 {
            self.0[start] = length as u8;
            return;
        }
        self.varint(length as u64);
        let more = self.0.len() - end - 1;
        // The length precedes the message.
        self.0[start..].rotate_right(more + 1);
        self.0.remove(begin + more);
    }

    /// Writes bytes or a text.
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.varint(field << 3 | 2);
            self.varint(bytes.len() as u64);
            self.0.extend_from_slice(bytes);
        }
    }

    fn number(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.varint(field << 3);
            self.varint(number);
        }
    }

    fn fixed64(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.varint(field << 3 | 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

fn nanos(time: SystemTime) -> u64 {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use opentelemetry::{
        InstrumentationScope, TraceFlags, TraceId,
        trace::{Event, Link, TraceState},
    };
    use opentelemetry_proto::{
        tonic::collector::trace::v1::ExportTraceServiceRequest,
        transform::trace::tonic::group_spans_by_resource_and_scope,
    };
    use prost::Message as _;

    use super::*;

    fn context(number: u64, is_remote: bool) -> SpanContext {
        let (trace, span) = (TraceId::from(u128::from(number) << 70), SpanId::from(number));
        let state = TraceState::from_key_value([("a", "b")]).expect("a state");
        SpanContext::new(trace, span, TraceFlags::SAMPLED, is_remote, state)
    }

    fn span(number: u64, attributes: Vec<KeyValue>, status: Status) -> SpanData {
        let now = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
        let attribute = || vec![KeyValue::new("x", "y")];
        let mut span = SpanData {
            span_context: context(number, false),
            parent_span_id: SpanId::from(number - 1),
            parent_span_is_remote: number > 1,
            span_kind: SpanKind::Server,
            name: "tools/call add".into(),
            start_time: now,
            end_time: now + Duration::from_millis(7),
            attributes,
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status,
            instrumentation_scope: InstrumentationScope::builder("mcpm").build(),
        };
        if number > 2 {
            span.events.events.push(Event::new("an event", now, attribute(), 3));
            span.links.links.push(Link::new(context(9, true), attribute(), 300));
            (span.dropped_attributes_count, span.span_kind) = (200, SpanKind::Internal);
        }
        span
    }

    #[test]
    fn spans_are_encoded_as_by_the_generated_types() {
        let attributes = [
            KeyValue::new("true", true),
            KeyValue::new("false", false),
            KeyValue::new("zero", 0),
            KeyValue::new("negative", -1),
            KeyValue::new("large", i64::MAX),
            KeyValue::new("float", 0.25),
            KeyValue::new("empty", ""),
            KeyValue::new("text", "ü".repeat(40)),
            KeyValue::new("long", "x".repeat(20_000)),
        ];
        let resource = Resource::builder_empty().with_attributes(attributes.clone()).build();
        let spans = [
            span(1, Vec::new(), Status::Unset),
            span(2, attributes.to_vec(), Status::error("why")),
            span(3, attributes[..3].to_vec(), Status::error("")),
            span(4, Vec::new(), Status::Ok),
        ];
        for count in 0..=spans.len() {
            let batch = spans[..count].to_vec();
            let encoded = encode_spans(&encode_resource(&resource), &batch);
            let decoded = ExportTraceServiceRequest::decode(&encoded[..]).expect("a request");
            let resource_spans = group_spans_by_resource_and_scope(batch, &(&resource).into());
            if count == 0 {
                continue;
            }
            assert_eq!(decoded, ExportTraceServiceRequest { resource_spans });
            assert_eq!(decoded.encode_to_vec(), encoded);
        }
    }
}
