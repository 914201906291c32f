//! Compares the dependencies between modules and files with `docs/architecture.md`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::testing::each_source;

const PAGE: &str = include_str!("../../docs/architecture.md");

/// Modules that every module may use.
const SHARED_MODULES: [&str; 15] = [
    "blocking",
    "config_file",
    "environment",
    "error",
    "features",
    "fnv1a",
    "memory",
    "options",
    "platform",
    "printable",
    "random",
    "rate_limit",
    "redact",
    "similar",
    "timers",
];

/// The path of a module or an item from the crate's root, such as `["stdio", "mux"]`.
type ItemPath = Vec<String>;

/// The references of one source file to other modules.
#[derive(Default)]
struct Source {
    /// Its path below `src/`.
    file: String,
    /// All paths to items of this crate, in `use` declarations and elsewhere.
    paths: Vec<ItemPath>,
    /// Names that it declares or exports with `use`, and where they are from.
    imports: BTreeMap<String, ItemPath>,
}

/// The source files of the library by module, without tests.
struct Sources(BTreeMap<ItemPath, Source>);

impl Sources {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut texts = BTreeMap::new();
        each_source(&root, &mut |path, text| {
            let file = path.strip_prefix(&root).expect("a file below `src/`").to_string_lossy().into_owned();
            let mut module: ItemPath = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            if ["mod", "lib"].contains(&module.last().expect("a name").as_str()) {
                module.pop();
            }
            if !file.ends_with("tests.rs") {
                texts.insert(module, (file, text.to_owned()));
            }
        });
        let modules: BTreeSet<ItemPath> = texts.keys().cloned().collect();
        let read = |(module, (file, text)): (ItemPath, (String, String))| {
            let source = Source::read(file, &text, &module, &modules);
            (module, source)
        };
        Self(texts.into_iter().map(read).collect())
    }

    /// The module that defines the item of a path; re-exports are followed.
    fn module_of(&self, path: &[String], depth: usize) -> ItemPath {
        let mut end = path.len();
        while !self.0.contains_key(&path[..end]) {
            end -= 1;
        }
        let imported = path.get(end).and_then(|name| self.0[&path[..end]].imports.get(name));
        match imported {
            Some(from) if depth < 8 => self.module_of(from, depth + 1),
            _ => path[..end].to_vec(),
        }
    }

    /// For each file, the files that it uses.
    fn dependencies(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let used = |source: &Source| {
            let modules = source.paths.iter().map(|path| self.module_of(path, 0));
            // The root only declares modules, and defines nothing itself.
            let used =
                modules.filter(|module| !module.is_empty()).map(|module| self.0[&module].file.as_str());
            used.filter(|file| *file != source.file).collect()
        };
        self.0.values().map(|source| (source.file.as_str(), used(source))).collect()
    }
}

impl Source {
    fn read(file: String, text: &str, module: &[String], modules: &BTreeSet<ItemPath>) -> Self {
        let mut source = Self { file, ..Self::default() };
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        // A path in a visibility, such as `pub(in path)`, is not a dependency.
        let code =
            lines.flat_map(|line| [line, "\n"]).collect::<String>().replace("pub(in crate::", "pub(in ");
        let mut rest = code.as_str();
        // The remaining text contains the paths outside of `use`.
        let mut other = String::new();
        while let Some(at) = rest.find("use ") {
            let before = &rest[..at];
            let is_declaration = before.rsplit('\n').next().is_some_and(|start| {
                let start = start.trim_start();
                start.is_empty() || start.starts_with("pub")
            });
            let end = rest[at..].find(';').map_or(rest.len(), |end| at + end);
            other.push_str(before);
            if is_declaration {
                let mut trees = Vec::new();
                flatten(&rest[at + 4..end], &[], &mut trees);
                for (path, name) in trees {
                    if let Some(path) = absolute(&path, module, modules) {
                        source.imports.insert(name, path.clone());
                        source.paths.push(path);
                    }
                }
                rest = &rest[end..];
            } else {
                rest = &rest[at + 4..];
            }
        }
        other.push_str(rest);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        for word in other.split(|c: char| !is_word(c) && c != ':' && c != '.') {
            let path: ItemPath = word.trim_matches(':').split("::").map(str::to_owned).collect();
            if path.len() > 1 && !path.iter().any(|part| part.is_empty() || part.contains([':', '.'])) {
                source.paths.extend(absolute(&path, module, modules));
            }
        }
        source
    }
}

/// The paths of a `use` tree, and the names that they give.
fn flatten(tree: &str, prefix: &[String], into: &mut Vec<(ItemPath, String)>) {
    let mut depth = 0;
    let parts = tree.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        let (head, inner) = part.split_once('{').map_or((part, None), |(head, inner)| (head, Some(inner)));
        let (head, alias) = head.split_once(" as ").map_or((head, None), |(head, alias)| (head, Some(alias)));
        let names =
            head.trim().trim_end_matches("::").split("::").filter(|name| !["", "self"].contains(name));
        let path: ItemPath = prefix.iter().cloned().chain(names.map(str::to_owned)).collect();
        match inner {
            Some(inner) => flatten(inner.strip_suffix('}').unwrap_or(inner), &path, into),
            None => {
                let name = alias.map(str::to_owned).or_else(|| path.last().cloned());
                into.push((path, name.unwrap_or_default()));
            }
        }
    }
}

/// A path from the crate's root, unless it leads out of the crate.
fn absolute(path: &[String], module: &[String], modules: &BTreeSet<ItemPath>) -> Option<ItemPath> {
    let (first, rest) = path.split_first()?;
    if first == "crate" {
        return Some(rest.to_vec());
    }
    let above = path.iter().take_while(|name| *name == "super").count();
    let base = &module[..module.len().checked_sub(above)?];
    let found: ItemPath = base.iter().chain(&path[above..]).cloned().collect();
    let is_child = || modules.contains(&found[..module.len() + 1]);
    (above > 0 || is_child()).then_some(found)
}

/// The files that one uses, and those that these use, and so on.
fn reachable<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &'a str) -> BTreeSet<&'a str> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(file) = next.pop() {
        next.extend(uses[file].iter().filter(|other| found.insert(**other)));
    }
    found
}

/// The top module that a file belongs to: a folder or a file of `src/`.
fn room(file: &str) -> &str {
    file.split(['/', '.']).next().unwrap_or_default()
}

/// The other modules that each module may use, as the page lists them: `module -> others   remark`.
fn allowed() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let mut all: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let list = PAGE.split("a test compares it with the code:").nth(1).expect("the list");
    let lines = list.split("```").nth(1).unwrap_or_default().lines();
    for (name, others) in lines.filter_map(|line| line.split_once(" -> ")) {
        let others = others.split("  ").next().unwrap_or_default();
        all.entry(name.trim_end()).or_default().extend(others.split(", ").map(str::trim));
    }
    all
}

#[test]
fn modules_depend_only_on_those_that_the_page_lists() {
    let (sources, allowed) = (Sources::read(), allowed());
    let mut used: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut unlisted = Vec::new();
    for (file, others) in
        sources.dependencies().iter().filter(|(file, _)| !["lib", "fuzzing"].contains(&room(file)))
    {
        for other in others.iter().filter(|other| room(other) != room(file)) {
            used.entry(room(file)).or_default().insert(room(other));
            let is_listed = allowed.get(room(file)).is_some_and(|listed| listed.contains(room(other)));
            if !is_listed && !SHARED_MODULES.contains(&room(other)) {
                unlisted.push(format!("{file} -> {other}"));
            }
        }
    }
    assert!(unlisted.is_empty(), "not in docs/architecture.md:\n{}", unlisted.join("\n"));
    let stale = allowed.iter().flat_map(|(name, others)| others.iter().map(move |other| (name, other)));
    let stale: Vec<_> =
        stale.filter(|(name, other)| !used.get(*name).is_some_and(|used| used.contains(*other))).collect();
    assert!(stale.is_empty(), "in docs/architecture.md, but not in the code: {stale:?}");
}

#[test]
fn files_import_each_other_only_where_the_page_gives_a_reason() {
    let sources = Sources::read();
    let uses = sources.dependencies();
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|file| (*file, reachable(&uses, file))).collect();
    let circle = |file: &&str| -> BTreeSet<&str> {
        reachable[file].iter().copied().filter(|other| reachable[other].contains(file)).collect()
    };
    let circles: BTreeSet<BTreeSet<&str>> =
        uses.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    let rows = PAGE
        .split("### Circular imports")
        .nth(1)
        .expect("the section")
        .split("\n#")
        .next()
        .unwrap_or_default();
    let listed: Vec<Vec<&str>> = rows
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| row.split('|').next().unwrap_or_default().split('`').step_by(2).collect())
        .collect();
    let covers = |row: &Vec<&str>, circle: &BTreeSet<&str>| {
        circle
            .iter()
            .all(|file| row.iter().any(|part| part == file || part.ends_with('/') && file.starts_with(part)))
    };
    let unlisted: Vec<_> =
        circles.iter().filter(|circle| !listed.iter().any(|row| covers(row, circle))).collect();
    assert!(unlisted.is_empty(), "not in docs/architecture.md: {unlisted:#?}");
    let stale: Vec<_> =
        listed.iter().filter(|row| !circles.iter().any(|circle| covers(row, circle))).collect();
    assert!(stale.is_empty(), "in docs/architecture.md, but not in the code: {stale:?}");
}

#[test]
fn each_module_is_listed_in_the_architecture_page() {
    for file in Sources::read().0.values().map(|source| room(&source.file)).filter(|room| *room != "lib") {
        let lines = [format!("`mcpm/src/{file}/`"), format!("`mcpm/src/{file}.rs`")];
        assert!(lines.iter().any(|line| PAGE.contains(line)), "`{file}` is not in docs/architecture.md");
    }
}
