//! `mcpm registry` and `mcpm search`: list, search and show the servers of a registry.

use std::{path::Path, process::ExitCode};

use clap::{Arg, ArgAction, ArgMatches, Command};
use mcpm::{
    Environment, Error, ErrorKind, Result,
    options::{OptionSet as _, WorkloadOptions},
    registry::{Argument, Registry, RegistryEntry, RegistryInput, RegistrySource, RunMethod},
};

use crate::{
    args, completion, executor,
    output::{self, JSON, TEXT},
    progress,
};

const REGISTRY: &str = "registry";
const CA_BUNDLE: &str = "mcpm_ca_bundle";
const NAME: &str = "name";
const WORD: &str = "word";
/// Maximum length of a description in a table, in characters.
const MAX_DESCRIPTION_CHARS: usize = 72;
/// Maximum length of the names of tools in a table, in characters.
const MAX_TOOLS_CHARS: usize = 40;

pub(crate) fn command() -> Command {
    Command::new("registry")
        .about("List and search the servers of a registry")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            with_options(Command::new("list").about("List all servers")).visible_alias("ls"),
            search_command(),
            with_options(Command::new("info").about("Show one server in detail")).arg(
                Arg::new(NAME)
                    .value_name("NAME")
                    .required(true)
                    .help("Name of the server, or the part after its last `/`")
                    .add(completion::servers()),
            ),
        ])
}

/// Returns the command `mcpm search`, which is an alias of `mcpm registry search`.
pub(crate) fn search_command() -> Command {
    let word = Arg::new(WORD).value_name("WORD").required(true).action(ArgAction::Append);
    let command = Command::new("search").about("Search the registry for servers that match all words");
    with_options(command).arg(word.help(
        "Words to find in names, titles, descriptions, tags and tools; with a registry API, the longest word must \
         be in the name",
    ))
}

fn with_options(command: Command) -> Command {
    let option = |name: &'static str| {
        let spec = WorkloadOptions::spec(name).map(args::arg);
        spec.unwrap_or_else(|| Arg::new(name)).help_heading("Options")
    };
    command.args([REGISTRY, CA_BUNDLE].map(option)).arg(output::arg(&[TEXT, JSON]))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        Some(("info", matches)) => info(matches),
        Some(("list", matches)) => {
            let registry = open(matches)?;
            let all = executor::run(waiting(registry.list(&print_notice)))?;
            show(matches, &all, "the registry has no servers")
        }
        Some((_, matches)) => search(matches),
        None => Err(Error::new(
            ErrorKind::InvalidOption,
            "`list`, `search` or `info` is missing after `mcpm registry`",
        )),
    }
}

pub(crate) fn search(matches: &ArgMatches) -> Result<ExitCode> {
    let words: Vec<_> = matches.get_many::<String>(WORD).into_iter().flatten().cloned().collect();
    let registry = open(matches)?;
    let words = words.join(" ");
    let found = executor::run(waiting(registry.search(&words, &print_notice)))?;
    let if_empty = match registry.source() {
        RegistrySource::Api(_) => {
            "no server of the registry matches all words, with the longest word in its name; a registry API searches \
             names only, and `mcpm registry list` shows all servers"
        }
        _ => "no server of the registry matches all words; `mcpm registry list` shows all servers",
    };
    show(matches, &found, if_empty)
}

fn info(matches: &ArgMatches) -> Result<ExitCode> {
    let registry = open(matches)?;
    let name = matches.get_one::<String>(NAME).map_or("", String::as_str);
    let entry = executor::run(waiting(async {
        match registry.find(name, &print_notice).await? {
            Some(entry) => Ok(entry),
            None => Err(registry.unknown(name).await),
        }
    }))?;
    match output::format(matches) {
        JSON => output::json(&entry)?,
        _ => output::table(&facts(&entry))?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn waiting<T>(work: impl Future<Output = T>) -> T {
    progress::waiting("waiting for the registry", None, work).await
}

fn open(matches: &ArgMatches) -> Result<Registry> {
    let named = matches.get_one::<String>(REGISTRY).map(String::as_str);
    let registry = Registry::open(&Environment::from_process(), named)?;
    match matches.get_one::<String>(CA_BUNDLE) {
        Some(bundle) => registry.ca_bundle(Path::new(bundle)),
        None => Ok(registry),
    }
}

fn print_notice(message: String) {
    output::warning(&message);
}

fn show(matches: &ArgMatches, entries: &[RegistryEntry], if_empty: &str) -> Result<ExitCode> {
    if entries.is_empty() {
        output::hint(if_empty);
    }
    if output::format(matches) == JSON {
        output::json(&entries)?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["NAME", "RUNS", "TRANSPORT", "STARS", "DESCRIPTION", "TOOLS"].map(str::to_owned).to_vec();
    output::list(&std::iter::once(head).chain(entries.iter().map(row)).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

fn row(entry: &RegistryEntry) -> Vec<String> {
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let transports =
        entry.run_methods.iter().filter_map(|method| method.transport.map(|one| one.to_string()));
    vec![
        entry.name.clone(),
        or_dash(distinct(entry.run_methods.iter().map(|method| kind(method).to_owned()))),
        or_dash(distinct(transports)),
        entry.stars.map_or_else(|| "-".to_owned(), |stars| stars.to_string()),
        output::shorten(&entry.description, MAX_DESCRIPTION_CHARS).into_owned(),
        or_dash(output::shorten(&entry.tools.join(", "), MAX_TOOLS_CHARS).into_owned()),
    ]
}

/// Returns the kind of server that a run method starts: `image`, `remote`, or the scheme of a package.
fn kind(method: &RunMethod) -> &str {
    match method.server.split_once("://") {
        _ if method.is_image => "image",
        Some(("http" | "https", _)) => "remote",
        Some((scheme, _)) => scheme,
        None => "image",
    }
}

/// Returns the words in their order, without repetitions.
fn distinct(words: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    all.join(", ")
}

fn facts(entry: &RegistryEntry) -> Vec<Vec<String>> {
    let mut facts: Vec<(&str, String)> = vec![("name", entry.name.clone())];
    let optional = [
        ("title", &entry.title),
        ("version", &entry.version),
        ("status", &entry.status),
        ("tier", &entry.tier),
        ("repository", &entry.repository),
    ];
    facts.push(("description", entry.description.clone()));
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    facts.extend(entry.stars.map(|stars| ("stars", stars.to_string())));
    let lists = [("tags", &entry.tags), ("tools", &entry.tools), ("not run", &entry.unsupported_packages)];
    facts.extend(
        lists.into_iter().filter(|(_, all)| !all.is_empty()).map(|(name, all)| (name, all.join(", "))),
    );
    for method in &entry.run_methods {
        let transport = method.transport.map(|transport| format!(" ({transport})")).unwrap_or_default();
        facts.push(("runs", format!("{}{transport}", method.server)));
        facts.extend(method.env.iter().map(|input| ("  environment", input_summary(input))));
        facts.extend(method.headers.iter().map(|input| ("  header", input_summary(input))));
        facts.extend(method.args.iter().map(|argument| match argument {
            Argument::Positional(input) => ("  argument", input_summary(input)),
            Argument::Named { flag, input: None } => ("  argument", flag.clone()),
            Argument::Named { flag, input: Some(input) } => {
                ("  argument", format!("{flag} {}", input_summary(input)))
            }
        }));
        facts.extend(method.volumes.iter().map(|input| ("  volume", input_summary(input))));
        if let Some(permissions) = &method.permissions {
            facts.push(("  permissions", permissions.to_string()));
        }
        if let Some(provenance) = &method.provenance {
            facts.push(("  provenance", provenance.to_string()));
        }
    }
    facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect()
}

fn input_summary(input: &RegistryInput) -> String {
    let mut text = match (&input.value, &input.default) {
        (Some(value), _) => value.clone(),
        (None, Some(default)) => format!("{} = {default}", input.name),
        (None, None) => input.name.clone(),
    };
    if input.value.is_some() && !text.contains(&input.name) {
        text = format!("{} = {text}", input.name);
    }
    let marks = [("required", input.required), ("secret", input.secret)];
    let marks: Vec<_> = marks.into_iter().filter(|(_, is)| *is).map(|(mark, _)| mark).collect();
    if !marks.is_empty() {
        text += &format!(" [{}]", marks.join(", "));
    }
    if let Some(description) = &input.description {
        text += &format!(": {description}");
    }
    text
}
