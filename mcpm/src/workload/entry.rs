//! What of a registry's entry is used for a workload: one way to run it, and the values it wants.
//!
//! What the user gave goes before what the entry says. A value that the entry requires and nobody gave is asked for.
//! What is typed as a secret goes the way of secrets from then on: it is never part of what is asked or done.

use std::{collections::BTreeMap, net::TcpListener, path::Path, sync::Mutex};

use super::{
    Origin, WorkloadName,
    asked::Asked,
    headers, resolve,
    source::{self, Source},
};
use crate::{
    Environment, Error, ErrorKind, Result,
    image::ImageReference,
    interaction::Interaction,
    options::{EnvVar, Secret, Transport, VolumeSpec, WorkloadOptions},
    registry::{Argument, Entry, Input, OnNotice, Registry, Way},
    runtime::Mount,
};

/// What an entry supplies to a workload.
#[derive(Debug, Clone, Default)]
pub(super) struct Supplied {
    /// The way that was chosen.
    pub(super) way: Way,
    /// The options that the entry sets, as far as they were not given.
    pub(super) options: WorkloadOptions,
    /// Variables by name.
    pub(super) env: BTreeMap<String, (String, Origin)>,
    /// Headers of each request to a remote server, by name.
    pub(super) headers: BTreeMap<String, (String, Origin)>,
    /// Variables or headers that the user typed as secrets.
    pub(super) secrets: BTreeMap<String, Secret>,
    /// What would be asked for, in a plan.
    pub(super) questions: Vec<String>,
    /// Whether the user has confirmed what the permissions of the entry open of this machine.
    confirmed: bool,
}

impl Supplied {
    /// The permissions of the entry, and whether the user has confirmed what they open of this machine.
    pub(super) fn permissions(&self) -> Option<(&serde_json::Value, bool)> {
        self.way.permissions.as_ref().map(|permissions| (permissions, self.confirmed))
    }
}

/// What to do about a value that nobody gave.
pub(super) enum Asking<'a> {
    /// The user is asked, if there is one.
    User(Option<&'a dyn Interaction>),
    /// It is noted that the user would be asked.
    Note(Mutex<Vec<String>>),
}

/// A value on its way to the server.
pub(super) struct Value {
    pub(super) text: String,
    pub(super) origin: Origin,
    pub(super) secret: bool,
}

/// Looks a name up in the registry; what is no name there is an image.
///
/// # Errors
/// `Registry` when the registry cannot be read, which says nothing of the name; `InvalidOption` when several servers are
/// meant; `NotFound` for what is neither.
pub(super) async fn locate(
    asked: &Asked,
    environment: &Environment,
    on_notice: OnNotice<'_>,
) -> Result<Asked> {
    let Source::Named { name, registry_only } = &asked.source else { return Ok(asked.clone()) };
    let trust = resolve::trust_store(&asked.options, environment)?;
    let registry = Registry::open(environment, asked.options.registry.as_deref())?.trusting(trust);
    let found = registry.find(name, on_notice).await.map_err(|error| match error.kind() {
        ErrorKind::Registry if !registry_only && error.next_step().is_none() => {
            error.hint(format!("`image:{name}` is an image, whatever the registry says"))
        }
        _ => error,
    })?;
    let mut located = asked.clone();
    match found {
        Some(entry) => {
            let way = choose(&entry, asked.options.transport)?;
            if entry.status.as_deref() == Some("deprecated") {
                on_notice(format!("the registry calls `{}` deprecated", entry.name));
            }
            if !way.ignored.is_empty() {
                let ignored = way.ignored.join("`, `");
                on_notice(format!("`{}` asks the engine for `{ignored}`, which is left out", entry.name));
            }
            located.generated(WorkloadName::sanitized(&entry.name.replace(['.', '/'], "-")));
            located.supplied = Some(Box::new(Supplied { way: way.clone(), ..Supplied::default() }));
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
            located.generated(WorkloadName::sanitized(&image.workload_name()));
            located.source = Source::Image(image);
        }
    }
    Ok(located)
}

/// Has the user confirm what the permissions of the entry open of this machine, unless a profile was given.
///
/// # Errors
/// `Registry` for permissions that cannot be used, `Interrupted`. What is not confirmed is refused when the profile is
/// read.
pub(super) async fn confirm(mut asked: Asked, working_dir: &Path, asking: &Asking<'_>) -> Result<Asked> {
    let given = asked.options.permission_profile.is_some() || matches!(asked.source, Source::Remote(_));
    let Some(supplied) = asked.supplied.as_mut().filter(|_| !given) else { return Ok(asked) };
    let Some((permissions, _)) = supplied.permissions() else { return Ok(asked) };
    for opening in super::reach::openings(permissions, working_dir)? {
        if !asking.confirm(&opening).await? {
            return Ok(asked);
        }
    }
    supplied.confirmed = true;
    Ok(asked)
}

/// What a way runs. The values in the URL of a remote server are filled in by [`supply`].
fn source_of(way: &Way) -> Result<Source> {
    let unusable = |error: Error| match error.kind() {
        ErrorKind::InvalidOption => {
            Error::new(ErrorKind::Registry, "the entry cannot be used").source(error.to_string())
        }
        _ => error,
    };
    if way.is_image {
        return ImageReference::parse(&way.server).map(Source::Image).map_err(unusable);
    }
    source::classify(&way.server).map_err(unusable)
}

/// The way to run an entry: an image before a package, that before a remote server, in the order of the entry.
fn choose(entry: &Entry, transport: Option<Transport>) -> Result<&Way> {
    if entry.status.as_deref() == Some("deleted") {
        let message = format!("`{}` was withdrawn from the registry", entry.name);
        return Err(Error::new(ErrorKind::Registry, message));
    }
    let rank = |way: &&Way| {
        let other_transport = transport.is_some() && way.transport.is_some() && way.transport != transport;
        let remote = way.server.starts_with("https://") || way.server.starts_with("http://");
        (other_transport, !way.is_image, remote)
    };
    entry.ways.iter().min_by_key(rank).ok_or_else(|| {
        let others = match entry.other_packages.as_slice() {
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
pub(super) async fn supply(asked: &Asked, environment: &Environment, asking: &Asking<'_>) -> Result<Asked> {
    let Some(supplied) = &asked.supplied else { return Ok(asked.clone()) };
    let mut supplied = supplied.clone();
    let way = supplied.way.clone();
    let options = &asked.options;
    let remote = matches!(asked.source, Source::Remote(_));
    supplied.options.transport = way.transport;
    supplied.options.proxy_port =
        way.proxy_port.filter(|port| options.proxy_port.is_some() || is_free(*port));
    if !remote {
        if options.transport.or(way.transport) != Some(Transport::Stdio) {
            supplied.options.target_port = way.target_port;
        }
        let given = resolve::asked_variables(asked, environment)?;
        for input in &way.env {
            let as_secret = options.secret.iter().any(|secret| secret.target == input.name);
            let known = supplied.env.contains_key(&input.name) || supplied.secrets.contains_key(&input.name);
            if as_secret || known || given.contains_key(&input.name) {
                continue;
            }
            let Some(value) = value_of(input, asking).await? else { continue };
            let typed_secret = value.secret && value.origin == Origin::Answered;
            // The name is the registry's, so it is checked as one that is typed.
            let fits = !input.name.contains('=') && format!("{}=", input.name).parse::<EnvVar>().is_ok();
            if !fits || typed_secret && !names_secret(&input.name) {
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
    if let Source::Remote(url) = &asked.source {
        headers::supply(&way, url, &options.secret, &mut supplied, asking).await?;
    }
    if let Asking::Note(noted) = asking {
        supplied.questions = noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    }
    let mut asked = asked.clone();
    // What was typed at a prompt is asked for as if it had been given, so that an export needs no prompt.
    for (name, (value, origin)) in &supplied.env {
        if *origin == Origin::Answered {
            asked.answered.push((name.as_str(), value.as_str()).into());
        }
    }
    asked.supplied = Some(supplied);
    Ok(asked)
}

/// Tells whether a name can be a part of a reference to a secret, as the variable or header that it is delivered in.
pub(super) fn names_secret(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=128).contains(&name.len()) && name.chars().all(fits)
}

/// Refuses a secret that the user would be asked for and that would end in a list of arguments, which every process of
/// the machine can read, as engine and record can.
fn refuse_secret(input: &Input, what: &str) -> Result<()> {
    if !asks_secret(input, false, false) {
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
pub(super) fn asks_secret(input: &Input, required: bool, secret: bool) -> bool {
    let (required, secret) = (required || input.required, secret || input.secret);
    match (&input.value, &input.default) {
        (Some(template), _) => input.variables.iter().any(|(name, part)| {
            template.contains(&format!("{{{name}}}")) && asks_secret(part, required, secret)
        }),
        (None, Some(_)) => false,
        (None, None) => required && secret,
    }
}

async fn arguments(way: &Way, asking: &Asking<'_>) -> Result<Vec<String>> {
    let mut args = Vec::new();
    for argument in &way.args {
        if let Argument::Positional(input) | Argument::Named { input: Some(input), .. } = argument {
            refuse_secret(input, "an argument")?;
        }
        match argument {
            Argument::Positional(input) => {
                args.extend(value_of(input, asking).await?.map(|value| value.text))
            }
            Argument::Named { flag, input: None } => args.push(flag.clone()),
            Argument::Named { flag, input: Some(input) } => {
                if let Some(value) = value_of(input, asking).await? {
                    args.extend([flag.clone(), value.text]);
                }
            }
        }
    }
    Ok(args)
}

/// What an entry wants mounted. The place on this machine is the user's to name, or to confirm: one that the entry names
/// would open this machine to a server without anybody's consent.
async fn volume(input: &Input, working_dir: &Path, asking: &Asking<'_>) -> Result<Option<VolumeSpec>> {
    refuse_secret(input, "a part of a mount")?;
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
                (Input { required: variable.required || input.required, ..variable.clone() }, rest)
            })
        }
    };
    let named = named.filter(|(source, _)| source.value.is_none() && source.default.is_none());
    let Some((source, rest)) = named else {
        let Some(whole) = value_of(input, asking).await? else { return Ok(None) };
        let volume: VolumeSpec = whole.text.parse()?;
        let opening = super::reach::mount_opening(&Mount {
            source: working_dir.join(&volume.host_path),
            target: volume.container_path.clone(),
            read_only: volume.read_only,
            relabel: volume.relabel,
        });
        let confirmed = asking.confirm(&opening).await?;
        return if confirmed { Ok(Some(volume)) } else { Err(refused(&volume.host_path.to_string_lossy())) };
    };
    let Some(source) = value_of(&source, asking).await? else { return Ok(None) };
    let Some(rest) = filled(rest, input, asking).await? else { return Ok(None) };
    let volume: VolumeSpec = format!("{}{}", source.text, rest.text).parse()?;
    // What follows may be read as a part of the place.
    if !rest.text.is_empty() && volume.host_path.as_os_str() != source.text.as_str() {
        return Err(refused(&volume.host_path.to_string_lossy()));
    }
    Ok(Some(volume))
}

/// The value of an input: what the entry fixes, with its variables filled in, else its default, else the user's.
pub(super) async fn value_of(input: &Input, asking: &Asking<'_>) -> Result<Option<Value>> {
    if let Some(template) = &input.value {
        return filled(template, input, asking).await;
    }
    if let Some(default) = &input.default {
        check_choice(input, default)?;
        return Ok(Some(Value { text: default.clone(), origin: Origin::Registry, secret: false }));
    }
    if input.required { asking.ask(input).await } else { Ok(None) }
}

/// Fills the variables into a template, once: what a variable holds is no template.
async fn filled(template: &str, input: &Input, asking: &Asking<'_>) -> Result<Option<Value>> {
    let mut value = Value { text: String::new(), origin: Origin::Registry, secret: input.secret };
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
        let mut variable = Input {
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
        let Some(part) = Box::pin(value_of(&variable, asking)).await? else { return Ok(None) };
        value.text += &part.text;
        value.secret |= part.secret;
        if part.origin == Origin::Answered {
            value.origin = Origin::Answered;
        }
        rest = after;
    }
    value.text += rest;
    Ok(Some(value))
}

impl Asking<'_> {
    /// Asks the user whether a server may have something of this machine; nobody being there is a no.
    async fn confirm(&self, opening: &str) -> Result<bool> {
        let interaction = match self {
            Self::Note(noted) => {
                let mut noted = noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                noted.push(format!("permission for {opening}"));
                return Ok(true);
            }
            Self::User(Some(interaction)) => interaction,
            Self::User(None) => return Ok(false),
        };
        let question = format!("the registry's entry asks for {opening} - allow it? [yes, no]");
        Ok(interaction.ask_text(&question).await?.is_some_and(|answer| answer.trim() == "yes"))
    }

    async fn ask(&self, input: &Input) -> Result<Option<Value>> {
        let interaction = match self {
            Self::Note(noted) => {
                noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(input.name.clone());
                return Ok(None);
            }
            Self::User(interaction) => *interaction,
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
        Ok(Some(Value { text: answer.expose().to_owned(), origin: Origin::Answered, secret: input.secret }))
    }
}

fn check_choice(input: &Input, value: &str) -> Result<()> {
    if input.choices.is_empty() || input.choices.iter().any(|choice| choice == value) {
        return Ok(());
    }
    let message = format!("`{}` is one of {}", input.name, input.choices.join(", "));
    Err(Error::new(ErrorKind::InvalidOption, message))
}

/// A port that a registry suggests is taken only if it is free: nobody asked for it.
fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

#[cfg(test)]
#[path = "entry_tests.rs"]
mod tests;
