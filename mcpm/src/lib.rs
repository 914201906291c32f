//! Runs MCP servers as container workloads and puts one HTTP proxy in front of each.
//!
//! What is asked of a workload becomes a plan, the plan containers and a proxy:
//!
//! ```text
//! options -> workload::resolve -> WorkloadSpec -> runtime (containers) -> transport -> proxy
//! client  -> proxy::listener -> proxy::stack -> forward               -> transport -> server
//!                                            -> bridge -> stdio::router -> server
//! ```
//!
//! ```no_run
//! # async fn run() -> mcpm::Result<()> {
//! let running = mcpm::Workload::builder("ghcr.io/example/server:1").name("example").build()?.start().await?;
//! println!("{}", running.url());
//! running.stop(std::time::Duration::from_secs(10)).await?;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

extern crate alloc;

#[cfg(test)]
mod architecture_tests;
pub mod audit;
pub mod auth;
mod config_file;
mod docker_config;
pub mod environment;
pub mod error;
pub mod explain;
#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod http_client;
pub mod image;
pub mod isolation;
#[cfg(test)]
mod limits_tests;
mod line_writer;
mod mcp;
mod memory;
mod name;
pub mod options;
pub mod package;
pub mod permission;
pub mod policy;
pub mod proxy;
mod rate_limit;
mod redact;
pub mod registry;
pub mod runtime;
pub mod secrets;
pub mod state;
pub mod stdio;
pub mod telemetry;
#[cfg(test)]
mod testing;
mod timers;
pub mod transport;
pub mod user_prompt;
#[cfg(test)]
mod wording_tests;
pub mod workload;

pub use environment::Environment;
pub use error::{Error, ErrorKind, Result};
pub use explain::{Explanation, explain};
pub use proxy::{Proxy, ProxyBuilder, RunningProxy};
pub use workload::{RunningWorkload, Workload, WorkloadBuilder};

/// Compiles the Rust example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
