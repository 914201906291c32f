//! Resolves the request to run a workload into the workload's spec.
//!
//! Options take precedence over the exported file. Then follow, in this order, the registry entry, the image, and the
//! declared defaults. [`request::WorkloadRequest::load`] reads the files that the options name. [`check`] and
//! [`resolve`] use the content of these files. Apart from that, they only read the folders to mount, the ignore files
//! and their baseline. They change nothing.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::{Path, PathBuf},
};

use super::{
    PackageSpec, Placement, TargetSpec, ValueOrigin, Via, WorkloadName, WorkloadSpec, ca_certs, ignore,
    secret_delivery, spec::check_start_timeout,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    image::{ImageReference, verify::VerifiedImage},
    isolation::{HostMap, MOUNT_POINT},
    options::{ProxyMode, SecretRef, SecretTarget, Transport, WorkloadOptions},
    proxy::ineffective_options,
    runtime::{
        ContainerSpec, EngineInfo, EngineName, ImageInfo, Mount, Network, PublishedPort,
        builtin::shares_abstract_sockets, labels,
    },
    state::{SPEC_VERSION, Store},
};

mod bundle_inputs;
pub(super) mod container_only_options;
pub(super) mod env_file;
mod files;
pub(super) mod image_source;
pub(super) mod input_values;
mod mounts;
pub(super) mod permissions;
mod proxy;
pub(super) mod registry_inputs;
pub(super) mod registry_values;
pub(super) mod remote;
pub(super) mod remote_url;
pub(super) mod request;
pub(super) mod source;
pub(super) mod target;
pub(super) mod value_origins;
mod variables;
pub(super) mod verification;

use mounts::remote_mount_warning;
use permissions::EffectivePermissions;
use proxy::{check_proxy, proxy};
use request::{WorkloadRequest, options_for_export};
use source::ServerSource;
use target::{
    host_network_warning, published_ports, reject_http_options, reject_no_network, reject_proxy_mode,
    target_port, target_route,
};
use variables::{requested_variables, variables};

/// The facts from the engine and the environment that a workload is resolved with.
#[derive(Debug, Clone)]
pub(super) struct ResolveContext<'a> {
    pub(super) environment: &'a Environment,
    pub(super) engine: &'a EngineInfo,
    /// The reference of the image.
    pub(super) reference: &'a ImageReference,
    /// The image; `None` if it is not on the engine yet.
    pub(super) image: Option<&'a ImageInfo>,
    /// The verified signer of the image.
    pub(super) verified: Option<VerifiedImage>,
    /// The package that the image is built for.
    pub(super) package: Option<PackageSpec>,
    /// The address on which the server's port is published for the proxy, if it is published.
    pub(super) target_address: IpAddr,
}

/// Rejects requests that are invalid regardless of the engine and the image.
pub(super) fn check(request: &WorkloadRequest, working_dir: &Path) -> Result<()> {
    if let ServerSource::Remote(_) = request.source {
        return remote::check(request);
    }
    let options = request.effective_options();
    check_proxy(request)?;
    container_only_options::reject_remote_options(&request.options)?;
    check_labels(&options)?;
    options.start_timeout.map_or(Ok(()), check_start_timeout)?;
    secret_delivery::check(&options)?;
    let permissions = EffectivePermissions::resolve(request, working_dir)?;
    permissions.mounts(&options.volume, working_dir)?;
    requested_variables(request)?;
    match options.transport {
        Some(Transport::Stdio) => reject_http_options(request),
        Some(transport) => {
            reject_proxy_mode(request, transport)?;
            if permissions.outbound.is_some() || permissions.network == Network::Host {
                return Ok(());
            }
            reject_no_network(&permissions.network)
        }
        None => Ok(()),
    }
}

/// Resolves a workload in a container.
pub(super) fn resolve(
    request: &WorkloadRequest,
    name: WorkloadName,
    context: ResolveContext<'_>,
) -> Result<WorkloadSpec> {
    let options = request.effective_options();
    let mut origins = BTreeMap::new();
    origins.insert("name".to_owned(), request.name_origin());
    let image_origin = if request.registry_values.is_some() && request.source.bundle().is_none() {
        ValueOrigin::Registry
    } else {
        request.origin("server")
    };
    origins.insert("image".to_owned(), image_origin);
    for field in ["group", "proxy_mode", "host", "endpoint_prefix", "trust_proxy_headers", "args"] {
        origins.insert(field.to_owned(), request.origin(field));
    }
    let exposed = context.image.map_or(&[][..], |image| &image.exposed_ports);
    let transport = match options.transport {
        Some(transport) => {
            origins.insert("transport".to_owned(), request.origin("transport"));
            transport
        }
        None if context.package.is_some() => {
            origins.insert("transport".to_owned(), ValueOrigin::Derived);
            Transport::Stdio
        }
        None => {
            origins.insert("transport".to_owned(), ValueOrigin::Image);
            if exposed.is_empty() { Transport::Stdio } else { Transport::StreamableHttp }
        }
    };
    let working_dir = &context.environment.working_dir;
    let permissions =
        EffectivePermissions::resolve(request, working_dir)?.for_engine(&request.options, context.engine)?;
    permissions.record_origins(&mut origins);
    let mut ports = if permissions.network == Network::Host { Vec::new() } else { published_ports(&options) };
    let target = if transport == Transport::Stdio {
        reject_http_options(request)?;
        None
    } else {
        reject_proxy_mode(request, transport)?;
        let (port, origin) = target_port(request, exposed)?;
        origins.insert("target_port".to_owned(), origin);
        let via = match permissions.outbound {
            Some(_) => Via::Inbound,
            None => target_route(request, &permissions.network, context.engine)?,
        };
        if via == Via::PublishedPort {
            ports.push(PublishedPort {
                host_ip: context.target_address,
                host_port: 0,
                container_port: port,
                protocol: crate::options::Protocol::Tcp,
            });
        }
        Some(TargetSpec { port, via })
    };
    // A built image contains the certificates.
    let trusts = options.ca_cert.is_some() && context.package.is_none();
    let mut env = variables(request, transport, target.as_ref(), trusts, &mut origins)?;
    let prompted = request.prompted_secrets(&name);
    for secret in options.secret.iter().chain(prompted.keys()) {
        // A secret takes precedence over environment files and over the variables that mcpm sets.
        if let SecretTarget::Variable(name) = secret.destination() {
            env.remove(name);
            origins.remove(&format!("env.{name}"));
        }
    }
    if !options.secret.is_empty() {
        origins.insert("secret".to_owned(), request.origin("secret"));
    }
    for secret in prompted.keys() {
        origins.insert(format!("secret.{}", secret.target), ValueOrigin::Answered);
    }
    let mut mounts = permissions.mounts(&options.volume, working_dir)?;
    let globally = options.ignore_globally.unwrap_or(true);
    let overlays = ignore::compute_overlays(&mounts, globally, context.environment)?.overlays;
    let mut warnings = permissions.warnings.clone();
    warnings.extend(ineffective_options::warnings(&request.options));
    if transport == Transport::Stdio && request.options.proxy_mode == Some(ProxyMode::Sse) {
        let message =
            "the proxy mode `sse` is deprecated and will be removed; set `proxy_mode` to `streamable-http`";
        warnings.push(message.to_owned());
    }
    warnings.extend(remote_mount_warning(&context.engine.endpoint, &mounts));
    let target_host = options.target_host.as_deref();
    warnings.extend(host_network_warning(&permissions.network, target_host, context.engine));
    let is_builtin = context.engine.name == EngineName::Builtin;
    if is_builtin && permissions.network == Network::Host && shares_abstract_sockets() {
        let message = "with the network `host`, the server can connect to abstract sockets of programs of this machine, since \
             the kernel is older than Linux 6.12 or has no Landlock";
        warnings.push(message.to_owned());
    }
    let target_port = target.as_ref().map(|target| target.port);
    let command = command(&options.args, context.image)?;
    let (isolation, entry) =
        permissions.isolate(request, context.engine, target_port, command, working_dir)?.unzip();
    let mut own = Vec::new();
    if trusts {
        own.push(ca_certs::mount(&Store::new(&context.environment.state_dir).folder(&name)));
    }
    if let Some(isolation) = &isolation {
        // The user's own proxy cannot be reached from an isolated container.
        for (variable, value) in HostMap::from_outbound(&isolation.outbound, target_port).proxy_variables() {
            env.insert(variable.to_owned(), value);
            origins.insert(format!("env.{variable}"), ValueOrigin::Derived);
        }
    }
    if entry.as_ref().is_some_and(|entry| entry.volume.is_none()) {
        own.push(Mount {
            source: isolation_folder(&Store::new(&context.environment.state_dir), &name),
            target: MOUNT_POINT.to_owned(),
            read_only: true,
            relabel: None,
        });
    }
    mounts.extend(own.iter().cloned());
    let group = options.group.clone().unwrap_or_default();
    let mut proxy = proxy(request, &options, &name, &mut origins, context.environment)?;
    proxy.allowed_hosts.clone_from(&permissions.profile.inbound);
    let container = ContainerSpec {
        name: name.to_string(),
        image: context.reference.to_string(),
        // With a shim, the command is in the shim's configuration instead.
        args: if entry.is_some() { Vec::new() } else { options.args.clone() },
        env,
        labels: container_labels(&options, context.environment, &name, &group, transport),
        overlays,
        mounts,
        network: permissions.network.clone(),
        ports,
        stdin: transport == Transport::Stdio,
        unlogged: false,
        pids_limit: permissions.pids_limit(),
        confinement: permissions.confinement(),
        entry,
    };
    let is_variable = |secret: &&SecretRef| matches!(secret.destination(), SecretTarget::Variable(_));
    if context.engine.connects_through_mcpm
        && container.entry.is_none()
        && let Some(secret) = options.secret.iter().chain(prompted.keys()).find(is_variable)
    {
        // Only the shim can pass variables without storing them.
        let message = format!(
            "the built-in runtime cannot pass the secret `{}` as a variable in the network `host`",
            secret.name
        );
        return Err(Error::new(ErrorKind::Unsupported, message).hint(
            "set `network` to `bridge`, deliver the secret as a file, or select a container engine with `runtime`",
        ));
    }
    value_origins::record_container_origins(request, &options, &container, &own, &mut origins);
    let exported = options_for_export(request, &context.environment.working_dir);
    Ok(WorkloadSpec {
        engine: Some(context.engine.endpoint.clone()),
        runtime: Some(context.engine.name),
        version: SPEC_VERSION,
        name,
        group,
        asked: exported,
        transport,
        proxy,
        target,
        place: Placement::Container(Box::new(container)),
        secrets: options.secret.iter().chain(prompted.keys()).cloned().collect(),
        secret_formats: request.secret_formats(),
        isolation,
        warnings,
        package: context.package,
        verified: context.verified,
        origins,
    })
}

/// Returns the command in the container: the image's entry point, and the given arguments or the image's own.
fn command(args: &[String], image: Option<&ImageInfo>) -> Result<Vec<String>> {
    let Some(image) = image else { return Ok(Vec::new()) };
    let args = if args.is_empty() { &image.command } else { args };
    let command: Vec<String> = image.entrypoint.iter().chain(args).cloned().collect();
    if command.is_empty() {
        return Err(Error::new(ErrorKind::InvalidOption, "the image specifies no command")
            .hint("specify one with `args`"));
    }
    Ok(command)
}

/// Returns the folder of the shim and its socket.
pub(super) fn isolation_folder(store: &Store, name: &WorkloadName) -> PathBuf {
    store.folder(name).join("link")
}

fn check_labels(options: &WorkloadOptions) -> Result<()> {
    match options.label.iter().find(|label| labels::is_reserved(&label.key)) {
        None => Ok(()),
        Some(label) => {
            let message = format!("the label `{}` is reserved for mcpm", label.key);
            Err(Error::new(ErrorKind::InvalidOption, message).hint("choose another key"))
        }
    }
}

fn container_labels(
    options: &WorkloadOptions,
    environment: &Environment,
    name: &WorkloadName,
    group: &str,
    transport: Transport,
) -> BTreeMap<String, String> {
    let given = options.label.iter().map(|label| (label.key.clone(), label.value.clone()));
    let mut all: BTreeMap<_, _> = given.collect();
    all.insert(labels::MANAGED.to_owned(), "true".to_owned());
    all.insert(labels::NAME.to_owned(), name.to_string());
    all.insert(labels::STATE.to_owned(), environment.state_dir.to_string_lossy().into_owned());
    all.insert(labels::GROUP.to_owned(), group.to_owned());
    all.insert(labels::TRANSPORT.to_owned(), transport.to_string());
    all
}
