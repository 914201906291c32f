//! How else a server may read a URI.
//!
//! A policy sees a text, and a server seldom goes by it as it was written: most have a parser of URLs make its normal
//! form, and many decode what is percent-encoded, some of them twice. So a URI is decided about in all these forms, and
//! one is not decided about at all of which nobody can tell where it leads.

use url::Url;

/// How often a text may have been encoded.
const MAX_DECODINGS: usize = 3;

/// The other forms of a URI.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UriForms {
    /// What a server may take for another resource: all of it has to be permitted.
    pub(super) distinct: Vec<String>,
    /// Other ways to write one of those: none may be forbidden.
    pub(super) equivalent: Vec<String>,
}

impl UriForms {
    /// Finds the forms of a URI or of a URI template.
    ///
    /// # Errors
    /// Says why nobody can tell what it means.
    pub(super) fn new(uri: &str) -> Result<Self, &'static str> {
        let levels = decodings(uri)?;
        levels.iter().try_for_each(|level| check_unambiguous(level))?;
        let mut forms = Self::default();
        let Some(plain) = levels.last() else { return Ok(forms) };
        let normal = levels.iter().filter_map(|level| Url::parse(level).ok()).map(String::from);
        for form in levels.iter().skip(1).cloned().chain(normal) {
            // A URL without a path has `/` for one.
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

/// A text, and what is left of it each time that it is decoded.
fn decodings(text: &str) -> Result<Vec<String>, &'static str> {
    let mut levels = vec![text.to_owned()];
    while let Some(decoded) = levels.last().and_then(|last| percent_decoded(last).transpose()).transpose()? {
        if levels.len() > MAX_DECODINGS {
            return Err("it is percent-encoded again and again");
        }
        levels.push(decoded);
    }
    Ok(levels)
}

/// A text without percent-encoding; `None` when it has none.
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
    String::from_utf8(bytes).map(Some).map_err(|_| "it holds percent-encoded bytes that are no text")
}

/// Whether all servers find the same way by a URI.
fn check_unambiguous(uri: &str) -> Result<(), &'static str> {
    if uri.chars().any(char::is_control) {
        return Err("it holds a control character");
    }
    if uri.trim() != uri {
        return Err("it begins or ends with a blank");
    }
    if uri.contains('\\') {
        return Err("it holds a backslash, which some take for a slash");
    }
    // Some servers take what comes after a semicolon off a part.
    if uri.split(['/', ':', ';', '?', '#']).any(|part| matches!(part, "." | "..")) {
        return Err("one of its parts is `.` or `..`, which lead elsewhere");
    }
    Ok(())
}
