//! Compares the public API of the Swift package with the snapshot in the repository.
//!
//! The API consists of the public declarations of the module `Mcpm` and of the generated types that it exports.

use std::{collections::BTreeSet, env, fs, iter::Peekable, path::PathBuf, str::Chars};

/// The kinds of declarations. Those that can have members are first.
const KINDS: [&str; 14] = [
    "actor",
    "class",
    "struct",
    "enum",
    "protocol",
    "extension",
    "case",
    "var",
    "let",
    "func",
    "init",
    "subscript",
    "typealias",
    "associatedtype",
];
const TYPES: usize = 6;

/// The place of a declaration.
#[derive(Clone, Copy)]
struct Container<'a> {
    /// The names of the enclosing types, separated by dots.
    name: &'a str,
    /// Whether its members are public without a modifier, and whether that holds for cases only.
    public_members: bool,
    public_cases: bool,
}

/// Reads the declarations of a file or the members of a type, up to the closing brace.
fn read_members(code: &mut Peekable<Chars<'_>>, container: Container<'_>, found: &mut BTreeSet<String>) {
    let mut head = String::new();
    let mut depth = 0;
    while let Some(letter) = code.next() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '{' if depth == 0 => {
                read_declaration(&std::mem::take(&mut head), Some(code), container, found);
                continue;
            }
            '}' if depth == 0 => break,
            '\n' if depth == 0 && !goes_on(&head, code) => {
                read_declaration(&std::mem::take(&mut head), None, container, found);
                continue;
            }
            _ => {}
        }
        head.push(letter);
    }
}

/// Returns whether a declaration continues after the end of a line.
fn goes_on(head: &str, code: &Peekable<Chars<'_>>) -> bool {
    let head = head.trim();
    let is_begun = head == "public" || (head.starts_with('@') && !head.contains(' '));
    let next: String = code.clone().skip_while(|letter| letter.is_whitespace()).take(6).collect();
    is_begun || ["async", "throws", "->", "where", "{"].iter().any(|word| next.starts_with(word))
}

/// Reads one declaration, and its body if there is one.
fn read_declaration(
    head: &str,
    body: Option<&mut Peekable<Chars<'_>>>,
    container: Container<'_>,
    found: &mut BTreeSet<String>,
) {
    let head = head.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(" )", ")");
    let words: Vec<&str> = head.split([' ', '(', ':', '<', '?']).collect();
    let kind = words.iter().position(|word| KINDS.contains(word));
    let mut members = Container { name: "", public_members: false, public_cases: false };
    let mut name = container.name.to_owned();
    if let Some(kind) = kind {
        let says = |word: &str| words[..kind].contains(&word);
        let is_public = says("public") || says("open");
        let is_private = says("private") || says("fileprivate") || says("internal");
        let by_container = container.public_members || (container.public_cases && words[kind] == "case");
        let is_api = (is_public || by_container) && !is_private;
        let shown = head.replacen("public ", "", 1);
        if is_api && words[kind] != "extension" {
            let place = if name.is_empty() { String::new() } else { format!("{name}: ") };
            found.insert(format!("{place}{shown}"));
        }
        if KINDS[..TYPES].contains(&words[kind]) {
            let dot = if name.is_empty() { "" } else { "." };
            name = format!("{name}{dot}{}", words[kind + 1]);
            members.public_members = is_api && matches!(words[kind], "protocol" | "extension");
            members.public_cases = is_api && words[kind] == "enum";
        } else {
            name.clear();
        }
    }
    let Some(code) = body else { return };
    match name.is_empty() || kind.is_none() {
        // Declarations inside the body of a function or a property are not part of the API.
        true => read_members(code, members, &mut BTreeSet::new()),
        false => read_members(code, Container { name: &name, ..members }, found),
    }
}

/// Removes comments, directives, and the contents of strings, whose braces have no meaning.
fn without_comments(source: &str) -> String {
    let mut code = String::new();
    for line in source.lines().map(|line| line.split(" // ").next().unwrap()) {
        let trimmed = line.trim();
        if !trimmed.starts_with("//") && !trimmed.starts_with('#') {
            let is_comment = trimmed.starts_with(['*', '/']);
            let parts = line.split('"').step_by(if is_comment { 1 } else { 2 });
            code += &parts.collect::<Vec<_>>().join("\"\"");
            code.push('\n');
        }
    }
    while let Some((before, (_, after))) =
        code.split_once("/*").and_then(|(before, rest)| Some((before, rest.split_once("*/")?)))
    {
        code = format!("{before}{after}");
    }
    code
}

fn sources(module: &str) -> Vec<String> {
    let folder = mcpm_tests::root().join("bindings/swift/Sources").join(module);
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

/// The public declarations of a module.
fn declarations(sources: &[String]) -> BTreeSet<String> {
    let file = Container { name: "", public_members: false, public_cases: false };
    let mut found = BTreeSet::new();
    for source in sources {
        read_members(&mut without_comments(source).chars().peekable(), file, &mut found);
    }
    found
}

/// The API with one declaration per line; the lines of members begin with the type.
fn api(own: &[String], generated: &[String]) -> String {
    let (mut lines, generated) = (declarations(own), declarations(generated));
    let exports = own.iter().flat_map(|source| source.lines());
    for export in exports.filter_map(|line| line.strip_prefix("@_exported import ")) {
        let (kind, name) = export.split_once(" McpmGenerated.").unwrap();
        let declared = generated.iter().filter(|line| {
            let words: Vec<&str> = line.split([':', ' ', '<']).collect();
            let at = words.iter().position(|word| *word == kind);
            at.is_some_and(|at| words.get(at + 1) == Some(&name) && !line.contains(": static"))
        });
        let declared: Vec<&String> = declared.collect();
        assert!(!declared.is_empty(), "no declaration of `{export}` was found");
        lines.extend(declared.into_iter().cloned());
        // Its members, and those of its nested types.
        let of_type =
            |line: &&String| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([':', '.']));
        lines.extend(generated.iter().filter(of_type).cloned());
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

#[test]
fn the_swift_api_is_the_kept_one() {
    let api = api(&sources("Mcpm"), &sources("McpmGenerated"));
    let path = mcpm_tests::root().join("bindings/swift/api.txt");
    if env::var_os("MCPM_UPDATE").is_some() {
        return fs::write(path, api).unwrap();
    }
    let kept = fs::read_to_string(path).unwrap();
    let [kept, api] = [&kept, &api].map(|api| api.lines().collect::<BTreeSet<_>>());
    let (removed, added): (Vec<_>, Vec<_>) =
        (kept.difference(&api).collect(), api.difference(&kept).collect());
    assert!(
        removed.is_empty() && added.is_empty(),
        "other than in `bindings/swift/api.txt`, which MCPM_UPDATE=1 rewrites:\nremoved: {removed:#?}\nadded: {added:#?}"
    );
}

#[test]
fn nested_types_of_an_exported_type_are_part_of_the_api() {
    let own = "@_exported import enum McpmGenerated.Outer\n";
    let generated = "
        public enum Outer {
            case first
            public struct Inner {
                public var field: Int
                var hidden: Int
            }
        }
        public extension Outer.Inner {
            enum Kind {
                case one
            }
        }
        public struct Other {
            public struct Inner {}
        }
    ";
    let expected = [
        "Outer.Inner.Kind: case one",
        "Outer.Inner: enum Kind",
        "Outer.Inner: var field: Int",
        "Outer: case first",
        "Outer: struct Inner",
        "enum Outer",
    ];
    assert_eq!(api(&[own.to_owned()], &[generated.to_owned()]).lines().collect::<Vec<_>>(), expected);
}
