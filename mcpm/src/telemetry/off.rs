//! Stub for builds without the Cargo feature `telemetry`: the configuration of telemetry, which cannot be started.

mod cut;
mod otel_variables;
mod spec;
mod traceparent;

use std::convert::Infallible;

use http::HeaderMap;

pub(crate) use cut::cut;
pub(crate) use spec::{OTLP_OPTIONS, SHARED_OPTIONS};
pub use spec::{OtlpSpec, TelemetrySpec};
pub(crate) use traceparent::traceparent_header;

use crate::{Feature, Result, environment::Variables, options::Header};

/// Stub of the telemetry of a proxy, which this build cannot start.
#[derive(Debug)]
pub(crate) struct Telemetry(Infallible);

impl Telemetry {
    pub(crate) fn start(
        _spec: &TelemetrySpec,
        _headers: &[Header],
        _variables: &Variables,
        _server: &str,
        _transport: &'static str,
    ) -> Result<Self> {
        Err(Feature::Telemetry.missing("telemetry"))
    }

    /// Returns a value of any type. It is never called, because this type has no values.
    pub(crate) fn never(&self) -> ! {
        match self.0 {}
    }

    pub(crate) fn traces(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn prometheus_text(&self) -> Option<Result<String>> {
        match self.0 {}
    }

    pub(crate) fn serves_path(&self) -> bool {
        match self.0 {}
    }

    pub(crate) async fn stop(&self) {
        match self.0 {}
    }
}

/// Stub of the trace context of a request, which nothing reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct TraceContext(());

impl TraceContext {
    pub(crate) fn from_headers(_headers: &HeaderMap) -> Self {
        Self::default()
    }

    pub(crate) fn write_headers(self, _headers: &mut HeaderMap) {}

    pub(crate) fn traceparent(&self) -> Option<&str> {
        None
    }

    pub(crate) fn tracestate(&self) -> Option<&str> {
        None
    }
}

/// Values of OTLP headers by name; empty, because nothing is exported.
pub fn listed_headers(_text: &str, _known: &[String]) -> Vec<Header> {
    Vec::new()
}
