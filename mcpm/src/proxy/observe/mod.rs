//! Observes requests for the audit log, metrics and traces.
//!
//! [`ObserveLayer`] is the outermost layer, present only when something is observed. It reads the head of a request
//! once ([`facts`]) and puts an [`Exchange`] into the request's extensions. Layers and endpoints report to the
//! exchange; the exchange passes each event of the request's lifecycle to its two sinks, [`request_audit`] and
//! [`spans`]. A response that arrives on another stream is matched in [`sse_pending`].

mod audit_message;
mod audit_source;
mod exchange;
mod facts;
mod layers;
mod meta;
#[cfg(feature = "telemetry")]
mod metrics;
#[cfg(feature = "telemetry")]
mod operation;
mod outcome;
mod request_audit;
#[cfg(feature = "telemetry")]
mod span_attributes;
#[cfg_attr(not(feature = "telemetry"), path = "spans_off.rs")]
mod spans;
#[cfg(feature = "telemetry")]
mod sse_pending;

pub(crate) use exchange::{Exchange, mark_sent};
pub(crate) use facts::Peer;
pub(crate) use layers::{AuditPreflight, ObserveLayer, PhaseMarker, PropagateContext, SsePendingRequests};
