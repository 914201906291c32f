//! The `mcpm` command as its users meet it: the real program, a real engine, one theme a file.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod adversarial;
mod audit;
mod audit_files;
mod builtin;
mod certificates;
mod client;
mod container;
mod denied_connections;
mod doctor;
mod engine;
mod exchange;
mod explain;
mod failures;
mod guides;
mod headers;
mod ignore;
mod images;
mod isolation;
mod manage;
mod names;
mod pages;
mod protected_workload;
mod proxy;
mod recorded;
mod recovery;
mod registry;
mod remote;
mod secret_delivery;
mod secret_store;
mod secrets;
mod stdio_bridge;
mod support;
mod telemetry;
mod tunnel;
mod usage;
