//! Every operation and every option exists in every language.

use std::{collections::BTreeSet, fs};

use mcpm::options::{OptionSet as _, OptionSpec, ProxyOptions, WorkloadOptions};

/// An operation in Rust, in C, and in Python and Swift, whose name uniffi puts together.
struct Operation(&'static str, &'static str, &'static str);

const OPERATIONS: &[Operation] = &[
    Operation("Workload::start", "mcpm_workload_start", "constructor_workload_start"),
    Operation("RunningWorkload::name", "mcpm_workload_name", "method_workload_name"),
    Operation("RunningWorkload::url", "mcpm_workload_url", "method_workload_url"),
    Operation("RunningWorkload::status", "mcpm_workload_status", "method_workload_status"),
    Operation("RunningWorkload::events", "mcpm_workload_on_event", "method_workload_events"),
    Operation("RunningWorkload::connect_with", "mcpm_workload_connect", "method_workload_connect"),
    Operation("RunningWorkload::wait", "mcpm_workload_wait", "method_workload_wait"),
    Operation("RunningWorkload::stop", "mcpm_workload_stop", "method_workload_stop"),
    Operation("RunningWorkload::logs", "mcpm_workloads_logs", "method_workloads_logs"),
    Operation("Proxy::start", "mcpm_proxy_start", "constructor_proxy_start"),
    Operation("RunningProxy::name", "mcpm_proxy_name", "method_proxy_name"),
    Operation("RunningProxy::url", "mcpm_proxy_url", "method_proxy_url"),
    Operation("RunningProxy::warnings", "mcpm_proxy_warning", "method_proxy_warnings"),
    Operation("RunningProxy::status", "mcpm_proxy_status", "method_proxy_status"),
    Operation("RunningProxy::check", "mcpm_proxy_check", "method_proxy_check"),
    Operation("RunningProxy::explain", "mcpm_proxy_explain", "method_proxy_explain"),
    Operation("RunningProxy::connect_with", "mcpm_proxy_connect", "method_proxy_connect"),
    Operation("RunningProxy::stop", "mcpm_proxy_stop", "method_proxy_stop"),
    Operation("Connection::poll_write", "mcpm_connection_send", "method_connection_send"),
    Operation("Connection::poll_read", "mcpm_connection_receive", "method_connection_receive"),
    Operation("Connection::poll_shutdown", "mcpm_connection_close", "method_connection_close"),
    Operation("Workloads::list", "mcpm_workloads_list", "method_workloads_list"),
    Operation("Workloads::info", "mcpm_workloads_info", "method_workloads_info"),
    Operation("Workloads::start", "mcpm_workloads_start", "method_workloads_start"),
    Operation("Workloads::stop", "mcpm_workloads_stop", "method_workloads_stop"),
    Operation("Workloads::remove", "mcpm_workloads_remove", "method_workloads_remove"),
    Operation("Workloads::logs", "mcpm_workloads_logs", "method_workloads_logs"),
    Operation("Workloads::export", "mcpm_workloads_export_to", "method_workloads_export_to"),
    Operation(
        "Workloads::accept_ignore_files",
        "mcpm_workloads_accept_ignore_files",
        "method_workloads_accept_ignore_files",
    ),
    Operation("UserPrompt::ask_secret", "mcpm_user_prompt_ask_secret", "method_userprompt_ask_secret"),
    Operation("UserPrompt::ask_text", "mcpm_user_prompt_ask_text", "method_userprompt_ask_text"),
    Operation("UserPrompt::approve", "mcpm_user_prompt_approve", "method_userprompt_approve"),
    Operation("UserPrompt::show_login", "mcpm_user_prompt_show_login", "method_userprompt_show_login"),
    Operation("UserPrompt::ask_redirect", "mcpm_user_prompt_ask_redirect", "method_userprompt_ask_redirect"),
    Operation("Error::kind", "mcpm_error_status", "method_mcpmerror_kind"),
    Operation("explain", "mcpm_explain", "func_explain"),
    Operation("end of the runtime", "mcpm_shutdown", "func_shutdown"),
    Operation("version of the crate", "mcpm_version", "func_version"),
];

/// What only Rust has, and why.
const ONLY_IN_RUST: &[(&str, &str)] = &[
    ("RunningWorkload::connect", "`connect_with` without options"),
    ("RunningWorkload::spec", "types of the library's internals"),
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
    ("Workloads::tunnel_target", "tunnels are opened by the command line"),
    ("Workloads::log_path", "a file of the command line's supervisor"),
    ("Workloads::export_text", "`export` to a file"),
    ("Workloads::launch", "`Workloads::start`, whose parameters are those of `Launch`"),
];

/// What only Python and Swift have, because they pull.
const PULLED: &[&str] =
    &["constructor_events_new", "method_events_next", "method_logreader_next", "constructor_workloads_new"];

fn read(path: &str) -> String {
    fs::read_to_string(mcpm_tests::root().join(path)).unwrap()
}

/// The public functions of a type, which are indented once.
fn functions_of(kind: &str, path: &str) -> BTreeSet<String> {
    let source = read(path);
    let (_, body) = source.split_once(&format!("\nimpl {kind} {{\n")).unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let heads = body.lines().filter_map(|line| {
        let head = line.strip_prefix("    pub ")?;
        head.strip_prefix("async fn ").or_else(|| head.strip_prefix("fn "))
    });
    heads.map(|head| format!("{kind}::{}", head.split('(').next().unwrap())).collect()
}

#[test]
fn every_operation_of_rust_is_in_every_language() {
    let known: BTreeSet<&str> =
        OPERATIONS.iter().map(|row| row.0).chain(ONLY_IN_RUST.iter().map(|row| row.0)).collect();
    for (kind, path) in [
        ("RunningWorkload", "mcpm/src/workload/running.rs"),
        ("RunningProxy", "mcpm/src/proxy/running.rs"),
        ("RunningProxy", "mcpm/src/stdio_bridge/connection.rs"),
        ("Workloads", "mcpm/src/workload/manage.rs"),
    ] {
        let missing: Vec<_> =
            functions_of(kind, path).into_iter().filter(|name| !known.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?} of {path}: add them to the bindings and to the table here");
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
    let known = OPERATIONS.iter().map(|row| row.2).chain(PULLED.iter().copied()).collect();
    assert_eq!(exported, known);
}

#[test]
fn every_operation_of_c_is_in_the_table() {
    let symbols = read("bindings/c/mcpm.symbols");
    // Builders have the options; the others return or free what operations return.
    let helpers = [
        "mcpm_workload_builder_",
        "mcpm_proxy_builder_",
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
        OPERATIONS.iter().any(|row| row.1 == name)
    };
    let missing: Vec<&str> = symbols
        .lines()
        .filter(|name| !helpers.iter().any(|prefix| name.starts_with(prefix)))
        .filter(|name| !name.ends_with("_free") && !name.ends_with("_prompt_new") && !is_operation(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}: add them to the table here");
    for row in OPERATIONS {
        assert!(symbols.lines().any(|name| name == row.1), "C has no `{}`", row.1);
    }
}

#[test]
fn every_option_is_in_every_language() {
    let symbols = read("bindings/c/mcpm.symbols");
    let python = read("bindings/python/src/mcpm/_native/mcpm.py");
    let swift = crate::generated_swift();
    let kinds: [(&str, &[OptionSpec]); 2] =
        [("workload", WorkloadOptions::SPECS), ("proxy", ProxyOptions::SPECS)];
    for (kind, specs) in kinds {
        for spec in specs {
            let name = spec.name;
            let setter = format!("mcpm_{kind}_builder_{name}");
            assert!(symbols.lines().any(|symbol| symbol == setter), "C has no `{setter}`");
            let field = format!("self.{name} = {name}");
            assert!(python.lines().any(|line| line.trim_start() == field), "Python has no `{name}`");
            let camel: String = name
                .split('_')
                .enumerate()
                .map(|(place, word)| match place {
                    0 => word.to_owned(),
                    _ => word[..1].to_uppercase() + &word[1..],
                })
                .collect();
            assert!(swift.contains(&format!("public var {camel}:")), "Swift has no `{camel}`");
        }
    }
}
