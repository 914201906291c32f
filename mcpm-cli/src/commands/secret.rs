//! `mcpm secret`: manages the secrets that options such as `mcpm run --secret` refer to, and selects their store.

use std::{
    io::{self, IsTerminal as _, Read as _},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser};
use mcpm::{
    Environment, Error, ErrorKind, Result,
    options::Secret,
    secrets::{Provider, Secrets, StoreConfig},
};
use serde_json::json;
use zeroize::Zeroizing;

use crate::{
    commands::workload_args,
    completion, executor,
    output::{self, JSON, TEXT},
    terminal,
};

const NAME: &str = "name";
const VALUE: &str = "value";
const PROVIDER: &str = "provider";
const PASSWORD_IN_KEYRING: &str = "password-in-keyring";
const COMMAND: &str = "command";
/// Larger than any valid value.
const MAX_INPUT_BYTES: u64 = 128 * 1024;

pub(crate) fn command() -> Command {
    let name = || {
        let name = Arg::new(NAME).value_name("NAME").required(true).help("Name of the secret");
        name.add(completion::secrets())
    };
    Command::new("secret")
        .about("Manage secrets for servers")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("set")
                .about("Store a secret, read from stdin or prompted for")
                .arg(name())
                // This argument is accepted only to be rejected without repeating its value in the message.
                .arg(Arg::new(VALUE).hide(true).num_args(0..))
                .arg(output::arg(&[TEXT, JSON])),
            Command::new("get").about("Print a secret").arg(name()).arg(output::arg(&[TEXT, JSON])),
            Command::new("list")
                .visible_alias("ls")
                .about("List the names of the secrets, and the sources of their values")
                .arg(output::arg(&[TEXT, JSON])),
            Command::new("rm")
                .about("Remove secrets")
                .arg(name().action(ArgAction::Append).help("Names of the secrets"))
                .arg(output::arg(&[TEXT, JSON])),
            provider(),
        ])
}

fn provider() -> Command {
    let names = Provider::ALL.map(Provider::as_str);
    Command::new("provider")
        .about("Show or select the secret store")
        .arg(
            Arg::new(PROVIDER)
                .value_name("PROVIDER")
                .value_parser(PossibleValuesParser::new(names))
                .help("Secret store to use from now on"),
        )
        .arg(
            Arg::new(PASSWORD_IN_KEYRING)
                .long(PASSWORD_IN_KEYRING)
                .action(ArgAction::SetTrue)
                .requires(PROVIDER)
                .help("For `encrypted`: save the password of the file in the keyring after the next prompt for it"),
        )
        .arg(Arg::new(COMMAND).value_name("PROGRAM").last(true).num_args(1..).requires(PROVIDER).help(
            "For `command`: the program that prints a secret, and its arguments, in which `{name}` stands for the \
             secret's name",
        ))
        .arg(output::arg(&[TEXT, JSON]))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let name = |matches: &ArgMatches| matches.get_one::<String>(NAME).cloned().unwrap_or_default();
    let secrets = || Secrets::open(&terminal::environment());
    match matches.subcommand() {
        Some(("set", matches)) => {
            if matches.get_many::<String>(VALUE).is_some_and(|values| values.len() > 0) {
                let message =
                    "the value of a secret must not be an argument, because other users can see arguments";
                let hint = format!("write it to standard input: `mcpm secret set {} < FILE`", name(matches));
                return Err(Error::new(ErrorKind::InvalidOption, message).hint(hint));
            }
            let (secrets, name) = (secrets()?, name(matches));
            let value = value(&name)?;
            executor::run(secrets.set(&name, &value))?;
            output::name(matches, &name)?;
        }
        Some(("get", matches)) => {
            let (secrets, name) = (secrets()?, name(matches));
            let value = executor::run(secrets.get(&name))?;
            match output::format(matches) {
                JSON => output::json(&json!({ "name": name, "value": value.expose() }))?,
                _ => output::line(value.expose())?,
            }
        }
        Some(("list", matches)) => {
            let secrets = secrets()?;
            let all = executor::run(secrets.list())?;
            if all.is_empty() {
                let provider = StoreConfig::load(&Environment::from_process())?.provider;
                output::hint(match provider {
                    Provider::Environment => {
                        "no secrets are set; set the secret NAME in the variable `MCPM_SECRET_NAME`"
                    }
                    _ => "no secrets are stored; `mcpm secret set NAME` stores one",
                });
            }
            match output::format(matches) {
                JSON => output::json(&all)?,
                _ => {
                    let mut rows = vec![vec!["NAME".to_owned(), "FROM".to_owned()]];
                    rows.extend(all.into_iter().map(|one| vec![one.name, one.place]));
                    output::table(&rows)?;
                }
            }
        }
        Some(("rm", matches)) => {
            let secrets = secrets()?;
            let all: Vec<String> = matches.get_many::<String>(NAME).into_iter().flatten().cloned().collect();
            let remove = async |name: String| {
                secrets.remove(&name).await?;
                output::name(matches, &name)
            };
            return executor::run(async { Ok(workload_args::for_each_workload(all, remove).await) });
        }
        Some(("provider", matches)) => choose(matches)?,
        _ => {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                "`set`, `get`, `list`, `rm` or `provider` is missing after `mcpm secret`",
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows or changes the secret store.
fn choose(matches: &ArgMatches) -> Result<()> {
    let environment = terminal::environment();
    let Some(provider) = matches.get_one::<String>(PROVIDER) else {
        let choice = StoreConfig::load(&environment)?;
        return show(matches, choice.provider, &environment);
    };
    let choice = StoreConfig {
        provider: provider.parse()?,
        password_in_keyring: matches.get_flag(PASSWORD_IN_KEYRING),
        command: matches.get_many::<String>(COMMAND).into_iter().flatten().cloned().collect(),
        ..StoreConfig::default()
    };
    choice.save(&environment)?;
    let used = StoreConfig::load(&environment)?.provider;
    if used != choice.provider {
        output::warning(&format!(
            "`MCPM_SECRETS_PROVIDER` selects `{used}`; unset it to use the chosen store"
        ));
    }
    show(matches, used, &environment)
}

/// Shows the secret store, and where it stores values.
fn show(matches: &ArgMatches, provider: Provider, environment: &Environment) -> Result<()> {
    let place = Secrets::open(environment)?.place();
    match output::format(matches) {
        JSON => output::json(&json!({ "provider": provider.as_str(), "place": place })),
        _ => output::line(format!("{provider}  {place}")),
    }
}

/// Reads the value from standard input, without a line feed at its end, or from the terminal.
fn value(name: &str) -> Result<Secret> {
    if io::stdin().is_terminal() {
        let none = || {
            Error::new(ErrorKind::InvalidOption, "cannot prompt for the value; write it to standard input")
        };
        return terminal::prompt_hidden(&format!("Value of {name}"))?.ok_or_else(none);
    }
    let mut text = Zeroizing::new(String::new());
    io::stdin()
        .take(MAX_INPUT_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| Error::new(ErrorKind::Io, "cannot read the value").source(error))?;
    let value = text.strip_suffix('\n').map_or(&**text, |text| text.strip_suffix('\r').unwrap_or(text));
    Ok(Secret::from(value))
}
