//! Implements the C, Python and Swift bindings of mcpm.
//!
//! The bindings only translate between languages: the library makes all decisions. [`c`] contains the C bindings;
//! `connection_handle`, `executor`, `prompt_bridge`, `sigpipe` and `workload_handle` are shared by all bindings; the
//! other modules are exported to Python and Swift by `uniffi`. Files in `generated` and `c/setters.rs` are generated
//! from the option table.

#[cfg(feature = "capi")]
pub mod c;
#[cfg(feature = "uniffi")]
mod connection;
#[cfg(any(feature = "capi", feature = "uniffi"))]
mod connection_handle;
#[cfg(feature = "uniffi")]
mod error;
#[cfg(feature = "uniffi")]
mod events;
#[cfg(any(feature = "capi", feature = "uniffi"))]
mod executor;
#[cfg(feature = "uniffi")]
mod explanation;
#[cfg(any(feature = "capi", feature = "uniffi"))]
mod prompt_bridge;
#[cfg(feature = "uniffi")]
mod proxy;
#[cfg(feature = "uniffi")]
mod records;
#[cfg(any(feature = "capi", feature = "uniffi"))]
mod sigpipe;
#[cfg(feature = "uniffi")]
mod user_prompt;
#[cfg(feature = "uniffi")]
mod values;
#[cfg(feature = "uniffi")]
mod workload;
#[cfg(any(feature = "capi", feature = "uniffi"))]
mod workload_handle;
#[cfg(feature = "uniffi")]
mod workloads;

#[cfg(feature = "uniffi")]
pub use {
    connection::Connection,
    error::McpmError,
    events::Events,
    explanation::{Explanation, Refused, explain},
    proxy::Proxy,
    user_prompt::{DeviceLogin, LoginPrompt, UserPrompt},
    workload::{Workload, WorkloadStatus, shutdown, version},
    workloads::{LogChunk, LogReader, WorkloadInfo, Workloads},
};

#[cfg(feature = "uniffi")]
uniffi::setup_scaffolding!("mcpm");
