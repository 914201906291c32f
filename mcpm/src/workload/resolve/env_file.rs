//! Parses environment files with `KEY=VALUE` lines.
//!
//! Empty lines, lines that begin with `#`, and a leading `export ` are ignored. A value extends to the end of the
//! line, without surrounding blanks. In double quotes, `\n`, `\t`, `\r`, `\"`, `\\` and `\$` are escapes; single quotes
//! have no escapes. Variables are not expanded. Any other line is an error.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, ErrorKind, Result, config_file::read_error_kind};

/// Reads one file.
///
/// # Errors
/// `NotFound` or `Io` when it cannot be read, `InvalidOption` with the number of an invalid line. Values are never
/// shown.
pub(in crate::workload) fn read(path: &Path) -> Result<BTreeMap<String, String>> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, error))?;
    parse(&text).map_err(|(line, reason)| {
        let message = format!("line {line} of `{}` is not `KEY=VALUE`: {reason}", path.display());
        Error::new(ErrorKind::InvalidOption, message)
    })
}

/// Reads every file of a folder in the order of their names, except subfolders and names that begin with a dot.
///
/// # Errors
/// As for one file, and for a folder that cannot be read.
pub(in crate::workload) fn read_folder(folder: &Path) -> Result<BTreeMap<String, String>> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, error))?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && path.is_file() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut all = BTreeMap::new();
    for path in paths {
        all.extend(read(&path)?);
    }
    Ok(all)
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::new(read_error_kind(&error), format!("cannot read `{}`", path.display())).source(error)
}

/// Parses the text of a file; an error has the number of the line.
pub(in crate::workload) fn parse(text: &str) -> Result<BTreeMap<String, String>, (usize, &'static str)> {
    let mut all = BTreeMap::new();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let fail = |reason| (index + 1, reason);
        if line.contains('\0') {
            return Err(fail("it contains a NUL byte, which a variable cannot contain"));
        }
        let (key, value) = line.split_once('=').ok_or_else(|| fail("it has no `=`"))?;
        let key = key.trim_end();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(fail("the name is empty or contains whitespace"));
        }
        all.insert(key.to_owned(), unquote(value.trim()).map_err(fail)?);
    }
    Ok(all)
}

fn unquote(value: &str) -> Result<String, &'static str> {
    match value.chars().next() {
        Some('\'') => {
            let inner = value[1..].strip_suffix('\'').filter(|inner| !inner.contains('\''));
            inner
                .map(str::to_owned)
                .ok_or("a value that begins with `'` must end with `'` and contain no other `'`")
        }
        Some('"') => {
            let mut out = String::new();
            let mut chars = value[1..].chars();
            loop {
                match chars.next().ok_or("its quotes are not closed")? {
                    '"' if chars.as_str().is_empty() => return Ok(out),
                    '"' => return Err("there is text after the closing quotes"),
                    '\\' => out.push(match chars.next().ok_or("it ends with a backslash")? {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        same @ ('"' | '\\' | '$') => same,
                        _ => return Err("it has an unknown escape"),
                    }),
                    other => out.push(other),
                }
            }
        }
        _ => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_read_as_written() {
        let text = "\u{feff}# comment\r\n\nA=1\r\nexport B = two words \nC='a\\n$x'\nD=\"a\\n\\\"$x\\\"\"\nE=\nF=a=b#c\nA=2";
        let read = parse(text).expect("assignments");
        let expected =
            [("A", "2"), ("B", "two words"), ("C", "a\\n$x"), ("D", "a\n\"$x\""), ("E", ""), ("F", "a=b#c")];
        let expected: BTreeMap<_, _> = expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(read, expected);
    }

    #[test]
    fn other_lines_are_errors_with_their_number() {
        for (text, line) in [
            ("A", 1),
            ("A=1\n=2", 2),
            ("A B=1", 1),
            ("A=\"x", 1),
            ("A='x'y", 1),
            ("A=\"x\"y", 1),
            ("A=\"\\q\"", 1),
            ("A\0=x", 1),
            ("#\0\nA=x\0y", 2),
        ] {
            assert_eq!(parse(text).expect_err(text).0, line, "{text}");
        }
    }
}
