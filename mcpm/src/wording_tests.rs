//! Checks that the library's messages name settings by their fields, since only the command line has flags.

use std::path::Path;

use crate::{
    options::{OptionSet as _, ProxyOptions, WorkloadOptions},
    testing::each_source,
};

/// Help texts, which are the command line's too.
const HELP: &str = "options/table.rs";

/// The only file whose doc comments are shown to users.
const DOCUMENTED: &str = "explain/reason.rs";

/// Texts with flags or dashes, by their files.
static EXCEPTIONS: [(&str, &str); 5] = [
    // The first line of a file in PEM form.
    ("package/certificates.rs", "`-----BEGIN CERTIFICATE-----`"),
    // An argument of `uvx` in entries of clients.
    ("clients/import.rs", "\"--with\""),
    // Arguments of `docker run` in entries of the registry.
    ("registry/server_json.rs", "\"--env\""),
    ("registry/server_json.rs", "\"--volume\""),
    // A whole command line.
    ("workload/export_schema.rs", "`mcpm run --from-config`"),
];

/// Whether a line has dashes that open a quotation, or a flag of an option.
fn names_flag(line: &str, flags: &[String]) -> bool {
    let is_flag = |(at, dashes): (usize, &str)| {
        let rest = &line[at + dashes.len()..];
        let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '-').unwrap_or(rest.len());
        flags.iter().any(|flag| *flag == rest[..end])
    };
    line.contains("`--") || line.match_indices("--").any(is_flag)
}

#[test]
fn messages_name_settings_and_not_flags() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let specs = WorkloadOptions::SPECS.iter().chain(ProxyOptions::SPECS);
    let flags: Vec<String> = specs.map(|spec| spec.flag()).collect();
    let (mut named, mut excepted) = (Vec::new(), Vec::new());
    each_source(&root, &mut |path, text| {
        let file = path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned();
        if file == HELP {
            return;
        }
        for (line, number) in text.lines().zip(1..) {
            let is_comment = line.trim_start().starts_with("//") && file != DOCUMENTED;
            if is_comment || !names_flag(line, &flags) {
                continue;
            }
            match EXCEPTIONS.iter().find(|(place, said)| file == *place && line.contains(*said)) {
                Some(exception) => excepted.push(exception),
                None => named.push(format!("{file}:{number}: {}", line.trim())),
            }
        }
    });
    assert!(named.is_empty(), "settings are named by their fields:\n{}", named.join("\n"));
    for exception in &EXCEPTIONS {
        assert!(excepted.contains(&exception), "{exception:?} is not needed");
    }
}

#[test]
fn flags_are_found() {
    let flags = ["oidc-issuer".to_owned()];
    for (line, expected) in [
        ("\"needs `--x`\"", true),
        ("(\"--oidc-issuer\", &self.issuer)", true),
        ("\"needs --oidc-issuer.\"", true),
        ("\"needs --oidc-issuers\"", false),
        ("\"needs `oidc_issuer`\"", false),
        ("\"-----BEGIN\"", false),
    ] {
        assert_eq!(names_flag(line, &flags), expected, "{line}");
    }
}
