//! Telemetry, received as a collector does and read as Prometheus does.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails its test")]

mod collector;
mod outages;
mod receiver;
mod scraped;
mod traces;
