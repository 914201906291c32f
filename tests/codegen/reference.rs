//! Generates `options.md`, `reasons.md` and `export.schema.json` in `docs/reference`.

use std::fmt::Write as _;

use mcpm::explain::Reason;
use mcpm::options::{
    ArgumentPosition, Arity, OptionSet, OptionSpec, ProxyOptions, Required, ValueKind, WorkloadOptions,
};

const INTRODUCTION: &str = "\
# Options

Generated from the option table; do not edit. The name of a field, of a setter and of a JSON key is the flag with `_` in
place of `-`. An option that is marked \"not supported yet\" is rejected, unless its value has no effect.
";

const REASONS: &str = "\
# Reasons

Generated from the catalogue of reasons; do not edit. `mcpm explain ID` shows the same text for the id of a reason. For
the id of a denial, which is in the error's `data` and in the header `Mcpm-Refusal`, it also shows the inputs of the
decision and the smallest change that would allow the request. On this page, options have the names of their fields;
`mcpm explain` shows them as flags.
";

/// Returns the page of reasons.
pub(crate) fn reasons() -> String {
    let mut page = REASONS.to_owned();
    let mut layer = "";
    for reason in Reason::ALL {
        if reason.layer() != layer {
            layer = reason.layer();
            write!(page, "\n## {layer}\n\n| Id | Meaning | What usually helps |\n|---|---|---|\n").unwrap();
        }
        writeln!(page, "| `{}` | {} | {} |", reason.id(), reason.meaning(), reason.fix()).unwrap();
    }
    page
}

/// Returns the page of options.
pub(crate) fn options() -> String {
    let mut page = INTRODUCTION.to_owned();
    command::<WorkloadOptions>(&mut page);
    command::<ProxyOptions>(&mut page);
    page
}

/// Returns the JSON Schema of exported configurations.
pub(crate) fn export_schema() -> String {
    serde_json::to_string_pretty(&mcpm::workload::export_schema()).unwrap() + "\n"
}

fn command<O: OptionSet>(page: &mut String) {
    write!(page, "\n## `mcpm {}`\n", O::COMMAND).unwrap();
    let mut section = "";
    for spec in O::SPECS {
        if spec.section != section {
            section = spec.section;
            write!(page, "\n### {section}\n\n| Option | Value | Default | Meaning |\n|---|---|---|---|\n")
                .unwrap();
        }
        let cells = [flag(spec), value(spec), default(spec), meaning(spec)];
        // A vertical bar would end the cell.
        let cells = cells.map(|cell| cell.replace('|', "\\|"));
        writeln!(page, "| {} |", cells.join(" | ")).unwrap();
    }
}

fn flag(spec: &OptionSpec) -> String {
    let short = spec.short.map(|letter| format!("`-{letter}`, ")).unwrap_or_default();
    format!("{short}`{}`", spec.display_name())
}

fn value(spec: &OptionSpec) -> String {
    let value = match spec.kind {
        ValueKind::Choice(words) => {
            words.iter().map(|word| format!("`{}`", word.text)).collect::<Vec<_>>().join(", ")
        }
        ValueKind::Bool => "on or off".to_owned(),
        ValueKind::Text if spec.place != ArgumentPosition::Flag => "text".to_owned(),
        _ => format!("`{}`", spec.placeholder()),
    };
    match (spec.arity, spec.range) {
        (Arity::Many, _) => value + ", repeatable",
        (Arity::List, _) => value + ", repeatable, comma-separated",
        (Arity::One, Some((low, high))) => format!("{value}, {low} to {high}"),
        (Arity::One, None) => value,
    }
}

fn default(spec: &OptionSpec) -> String {
    match (spec.default, spec.computed_default, spec.required) {
        (Some(default), ..) => format!("`{default}`"),
        (None, Some(words), _) => words.to_owned(),
        (None, None, Required::Always) => "required".to_owned(),
        (None, None, Required::Unless(other)) => format!("required without `--{}`", other.replace('_', "-")),
        (None, None, Required::No) => String::new(),
    }
}

fn meaning(spec: &OptionSpec) -> String {
    let mut meaning = format!("{}.", spec.help());
    let details = spec.details();
    if !details.is_empty() {
        write!(meaning, " {}", details.replace("\n\n", " ")).unwrap();
    }
    if let Some(env) = spec.env {
        write!(meaning, " Environment variable: `{env}`.").unwrap();
    }
    for other in spec.conflicts_with {
        write!(meaning, " Not with `--{}`.", other.replace('_', "-")).unwrap();
    }
    if spec.addition {
        meaning += " An [addition](additions.md).";
    }
    meaning
}
