//! Runs MCP servers as container workloads and puts one HTTP proxy in front of each.

mod docker_config;
pub mod environment;
pub mod error;
pub mod image;
mod mcp;
pub mod options;
pub mod proxy;
pub mod runtime;
pub mod state;
pub mod transport;
pub mod workload;

pub use environment::Environment;
pub use error::{Error, ErrorKind, Result};
pub use proxy::{Proxy, ProxyBuilder, RunningProxy};
pub use workload::{RunningWorkload, Workload, WorkloadBuilder};
