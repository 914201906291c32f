//! Writing results to standard output, as text or as JSON.

use std::io::{self, ErrorKind as IoErrorKind, IsTerminal as _, Write as _};

use clap::{Arg, ArgMatches, builder::PossibleValuesParser};
use mcpm::{Error, ErrorKind, Result};
use serde::Serialize;

const OUTPUT: &str = "output";
pub(crate) const TEXT: &str = "text";
pub(crate) const JSON: &str = "json";

/// The `--output` argument with its formats, of which the first is the default.
pub(crate) fn arg(forms: &'static [&'static str]) -> Arg {
    Arg::new(OUTPUT)
        .long(OUTPUT)
        .short('o')
        .value_name("FORM")
        .value_parser(PossibleValuesParser::new(forms))
        .default_value(forms.first().copied().unwrap_or(TEXT))
        .help("Output format")
}

/// The selected format.
pub(crate) fn format(matches: &ArgMatches) -> &str {
    matches.get_one::<String>(OUTPUT).map_or(TEXT, String::as_str)
}

/// Writes a result. A closed pipe is not an error.
pub(crate) fn write(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != IoErrorKind::BrokenPipe => {
            Err(Error::new(ErrorKind::Io, "cannot write to standard output").source(error))
        }
        _ => Ok(()),
    }
}

/// Writes a line.
pub(crate) fn line(text: impl AsRef<str>) -> Result<()> {
    write(format!("{}\n", text.as_ref()).as_bytes())
}

/// Writes text of a server. A terminal gets its control characters escaped, except for line breaks and tabs.
pub(crate) fn text(text: &str) -> Result<()> {
    if !io::stdout().is_terminal() {
        return line(text);
    }
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| line.split('\t').map(escape_control).collect::<Vec<_>>().join("\t"))
        .collect();
    line(lines.join("\n"))
}

/// Writes a JSON document.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the result").source(error))?;
    line(text)
}

/// Writes rows in aligned columns; the first row contains the headings. Control characters are escaped, because
/// untrusted text could control the terminal.
pub(crate) fn table(rows: &[Vec<String>]) -> Result<()> {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| escape_control(cell)).collect()).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    write(text.as_bytes())
}

/// Escapes control characters in a text.
pub(crate) fn escape_control(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::escape_control;

    #[test]
    fn what_could_command_a_terminal_is_escaped() {
        assert_eq!(escape_control("a\u{1b}[2Jb\rc\u{9b}"), r"a\u{1b}[2Jb\rc\u{9b}");
        assert_eq!(escape_control("Grüße, 世界"), "Grüße, 世界");
    }
}
