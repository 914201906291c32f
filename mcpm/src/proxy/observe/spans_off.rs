//! Stub for builds without the Cargo feature `telemetry`: no metrics and traces of requests.

use std::{convert::Infallible, sync::Arc};

use super::{
    facts::RequestFacts,
    outcome::{RequestOutcome, ResponseHead, SentBody},
};
use crate::{
    proxy::{
        denial::Denial,
        messages::{RequestMessages, ResponseMessage},
    },
    telemetry::{Telemetry, TraceContext},
};

/// Stub of the requests whose responses arrive on another stream, which are not tracked.
#[derive(Debug, Default)]
pub(super) struct SsePending;

/// One request in metrics and traces.
#[derive(Debug)]
pub(super) struct RequestTelemetry(Infallible);

impl RequestTelemetry {
    pub(super) fn start(
        telemetry: Arc<Telemetry>,
        _facts: Arc<RequestFacts>,
        _sse_pending: Arc<SsePending>,
        _is_stdio: bool,
        _requires_auth: bool,
    ) -> Self {
        telemetry.never()
    }

    pub(super) fn count_denial(telemetry: &Telemetry, _denial: &Denial) {
        telemetry.never()
    }

    pub(super) fn set_authenticated(&self) {
        match self.0 {}
    }

    pub(super) fn begin_phase(&self, _phase: &'static str) {
        match self.0 {}
    }

    pub(super) fn set_messages(&self, _messages: &RequestMessages) {
        match self.0 {}
    }

    pub(super) fn trace_ids(&self) -> Option<([u8; 16], [u8; 8])> {
        match self.0 {}
    }

    pub(super) fn begin_backend_span(&self) -> Option<TraceContext> {
        match self.0 {}
    }

    pub(super) fn is_recording(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn mark_sent(&self) {
        match self.0 {}
    }

    pub(super) fn mark_response_started(&self) {
        match self.0 {}
    }

    pub(super) fn reads_messages(&self) -> bool {
        match self.0 {}
    }

    pub(super) fn on_message(&self, _response: &ResponseMessage<'_>) {
        match self.0 {}
    }

    pub(super) fn on_response(&self, _head: Arc<ResponseHead>) {
        match self.0 {}
    }

    pub(super) fn finish(&self, _outcome: RequestOutcome, _sent: SentBody) {
        match self.0 {}
    }

    pub(super) fn announce_endpoint(&self, _endpoint: &str, _path: &str) {
        match self.0 {}
    }
}
