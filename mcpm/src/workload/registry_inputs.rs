//! What of a registry's entry is used for a workload: one way to run it, and the values it wants.
//!
//! What the user gave goes before what the entry says. A value that the entry requires and nobody gave is asked for.
//! What is typed as a secret goes the way of secrets from then on: it is never part of what is asked or done.

use std::{collections::BTreeMap, net::TcpListener, path::Path, sync::Mutex};

use super::{
    ValueOrigin, WorkloadName, headers,
    request::WorkloadRequest,
    resolve,
    source::{self, ServerSource},
};
use crate::{
    Environment, Error, ErrorKind, Result,
    image::ImageReference,
    options::{EnvVar, Secret, Transport, VolumeSpec, WorkloadOptions},
    registry::{Argument, OnNotice, Registry, RegistryEntry, RegistryInput, RunMethod},
    runtime::Mount,
    user_prompt::UserPrompt,
};

/// What an entry supplies to a workload.
#[derive(Debug, Clone, Default)]
pub(super) struct RegistryValues {
    /// The way that was chosen.
    pub(super) run_method: RunMethod,
    /// The options that the entry sets, as far as they were not given.
    pub(super) options: WorkloadOptions,
    /// Variables by name.
    pub(super) env: BTreeMap<String, (String, ValueOrigin)>,
    /// Headers of each request to a remote server, by name.
    pub(super) headers: BTreeMap<String, (String, ValueOrigin)>,
    /// Variables or headers that the user typed as secrets.
    pub(super) secrets: BTreeMap<String, Secret>,
    /// What would be asked for, in a plan.
    pub(super) prompts: Vec<String>,
    /// Whether the user has confirmed what the permissions of the entry open of this machine.
    confirmed: bool,
}

impl RegistryValues {
    /// The permissions of the entry, and whether the user has confirmed what they open of this machine.
    pub(super) fn permissions_and_consent(&self) -> Option<(&serde_json::Value, bool)> {
        self.run_method.permissions.as_ref().map(|permissions| (permissions, self.confirmed))
    }
}

/// What to do about a value that nobody gave.
pub(super) enum InputMode<'a> {
    /// The user is asked, if there is one.
    Interactive(Option<&'a dyn UserPrompt>),
    /// It is noted that the user would be asked.
    DryRun(Mutex<Vec<String>>),
}

/// A value on its way to the server.
pub(super) struct InputValue {
    pub(super) text: String,
    pub(super) origin: ValueOrigin,
    pub(super) secret: bool,
}

/// Looks a name up in the registry; what is no name there is an image.
///
/// # Errors
/// `Registry` when the registry cannot be read, which says nothing of the name; `InvalidOption` when several servers are
/// meant; `NotFound` for what is neither.
pub(super) async fn look_up(
    asked: &WorkloadRequest,
    environment: &Environment,
    on_notice: OnNotice<'_>,
) -> Result<WorkloadRequest> {
    let ServerSource::Named { name, registry_only } = &asked.source else { return Ok(asked.clone()) };
    let trust = resolve::trust_store(&asked.options, environment)?;
    let registry = Registry::open(environment, asked.options.registry.as_deref())?.with_trust_store(trust);
    let found = registry.find(name, on_notice).await.map_err(|error| match error.kind() {
        ErrorKind::Registry if !registry_only && error.next_step().is_none() => {
            error.hint(format!("`image:{name}` is an image, whatever the registry says"))
        }
        _ => error,
    })?;
    let mut located = asked.clone();
    match found {
        Some(entry) => {
            let way = choose_run_method(&entry, asked.options.transport)?;
            if entry.status.as_deref() == Some("deprecated") {
                on_notice(format!("the registry calls `{}` deprecated", entry.name));
            }
            if !way.ignored_engine_flags.is_empty() {
                let ignored = way.ignored_engine_flags.join("`, `");
                on_notice(format!("`{}` asks the engine for `{ignored}`, which is left out", entry.name));
            }
            located.set_generated_name(WorkloadName::sanitized(&entry.name.replace(['.', '/'], "-")));
            located.registry_values =
                Some(Box::new(RegistryValues { run_method: way.clone(), ..RegistryValues::default() }));
            located.source = source_of(way)?;
        }
        None if *registry_only => {
            let message = format!("the registry has no server `{name}`");
            return Err(Error::new(ErrorKind::NotFound, message)
                .with("registry", registry.source())
                .hint(format!("`mcpm registry search {name}` looks for it")));
        }
        None => {
            let image = ImageReference::parse(name).map_err(|error| {
                let message = format!("`{name}` is no server of the registry, and no image either");
                Error::new(ErrorKind::InvalidOption, message)
                    .with("registry", registry.source())
                    .source(error.to_string())
            })?;
            located.set_generated_name(WorkloadName::sanitized(&image.workload_name()));
            located.source = ServerSource::Image(image);
        }
    }
    Ok(located)
}

/// Has the user confirm what the permissions of the entry open of this machine, unless a profile was given.
///
/// # Errors
/// `Registry` for permissions that cannot be used, `Interrupted`. What is not confirmed is refused when the profile is
/// read.
pub(super) async fn confirm_permissions(
    mut asked: WorkloadRequest,
    working_dir: &Path,
    asking: &InputMode<'_>,
) -> Result<WorkloadRequest> {
    let given = asked.options.permission_profile.is_some() || matches!(asked.source, ServerSource::Remote(_));
    let Some(supplied) = asked.registry_values.as_mut().filter(|_| !given) else { return Ok(asked) };
    let Some((permissions, _)) = supplied.permissions_and_consent() else { return Ok(asked) };
    for opening in super::permissions::requested_host_access(permissions, working_dir)? {
        if !asking.confirm_permissions(&opening).await? {
            return Ok(asked);
        }
    }
    supplied.confirmed = true;
    Ok(asked)
}

/// What a way runs. The values in the URL of a remote server are filled in by [`resolve_inputs`].
fn source_of(way: &RunMethod) -> Result<ServerSource> {
    let unusable = |error: Error| match error.kind() {
        ErrorKind::InvalidOption => {
            Error::new(ErrorKind::Registry, "the entry cannot be used").source(error.to_string())
        }
        _ => error,
    };
    if way.is_image {
        return ImageReference::parse(&way.server).map(ServerSource::Image).map_err(unusable);
    }
    source::classify(&way.server).map_err(unusable)
}

/// The way to run an entry: an image before a package, that before a remote server, in the order of the entry.
fn choose_run_method(entry: &RegistryEntry, transport: Option<Transport>) -> Result<&RunMethod> {
    if entry.status.as_deref() == Some("deleted") {
        let message = format!("`{}` was withdrawn from the registry", entry.name);
        return Err(Error::new(ErrorKind::Registry, message));
    }
    let rank = |way: &&RunMethod| {
        let other_transport = transport.is_some() && way.transport.is_some() && way.transport != transport;
        let remote = way.server.starts_with("https://") || way.server.starts_with("http://");
        (other_transport, !way.is_image, remote)
    };
    entry.run_methods.iter().min_by_key(rank).ok_or_else(|| {
        let others = match entry.unsupported_packages.as_slice() {
            [] => "it names neither a package nor a remote server".to_owned(),
            others => format!("it comes as {} only", others.join(", ")),
        };
        Error::new(ErrorKind::Registry, format!("`{}` cannot be run by mcpm: {others}", entry.name))
    })
}

/// Fills in what the entry says of the located workload, and asks for what is missing.
///
/// # Errors
/// `InvalidOption` for a required value that nobody gave and nobody can be asked for; `Interrupted`.
pub(super) async fn resolve_inputs(
    asked: &WorkloadRequest,
    environment: &Environment,
    asking: &InputMode<'_>,
) -> Result<WorkloadRequest> {
    let Some(supplied) = &asked.registry_values else { return Ok(asked.clone()) };
    let mut supplied = supplied.clone();
    let way = supplied.run_method.clone();
    let options = &asked.options;
    let remote = matches!(asked.source, ServerSource::Remote(_));
    supplied.options.transport = way.transport;
    supplied.options.proxy_port =
        way.proxy_port.filter(|port| options.proxy_port.is_some() || is_port_free(*port));
    if !remote {
        if options.transport.or(way.transport) != Some(Transport::Stdio) {
            supplied.options.target_port = way.target_port;
        }
        let given = resolve::requested_variables(asked, environment)?;
        for input in &way.env {
            let as_secret = options.secret.iter().any(|secret| secret.target == input.name);
            let known = supplied.env.contains_key(&input.name) || supplied.secrets.contains_key(&input.name);
            if as_secret || known || given.contains_key(&input.name) {
                continue;
            }
            let Some(value) = resolve_input(input, asking).await? else { continue };
            let typed_secret = value.secret && value.origin == ValueOrigin::Answered;
            // The name is the registry's, so it is checked as one that is typed.
            let fits = !input.name.contains('=') && format!("{}=", input.name).parse::<EnvVar>().is_ok();
            if !fits || typed_secret && !is_secret_target_name(&input.name) {
                let message = format!("`{}` cannot name a variable", input.name.escape_debug());
                return Err(Error::new(ErrorKind::Registry, message));
            }
            if typed_secret {
                supplied.secrets.insert(input.name.clone(), Secret::from(value.text));
            } else {
                supplied.env.insert(input.name.clone(), (value.text, value.origin));
            }
        }
        if options.args.is_empty() {
            supplied.options.args = arguments(&way, asking).await?;
        }
        if options.volume.is_empty() {
            for input in &way.volumes {
                supplied.options.volume.extend(volume(input, &environment.working_dir, asking).await?);
            }
        }
    }
    if let ServerSource::Remote(url) = &asked.source {
        headers::resolve_headers(&way, url, &options.secret, &mut supplied, asking).await?;
    }
    if let InputMode::DryRun(noted) = asking {
        supplied.prompts = noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    }
    let mut asked = asked.clone();
    // What was typed at a prompt is asked for as if it had been given, so that an export needs no prompt.
    for (name, (value, origin)) in &supplied.env {
        if *origin == ValueOrigin::Answered {
            asked.prompted_env.push((name.as_str(), value.as_str()).into());
        }
    }
    asked.registry_values = Some(supplied);
    Ok(asked)
}

/// Tells whether a name can be a part of a reference to a secret, as the variable or header that it is delivered in.
pub(super) fn is_secret_target_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=128).contains(&name.len()) && name.chars().all(fits)
}

/// Refuses a secret that the user would be asked for and that would end in a list of arguments, which every process of
/// the machine can read, as engine and record can.
fn reject_secret(input: &RegistryInput, what: &str) -> Result<()> {
    if !prompts_for_secret(input, false, false) {
        return Ok(());
    }
    let message =
        format!("the entry wants the secret `{}` as {what}, where others could read it", input.name);
    Err(Error::new(ErrorKind::Unsupported, message).hint(
        "give it in a way that hides it, if the server has one (with `secret` set to `NAME,target=VARIABLE`), and give \
         the server's arguments yourself, with `args`",
    ))
}

/// Tells whether a value of an input would be typed as a secret.
pub(super) fn prompts_for_secret(input: &RegistryInput, required: bool, secret: bool) -> bool {
    let (required, secret) = (required || input.required, secret || input.secret);
    match (&input.value, &input.default) {
        (Some(template), _) => input.variables.iter().any(|(name, part)| {
            template.contains(&format!("{{{name}}}")) && prompts_for_secret(part, required, secret)
        }),
        (None, Some(_)) => false,
        (None, None) => required && secret,
    }
}

async fn arguments(way: &RunMethod, asking: &InputMode<'_>) -> Result<Vec<String>> {
    let mut args = Vec::new();
    for argument in &way.args {
        if let Argument::Positional(input) | Argument::Named { input: Some(input), .. } = argument {
            reject_secret(input, "an argument")?;
        }
        match argument {
            Argument::Positional(input) => {
                args.extend(resolve_input(input, asking).await?.map(|value| value.text))
            }
            Argument::Named { flag, input: None } => args.push(flag.clone()),
            Argument::Named { flag, input: Some(input) } => {
                if let Some(value) = resolve_input(input, asking).await? {
                    args.extend([flag.clone(), value.text]);
                }
            }
        }
    }
    Ok(args)
}

/// What an entry wants mounted. The place on this machine is the user's to name, or to confirm: one that the entry names
/// would open this machine to a server without anybody's consent.
async fn volume(
    input: &RegistryInput,
    working_dir: &Path,
    asking: &InputMode<'_>,
) -> Result<Option<VolumeSpec>> {
    reject_secret(input, "a part of a mount")?;
    let refused = |what: &str| {
        let what = what.escape_debug();
        let message = format!("the entry mounts `{what}`, and a place on this machine is not its to choose");
        Error::new(ErrorKind::Registry, message)
            .hint("set `volume` to what is to be mounted, or run in a terminal to confirm it")
    };
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
        let Some(whole) = resolve_input(input, asking).await? else { return Ok(None) };
        let volume: VolumeSpec = whole.text.parse()?;
        let opening = super::permissions::mount_opening(&Mount {
            source: working_dir.join(&volume.host_path),
            target: volume.container_path.clone(),
            read_only: volume.read_only,
            relabel: volume.relabel,
        });
        let confirmed = asking.confirm_permissions(&opening).await?;
        return if confirmed { Ok(Some(volume)) } else { Err(refused(&volume.host_path.to_string_lossy())) };
    };
    let Some(source) = resolve_input(&source, asking).await? else { return Ok(None) };
    let Some(rest) = expand_template(rest, input, asking).await? else { return Ok(None) };
    let volume: VolumeSpec = format!("{}{}", source.text, rest.text).parse()?;
    // What follows may be read as a part of the place.
    if !rest.text.is_empty() && volume.host_path.as_os_str() != source.text.as_str() {
        return Err(refused(&volume.host_path.to_string_lossy()));
    }
    Ok(Some(volume))
}

/// The value of an input: what the entry fixes, with its variables filled in, else its default, else the user's.
pub(super) async fn resolve_input(
    input: &RegistryInput,
    asking: &InputMode<'_>,
) -> Result<Option<InputValue>> {
    if let Some(template) = &input.value {
        return expand_template(template, input, asking).await;
    }
    if let Some(default) = &input.default {
        check_choice(input, default)?;
        return Ok(Some(InputValue { text: default.clone(), origin: ValueOrigin::Registry, secret: false }));
    }
    if input.required { asking.prompt(input).await } else { Ok(None) }
}

/// Fills the variables into a template, once: what a variable holds is no template.
async fn expand_template(
    template: &str,
    input: &RegistryInput,
    asking: &InputMode<'_>,
) -> Result<Option<InputValue>> {
    let mut value = InputValue { text: String::new(), origin: ValueOrigin::Registry, secret: input.secret };
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        value.text += before;
        let variable =
            after.split_once('}').and_then(|(name, rest)| Some((input.variables.get(name)?, rest)));
        let Some((variable, after)) = variable else {
            // A brace that begins no known variable stands for itself.
            value.text.push('{');
            rest = after;
            continue;
        };
        let mut variable = RegistryInput {
            required: variable.required || input.required,
            // A part of what must not be shown is not shown either.
            secret: variable.secret || input.secret,
            ..variable.clone()
        };
        if template.len() == variable.name.len() + 2 {
            // The variable is the whole value, which has a name that says more.
            variable.name.clone_from(&input.name);
            variable.description = variable.description.or_else(|| input.description.clone());
        }
        let Some(part) = Box::pin(resolve_input(&variable, asking)).await? else { return Ok(None) };
        value.text += &part.text;
        value.secret |= part.secret;
        if part.origin == ValueOrigin::Answered {
            value.origin = ValueOrigin::Answered;
        }
        rest = after;
    }
    value.text += rest;
    Ok(Some(value))
}

impl InputMode<'_> {
    /// Asks the user whether a server may have something of this machine; nobody being there is a no.
    async fn confirm_permissions(&self, opening: &str) -> Result<bool> {
        let interaction = match self {
            Self::DryRun(noted) => {
                let mut noted = noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                noted.push(format!("permission for {opening}"));
                return Ok(true);
            }
            Self::Interactive(Some(interaction)) => interaction,
            Self::Interactive(None) => return Ok(false),
        };
        let question = format!("the registry's entry asks for {opening} - allow it? [yes, no]");
        Ok(interaction.ask_text(&question).await?.is_some_and(|answer| answer.trim() == "yes"))
    }

    async fn prompt(&self, input: &RegistryInput) -> Result<Option<InputValue>> {
        let interaction = match self {
            Self::DryRun(noted) => {
                noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(input.name.clone());
                return Ok(None);
            }
            Self::Interactive(interaction) => *interaction,
        };
        let missing = || {
            let what = input.description.as_ref().map(|what| format!(" ({what})")).unwrap_or_default();
            Error::new(
                ErrorKind::InvalidOption,
                format!("the server needs a value for `{}`{what}", input.name),
            )
        };
        let mut question = input.name.clone();
        if let Some(description) = &input.description {
            question += &format!(" - {description}");
        }
        if !input.choices.is_empty() {
            question += &format!(" [{}]", input.choices.join(", "));
        }
        let answer = match interaction {
            Some(interaction) if input.secret => interaction.ask_secret(&question).await?,
            Some(interaction) => interaction.ask_text(&question).await?.map(Secret::from),
            None => None,
        };
        let Some(answer) = answer else {
            let how = if input.secret {
                format!("set `secret` to `NAME,target={}`, or run in a terminal", input.name)
            } else {
                "give it with `env` or `args`, or run in a terminal".to_owned()
            };
            return Err(missing().hint(how));
        };
        if answer.expose().is_empty() {
            return Err(missing());
        }
        check_choice(input, answer.expose())?;
        Ok(Some(InputValue {
            text: answer.expose().to_owned(),
            origin: ValueOrigin::Answered,
            secret: input.secret,
        }))
    }
}

fn check_choice(input: &RegistryInput, value: &str) -> Result<()> {
    if input.choices.is_empty() || input.choices.iter().any(|choice| choice == value) {
        return Ok(());
    }
    let message = format!("`{}` is one of {}", input.name, input.choices.join(", "));
    Err(Error::new(ErrorKind::InvalidOption, message))
}

/// A port that a registry suggests is taken only if it is free: nobody asked for it.
fn is_port_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
#[path = "registry_inputs_tests.rs"]
mod tests;
