//! Tests isolated servers, with a real engine and with the built-in runtime.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod builtin_runtime;
mod egress;
mod fixture;
mod orphaned_containers;
mod remote_engine;
mod server;
mod ssrf_guards;
