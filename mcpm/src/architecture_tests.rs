//! Holds the modules' dependencies against `docs/architecture.md`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use crate::testing::each_source;

const PAGE: &str = include_str!("../../docs/architecture.md");

/// What any module may use.
const SHARED_MODULES: [&str; 8] =
    ["config_file", "environment", "error", "memory", "options", "rate_limit", "redact", "timers"];

/// What each module may use of the others, as the page says it: `module -> others   remark`.
fn allowed() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut all: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (name, others) in PAGE.lines().filter_map(|line| line.split_once(" -> ")) {
        if name.trim_end().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
            let others = others.split("  ").next().unwrap_or_default();
            all.entry(name.trim_end()).or_default().extend(others.split(", ").map(str::trim));
        }
    }
    all
}

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

/// The modules of the library, but for what holds them together.
fn modules(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root).expect("a folder").map(|entry| entry.expect("an entry").path());
    let names = entries.map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    names.filter(|name| !name.ends_with("_tests") && !["lib", "fuzzing"].contains(&name.as_str())).collect()
}

fn module(root: &Path, name: &str) -> std::path::PathBuf {
    let folder = root.join(name);
    if folder.is_dir() { folder } else { root.join(format!("{name}.rs")) }
}

#[test]
fn modules_use_what_the_architecture_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let allowed = allowed();
    let mut seen = 0;
    for name in modules(&root).into_iter().filter(|name| !SHARED_MODULES.contains(&name.as_str())) {
        let uses = allowed.get(name.as_str());
        each_source(&module(&root, &name), &mut |_, text| {
            for used in used(text, "crate").iter().filter(|used| module(&root, used).exists()) {
                seen += 1;
                let free = *used == name || SHARED_MODULES.contains(&used.as_str());
                let said = uses.is_some_and(|uses| uses.contains(used.as_str()));
                assert!(free || said, "`{name}` uses `{used}`");
            }
        });
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn each_module_is_listed_in_the_architecture_page() {
    for name in modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let lines = [format!("`mcpm/src/{name}/`"), format!("`mcpm/src/{name}.rs`")];
        assert!(lines.iter().any(|line| PAGE.contains(line)), "`{name}` is not in docs/architecture.md");
    }
}
