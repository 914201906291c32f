//! Checks that every operation and every option exists in every language, and that a tested program calls each C
//! function.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use mcpm::options::{OptionSet as _, OptionSpec, ProxyOptions, WorkloadOptions};

/// An operation in Rust, in C, and in Python and Swift, where uniffi derives the name from the class and the method.
struct Operation {
    rust: &'static str,
    c: &'static str,
    native: &'static str,
}

const fn operation(rust: &'static str, c: &'static str, native: &'static str) -> Operation {
    Operation { rust, c, native }
}

const OPERATIONS: &[Operation] = &[
    operation("Workload::start", "mcpm_workload_start", "constructor_workload_start"),
    operation("RunningWorkload::name", "mcpm_workload_name", "method_workload_name"),
    operation("RunningWorkload::url", "mcpm_workload_url", "method_workload_url"),
    operation("RunningWorkload::status", "mcpm_workload_status", "method_workload_status"),
    operation("RunningWorkload::events", "mcpm_workload_on_event", "method_workload_events"),
    operation("RunningWorkload::connect_with", "mcpm_workload_connect", "method_workload_connect"),
    operation("RunningWorkload::wait", "mcpm_workload_wait", "method_workload_wait"),
    operation("RunningWorkload::stop", "mcpm_workload_stop", "method_workload_stop"),
    operation("Proxy::start", "mcpm_proxy_start", "constructor_proxy_start"),
    operation("RunningProxy::name", "mcpm_proxy_name", "method_proxy_name"),
    operation("RunningProxy::url", "mcpm_proxy_url", "method_proxy_url"),
    operation("RunningProxy::warnings", "mcpm_proxy_warning", "method_proxy_warnings"),
    operation("RunningProxy::status", "mcpm_proxy_status", "method_proxy_status"),
    operation("RunningProxy::check", "mcpm_proxy_check", "method_proxy_check"),
    operation("RunningProxy::explain", "mcpm_proxy_explain", "method_proxy_explain"),
    operation("RunningProxy::connect_with", "mcpm_proxy_connect", "method_proxy_connect"),
    operation("RunningProxy::stop", "mcpm_proxy_stop", "method_proxy_stop"),
    operation("Connection::poll_write", "mcpm_connection_send", "method_connection_send"),
    operation("Connection::poll_read", "mcpm_connection_receive", "method_connection_receive"),
    operation("Connection::poll_shutdown", "mcpm_connection_close", "method_connection_close"),
    operation("Workloads::list", "mcpm_workloads_list", "method_workloads_list"),
    operation("Workloads::info", "mcpm_workloads_info", "method_workloads_info"),
    operation("Workloads::start", "mcpm_workloads_start", "method_workloads_start"),
    operation("Workloads::stop", "mcpm_workloads_stop", "method_workloads_stop"),
    operation("Workloads::remove", "mcpm_workloads_remove", "method_workloads_remove"),
    operation("Workloads::logs", "mcpm_workloads_logs", "method_workloads_logs"),
    operation("Workloads::export", "mcpm_workloads_export_to", "method_workloads_export_to"),
    operation(
        "Workloads::accept_ignore_files",
        "mcpm_workloads_accept_ignore_files",
        "method_workloads_accept_ignore_files",
    ),
    operation("UserPrompt::ask_secret", "mcpm_user_prompt_ask_secret", "method_userprompt_ask_secret"),
    operation("UserPrompt::ask_text", "mcpm_user_prompt_ask_text", "method_userprompt_ask_text"),
    operation("UserPrompt::approve", "mcpm_user_prompt_approve", "method_userprompt_approve"),
    operation("UserPrompt::show_login", "mcpm_user_prompt_show_login", "method_userprompt_show_login"),
    operation("UserPrompt::ask_redirect", "mcpm_user_prompt_ask_redirect", "method_userprompt_ask_redirect"),
    operation("Error::kind", "mcpm_error_status", "method_mcpmerror_kind"),
    operation("explain", "mcpm_explain", "func_explain"),
    operation("end of the runtime", "mcpm_shutdown", "func_shutdown"),
    operation("version of the crate", "mcpm_version", "func_version"),
];

/// The parameters of a start besides options: a method of Rust's builders or of `Launch`, a function of C's builders,
/// and the keyword of a start in Python and in Swift.
struct StartParameter(&'static [&'static str], &'static [&'static str], &'static str, &'static str);

const START_PARAMETERS: &[StartParameter] = &[
    StartParameter(
        &["WorkloadBuilder::in_process_only", "ProxyBuilder::in_process_only", "Launch::in_process_only"],
        &["mcpm_workload_builder_in_process_only", "mcpm_proxy_builder_in_process_only"],
        "in_process_only",
        "inProcessOnly",
    ),
    // In Rust, the environment contains the prompt.
    StartParameter(
        &["WorkloadBuilder::environment", "ProxyBuilder::environment"],
        &["mcpm_workload_builder_user_prompt", "mcpm_proxy_builder_user_prompt"],
        "prompt",
        "prompt",
    ),
    StartParameter(
        &["Workload::events", "Launch::events"],
        &["mcpm_workload_builder_on_event"],
        "on_event",
        "onEvent",
    ),
];

/// Items that only Rust has, and why.
const ONLY_IN_RUST: &[(&str, &str)] = &[
    ("RunningWorkload::connect", "`connect_with` without options"),
    ("RunningWorkload::spec", "types of the library's internals"),
    ("RunningWorkload::logs", "`Workloads::logs` with its name"),
    ("RunningWorkload::detach", "the process of a program in another language ends its workloads"),
    ("RunningProxy::connect", "`connect_with` without options"),
    ("RunningProxy::address", "part of the URL"),
    ("RunningProxy::is_running", "part of the status"),
    ("RunningProxy::wait", "a proxy ends only when it is stopped"),
    ("Workloads::new", "other languages use the environment of the process"),
    ("Workloads::groups", "groups are managed by the command line"),
    ("Workloads::spec", "types of the library's internals"),
    ("Workloads::secrets", "part of the next start"),
    ("Workloads::stdio_bridge", "for programs that serve a workload on their standard input and output"),
    ("RunningWorkload::interrupt", "for the command line's supervisor"),
    ("Workloads::interrupted", "for services that start workloads with the machine"),
    ("Workloads::logs_with", "for the command line; `logs` in other languages"),
    ("Workloads::events", "for the command line; `RunningWorkload::events` has those of one's own workloads"),
    ("Workloads::watch", "for the command line; `list` in other languages"),
    ("Workloads::proxy_log", "a file of the command line's supervisor"),
    ("Workloads::stop_to_restart", "for the command line, which starts the workload again"),
    ("Workloads::mark_interrupted", "for services that start workloads with the machine"),
    ("Workloads::requested_grace", "for the command line's supervisor"),
    ("Workloads::tunnel_target", "tunnels are opened by the command line"),
    ("Workloads::clients", "configurations of clients are written by the command line"),
    ("Workloads::client_target", "configurations of clients are written by the command line"),
    ("Workloads::export_text", "`export` to a file"),
    ("Workloads::launch", "`Workloads::start`, whose parameters are those of `Launch`"),
    ("WorkloadBuilder::set", "`mcpm_workload_builder_set` in C; options are typed in Python and Swift"),
    ("WorkloadBuilder::build", "part of the start"),
    ("ProxyBuilder::set", "`mcpm_proxy_builder_set` in C; options are typed in Python and Swift"),
    ("ProxyBuilder::build", "part of the start"),
    ("Workload::builder", "a builder, a record or keywords collect the options"),
    ("Workload::options", "the program has collected them"),
    ("Workload::plan", "types of the library's internals"),
    ("Workload::resolve", "part of the start"),
    ("Workload::secrets", "part of the start"),
    ("Workload::with_prompted_secrets", "part of the start"),
    ("Workload::would_rename", "part of the start"),
    ("Proxy::builder", "a builder, a record or keywords collect the options"),
    ("Proxy::options", "the program has collected them"),
    ("Launch::new", "`Workloads::start` for recorded workloads"),
    ("Launch::recorded", "`Workloads::start`"),
    ("Launch::secrets", "the start reads them"),
    ("Launch::restarts", "for the command line, whose supervisor restarts servers"),
    ("Launch::ephemeral", "for the command line's workloads in the foreground"),
    ("Launch::start", "`Workload::start` and `Workloads::start`"),
    ("Launch::log_in", "for processes that cannot ask the user"),
    ("Launch::renew_login", "`mcpm login`"),
    ("Launch::log_out", "`mcpm logout`"),
    ("Workloads::images_in_use", "for programs that manage an image store, which only Rust programs can"),
];

/// Types with asynchronous functions that only Rust has, and why. The type without a name has the functions of modules.
const TYPES_ONLY_IN_RUST: &[(&str, &str)] = &[
    ("", "parts of a start, and `mcpm doctor`"),
    ("CredentialStore", "part of a pull"),
    ("Docker", "part of a start"),
    ("EventStream", "the events of a workload, which other languages fetch or get by callbacks"),
    ("ImageStore", "images are managed by the command line"),
    ("McpClient", "programs in other languages have the MCP client of their language"),
    ("ProcessId", "for the command line's supervisor"),
    ("ProviderConfig", "tunnels are opened by the command line"),
    ("Registry", "registries are searched by the command line"),
    ("RunningStdioProxy", "a stdio server is a workload in other languages"),
    ("Secrets", "secrets are stored by the command line"),
    ("StdioBridge", "for programs that serve a workload on their standard input and output"),
    ("StdioProxy", "a stdio server is a workload in other languages"),
    ("Tunnel", "tunnels are opened by the command line"),
];

/// Items that only Python and Swift have, because their programs fetch events instead of receiving callbacks.
const PULLED: &[&str] =
    &["constructor_events_new", "method_events_next", "method_logreader_next", "constructor_workloads_new"];

fn read(path: &str) -> String {
    fs::read_to_string(mcpm_tests::root().join(path)).unwrap()
}

/// The functions of each type of the library, and whether one of them is asynchronous. Functions that are not methods
/// belong to the type with an empty name.
fn functions_by_type() -> BTreeMap<String, (bool, BTreeSet<String>)> {
    let (mut types, mut is_of_trait) = (BTreeMap::<String, (bool, BTreeSet<String>)>::new(), false);
    for line in read("mcpm/api.txt").lines() {
        if line.starts_with("impl") {
            is_of_trait = line.contains(" for ");
        } else if let Some((qualifiers, rest)) = line.split_once("fn ")
            && qualifiers.starts_with("pub ")
            && !is_of_trait
        {
            let path = rest.split(['(', '<']).next().unwrap();
            let (kind, name) = path.rsplit_once("::").unwrap();
            let kind = kind.rsplit("::").next().unwrap();
            let kind = if kind.starts_with(char::is_uppercase) { kind } else { "" };
            let (is_async, names) = types.entry(kind.to_owned()).or_default();
            *is_async |= qualifiers.contains("async ");
            names.insert(name.to_owned());
        }
    }
    types
}

#[test]
fn every_operation_of_rust_is_in_every_language() {
    let known: BTreeSet<&str> = OPERATIONS
        .iter()
        .map(|row| row.rust)
        .chain(START_PARAMETERS.iter().flat_map(|row| row.0).copied())
        .chain(ONLY_IN_RUST.iter().map(|row| row.0))
        .collect();
    let is_option = |name: &str| {
        [WorkloadOptions::SPECS, ProxyOptions::SPECS].concat().iter().any(|option| option.name == name)
    };
    let types = functions_by_type();
    for (kind, _) in TYPES_ONLY_IN_RUST {
        assert!(types.contains_key(*kind), "`{kind}` has no functions");
    }
    for (kind, (is_async, names)) in types {
        let is_checked = is_async || ["WorkloadBuilder", "ProxyBuilder"].contains(&kind.as_str());
        if !is_checked || TYPES_ONLY_IN_RUST.iter().any(|(only, _)| *only == kind) {
            continue;
        }
        let is_known = |name: &str| {
            known.contains(format!("{kind}::{name}").as_str()) || kind.ends_with("Builder") && is_option(name)
        };
        let missing: Vec<_> = names.into_iter().filter(|name| !is_known(name)).collect();
        assert!(
            missing.is_empty(),
            "{missing:?} of `{kind}`: add them to the bindings and to the tables here"
        );
    }
}

#[test]
fn every_operation_of_python_and_swift_is_in_the_table() {
    let header = read("bindings/swift/Sources/mcpmFFI/mcpmFFI.h");
    let prefix = "uniffi_mcpm_ffi_fn_";
    let exported: BTreeSet<&str> = header
        .match_indices(prefix)
        .map(|(at, _)| header[at + prefix.len()..].split('(').next().unwrap())
        .filter(|name| ["constructor_", "func_", "method_"].iter().any(|kind| name.starts_with(kind)))
        .filter(|name| !name.contains("_uniffi_trait_"))
        .collect();
    let known = OPERATIONS.iter().map(|row| row.native).chain(PULLED.iter().copied()).collect();
    assert_eq!(exported, known);
}

/// The classes whose methods `mcpm.sync` has, too, and which a file of the Swift package wraps.
const CLASSES: [&str; 4] = ["Workload", "Proxy", "Connection", "Workloads"];

impl Operation {
    /// The class and the function in Python; a function of the module has no class.
    fn python(&self) -> (Option<&'static str>, &'static str) {
        let (kind, name) = self.native.split_once('_').unwrap();
        if kind == "func" {
            return (None, name);
        }
        let (class, name) = name.split_once('_').unwrap();
        let classes = CLASSES.into_iter().chain(["UserPrompt", "McpmError"]);
        let class = classes.into_iter().find(|known| known.to_lowercase() == class).unwrap();
        // Python names the argument.
        (Some(class), if name == "export_to" { "export" } else { name })
    }

    /// The file of the Swift package that contains the operation, and the name that it calls or exports.
    fn swift(&self) -> (&'static str, String) {
        // The name after the kind and the class.
        let name = camel_case(self.native.splitn(3, '_').last().unwrap());
        match self.python() {
            (None, name) => ("Process", format!("McpmGenerated.{name}(")),
            (Some(class), _) if !CLASSES.contains(&class) => ("Exports", format!(" McpmGenerated.{class}\n")),
            (Some(class), "start") if class != "Workloads" => {
                (class, format!("McpmGenerated.{class}.start("))
            }
            (Some(class), _) => (class, format!("core.{name}(")),
        }
    }
}

/// Converts a name to Swift's form.
fn camel_case(name: &str) -> String {
    let words = name.split('_').enumerate();
    words
        .map(|(place, word)| if place == 0 { word.to_owned() } else { word[..1].to_uppercase() + &word[1..] })
        .collect()
}

#[test]
fn every_operation_is_in_the_python_package() {
    let api = read("bindings/python/api.txt");
    let has = |name: &str| {
        let rest = |line: &'_ str| line.strip_prefix(name).map(str::to_owned);
        api.lines().filter_map(rest).any(|rest| rest.is_empty() || rest.starts_with('('))
    };
    for operation in OPERATIONS {
        match operation.python() {
            (None, name) => assert!(has(&format!("mcpm.{name}")), "Python has no `{name}`"),
            // The classes of errors have the members of `McpmError`.
            (Some("McpmError"), name) => assert!(has(&format!("mcpm.InternalError.{name}"))),
            (Some(class), name) => {
                assert!(has(&format!("mcpm.{class}.{name}")), "`mcpm.{class}` has no `{name}`");
                let is_sync = has(&format!("mcpm.sync.{class}.{name}"));
                assert!(is_sync || !CLASSES.contains(&class), "`mcpm.sync.{class}` has no `{name}`");
            }
        }
    }
    for StartParameter(rust, _, keyword, _) in START_PARAMETERS {
        for class in starts_with_parameter(rust) {
            for module in ["mcpm", "mcpm.sync"] {
                let start = format!("{module}.{class}.start(");
                let line = api.lines().find(|line| line.starts_with(&start)).unwrap();
                assert!(line.contains(&format!(" {keyword}: ")), "`{keyword}` is missing in {line}");
            }
        }
    }
}

#[test]
fn every_operation_is_in_the_swift_package() {
    let source = |name: &str| read(&format!("bindings/swift/Sources/Mcpm/{name}.swift"));
    for operation in OPERATIONS {
        let (file, used) = operation.swift();
        assert!(source(file).contains(&used), "{file}.swift does not use `{used}`");
    }
    for StartParameter(rust, _, _, label) in START_PARAMETERS {
        for class in starts_with_parameter(rust) {
            let source = source(class);
            let heads = source.split("func start(").skip(1).map(|rest| rest.split(" async ").next().unwrap());
            // The first argument of functions that programs call has no label.
            for head in heads.filter(|head| head.trim_start().starts_with('_')) {
                assert!(
                    head.contains(&format!("{label}: ")),
                    "`{label}` is missing in `{class}.start({head}`"
                );
            }
        }
    }
}

/// The classes whose starts in Python and Swift accept the values that these methods of Rust set.
fn starts_with_parameter(rust: &[&str]) -> Vec<&'static str> {
    let starts = [
        ("Workload::", "Workload"),
        ("WorkloadBuilder::", "Workload"),
        ("WorkloadBuilder::", "Workloads"),
        ("Launch::", "Workloads"),
        ("ProxyBuilder::", "Proxy"),
    ];
    let taken = starts.iter().filter(|(kind, _)| rust.iter().any(|name| name.starts_with(kind)));
    taken.map(|(_, class)| *class).collect()
}

#[test]
fn every_operation_of_c_is_in_the_table() {
    let symbols = read("bindings/c/mcpm.symbols");
    // The other functions return or free results of operations.
    let helpers = [
        "mcpm_error_",
        "mcpm_explanation_",
        "mcpm_login_prompt_",
        "mcpm_operation_",
        "mcpm_prompt_answer_",
        "mcpm_record_",
        "mcpm_string_",
    ];
    let is_operation = |name: &&str| {
        let name = name.strip_suffix("_async").unwrap_or(name);
        OPERATIONS.iter().any(|row| row.c == name) || START_PARAMETERS.iter().any(|row| row.1.contains(&name))
    };
    let is_builder =
        |name: &&str| ["_builder_new", "_builder_set", "_prompt_new"].iter().any(|end| name.ends_with(end));
    let setters = setters();
    let missing: Vec<&str> = symbols
        .lines()
        .filter(|name| !helpers.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|name| !setters.contains(*name) && !name.ends_with("_free"))
        .filter(|name| !is_builder(name) && !is_operation(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}: add them to the table here");
    let expected =
        OPERATIONS.iter().map(|row| row.c).chain(START_PARAMETERS.iter().flat_map(|row| row.1).copied());
    for name in expected {
        assert!(symbols.lines().any(|symbol| symbol == name), "C has no `{name}`");
    }
}

/// The setters of options.
fn setters() -> BTreeSet<String> {
    let of = |kind: &str, specs: &[OptionSpec]| {
        specs.iter().map(|spec| format!("mcpm_{kind}_builder_{}", spec.name)).collect::<Vec<_>>()
    };
    of("workload", WorkloadOptions::SPECS).into_iter().chain(of("proxy", ProxyOptions::SPECS)).collect()
}

#[test]
fn every_function_of_c_is_called_in_a_tested_program() {
    let programs = ["tests/bindings", "tests/cases", "bindings/c/examples"].map(|folder| {
        let files = fs::read_dir(mcpm_tests::root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let sources = files.filter(|file| file.extension().is_some_and(|end| end == "c" || end == "h"));
        sources.map(|file| fs::read_to_string(file).unwrap()).collect::<String>()
    });
    let (programs, symbols, setters) = (programs.concat(), read("bindings/c/mcpm.symbols"), setters());
    let functions = symbols.lines().filter(|name| !setters.contains(*name));
    let uncalled: Vec<&str> = functions.filter(|name| !programs.contains(&format!("{name}("))).collect();
    assert!(uncalled.is_empty(), "{uncalled:?}: call them in tests/bindings/*.c");
}

#[test]
fn every_option_is_in_every_language() {
    let symbols = read("bindings/c/mcpm.symbols");
    let python = read("bindings/python/src/mcpm/_native/mcpm.py");
    let swift = crate::generated_swift();
    let kinds: [(&str, &str, &[OptionSpec]); 2] = [
        ("workload", "WorkloadOptions", WorkloadOptions::SPECS),
        ("proxy", "ProxyOptions", ProxyOptions::SPECS),
    ];
    for (kind, record, specs) in kinds {
        let fields = between(&python, &format!("\nclass {record}:\n"), "\nclass ");
        let properties = between(&swift, &format!("\npublic struct {record}: "), "\n}\n");
        for spec in specs {
            let name = spec.name;
            let setter = format!("mcpm_{kind}_builder_{name}");
            assert!(symbols.lines().any(|symbol| symbol == setter), "C has no `{setter}`");
            let field = format!("self.{name} = {name}");
            assert!(
                fields.lines().any(|line| line.trim_start() == field),
                "{record} of Python has no `{name}`"
            );
            let camel = camel_case(name);
            let property = format!("public var {camel}:");
            assert!(properties.contains(&property), "{record} of Swift has no `{camel}`");
        }
    }
}

/// The text between two other texts.
fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(begin).unwrap();
    rest.split_once(end).map_or(rest, |(found, _)| found)
}
