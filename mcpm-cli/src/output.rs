//! Writes results to standard output, as text or as JSON, and hints and warnings to standard error.

use std::{
    borrow::Cow,
    io::{self, ErrorKind as IoErrorKind, IsTerminal as _, Write as _},
    sync::atomic::{AtomicBool, Ordering},
    time::SystemTime,
};

use clap::{Arg, ArgMatches, builder::PossibleValuesParser};
use mcpm::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::flag_names::with_flags;

pub(crate) const OUTPUT: &str = "output";
pub(crate) const TEXT: &str = "text";
pub(crate) const JSON: &str = "json";

/// Returns the `--output` argument with these formats; the first one is the default.
pub(crate) fn arg(forms: &'static [&'static str]) -> Arg {
    Arg::new(OUTPUT)
        .long(OUTPUT)
        .short('o')
        .value_name("FORM")
        .value_parser(PossibleValuesParser::new(forms))
        .default_value(forms.first().copied().unwrap_or(TEXT))
        .help("Output format")
}

/// Returns the selected format.
pub(crate) fn format(matches: &ArgMatches) -> &str {
    matches.get_one::<String>(OUTPUT).map_or(TEXT, String::as_str)
}

/// Writes a result. A closed pipe is not an error.
pub(crate) fn write(bytes: &[u8]) -> Result<()> {
    write_if_open(bytes).map(drop)
}

/// Writes a part of the output, and returns whether somebody can still read it.
pub(crate) fn write_if_open(bytes: &[u8]) -> Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == IoErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::new(ErrorKind::Io, "cannot write to standard output").source(error)),
    }
}

/// Whether hints and progress are omitted.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Omits hints and progress from now on.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Returns whether hints and progress are omitted.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes a completed action to standard error. Control characters are escaped, because the text may contain a name
/// from a file of others.
pub(crate) fn note(text: impl AsRef<str>) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "{}", escape_text(text.as_ref()));
}

/// Writes the next step for the user to standard error. It is not part of the result, which a script may read.
pub(crate) fn hint(text: impl AsRef<str>) {
    if !is_quiet() {
        note(text);
    }
}

/// Writes the name of the item that a command has changed.
pub(crate) fn name(matches: &ArgMatches, name: &str) -> Result<()> {
    match format(matches) {
        JSON => json(&serde_json::json!({ "name": name })),
        _ => line(escape_text(name)),
    }
}

/// Writes a line.
pub(crate) fn line(text: impl AsRef<str>) -> Result<()> {
    write(format!("{}\n", text.as_ref()).as_bytes())
}

/// Writes a server's text. On a terminal, its control characters are escaped, except for line breaks and tabs.
pub(crate) fn text(text: &str) -> Result<()> {
    if io::stdout().is_terminal() { line(escape_text(text)) } else { line(text) }
}

/// Escapes control characters in a text, except for line breaks and tabs.
pub(crate) fn escape_text(text: &str) -> String {
    let escaped = |c: char| {
        if matches!(c, '\n' | '\t') { c.to_string() } else { escape_control(c.encode_utf8(&mut [0; 4])) }
    };
    text.chars().map(escaped).collect()
}

/// Escapes text of a server that arrives in parts, which may end in the middle of a character.
#[derive(Debug, Default)]
pub(crate) struct EscapedText {
    /// The beginning of a character.
    rest: Vec<u8>,
}

impl EscapedText {
    pub(crate) fn push(&mut self, part: &[u8]) -> String {
        self.rest.extend_from_slice(part);
        let complete = self.rest.len() - incomplete_bytes(&self.rest);
        let part: Vec<u8> = self.rest.drain(..complete).collect();
        escape_text(&String::from_utf8_lossy(&part))
    }

    /// Returns the rest of text that ended in the middle of a character.
    pub(crate) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.rest)).into_owned()
    }
}

/// Returns how many bytes at the end are the beginning of a character in UTF-8.
pub(crate) fn incomplete_bytes(bytes: &[u8]) -> usize {
    let from_end = (1..=bytes.len().min(3)).find(|count| bytes[bytes.len() - count] & 0xC0 != 0x80);
    let Some(count) = from_end else { return 0 };
    let length = match bytes[bytes.len() - count] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if count < length { count } else { 0 }
}

/// Writes a warning to standard error, with flags in place of the names of settings. Control characters are escaped,
/// because the text may contain a file name or a server's text.
pub(crate) fn warning(message: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "warning: {}", escape_text(&with_flags(message)));
}

/// Writes a JSON document. Characters that could control a terminal are escaped; JSON parsers restore them.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the result").source(error))?;
    line(escape_json(&text))
}

/// Escapes control characters that the JSON serializer leaves in strings. Line breaks exist only between values.
fn escape_json(text: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => c.to_string(),
        _ if controls_terminal(c) => format!("\\u{:04x}", u32::from(c)),
        _ => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// Returns a JSON document as a line. Characters that could control a terminal are escaped.
pub(crate) fn to_json_line(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the result").source(error))?;
    Ok(escape_json(&text) + "\n")
}

/// Writes rows in aligned columns; the first row contains the headings. Control characters are escaped, because
/// untrusted text could control the terminal.
pub(crate) fn table(rows: &[Vec<String>]) -> Result<()> {
    write(aligned(rows, None).as_bytes())
}

/// Writes a list as [`table`] does; on a terminal, columns are narrowed until rows fit.
pub(crate) fn list(rows: &[Vec<String>]) -> Result<()> {
    write(list_text(rows).as_bytes())
}

/// Returns what [`list`] writes.
pub(crate) fn list_text(rows: &[Vec<String>]) -> String {
    aligned(rows, terminal_width())
}

fn aligned(rows: &[Vec<String>], terminal: Option<usize>) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| escape_control(cell)).collect()).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let mut widths: Vec<usize> = (0..columns).map(width).collect();
    if let Some(terminal) = terminal {
        narrow(&mut widths, &rows, terminal);
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| {
            let shown = if terminal.is_some() { shorten(cell, *width) } else { cell.into() };
            // A long cell must not widen all other rows.
            let gap = (*width).min(MAX_PADDED).saturating_sub(shown.chars().count());
            shown.into_owned() + &" ".repeat(gap)
        });
        let cells: Vec<String> = cells.collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Spaces between columns.
const GAP: usize = 2;
/// The width up to which cells are padded.
const MAX_PADDED: usize = 200;
/// The width below which no column is narrowed.
const MIN_WIDTH: usize = 8;

/// Narrows the widest columns until rows fit into the terminal, as far as possible. Cells that are URLs are not
/// shortened, because users copy them.
fn narrow(widths: &mut [usize], rows: &[Vec<String>], terminal: usize) {
    let least = |column: usize| {
        let is_url = |cell: &&String| cell.contains("://") && !cell.contains(char::is_whitespace);
        let cells = rows.iter().map(|row| &row[column]).filter(is_url);
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default().max(MIN_WIDTH)
    };
    let least: Vec<usize> = (0..widths.len()).map(least).collect();
    let gaps = GAP * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > terminal {
        let widest = (0..widths.len())
            .filter(|column| widths[*column] > least[*column])
            .max_by_key(|column| widths[*column]);
        let Some(widest) = widest else { return };
        widths[widest] -= 1;
    }
}

/// Returns the text, or the part of it that fits, with an ellipsis.
pub(crate) fn shorten(text: &str, width: usize) -> Cow<'_, str> {
    match text.chars().count() <= width {
        true => text.into(),
        false => (text.chars().take(width.saturating_sub(1)).collect::<String>() + "…").into(),
    }
}

/// Returns the number of columns of the terminal on standard output.
fn terminal_width() -> Option<usize> {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout()) {
        return (size.ws_col > 0).then_some(size.ws_col.into());
    }
    None
}

/// Returns how long ago a time was, as text. A text that is not a time in RFC 3339 format is returned unchanged.
pub(crate) fn ago(time: &str) -> String {
    let Ok(then) = humantime::parse_rfc3339(time) else { return time.to_owned() };
    let seconds = SystemTime::now().duration_since(then).unwrap_or_default().as_secs();
    match seconds {
        0..120 => format!("{seconds} s ago"),
        120..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

/// Escapes control characters in a text.
pub(crate) fn escape_control(text: &str) -> String {
    let shown = |c: char| if controls_terminal(c) { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Returns whether a terminal interprets a character: control characters, and characters that change the text
/// direction.
fn controls_terminal(c: char) -> bool {
    let changes_direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || changes_direction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_narrowed_to_the_terminal_and_urls_stay_whole() {
        let rows = [["a name of an image that is long", "http://127.0.0.1:8080/mcp", "12 s ago"]
            .map(str::to_owned)
            .to_vec()];
        let mut widths = vec![31, 25, 8];
        narrow(&mut widths, &rows, 60);
        assert_eq!(widths, [23, 25, 8]);
        assert_eq!(shorten(&rows[0][0], 23), "a name of an image tha…");
        narrow(&mut widths, &rows, 10);
        assert_eq!(widths, [8, 25, 8]);
        let rows = [vec!["more is at https://example.com/servers/time".to_owned()]];
        let mut widths = [43];
        narrow(&mut widths, &rows, 20);
        assert_eq!(widths, [20]);
    }

    #[test]
    fn times_are_said_relative_to_now() {
        let at = |seconds| {
            humantime::format_rfc3339(SystemTime::now() - std::time::Duration::from_secs(seconds)).to_string()
        };
        assert_eq!(ago(&at(3601)), "60 min ago");
        assert_eq!(ago(&at(86_400)), "24 h ago");
        assert_eq!(ago(&at(400_000)), "4 days ago");
        assert_eq!((ago("-"), ago("2999-01-01T00:00:00Z")), ("-".to_owned(), "0 s ago".to_owned()));
    }

    #[test]
    fn what_could_command_a_terminal_is_escaped() {
        assert_eq!(escape_control("a\u{1b}[2Jb\rc\u{9b}"), r"a\u{1b}[2Jb\rc\u{9b}");
        assert_eq!(escape_control("Grüße, 世界"), "Grüße, 世界");
        assert_eq!(escape_control("a\u{202e}b"), r"a\u{202e}b");
        let value = serde_json::json!({ "a": "\u{1b}[2J \u{9b}1m \u{7f} \u{202e}x\u{2069} \n Grüße" });
        let text = escape_json(&serde_json::to_string_pretty(&value).expect("JSON"));
        assert_eq!(text, "{\n  \"a\": \"\\u001b[2J \\u009b1m \\u007f \\u202ex\\u2069 \\n Grüße\"\n}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), value);
    }
}
