//! Holds the modules' dependencies against `docs/architecture.md`.

use std::{collections::BTreeSet, fs, path::Path};

/// What each module may use of the others. Errors, options and the environment are everybody's.
const ALLOWED: [(&str, &[&str]); 18] = [
    ("auth", &["explain", "isolation", "transport"]),
    ("explain", &["journal", "redact", "state"]),
    ("journal", &[]),
    ("redact", &[]),
    ("name", &[]),
    ("mcp", &[]),
    ("image", &["docker_config", "runtime", "transport"]),
    ("runtime", &["docker_config", "image"]),
    ("package", &["image", "runtime"]),
    ("transport", &["mcp", "runtime"]),
    ("state", &["name"]),
    ("secrets", &["interaction", "state"]),
    ("proxy", &["auth", "explain", "mcp", "policy", "state", "transport"]),
    ("permission", &[]),
    ("policy", &["mcp"]),
    ("isolation", &["explain", "permission", "state", "transport"]),
    ("registry", &["image", "state", "transport"]),
    (
        "workload",
        &[
            "auth",
            "explain",
            "image",
            "interaction",
            "isolation",
            "name",
            "package",
            "permission",
            "policy",
            "proxy",
            "registry",
            "runtime",
            "secrets",
            "state",
            "transport",
        ],
    ),
];
/// Inside `mcp/`: each may use those before it.
const MCP: [&str; 10] =
    ["fields", "message", "outlet", "peek", "sse", "era", "handshake", "session", "lane", "router"];

/// The first names in `use root::a` and `use root::{a, b::c}`, which rustfmt writes in one way only.
fn used(text: &str, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut inside = false;
    let first = |part: &str| part.split([':', ',', ';', '}', ' ']).next().unwrap_or_default().to_owned();
    for line in text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")) {
        if let Some(rest) = line.trim_start_matches("pub(crate) ").strip_prefix(&format!("use {root}::")) {
            match rest.strip_prefix('{') {
                Some("") => inside = true,
                Some(list) => {
                    let mut depth = 0;
                    for part in list.split_inclusive(['{', ',', '}']) {
                        if depth == 0 {
                            found.insert(first(part.trim_start()));
                        }
                        depth += i32::from(part.ends_with('{')) - i32::from(part.ends_with('}'));
                    }
                }
                None => drop(found.insert(first(rest))),
            }
        } else if inside {
            match line.strip_prefix("    ") {
                Some(part) if part.starts_with(char::is_alphabetic) => {
                    // A line holds one tree, or several plain names.
                    let names = if part.contains("::") { vec![part] } else { part.split(", ").collect() };
                    found.extend(names.into_iter().map(first));
                }
                Some(_) => {}
                None => inside = false,
            }
        }
    }
    found
}

fn sources(path: &Path, take: &mut impl FnMut(&str)) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            sources(&entry.expect("an entry").path(), take);
        }
    } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("_tests.rs") {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with("_tests") {
            take(&fs::read_to_string(path).expect("a source"));
        }
    }
}

fn module(root: &Path, name: &str) -> std::path::PathBuf {
    let folder = root.join(name);
    if folder.is_dir() { folder } else { root.join(format!("{name}.rs")) }
}

#[test]
fn modules_use_what_the_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let modules: BTreeSet<&str> =
        ALLOWED.iter().flat_map(|(name, uses)| [*name].into_iter().chain(uses.iter().copied())).collect();
    let mut seen = 0;
    for (name, allowed) in ALLOWED {
        sources(&module(&root, name), &mut |text| {
            for used in used(text, "crate") {
                seen += 1;
                let other = modules.contains(used.as_str()) && used != name;
                assert!(!other || allowed.contains(&used.as_str()), "`{name}` uses `{used}`");
            }
        });
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn nothing_in_mcp_is_circular() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mcp");
    let mut seen = 0;
    for (place, name) in MCP.iter().enumerate() {
        let folder = module(&root, name);
        let roots: &[&str] = if folder.is_dir() { &["crate::mcp"] } else { &["super", "crate::mcp"] };
        sources(&folder, &mut |text| {
            let text = text
                .replace("use crate::{\n    mcp::{", "use crate::mcp::{\n    {")
                .replace("\n        ", "\n    ");
            for used in roots.iter().flat_map(|root| used(&text, root)) {
                let other = MCP.iter().position(|other| *other == used);
                seen += usize::from(other.is_some());
                assert!(other.is_none_or(|other| other <= place), "`{name}` uses `{used}`");
            }
        });
    }
    assert!(seen > 10, "{seen}");
}
