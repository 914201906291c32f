//! Generates the keyword arguments for options in Python.

use std::fmt::Write as _;

use mcpm::options::{Arity, OptionSet, OptionSpec, ProxyOptions, ValueKind, WorkloadOptions};

/// Returns `bindings/python/src/mcpm/_options.py`.
pub(crate) fn options() -> String {
    let mut source = String::from(
        "\"\"\"Options as keyword arguments. Generated from the option table by tests/generated.rs; do not edit.\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from collections.abc import Mapping\n\
         from typing import TYPE_CHECKING, Any\n\n\
         from . import _values\n\
         from ._native import mcpm as _native\n\n\
         if TYPE_CHECKING:\n\
         \x20   import os\n\
         \x20   from collections.abc import Iterable\n\
         \x20   from datetime import timedelta\n\
         \x20   from typing import Literal\n\n\
         \x20   from typing_extensions import TypedDict\n\n\
         \x20   from ._secret import Secret\n",
    );
    keywords::<WorkloadOptions>(&mut source, "WorkloadKeywords", &["server"]);
    keywords::<ProxyOptions>(&mut source, "ProxyKeywords", &["server_name", "target_uri"]);
    conversions::<WorkloadOptions>(&mut source, "WORKLOAD");
    conversions::<ProxyOptions>(&mut source, "PROXY");
    source.push_str(
        "\n\n\
         def workload_options(server: str | None, options: Mapping[str, Any]) -> _native.WorkloadOptions:\n\
         \x20   \"\"\"Returns the options of a workload.\"\"\"\n\
         \x20   all_options: dict[str, Any] = {\"server\": server, **options}\n\
         \x20   record: _native.WorkloadOptions = _values.record(_native.WorkloadOptions, WORKLOAD, all_options)\n\
         \x20   return record\n\n\n\
         def proxy_options(\n\
         \x20   server_name: str | None, target_uri: str | None, options: Mapping[str, Any]\n\
         ) -> _native.ProxyOptions:\n\
         \x20   \"\"\"Returns the options of a proxy.\"\"\"\n\
         \x20   all_options: dict[str, Any] = {\"server_name\": server_name, \"target_uri\": target_uri, **options}\n\
         \x20   record: _native.ProxyOptions = _values.record(_native.ProxyOptions, PROXY, all_options)\n\
         \x20   return record\n",
    );
    source
}

/// Writes the types of the keyword arguments, except for options that have their own parameter.
fn keywords<O: OptionSet>(source: &mut String, name: &str, positional: &[&str]) {
    write!(source, "\n    class {name}(TypedDict, total=False):\n").unwrap();
    write!(source, "        \"\"\"The options of `mcpm {}`.\"\"\"\n\n", O::COMMAND).unwrap();
    for spec in O::SPECS.iter().filter(|spec| !positional.contains(&spec.name)) {
        let (natural, _) = types(spec);
        let help = spec.help().replace('\\', "\\\\");
        write!(source, "        {}: {natural}\n        \"\"\"{help}.\"\"\"\n", spec.name).unwrap();
    }
}

fn conversions<O: OptionSet>(source: &mut String, name: &str) {
    write!(source, "\n\n{name}: dict[str, _values.Conversion] = {{\n").unwrap();
    for spec in O::SPECS {
        let (_, conversion) = types(spec);
        writeln!(source, "    \"{}\": _values.{conversion},", spec.name).unwrap();
    }
    source.push_str("}\n");
}

/// The natural type of an option in Python, and the conversion to the type of the generated module.
fn types(spec: &OptionSpec) -> (String, String) {
    let simple = |natural: &str, conversion: &str| (natural.to_owned(), conversion.to_owned());
    let pairs = |record: &str, fields: [&str; 2], value: &str| {
        let conversion = format!("pairs(_native.{record}, \"{}\", \"{}\")", fields[0], fields[1]);
        (format!("Mapping[str, {value}] | Iterable[_native.{record}]"), conversion)
    };
    if let ValueKind::Choice(words) = spec.kind
        && spec.type_name != "String"
    {
        let words: Vec<String> = words.iter().map(|word| format!("\"{}\"", word.text)).collect();
        let natural = format!("_native.{} | Literal[{}]", spec.type_name, words.join(", "));
        return (natural, format!("choice(_native.{})", spec.type_name));
    }
    match (spec.type_name, spec.arity == Arity::One) {
        ("String", true) => simple("str", "plain"),
        ("String", false) => simple("Iterable[str]", "texts"),
        ("PathBuf", true) => simple("str | os.PathLike[str]", "path"),
        ("bool", true) => simple("bool", "plain"),
        ("f64", true) => simple("float", "plain"),
        ("u16", true) => simple("int", "plain"),
        ("Duration", true) => simple("timedelta | float", "duration"),
        ("Secret", true) => simple("Secret | str", "plain"),
        ("Attributes", true) => simple("Mapping[str, str] | _native.Attributes", "attributes"),
        ("PermissionProfile", true) => {
            simple("str | os.PathLike[str] | _native.PermissionProfile", "profile")
        }
        ("KeyValue", false) => pairs("KeyValue", ["key", "value"], "str"),
        ("EnvVar", false) => pairs("EnvVar", ["name", "value"], "str"),
        ("HeaderSecret", false) => pairs("HeaderSecret", ["name", "secret"], "str"),
        ("SecretRef", false) => pairs("SecretRef", ["name", "target"], "str"),
        ("Header", false) => pairs("Header", ["name", "value"], "Secret | str"),
        (record @ ("PublishSpec" | "VolumeSpec"), false) => {
            simple(&format!("Iterable[_native.{record}]"), "records")
        }
        (other, _) => panic!("the option `{}` has the type {other}, which Python has no form of", spec.name),
    }
}
