//! The C, Python and Swift faces of mcpm.
//!
//! They translate and decide nothing: every rule is the library's. [`c`] is the C face, on `executor` and `held` both
//! faces stand, and the other modules are what `uniffi` makes Python and Swift from. Files below `generated` and
//! `c/setters.rs` are made from the option table.

#[cfg(feature = "capi")]
pub mod c;
#[cfg(feature = "uniffi")]
mod error;
#[cfg(feature = "uniffi")]
mod events;
#[cfg(any(feature = "capi", feature = "uniffi"))]
mod executor;
#[cfg(feature = "uniffi")]
mod explanation;
#[cfg(feature = "uniffi")]
mod proxy;
#[cfg(feature = "uniffi")]
mod records;
#[cfg(feature = "uniffi")]
mod values;
#[cfg(feature = "uniffi")]
mod workload;
#[cfg(any(feature = "capi", feature = "uniffi"))]
mod workload_handle;

#[cfg(feature = "uniffi")]
pub use {
    error::McpmError,
    events::Events,
    explanation::{Explanation, Refused, explain},
    proxy::Proxy,
    workload::{Workload, WorkloadStatus, shutdown},
};

#[cfg(feature = "uniffi")]
uniffi::setup_scaffolding!("mcpm");
