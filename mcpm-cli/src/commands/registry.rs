//! `mcpm registry`: lists, searches and shows the servers of a registry.

use std::{
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use mcpm::{
    Environment, Error, ErrorKind, Result,
    options::{OptionSet as _, WorkloadOptions},
    registry::{Argument, Registry, RegistryEntry, RegistryInput},
};

use crate::{
    args, executor,
    flag_names::with_flags,
    output::{self, JSON, TEXT},
};

const REGISTRY: &str = "registry";
const CA_BUNDLE: &str = "mcpm_ca_bundle";
const NAME: &str = "name";
const WORD: &str = "word";
/// Maximum length of a description in a table, in characters.
const MAX_DESCRIPTION_CHARS: usize = 72;

pub(crate) fn command() -> Command {
    let option = |name: &'static str| {
        let spec = WorkloadOptions::spec(name).map(args::arg);
        spec.unwrap_or_else(|| Arg::new(name)).help_heading("Options")
    };
    let below = |name: &'static str, about: &'static str| {
        Command::new(name)
            .about(about)
            .args([REGISTRY, CA_BUNDLE].map(option))
            .arg(output::arg(&[TEXT, JSON]))
    };
    Command::new("registry")
        .about("List and search the servers of a registry")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            below("list", "List all servers").visible_alias("ls"),
            below("search", "List the servers whose name, description or tags contain all words").arg(
                Arg::new(WORD)
                    .value_name("WORD")
                    .required(true)
                    .action(ArgAction::Append)
                    .help("Words to search for"),
            ),
            below("info", "Show one server in detail").arg(
                Arg::new(NAME).value_name("NAME").required(true).help("Name of the server, or its last part"),
            ),
        ])
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let Some((verb, matches)) = matches.subcommand() else {
        return Err(Error::new(
            ErrorKind::InvalidOption,
            "`list`, `search` or `info` is missing after `mcpm registry`",
        ));
    };
    let named = matches.get_one::<String>(REGISTRY).map(String::as_str);
    let mut registry = Registry::open(&Environment::from_process(), named)?;
    if let Some(bundle) = matches.get_one::<String>(CA_BUNDLE) {
        registry = registry.ca_bundle(Path::new(bundle))?;
    }
    let on_notice = |message: String| {
        let _ = writeln!(io::stderr(), "warning: {}", with_flags(&message));
    };
    let as_json = output::format(matches) == JSON;
    if verb == "info" {
        let name = matches.get_one::<String>(NAME).map_or("", String::as_str);
        let entry = executor::run(async {
            match registry.find(name, &on_notice).await? {
                Some(entry) => Ok(entry),
                None => Err(registry.unknown(name).await),
            }
        })?;
        if as_json {
            output::json(&entry)?
        } else {
            output::table(&facts(&entry))?
        }
        return Ok(ExitCode::SUCCESS);
    }
    let entries = if verb == "search" {
        let words: Vec<_> = matches.get_many::<String>(WORD).into_iter().flatten().cloned().collect();
        executor::run(registry.search(&words.join(" "), &on_notice))?
    } else {
        executor::run(registry.list(&on_notice))?
    };
    if as_json {
        output::json(&entries)?;
    } else {
        let head = ["NAME", "VERSION", "RUNS", "DESCRIPTION"].map(str::to_owned).to_vec();
        output::list(&std::iter::once(head).chain(entries.iter().map(row)).collect::<Vec<_>>())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(entry: &RegistryEntry) -> Vec<String> {
    let mut description: String = entry.description.chars().take(MAX_DESCRIPTION_CHARS).collect();
    if description.len() < entry.description.len() {
        description.push('…');
    }
    let version = entry.version.clone().unwrap_or_else(|| "-".to_owned());
    vec![entry.name.clone(), version, kinds(entry), description]
}

/// The kinds of its packages.
fn kinds(entry: &RegistryEntry) -> String {
    let mut kinds: Vec<&str> = Vec::new();
    for method in &entry.run_methods {
        let kind = match method.server.split_once("://") {
            _ if method.is_image => "image",
            Some(("http" | "https", _)) => "remote",
            Some((scheme, _)) => scheme,
            None => "image",
        };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() { "-".to_owned() } else { kinds.join(", ") }
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
