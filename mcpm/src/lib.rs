//! Runs MCP servers as container workloads and puts one HTTP proxy in front of each.

pub mod environment;
pub mod error;
pub mod image;
pub mod runtime;

pub use environment::Environment;
pub use error::{Error, ErrorKind, Result};
