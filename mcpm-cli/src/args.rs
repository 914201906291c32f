//! Turns the library's options into clap arguments, and clap's answer into the library's options.

use clap::{
    Arg, ArgAction, ArgMatches, Command, ValueHint,
    builder::{PossibleValue, PossibleValuesParser, ValueParser},
};
use mcpm::{
    Result,
    options::{ArgumentPosition, Arity, OptionSet, OptionSpec, Required, ValueKind, WorkloadOptions},
};

/// Adds every option of a set; fits [`Command::defer`].
pub(crate) fn add<O: OptionSet>(command: Command) -> Command {
    let own = O::SPECS.iter().filter(|spec| spec.place != ArgumentPosition::Global);
    command.args(own.map(arg))
}

/// Whether any command was asked to say what it does.
pub(crate) fn debug(matches: &ArgMatches) -> bool {
    // Every command takes the global options; the rows of `run` stand for all of them.
    let mut options = WorkloadOptions::default();
    for spec in WorkloadOptions::SPECS.iter().filter(|spec| spec.place == ArgumentPosition::Global) {
        if let Ok(Some(text)) = matches.try_get_one::<String>(spec.name) {
            // The parser has checked it.
            let _ = options.set(spec.name, text);
        }
    }
    options.debug.unwrap_or(false)
}

/// Returns one option as an argument.
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
        // The last one wins, so that a flag can be added to a command line that has it already.
        Arity::One if matches!(spec.place, ArgumentPosition::Flag | ArgumentPosition::Global) => {
            arg.action(ArgAction::Set).overrides_with(spec.name)
        }
        Arity::One => arg.action(ArgAction::Set),
    };
    match spec.kind {
        // With `=`, so that a flag does not swallow the argument after it.
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
        // Clap repeats a refused value; the library, which checks it again, does not.
        _ if spec.hides_value() => ValueParser::string(),
        _ => ValueParser::new(|text: &str| spec.check(text).map(|()| text.to_owned())),
    }
}

/// Reads a whole number of that range.
pub(crate) fn whole_number(most: u64) -> ValueParser {
    ValueParser::new(move |text: &str| match text.parse::<u64>() {
        Ok(number) if number <= most => Ok(number),
        _ if most == u64::MAX => Err("not a whole number".to_owned()),
        _ => Err(format!("not a whole number from 0 to {most}")),
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
    match (spec.unsupported, spec.supported_values) {
        (None, _) => {}
        (Some(_), []) => help += " [not supported yet]",
        (Some(_), values) => help += &format!(" [not supported yet, except {}]", values.join(", ")),
    }
    help
}

/// Reads the options that were given on the command line, and only those.
///
/// # Errors
/// `InvalidOption` names the option.
pub fn options<O: OptionSet>(matches: &ArgMatches) -> Result<O> {
    let mut options = O::default();
    for spec in O::SPECS {
        for text in matches.get_many::<String>(spec.name).into_iter().flatten() {
            options.set(spec.name, text)?;
        }
    }
    Ok(options)
}
