//! Replaces the values in a transcript that differ between runs.

/// The patterns and their replacements, in the order in which they are applied.
#[derive(Default)]
pub(crate) struct Redactions(Vec<(String, String)>);

impl Redactions {
    pub(crate) fn replace(&mut self, what: &str, by: &str) {
        self.0.push((what.to_owned(), by.to_owned()));
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        let replaced = self.0.iter().fold(text.to_owned(), |text, (what, by)| text.replace(what, by));
        replaced.lines().map(|line| line_of(line) + "\n").collect()
    }
}

fn line_of(line: &str) -> String {
    let margin = line.len() - line.trim_start().len();
    let (margin, rest) = line.split_at(margin);
    // The width of a column depends on the values that were replaced in it.
    let mut columns = rest.split("  ").map(str::trim).filter(|column| !column.is_empty());
    let first = columns.next().map(words).unwrap_or_default();
    columns.fold(margin.to_owned() + &first, |line, column| line + "  " + &words(column))
}

/// Replaces times, ports, process numbers and digests.
fn words(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let hex = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len();
        let (length, word) = if let (4, Some(length)) = (digits, time_length(rest)) {
            (length, "TIME")
        } else if digits > 0 && [" s ago", " min ago", " h ago", " days ago"].contains(&&rest[digits..]) {
            (rest.len(), "TIME ago")
        } else if hex >= 64 {
            (hex, "DIGEST")
        } else if digits > 0 && (out.ends_with("pid ") || out.ends_with("tini (")) {
            (digits, "PID")
        } else if is_chosen_port(&rest[..digits]) && out.ends_with([':', ' ']) {
            (5, "PORT")
        } else if digits > 0 {
            (digits, &rest[..digits])
        } else {
            (c.len_utf8(), &rest[..c.len_utf8()])
        };
        out += word;
        rest = &rest[length..];
    }
    out
}

/// Returns whether a number is a port that the kernel or the engine chose.
fn is_chosen_port(digits: &str) -> bool {
    digits.parse().is_ok_and(|port: u32| (32768..61000).contains(&port))
}

/// Returns the length of a time such as `2026-11-21T11:07:07Z` or `2026-11-21T11:07:07.123Z` at the beginning of a
/// text.
fn time_length(text: &str) -> Option<usize> {
    let shape = text.as_bytes().get(..20)?;
    let length = text.find('Z')? + 1;
    let is_time = shape[4] == b'-' && shape[10] == b'T' && (length == 20 || shape[19] == b'.' && length < 31);
    is_time.then_some(length)
}

#[test]
fn what_differs_is_replaced() {
    let mut redactions = Redactions::default();
    redactions.replace("t-12-0", "T");
    let text = "t-12-0-a      http://127.0.0.1:41234/mcp  2026-11-21T11:07:07.123456Z  3 min ago\n  in use by `x` (pid 77), 3000\n";
    assert_eq!(
        redactions.apply(text),
        "T-a  http://127.0.0.1:PORT/mcp  TIME  TIME ago\n  in use by `x` (pid PID), 3000\n"
    );
}
