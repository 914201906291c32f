//! Resolves the environment variables of a server.

use std::{collections::BTreeMap, net::Ipv4Addr, path::PathBuf};

use super::{env_file, request::WorkloadRequest};
use crate::{
    Environment, Result,
    options::Transport,
    package::certificates,
    workload::spec::{TargetSpec, ValueOrigin, Via},
};

type VariablesWithOrigin = BTreeMap<String, (String, ValueOrigin)>;

/// The variables that were asked for: file, folder, given ones, the later before the earlier.
pub(super) fn requested_variables(
    asked: &WorkloadRequest,
    environment: &Environment,
) -> Result<VariablesWithOrigin> {
    let options = &asked.options;
    let mut all = asked.registry_values.as_ref().map(|supplied| supplied.env.clone()).unwrap_or_default();
    let absolute = |path: &PathBuf| environment.working_dir.join(path);
    let mut add = |values: BTreeMap<String, String>| {
        all.extend(values.into_iter().map(|(key, value)| (key, (value, ValueOrigin::EnvFile))));
    };
    if let Some(path) = &options.env_file {
        add(env_file::read(&absolute(path))?);
    }
    if let Some(path) = &options.env_file_dir {
        add(env_file::read_folder(&absolute(path))?);
    }
    let given = asked.origin("env");
    all.extend(options.env.iter().map(|variable| (variable.name.clone(), (variable.value.clone(), given))));
    Ok(all)
}

/// The server's environment: what was asked for, and what it is told unless it was told otherwise.
pub(super) fn variables(
    asked: &WorkloadRequest,
    environment: &Environment,
    transport: Transport,
    target: Option<&TargetSpec>,
    trusts: bool,
    origins: &mut BTreeMap<String, ValueOrigin>,
) -> Result<BTreeMap<String, String>> {
    let mut all = requested_variables(asked, environment)?;
    let mut tell = |name: &str, value: String| {
        all.entry(name.to_owned()).or_insert((value, ValueOrigin::Derived));
    };
    tell("MCP_TRANSPORT", transport.to_string());
    if let Some(target) = target {
        tell("MCP_PORT", target.port.to_string());
        tell("FASTMCP_PORT", target.port.to_string());
        // A server on the container's loopback could not be reached; on the machine's own it should stay there.
        let host = match &target.via {
            Via::Host(host) => host.clone(),
            Via::Inbound => Ipv4Addr::LOCALHOST.to_string(),
            Via::ContainerAddress | Via::PublishedPort => Ipv4Addr::UNSPECIFIED.to_string(),
        };
        tell("MCP_HOST", host);
    }
    for (name, path) in certificates::CA_VARIABLES.iter().filter(|_| trusts) {
        tell(name, (*path).to_owned());
    }
    for (name, (_, origin)) in &all {
        origins.insert(format!("env.{name}"), *origin);
    }
    Ok(all.into_iter().map(|(name, (value, _))| (name, value)).collect())
}
