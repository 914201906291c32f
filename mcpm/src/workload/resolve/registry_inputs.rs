//! Looks up a server in the registry, selects how its entry is run, and resolves the entry's inputs.
//!
//! Given options take precedence over the entry. The user is prompted for missing required values. A secret that the
//! user types is passed on as a secret, and is part of neither the options nor the spec.

use std::{net::TcpListener, path::Path};

use super::{
    bundle_inputs,
    input_values::{
        InputMode, expand_template, hint_at_option, is_secret_target_name, prompts_for_secret, resolve_input,
    },
    mounts::mount_opening,
    permissions::requested_host_access,
    registry_values::RegistryValues,
    request::WorkloadRequest,
    source::{self, ServerSource},
    variables::requested_variables,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    image::ImageReference,
    options::{EnvVar, Secret, Transport, VolumeSpec},
    printable::Printable as _,
    registry::{Argument, OnNotice, Registry, RegistryEntry, RegistryInput, RunMethod},
    runtime::Mount,
    workload::{ValueOrigin, WorkloadName, headers, spec::SecretFormat},
};

/// Looks a name up in the registry; an unknown name is taken for an image.
///
/// # Errors
/// `Registry` when the registry cannot be read; `InvalidOption` for an ambiguous name; `NotFound` for an unknown name
/// that cannot be an image.
pub(in crate::workload) async fn look_up(
    request: &WorkloadRequest,
    environment: &Environment,
    on_notice: OnNotice<'_>,
) -> Result<WorkloadRequest> {
    let ServerSource::Named { name, registry_only } = &request.source else { return Ok(request.clone()) };
    let trust = request.files.trust_store()?.clone();
    let registry = Registry::open(environment, request.options.registry.as_deref())?.with_trust_store(trust);
    let found = registry.find(name, on_notice).await.map_err(|error| match error.kind() {
        ErrorKind::Registry if !registry_only && error.next_step().is_none() => {
            error.hint(format!("use `image:{name}` to run an image without the registry"))
        }
        _ => error,
    })?;
    let mut located = request.clone();
    match found {
        Some(entry) => {
            let run_method = choose_run_method(&entry, request.options.transport)?;
            if entry.status.as_deref() == Some("deprecated") {
                on_notice(format!("the registry marks `{}` as deprecated", entry.name));
            }
            if !run_method.ignored_engine_flags.is_empty() {
                let ignored = run_method.ignored_engine_flags.join("`, `");
                on_notice(format!(
                    "`{}` requests the engine option `{ignored}`, which is ignored",
                    entry.name
                ));
            }
            located.set_generated_name(WorkloadName::sanitized(&entry.name.replace(['.', '/'], "-")));
            located.registry_values = Some(Box::new(RegistryValues {
                run_method: run_method.clone(),
                ..RegistryValues::default()
            }));
            located.source = source_of(run_method)?;
        }
        None if *registry_only => {
            return Err(registry.unknown(name).await);
        }
        None => {
            let image = ImageReference::parse(name).map_err(|error| {
                let message = format!("`{name}` is neither a server in the registry nor a valid image");
                Error::new(ErrorKind::InvalidOption, message)
                    .with("registry", registry.source())
                    .source(error.to_string())
            })?;
            located.set_generated_name(WorkloadName::sanitized(&image.workload_name()));
            located.is_in_no_registry = !name.contains(['/', ':', '@']);
            located.source = ServerSource::Image(image);
        }
    }
    Ok(located)
}

/// Completes the error for an image whose name could also be a server name: adds that the registry has no server of
/// that name.
pub(in crate::workload) async fn explain_missing_image(
    request: &WorkloadRequest,
    environment: &Environment,
    error: Error,
) -> Error {
    let may_pull = !request.options.offline.unwrap_or(false);
    let (Some(name), ErrorKind::ImageUnavailable, true) =
        (&request.options.server, error.kind(), request.is_in_no_registry && may_pull)
    else {
        return error;
    };
    let message = format!("`{name}` is neither a server in the registry nor an image that can be pulled");
    let explained = Error::new(ErrorKind::ImageUnavailable, message).source(error.to_string());
    let registry = Registry::open(environment, request.options.registry.as_deref());
    let similar = match (registry, request.files.trust_store()) {
        (Ok(registry), Ok(trust)) => registry.with_trust_store(trust.clone()).similar(name).await,
        _ => None,
    };
    match similar {
        Some(similar) => explained.hint(format!("did you mean the server `{similar}`?")),
        None => explained.hint(
            "list the servers with `mcpm registry list`, with the same option `registry` if you have set it",
        ),
    }
}

/// Asks the user to confirm the access to this machine that the entry requests, unless a profile was given.
///
/// # Errors
/// `Registry` for permissions that cannot be used, `Interrupted`. Permissions that are not confirmed are rejected when
/// they are resolved.
pub(in crate::workload) async fn confirm_permissions(
    mut request: WorkloadRequest,
    working_dir: &Path,
    input_mode: &InputMode<'_>,
) -> Result<WorkloadRequest> {
    let given =
        request.options.permission_profile.is_some() || matches!(request.source, ServerSource::Remote(_));
    let Some(registry_values) = request.registry_values.as_mut().filter(|_| !given) else {
        return Ok(request);
    };
    let Some((permissions, _)) = registry_values.permissions_and_consent() else { return Ok(request) };
    for opening in requested_host_access(permissions, working_dir)? {
        if !input_mode.confirm_permissions(&opening).await? {
            return Ok(request);
        }
    }
    registry_values.confirmed = true;
    Ok(request)
}

/// Returns the server that a run method runs.
fn source_of(run_method: &RunMethod) -> Result<ServerSource> {
    let unusable = |error: Error| match error.kind() {
        ErrorKind::InvalidOption => {
            Error::new(ErrorKind::Registry, "the entry cannot be used").source(error.to_string())
        }
        _ => error,
    };
    if run_method.is_image {
        return ImageReference::parse(&run_method.server).map(ServerSource::Image).map_err(unusable);
    }
    match source::classify(&run_method.server).map_err(unusable)? {
        ServerSource::Package(package) if package.project().is_some() => Err(Error::new(
            ErrorKind::Registry,
            "the registry entry refers to a path on this machine, which is not allowed",
        )),
        source => Ok(source),
    }
}

/// Selects the run method of an entry: images before packages before remote servers, in the order of the entry.
fn choose_run_method(entry: &RegistryEntry, transport: Option<Transport>) -> Result<&RunMethod> {
    if entry.status.as_deref() == Some("deleted") {
        let message = format!("`{}` was withdrawn from the registry", entry.name);
        return Err(Error::new(ErrorKind::Registry, message));
    }
    let rank = |run_method: &&RunMethod| {
        let other_transport =
            transport.is_some() && run_method.transport.is_some() && run_method.transport != transport;
        let remote = run_method.server.starts_with("https://") || run_method.server.starts_with("http://");
        (other_transport, !run_method.is_image, remote)
    };
    entry.run_methods.iter().min_by_key(rank).ok_or_else(|| {
        let others = match entry.unsupported_packages.as_slice() {
            [] => "it names neither a package nor a remote server".to_owned(),
            others => format!("it is only available as {}", others.join(", ")),
        };
        Error::new(ErrorKind::Registry, format!("`{}` cannot be run by mcpm: {others}", entry.name))
    })
}

/// Resolves the inputs of the entry or of a bundle, and prompts for missing ones.
///
/// # Errors
/// `InvalidOption` for a required value that is missing and cannot be prompted for; `Interrupted`.
pub(in crate::workload) async fn resolve_inputs(
    request: &WorkloadRequest,
    environment: &Environment,
    input_mode: &InputMode<'_>,
) -> Result<WorkloadRequest> {
    if let Some(path) = request.source.bundle() {
        return Box::pin(bundle_inputs::resolve(request, path, environment, input_mode)).await;
    }
    let Some(registry_values) = &request.registry_values else { return Ok(request.clone()) };
    let mut registry_values = registry_values.clone();
    let run_method = registry_values.run_method.clone();
    let options = &request.options;
    let remote = matches!(request.source, ServerSource::Remote(_));
    registry_values.options.transport = run_method.transport;
    registry_values.options.proxy_port =
        run_method.proxy_port.filter(|port| options.proxy_port.is_some() || is_port_free(*port));
    if !remote {
        if options.transport.or(run_method.transport) != Some(Transport::Stdio) {
            registry_values.options.target_port = run_method.target_port;
        }
        let given = requested_variables(request)?;
        for input in &run_method.env {
            let as_secret = options.secret.iter().any(|secret| secret.target == input.name);
            let known = registry_values.env.contains_key(&input.name)
                || registry_values.secrets.contains_key(&input.name);
            if as_secret || known || given.contains_key(&input.name) {
                continue;
            }
            let value = resolve_input(input, input_mode).await.map_err(|error| {
                let name = &input.name;
                match prompts_for_secret(input, false, false) {
                    true => hint_at_option(error, &format!("set `secret` to `NAME,target={name}`")),
                    false => hint_at_option(error, &format!("set `env` to `{name}=VALUE`")),
                }
            })?;
            let Some(value) = value else { continue };
            let typed_secret = value.secret && value.origin == ValueOrigin::Answered;
            // The name comes from the registry, so it is checked like one that is typed.
            let fits = !input.name.contains('=') && format!("{}=", input.name).parse::<EnvVar>().is_ok();
            if !fits || typed_secret && !is_secret_target_name(&input.name) {
                let message =
                    format!("`{}` is not a valid name of an environment variable", input.name.printable());
                return Err(Error::new(ErrorKind::Registry, message));
            }
            if typed_secret {
                if input.value.is_some() {
                    registry_values.secret_formats.insert(input.name.clone(), SecretFormat::Whole);
                }
                registry_values.secrets.insert(input.name.clone(), Secret::from(value.text));
            } else {
                registry_values.env.insert(input.name.clone(), (value.text, value.origin));
            }
        }
        if options.args.is_empty() {
            registry_values.options.args = arguments(&run_method, input_mode).await?;
        }
        if options.volume.is_empty() {
            for input in &run_method.volumes {
                registry_values
                    .options
                    .volume
                    .extend(volume(input, &environment.working_dir, input_mode).await?);
            }
        }
    }
    if let ServerSource::Remote(url) = &request.source {
        headers::resolve_headers(&run_method, url, &options.secret, &mut registry_values, input_mode).await?;
    }
    registry_values.prompts = input_mode.noted();
    let mut request = request.clone();
    // Prompted values are exported like given ones, so that an import needs no prompt.
    for (name, (value, origin)) in &registry_values.env {
        if *origin == ValueOrigin::Answered {
            request.prompted_env.push((name.as_str(), value.as_str()).into());
        }
    }
    request.registry_values = Some(registry_values);
    Ok(request)
}

/// Rejects an input that prompts for a secret and would put it into an argument list, which every process of the
/// machine, the engine and the record can read.
fn reject_secret(input: &RegistryInput, what: &str) -> Result<()> {
    if !prompts_for_secret(input, false, false) {
        return Ok(());
    }
    let message =
        format!("the entry passes the secret `{}` as {what}, where other users could read it", input.name);
    Err(Error::new(ErrorKind::Unsupported, message).hint(
        "if the server can read it from a variable, pass it with `secret` set to `NAME,target=VARIABLE`, and pass the \
         server's arguments yourself, with `args`",
    ))
}

async fn arguments(run_method: &RunMethod, input_mode: &InputMode<'_>) -> Result<Vec<String>> {
    let mut args = Vec::new();
    let failed = |error| hint_at_option(error, "replace the arguments of the entry with `args`");
    for argument in &run_method.args {
        if let Argument::Positional(input) | Argument::Named { input: Some(input), .. } = argument {
            reject_secret(input, "an argument")?;
        }
        match argument {
            Argument::Positional(input) => {
                let value = resolve_input(input, input_mode).await.map_err(failed)?;
                args.extend(value.map(|value| value.text));
            }
            Argument::Named { flag, input: None } => args.push(flag.clone()),
            Argument::Named { flag, input: Some(input) } => {
                if let Some(value) = resolve_input(input, input_mode).await.map_err(failed)? {
                    args.extend([flag.clone(), value.text]);
                }
            }
        }
    }
    Ok(args)
}

/// Resolves a mount of an entry. The user has to name or to confirm the path on this machine.
async fn volume(
    input: &RegistryInput,
    working_dir: &Path,
    input_mode: &InputMode<'_>,
) -> Result<Option<VolumeSpec>> {
    reject_secret(input, "a part of a mount")?;
    let refused = |what: &str| {
        let what = what.printable();
        let message = format!("the entry mounts `{what}`, but may not choose a path on this machine");
        Error::new(ErrorKind::Registry, message)
            .hint("set `volume` to the mount that you want, or run in a terminal to confirm this one")
    };
    let failed = |error| hint_at_option(error, "set `volume` to the mount that you want");
    let named = match &input.value {
        None => Some((input.clone(), "")),
        Some(template) => {
            let variable = template.strip_prefix('{').and_then(|after| after.split_once('}'));
            let variable = variable.and_then(|(name, rest)| Some((input.variables.get(name)?, rest)));
            variable.map(|(variable, rest)| {
                (RegistryInput { required: variable.required || input.required, ..variable.clone() }, rest)
            })
        }
    };
    let named = named.filter(|(source, _)| source.value.is_none() && source.default.is_none());
    let Some((source, rest)) = named else {
        let whole = resolve_input(input, input_mode).await.map_err(failed)?;
        let Some(whole) = whole else { return Ok(None) };
        let volume: VolumeSpec = whole.text.parse()?;
        let opening = mount_opening(&Mount {
            source: working_dir.join(&volume.host_path),
            target: volume.container_path.clone(),
            read_only: volume.read_only,
            relabel: volume.relabel,
        });
        let confirmed = input_mode.confirm_permissions(&opening).await?;
        return if confirmed { Ok(Some(volume)) } else { Err(refused(&volume.host_path.to_string_lossy())) };
    };
    let Some(source) = resolve_input(&source, input_mode).await.map_err(failed)? else { return Ok(None) };
    let Some(rest) = expand_template(rest, input, input_mode).await.map_err(failed)? else {
        return Ok(None);
    };
    let volume: VolumeSpec = format!("{}{}", source.text, rest.text).parse()?;
    // The text that follows must not be parsed as a part of the path.
    if !rest.text.is_empty() && volume.host_path.as_os_str() != source.text.as_str() {
        return Err(refused(&volume.host_path.to_string_lossy()));
    }
    Ok(Some(volume))
}

/// Tells whether a port is free. A port that a registry suggests is used only if it is free.
fn is_port_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
#[path = "registry_inputs_tests.rs"]
mod tests;
