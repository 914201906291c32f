//! Computes the forms that a URI may have after a server has normalized it.
//!
//! A policy compares strings, but a server usually normalizes the URI with a parser, and often percent-decodes it,
//! possibly twice. So policies are evaluated for all these forms, and a URI that parsers interpret differently is
//! rejected.

use url::Url;

/// Maximum number of nested percent-encodings.
const MAX_DECODINGS: usize = 3;

/// The alternative forms of a URI.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UriForms {
    /// Forms that a server may treat as a different resource: each of them must be permitted.
    pub(super) distinct: Vec<String>,
    /// Other spellings of the same resource: none of them may be forbidden.
    pub(super) equivalent: Vec<String>,
}

impl UriForms {
    /// Computes the forms of a URI or a URI template.
    ///
    /// # Errors
    /// Why the URI is ambiguous.
    pub(super) fn new(uri: &str) -> Result<Self, &'static str> {
        let levels = decodings(uri)?;
        levels.iter().try_for_each(|level| check_unambiguous(level))?;
        let mut forms = Self::default();
        let Some(plain) = levels.last() else { return Ok(forms) };
        let normal = levels.iter().filter_map(|level| Url::parse(level).ok()).map(String::from);
        for form in levels.iter().skip(1).cloned().chain(normal) {
            // A URL without a path has the path `/`.
            let same = decodings(&form)?.last().map(|form| form.trim_end_matches('/'))
                == Some(plain.trim_end_matches('/'));
            let known = if same { &mut forms.equivalent } else { &mut forms.distinct };
            if form != uri && !known.contains(&form) {
                known.push(form);
            }
        }
        Ok(forms)
    }
}

/// The text, and the result of each further decoding.
fn decodings(text: &str) -> Result<Vec<String>, &'static str> {
    let mut levels = vec![text.to_owned()];
    while let Some(decoded) = levels.last().and_then(|last| percent_decoded(last).transpose()).transpose()? {
        if levels.len() > MAX_DECODINGS {
            return Err("it is percent-encoded too many times");
        }
        levels.push(decoded);
    }
    Ok(levels)
}

/// Percent-decodes a text once; `None` if nothing is encoded.
fn percent_decoded(text: &str) -> Result<Option<String>, &'static str> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let digit = |at: usize| more.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                bytes.extend(u8::try_from(high * 16 + low));
                rest = &more[2..];
            }
            _ => {
                bytes.push(*first);
                rest = more;
            }
        }
    }
    if bytes.len() == text.len() {
        return Ok(None);
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "it contains percent-encoded bytes that are not UTF-8")
}

/// Rejects URIs that parsers interpret differently.
fn check_unambiguous(uri: &str) -> Result<(), &'static str> {
    if uri.chars().any(char::is_control) {
        return Err("it contains a control character");
    }
    if uri.trim() != uri {
        return Err("it begins or ends with a space");
    }
    if uri.contains('\\') {
        return Err("it contains a backslash, which some servers treat as a slash");
    }
    // Some servers cut off path parameters, which follow a semicolon.
    if uri.split(['/', ':', ';', '?', '#']).any(|part| matches!(part, "." | "..")) {
        return Err("it contains a `.` or `..` segment");
    }
    Ok(())
}
