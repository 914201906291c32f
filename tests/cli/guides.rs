//! Checks the guides and the README: the program accepts their commands and files, their links lead somewhere, and
//! their code is part of tested programs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use url::Url;

use super::support::{Home, Program};

/// A fenced block, and its place.
struct Block {
    place: String,
    language: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let root = mcpm_tests::root();
    let guides = fs::read_dir(root.join("docs/guides")).unwrap().map(|entry| entry.unwrap().path());
    let packages =
        ["c", "python", "swift"].map(|folder| root.join("bindings").join(folder).join("README.md"));
    let files: Vec<PathBuf> = guides.chain(packages).chain([root.join("README.md")]).collect();
    let mut blocks = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let mut open: Option<Block> = None;
        for (number, line) in text.lines().enumerate() {
            match (line.strip_prefix("```"), &mut open) {
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(language), None) => {
                    let place = format!("{}:{}", file.strip_prefix(&root).unwrap().display(), number + 1);
                    open = Some(Block { place, language: language.to_owned(), text: String::new() });
                }
                (None, Some(block)) => block.text += &format!("{line}\n"),
                (None, None) => {}
            }
        }
    }
    blocks
}

/// The pages that are read, in the order of their paths.
fn pages() -> Vec<PathBuf> {
    let root = mcpm_tests::root();
    let folders = [
        "docs",
        "docs/guides",
        "docs/reference",
        "docs/decisions",
        "bindings",
        "bindings/c",
        "bindings/python",
        "bindings/swift",
    ];
    let files = folders.iter().flat_map(|folder| fs::read_dir(root.join(folder)).unwrap());
    let mut pages: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

/// The text of a page without blocks of code.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap();
    text.split("\n```").step_by(2).collect()
}

/// The anchors of a page, as repository hosts make them from headings.
fn anchors(page: &Path) -> Vec<String> {
    let headings = prose(page);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        text.chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

#[test]
fn each_link_of_the_pages_leads_somewhere() {
    let mut seen = 0;
    for page in pages() {
        let text = prose(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                let url =
                    Url::parse(link).unwrap_or_else(|error| panic!("{}: `{link}`: {error}", page.display()));
                let has_domain = url.domain().is_some_and(|domain| domain.contains('.'));
                let is_valid = url.scheme() == "https" && has_domain && url.as_str().starts_with(link);
                assert!(is_valid, "{}: `{link}` is not the HTTPS URL of a public host", page.display());
                continue;
            }
            seen += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            assert!(target.exists(), "{}: `{link}`", page.display());
            let found = anchor.is_empty() || anchors(&target).iter().any(|known| known == anchor);
            assert!(found, "{}: `{link}` names no heading", page.display());
        }
    }
    assert!(seen > 100, "only {seen} links were found");
}

/// The commands of `mcpm` in a block for a shell.
fn commands(block: &Block) -> Vec<String> {
    let joined = block.text.replace("\\\n", " ");
    let lines = joined.lines().filter_map(|line| match block.language.as_str() {
        "console" => line.strip_prefix("$ "),
        "sh" => Some(line),
        _ => None,
    });
    lines.filter(|line| line.starts_with("mcpm ")).map(str::to_owned).collect()
}

/// The words of a command, up to a pipe, a redirection or a comment.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '>' | '<' | '&' | ';') => break,
            (None, '#') if word.is_none() => break,
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn each_command_of_the_guides_is_one() {
    let mut seen = 0;
    for block in blocks() {
        for command in commands(&block) {
            seen += 1;
            let parsed = mcpm_cli::command().try_get_matches_from(words(&command));
            let shown = matches!(&parsed, Err(error) if !error.use_stderr());
            assert!(parsed.is_ok() || shown, "{}: {command}\n{}", block.place, parsed.unwrap_err());
        }
    }
    assert!(seen > 50, "only {seen} commands were found");
}

#[test]
fn each_file_of_the_guides_is_taken() {
    let home = Home::without_engine();
    let mut taken = Vec::new();
    for block in blocks() {
        let option = match block.language.as_str() {
            "yaml" | "json" if block.text.contains("cedar") => "--authz-config",
            "json" if block.text.contains("toolsOverride") => "--tools-override",
            "yaml" | "json" if block.text.contains("logFile") => "--audit-config",
            _ => continue,
        };
        let file = home.path(&format!("config.{}", block.language));
        fs::write(&file, block.text).unwrap();
        let mut run = home.mcpm(&["proxy", "p", "--target-uri", "http://127.0.0.1:1/mcp", option]);
        // Relative names in a file are relative to its folder.
        let mut proxy = Program::start(run.arg(&file).current_dir(home.path("")));
        assert!(proxy.read_line().starts_with("p  http://"), "{}", block.place);
        proxy.signal("TERM");
        let outcome = proxy.wait();
        // Nothing listens at the target, so the command prints a warning.
        let other = outcome.stderr.lines().filter(|line| !line.contains("cannot connect to the target"));
        let other: Vec<_> = other.collect();
        assert_eq!((outcome.code, other), (Some(0), Vec::new()), "{}", block.place);
        taken.push(option);
    }
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken, ["--audit-config", "--authz-config", "--tools-override"]);
}

#[test]
fn each_line_of_a_program_in_the_pages_is_one_of_a_tested_program() {
    let mut languages = Vec::new();
    for block in blocks() {
        let programs: &[&str] = match block.language.as_str() {
            "c" => &["bindings/c/examples/run.c", "bindings/c/examples/tools.c"],
            "python" => &[
                "bindings/python/examples/login.py",
                "bindings/python/examples/run.py",
                "bindings/python/examples/tools.py",
            ],
            // The README's block is a documentation test.
            "rust" if !block.place.starts_with("README") => &["mcpm/examples/dashboard.rs"],
            "swift" => &["bindings/swift/Examples/ListTools/main.swift"],
            _ => continue,
        };
        let sources = programs.iter().map(|path| fs::read_to_string(mcpm_tests::root().join(path)).unwrap());
        let has = |source: &str, line: &str| source.lines().any(|tested| tested.trim() == line);
        let lines: Vec<&str> = block.text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let found = sources.map(|source| lines.iter().find(|line| !has(&source, line)).copied());
        let missing: Vec<Option<&str>> = found.collect();
        assert!(missing.contains(&None), "{}: {missing:?}", block.place);
        languages.push(block.language);
    }
    languages.sort_unstable();
    languages.dedup();
    assert_eq!(languages, ["c", "python", "rust", "swift"]);
}
