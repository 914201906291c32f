//! Stub for builds without the Cargo feature `docker`: finds no container engine.

use std::sync::Arc;

use super::{EngineName, Runtime};
use crate::{Error, Feature, Result, environment::EngineSettings};

/// Finds no engine.
///
/// # Errors
/// `Unsupported`.
pub async fn discover(_settings: &EngineSettings, _wanted: Option<EngineName>) -> Result<Arc<dyn Runtime>> {
    Err(missing())
}

/// Without engines, none is configured.
pub fn is_configured(_settings: &EngineSettings) -> bool {
    false
}

/// Connects to no engine.
///
/// # Errors
/// `Unsupported`.
pub async fn connect_to(_settings: &EngineSettings, _address: &str) -> Result<Arc<dyn Runtime>> {
    Err(missing())
}

fn missing() -> Error {
    Feature::Docker.missing("running containers")
}
