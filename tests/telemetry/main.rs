//! Tests telemetry as collectors receive it and as Prometheus reads it.
#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

mod audit_correlation;
mod collector;
mod fixture;
mod legacy_sse;
mod outages;
mod over_tls;
mod prometheus;
mod traces;
