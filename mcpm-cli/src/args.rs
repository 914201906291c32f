//! Converts the library's options to clap arguments, and parsed arguments to options.

use std::borrow::Cow;

use clap::{
    Arg, ArgAction, ArgMatches, Command, ValueHint,
    builder::{PossibleValue, PossibleValuesParser, ValueParser},
};
use mcpm::{
    Result,
    options::{ArgumentPosition, Arity, OptionSet, OptionSpec, Required, ValueKind, WorkloadOptions},
};

use crate::completion;

/// Adds all options of a set; suitable for [`Command::defer`].
pub(crate) fn add<O: OptionSet>(command: Command) -> Command {
    let own = O::SPECS.iter().filter(|spec| spec.place != ArgumentPosition::Global);
    command.args(own.map(arg_of_many))
}

/// Converts an option of a command with many options; its short help shows only the common ones.
pub(crate) fn arg_of_many(spec: &'static OptionSpec) -> Arg {
    arg(spec).hide_short_help(spec.place == ArgumentPosition::Flag && !spec.common)
}

/// Returns whether debug mode was requested.
pub(crate) fn debug(matches: &ArgMatches) -> bool {
    // All commands have the global options; the rows of `run` represent these options in the table.
    let mut options = WorkloadOptions::default();
    for spec in WorkloadOptions::SPECS.iter().filter(|spec| spec.place == ArgumentPosition::Global) {
        if let Ok(Some(text)) = matches.try_get_one::<String>(spec.name) {
            // The parser has validated the value.
            let _ = options.set(spec.name, text);
        }
    }
    options.debug.unwrap_or(false)
}

/// Converts an option to an argument.
pub(crate) fn arg(spec: &'static OptionSpec) -> Arg {
    let arg = Arg::new(spec.name)
        .value_name(spec.placeholder())
        .value_parser(parser(spec))
        .value_hint(hint(spec))
        .help(help(spec));
    let arg = match spec.details().as_str() {
        "" => arg,
        details => arg.long_help(format!("{}\n\n{details}", help(spec))),
    };
    let arg = match spec.place {
        ArgumentPosition::Flag => arg.long(spec.flag()).help_heading(spec.section),
        ArgumentPosition::Global => arg.long(spec.flag()).global(true),
        ArgumentPosition::Positional => arg,
        ArgumentPosition::Trailing => arg.last(true).num_args(0..),
    };
    let arg = match spec.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    let arg = match spec.required {
        Required::No => arg,
        Required::Always => arg.required(true),
        Required::Unless(other) => arg.required_unless_present(other),
    };
    let arg = match spec.arity {
        Arity::Many | Arity::List => arg.action(ArgAction::Append),
        // The last value wins, so that a flag can be appended to override an earlier one.
        Arity::One if matches!(spec.place, ArgumentPosition::Flag | ArgumentPosition::Global) => {
            arg.action(ArgAction::Set).overrides_with(spec.name)
        }
        Arity::One => arg.action(ArgAction::Set),
    };
    let arg = match spec.name {
        "server" => arg.add(completion::servers_and_paths()),
        "group" => arg.add(completion::groups()),
        "secret" => arg.add(completion::secrets()),
        _ => arg,
    };
    match spec.kind {
        // The value requires `=`, so that the flag does not consume the next argument.
        ValueKind::Bool => {
            arg.num_args(0..=1).require_equals(true).default_missing_value("true").hide_possible_values(true)
        }
        _ => arg,
    }
}

fn parser(spec: &'static OptionSpec) -> ValueParser {
    match spec.kind {
        ValueKind::Choice(words) => {
            let value = |word: &mcpm::options::Word| PossibleValue::new(word.text).help(word.help());
            PossibleValuesParser::new(words.iter().map(value)).into()
        }
        ValueKind::Bool => PossibleValuesParser::new(["true", "false"]).into(),
        // Clap would repeat an invalid value in its message; the library, which validates the value again, does not.
        _ if spec.hides_value() => ValueParser::string(),
        _ => ValueParser::new(|text: &str| spec.check(text).map(|()| text.to_owned())),
    }
}

/// Returns a parser of integers from 0 to `maximum`.
pub(crate) fn whole_number(maximum: u64) -> ValueParser {
    ValueParser::new(move |text: &str| match text.parse::<u64>() {
        Ok(number) if number <= maximum => Ok(number),
        _ if maximum == u64::MAX => Err("not a whole number".to_owned()),
        _ => Err(format!("not a whole number from 0 to {maximum}")),
    })
}

fn hint(spec: &OptionSpec) -> ValueHint {
    match spec.kind {
        ValueKind::File => ValueHint::FilePath,
        ValueKind::Folder => ValueHint::DirPath,
        ValueKind::Url => ValueHint::Url,
        ValueKind::Host => ValueHint::Hostname,
        _ => ValueHint::Unknown,
    }
}

fn help(spec: &OptionSpec) -> String {
    let mut help = spec.help().to_owned();
    if let Some(default) = spec.default.or(spec.computed_default) {
        help += &format!(" [default: {default}]");
    }
    if let Some(env) = spec.env {
        help += &format!(" [env: {env}]");
    }
    help
}

/// Returns a variable with its value: for a name alone, the value is that of the variable in mcpm's own environment.
fn with_value(text: &str) -> Cow<'_, str> {
    match std::env::var(text) {
        Ok(value) if !text.contains('=') => format!("{text}={value}").into(),
        _ => text.into(),
    }
}

/// Returns the options that were set on the command line.
///
/// # Errors
/// `InvalidOption` names the option.
pub fn options<O: OptionSet>(matches: &ArgMatches) -> Result<O> {
    let mut options = O::default();
    for spec in O::SPECS {
        for text in matches.get_many::<String>(spec.name).into_iter().flatten() {
            match spec.type_name {
                "EnvVar" => {
                    let hint = "`KEY` alone is valid only if mcpm's own environment has this variable";
                    let outcome = options.set(spec.name, &with_value(text));
                    outcome.map_err(|error| if text.contains('=') { error } else { error.hint(hint) })?;
                }
                _ => options.set(spec.name, text)?,
            }
        }
    }
    Ok(options)
}
