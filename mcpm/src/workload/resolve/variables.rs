//! Resolves the environment variables of a server.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::request::WorkloadRequest;
use crate::{
    Result,
    options::Transport,
    package::certificates,
    workload::spec::{TargetSpec, ValueOrigin, Via},
};

type VariablesWithOrigin = BTreeMap<String, (String, ValueOrigin)>;

/// Returns the variables that the registry entry, environment files and options set, the later ones taking precedence.
pub(super) fn requested_variables(request: &WorkloadRequest) -> Result<VariablesWithOrigin> {
    let mut all = request.registry_values.as_ref().map(|values| values.env.clone()).unwrap_or_default();
    let in_files = request.files.variables()?.iter();
    all.extend(in_files.map(|(name, value)| (name.clone(), (value.clone(), ValueOrigin::EnvFile))));
    let origin = request.origin("env");
    let given = request.options.env.iter();
    all.extend(given.map(|variable| (variable.name.clone(), (variable.value.clone(), origin))));
    Ok(all)
}

/// Returns the server's environment: the requested variables, and those that mcpm sets unless they were given.
pub(super) fn variables(
    request: &WorkloadRequest,
    transport: Transport,
    target: Option<&TargetSpec>,
    trusts: bool,
    origins: &mut BTreeMap<String, ValueOrigin>,
) -> Result<BTreeMap<String, String>> {
    let mut all = requested_variables(request)?;
    let mut set_default = |name: &str, value: String| {
        all.entry(name.to_owned()).or_insert((value, ValueOrigin::Derived));
    };
    set_default("MCP_TRANSPORT", transport.to_string());
    if let Some(target) = target {
        set_default("MCP_PORT", target.port.to_string());
        set_default("FASTMCP_PORT", target.port.to_string());
        // A server that listens on the container's loopback could not be reached; one in the machine's network should
        // listen on loopback only.
        let host = match &target.via {
            Via::Host(host) => host.clone(),
            Via::Inbound => Ipv4Addr::LOCALHOST.to_string(),
            Via::ContainerAddress | Via::PublishedPort => Ipv4Addr::UNSPECIFIED.to_string(),
        };
        set_default("MCP_HOST", host);
    }
    for (name, path) in certificates::CA_VARIABLES.iter().filter(|_| trusts) {
        set_default(name, (*path).to_owned());
    }
    for (name, (_, origin)) in &all {
        origins.insert(format!("env.{name}"), *origin);
    }
    Ok(all.into_iter().map(|(name, (value, _))| (name, value)).collect())
}
