//! Telemetry, received as a collector does and read as Prometheus does.
#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

mod audited;
mod collector;
mod elsewhere;
mod outages;
mod over_tls;
mod receiver;
mod scraped;
mod traces;
