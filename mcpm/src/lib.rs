//! Runs MCP servers as container workloads and puts one HTTP proxy in front of each.

pub mod error;
pub mod options;
pub mod proxy;
pub mod workload;

pub use error::{Error, ErrorKind, Result};
