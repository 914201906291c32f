//! Finds the container runtime of a workload.

use std::sync::Arc;

use super::WorkloadSpec;
use crate::{
    Environment, Error, ErrorKind, Result,
    options::RuntimeChoice,
    runtime::{
        EngineName, Runtime,
        builtin::{self, ENDPOINT},
        discover::{connect_to, discover, is_configured},
    },
};

/// Returns the runtime of the environment, else the one that an option selects, else an engine that responds, else the
/// built-in runtime, unless the user has configured an engine.
pub(super) async fn runtime(
    environment: &Environment,
    choice: Option<RuntimeChoice>,
) -> Result<Arc<dyn Runtime>> {
    if let Some(runtime) = &environment.runtime {
        return Ok(Arc::clone(runtime));
    }
    let engine = match choice.unwrap_or(RuntimeChoice::Auto) {
        RuntimeChoice::Auto => return any_runtime(environment).await,
        RuntimeChoice::Docker => EngineName::Docker,
        RuntimeChoice::Podman => EngineName::Podman,
        RuntimeChoice::Builtin => return builtin::open(environment),
    };
    discover(&environment.engine, Some(engine)).await
}

async fn any_runtime(environment: &Environment) -> Result<Arc<dyn Runtime>> {
    match discover(&environment.engine, None).await {
        Err(error) if error.kind() == ErrorKind::EngineUnavailable && !is_configured(&environment.engine) => {
            builtin::open(environment).map_err(|own| both_unavailable(error, &own))
        }
        found => found,
    }
}

fn both_unavailable(engine: Error, own: &Error) -> Error {
    let error = engine.with("built-in runtime", own.message());
    match own.next_step() {
        Some(step) => error.hint(step.to_owned()),
        None => error,
    }
}

/// Returns the runtime of the environment, or the one that has the container of a recorded workload.
pub(super) async fn runtime_of(environment: &Environment, spec: &WorkloadSpec) -> Result<Arc<dyn Runtime>> {
    match spec.engine.as_deref() {
        Some(ENDPOINT) if environment.runtime.is_none() => builtin::open(environment),
        Some(engine) if environment.runtime.is_none() => connect_to(&environment.engine, engine).await,
        _ => runtime(environment, spec.asked.runtime).await,
    }
}
