//! Generates sources of `mcpm-ffi`: option records for uniffi and setters for C.

use std::fmt::Write as _;

use mcpm::options::{Arity, OptionSet, OptionSpec, ProxyOptions, ValueKind, WorkloadOptions};

const GENERATED_HEADER: &str = "// Generated from the option table by tests/generated.rs; do not edit.\n";

/// Returns `mcpm-ffi/src/generated/records.rs`.
pub(crate) fn records() -> String {
    let mut source = GENERATED_HEADER.to_owned();
    record::<WorkloadOptions>(&mut source, "WorkloadOptions");
    record::<ProxyOptions>(&mut source, "ProxyOptions");
    source
}

fn record<O: OptionSet>(source: &mut String, name: &str) {
    write!(source, "\n/// The options of a {}; options that are left out are unset.\n", noun::<O>()).unwrap();
    write!(source, "#[uniffi::remote(Record)]\npub struct {name} {{\n").unwrap();
    for spec in O::SPECS {
        docs(source, spec, "    ");
        let slot = if spec.arity == Arity::One { "Option" } else { "Vec" };
        writeln!(source, "    #[uniffi(default)]\n    pub {}: {slot}<{}>,", spec.name, spec.type_name)
            .unwrap();
    }
    source.push_str("}\n");
}

/// Returns `mcpm-ffi/src/c/setters.rs`.
pub(crate) fn setters() -> String {
    let mut source = format!(
        "//! Exports one setter to C for each option of a workload and of a proxy.\n{GENERATED_HEADER}\n\
         use std::{{ffi::c_char, time::Duration}};\n\nuse super::{{ProxyBuilder, WorkloadBuilder, builder}};\n"
    );
    setters_of::<WorkloadOptions>(&mut source, "WorkloadBuilder");
    setters_of::<ProxyOptions>(&mut source, "ProxyBuilder");
    source
}

fn setters_of<O: OptionSet>(source: &mut String, builder: &str) {
    for spec in O::SPECS {
        source.push('\n');
        docs(source, spec, "");
        let name = spec.name;
        let (argument, kind, body) = match spec.kind {
            ValueKind::Bool => ("value", "bool", given(name, "value")),
            ValueKind::Port => ("value", "u16", given(name, "value")),
            ValueKind::Float => ("value", "f64", given(name, "value")),
            ValueKind::Duration => {
                ("milliseconds", "u64", given(name, "Duration::from_millis(milliseconds)"))
            }
            _ => ("value", "*const c_char", format!("builder::set_text(builder, \"{name}\", value)")),
        };
        write!(
            source,
            "#[unsafe(no_mangle)]\n\
             pub unsafe extern \"C\" fn mcpm_{}_builder_{name}(builder: *mut {builder}, {argument}: {kind}) {{\n\
             \x20   // SAFETY: the conventions in the header.\n\
             \x20   unsafe {{ {body} }}\n}}\n",
            noun::<O>(),
        )
        .unwrap();
    }
}

fn given(name: &str, value: &str) -> String {
    format!("builder::set(builder, |options| {{ options.{name} = Some({value}); Ok(()) }})")
}

fn noun<O: OptionSet>() -> &'static str {
    if O::COMMAND == WorkloadOptions::COMMAND { "workload" } else { "proxy" }
}

fn docs(source: &mut String, spec: &OptionSpec, indent: &str) {
    let mut paragraphs = vec![format!("{}.", spec.help())];
    paragraphs.extend(spec.details().split("\n\n").filter(|text| !text.is_empty()).map(str::to_owned));
    if let ValueKind::Choice(words) = spec.kind {
        let words: Vec<String> = words.iter().map(|word| format!("`{}`", word.text)).collect();
        paragraphs.push(format!("One of {}.", words.join(", ")));
    }
    match (spec.default, spec.computed_default) {
        (Some(default), _) => paragraphs.push(format!("Default: `{default}`.")),
        (None, Some(words)) => paragraphs.push(format!("Default: {words}.")),
        (None, None) => {}
    }
    for (place, paragraph) in paragraphs.iter().enumerate() {
        let between = if place == 0 { String::new() } else { format!("{indent}///\n") };
        source.push_str(&between);
        for line in wrapped(paragraph) {
            writeln!(source, "{indent}/// {line}").unwrap();
        }
    }
}

/// Breaks a paragraph into lines of up to 100 characters.
fn wrapped(paragraph: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in paragraph.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < 100 => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
