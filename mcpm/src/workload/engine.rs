//! Finds the container engine of a workload.

use std::sync::Arc;

use super::WorkloadSpec;
use crate::{
    Environment, Result,
    options::RuntimeChoice,
    runtime::{
        EngineName, Runtime,
        discover::{connect_to, discover},
    },
};

/// Connects to the engine of the environment, or to one that is found.
pub(super) async fn runtime(
    environment: &Environment,
    choice: Option<RuntimeChoice>,
) -> Result<Arc<dyn Runtime>> {
    if let Some(runtime) = &environment.runtime {
        return Ok(Arc::clone(runtime));
    }
    let engine = match choice.unwrap_or(RuntimeChoice::Auto) {
        RuntimeChoice::Auto => None,
        RuntimeChoice::Docker => Some(EngineName::Docker),
        RuntimeChoice::Podman => Some(EngineName::Podman),
    };
    discover(&environment.engine, engine).await
}

/// Connects to the engine of the environment, or to the one that has the container of a recorded workload.
pub(super) async fn runtime_of(environment: &Environment, spec: &WorkloadSpec) -> Result<Arc<dyn Runtime>> {
    match &spec.engine {
        Some(engine) if environment.runtime.is_none() => connect_to(&environment.engine, engine).await,
        _ => runtime(environment, spec.asked.runtime).await,
    }
}
