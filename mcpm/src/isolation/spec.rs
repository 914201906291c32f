//! The resolved isolation of a container.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::permission::Outbound;

/// The resolved isolation of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsolationSpec {
    /// The server's program and arguments.
    pub command: Vec<String>,
    /// Connections that the container may open.
    pub outbound: Outbound,
    /// Whether the container may connect to the engine's machine through the engine's gateway.
    pub runtime_gateway: bool,
    /// File that a profile of its connections is written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learn: Option<PathBuf>,
}
