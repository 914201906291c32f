//! Redacts secrets: by their known values, by field names, and by their form.
//!
//! Redaction cannot recognize every secret. Known secrets of at least 6 bytes are masked by value ([`Redactor`]). In
//! addition, values are masked if the name of their field suggests a secret, and texts are masked if they have the form
//! of a credential.

use std::borrow::Cow;

use serde_json::Value;

use crate::options::Secret;

pub(crate) mod extended;
pub(crate) mod url;

/// The replacement for a secret.
pub(crate) const MASK: &str = "[redacted]";
/// Parts of names that suggest a secret, compared without case, `-` and `_`.
const SECRET_NAME_PARTS: [&str; 20] = [
    "authorization",
    "token",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesskey",
    "privatekey",
    "credential",
    "cookie",
    "jwt",
    "bearer",
    "signature",
    "sessionid",
    "assertion",
    "otp",
    "pin",
    // Fields that only the server and its client interpret (MCP 2026-07-28): the state of a continued request, and the
    // user's input.
    "requeststate",
    "inputresponses",
];
/// Those of these names that are also parts of other words, so they must match completely.
const EXACT_SECRET_NAMES: [&str; 2] = ["otp", "pin"];
/// Names that only resemble those of secrets: the protocol's tokens for pages and progress.
const NON_SECRET_NAMES: [&str; 5] =
    ["progresstoken", "maxtokens", "inputtokens", "outputtokens", "totaltokens"];
/// Prefixes by which issuers mark their tokens.
const TOKEN_PREFIXES: [&str; 28] = [
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "rk_test_",
    "whsec_",
    "hf_",
    "dop_v1_",
    "shpat_",
    "ya29.",
    "xapp-",
    "xoxe-",
    "xoxs-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "AKIA",
    "ASIA",
    "AIza",
    "npm_",
    "pypi-",
];
/// For each letter with which a secret's name begins, the set of second letters.
const SECRET_NAME_STARTS: [u32; 26] = {
    let mut starts = [0; 26];
    let mut number = 0;
    while number < SECRET_NAME_PARTS.len() {
        let name = SECRET_NAME_PARTS[number].as_bytes();
        starts[(name[0] - b'a') as usize] |= 1 << (name[1] - b'a');
        number += 1;
    }
    starts
};
/// Minimum length of a known secret: a shorter one would occur in texts by chance.
const MIN_SECRET_BYTES: usize = 6;

/// Secrets that are known by value, and additional field names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redactor {
    values: Vec<Secret>,
    names: Vec<String>,
}

impl Redactor {
    pub(crate) fn new(values: impl IntoIterator<Item = Secret>, names: &[String]) -> Self {
        let mut masks =
            Self { values: Vec::new(), names: names.iter().map(|name| normalize_name(name)).collect() };
        masks.add(values);
        masks
    }

    fn add(&mut self, values: impl IntoIterator<Item = Secret>) {
        for value in values {
            let credential = credential(value.expose()).map(Secret::from);
            let all = [Some(value), credential].into_iter().flatten();
            self.values.extend(all.filter(|value| value.expose().len() >= MIN_SECRET_BYTES));
        }
        // The longest values come first: if a value contains another one, no part of the longer value must remain.
        self.values.sort_by_key(|value| std::cmp::Reverse(value.expose().len()));
    }

    /// Redacts secrets in a text.
    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        map_cow(self.redact_known_values(text), redact_credentials)
    }

    /// Also redacts queries and fragments of URLs in the text.
    pub(crate) fn redact_with_urls<'a>(&self, text: &'a str) -> Cow<'a, str> {
        map_cow(map_cow(self.redact_known_values(text), strip_url_secrets), redact_credentials)
    }

    /// Masks known values. This is done before masking by form, which could mask only a part of a value.
    fn redact_known_values<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut known = Cow::Borrowed(text);
        for value in &self.values {
            if known.contains(value.expose()) {
                known = known.replace(value.expose(), MASK).into();
            }
        }
        known
    }

    /// Redacts a JSON value, and queries and fragments of URLs in it.
    pub(crate) fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(other) = self.redact_with_urls(text) {
                    *text = other;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(fields) => {
                let mut renamed = Vec::new();
                for (name, value) in fields.iter_mut() {
                    if self.is_secret_field(name) && !value.is_null() {
                        *value = MASK.into();
                    } else {
                        self.redact_json(value);
                    }
                    if let Cow::Owned(other) = self.redact_with_urls(name) {
                        renamed.push((name.clone(), other));
                    }
                }
                for (name, other) in renamed {
                    if let Some(value) = fields.remove(&name) {
                        fields.insert(other, value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn is_secret_field(&self, name: &str) -> bool {
        let folded = normalize_name(name);
        self.names.contains(&folded) || is_normalized_secret_name(&folded)
    }
}

/// The credential in a header value, because it may also occur without its scheme.
fn credential(value: &str) -> Option<&str> {
    let space = memchr::memchr(b' ', value.as_bytes())?;
    let (scheme, credential) = value.split_at(space);
    is_auth_scheme(scheme).then(|| credential.trim())
}

/// Applies another function to a text.
fn map_cow(text: Cow<'_, str>, also: impl Fn(&str) -> Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => also(text),
        Cow::Owned(text) => Cow::Owned(also(&text).into_owned()),
    }
}

fn normalize_name(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    folded.extend(name.chars().filter(|c| !is_ignored(*c)).map(|c| c.to_ascii_lowercase()));
    folded
}

/// Whether a name suggests a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    // This is called for each word of a text, and few words contain such letters.
    let letters =
        name.bytes().filter(|byte| !is_ignored(char::from(*byte))).map(|byte| byte.to_ascii_lowercase());
    let mut before = 0;
    let mut pairs = letters.map(|letter| [std::mem::replace(&mut before, letter), letter]);
    pairs.any(|pair| may_start_secret_name(&pair)) && is_normalized_secret_name(&normalize_name(name))
}

/// Whether a secret's name begins with these two letters.
fn may_start_secret_name(pair: &[u8]) -> bool {
    let (first, second) = (pair[0].wrapping_sub(b'a'), pair[1].wrapping_sub(b'a'));
    first < 26 && second < 26 && SECRET_NAME_STARTS[usize::from(first)] >> second & 1 == 1
}

/// Whether a character is ignored in names.
fn is_ignored(letter: char) -> bool {
    matches!(letter, '-' | '_' | '.' | ' ')
}

fn is_normalized_secret_name(folded: &str) -> bool {
    let letters = folded.as_bytes();
    let is_named = |rest: &[u8]| {
        SECRET_NAME_PARTS.iter().any(|name| match EXACT_SECRET_NAMES.contains(name) {
            true => folded == *name,
            false => rest.starts_with(name.as_bytes()),
        })
    };
    let is_secret = letters
        .windows(2)
        .enumerate()
        .any(|(at, pair)| may_start_secret_name(pair) && is_named(&letters[at..]));
    is_secret && !NON_SECRET_NAMES.contains(&folded)
}

/// Masks texts that have the form of a credential: the word after `Bearer` or `Basic`, JWTs, tokens with a known
/// prefix, passwords in URLs, and values assigned to a name that suggests a secret (`token=...`, `api key: ...`),
/// as in JSON within a text.
pub(crate) fn redact_credentials(text: &str) -> Cow<'_, str> {
    // A fast path for names of methods and tools, and most paths: one word that is not an assignment and shorter than a
    // token.
    if text.len() < 16 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let (mut copied, mut before_end) = (0, 0);
    let (mut scheme, mut assignment) = (None, AssignmentState::None);
    for (start, word) in words(text) {
        if start < copied {
            continue;
        }
        let between = &text[before_end..start];
        before_end = start + word.len();
        if between.contains([',', ';', '&', ')', ']', '}']) {
            assignment = AssignmentState::None;
        }
        let (range, next) = if text[..start].ends_with('[') && text[start..].starts_with(&MASK[1..]) {
            (None, AssignmentState::None)
        } else if is_scheme_credential(scheme, word) {
            (Some(start..start + word.len()), AssignmentState::None)
        } else {
            let (hidden, next) = assignment.step(word);
            let hidden =
                hidden.or_else(|| secret_range(word).filter(|_| next != AssignmentState::ExpectValue));
            let mut range = hidden.map(|range| start + range.start..start + range.end);
            if let (Some(range), AssignmentState::ExpectValue, Some(quote)) =
                (&mut range, assignment, opening_quote(between))
            {
                // A quoted value extends to its closing quote, and may contain several words.
                let end = text[range.end..].find(quote).map_or(range.end, |more| range.end + more);
                range.end = range.start + text[range.start..end].trim_end_matches('\\').len();
            }
            (range, next)
        };
        (scheme, assignment) = (Some(word), next);
        if let Some(range) = range {
            out.push_str(&text[copied..range.start]);
            out.push_str(MASK);
            copied = range.end;
            before_end = before_end.max(copied);
        }
    }
    if copied == 0 && out.is_empty() {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// What the previous words imply about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AssignmentState {
    None,
    /// The previous word is the name of a secret.
    AfterName,
    /// The next word is assigned to the name of a secret.
    ExpectValue,
}

impl AssignmentState {
    /// The part of a word to mask because of the words before it, and the state for the next word.
    fn step(self, word: &str) -> (Option<std::ops::Range<usize>>, Self) {
        // Removes the backslashes of quotes within quotes.
        let core = word.trim_matches('\\');
        let start = word.find(core).unwrap_or_default();
        if core.is_empty() {
            return (None, self);
        }
        if matches!(core, ":" | "=" | "=>" | ":=") {
            return (None, if self == Self::None { Self::None } else { Self::ExpectValue });
        }
        if self == Self::ExpectValue {
            return if is_auth_scheme(core) {
                (None, Self::ExpectValue)
            } else {
                (Some(start..start + core.len()), Self::None)
            };
        }
        let assigned = match core.split_once([':', '=']) {
            Some(("", value)) if self == Self::AfterName => Some(value),
            Some((name, value)) if !name.is_empty() && is_secret_name(name) => Some(value),
            None if is_secret_name(core) => return (None, Self::AfterName),
            _ => None,
        };
        match assigned.map(|value| value.trim_matches('\\')) {
            Some(value) if value.is_empty() || is_auth_scheme(value) => (None, Self::ExpectValue),
            Some(value) if core.starts_with([':', '=']) => {
                let end = start + core.len();
                (Some(end - value.len()..end), Self::None)
            }
            _ => (None, Self::None),
        }
    }
}

/// Whether a word is an authentication scheme.
fn is_auth_scheme(word: &str) -> bool {
    ["bearer", "basic", "dpop", "digest", "token"].iter().any(|name| word.eq_ignore_ascii_case(name))
}

/// The quote that begins a value, given the text before it.
fn opening_quote(between: &str) -> Option<char> {
    between.chars().next_back().filter(|last| matches!(last, '"' | '\'' | '`'))
}

/// Whether a word is the credential of an authentication scheme, given the word before it.
fn is_scheme_credential(before: Option<&str>, word: &str) -> bool {
    match before.map(str::to_ascii_lowercase).as_deref() {
        Some("bearer" | "dpop") => true,
        // "Basic" is also an everyday word.
        Some("basic") => {
            word.len() >= 8
                && word.len().is_multiple_of(4)
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
        }
        _ => false,
    }
}

/// The words of a text and their positions. The parts of a query are separate words.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_end = |c: char| {
        c.is_whitespace()
            || matches!(
                c,
                '"' | '\'' | ',' | ';' | '&' | '?' | '<' | '>' | '(' | ')' | '{' | '}' | '[' | ']' | '`'
            )
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let start = at + rest.find(|c| !is_end(c))?;
        let end = text[start..].find(is_end).map_or(text.len(), |length| start + length);
        at = end;
        Some((start, &text[start..end]))
    })
}

/// The part of a word that is a secret.
fn secret_range(word: &str) -> Option<std::ops::Range<usize>> {
    let mut start = 0;
    // A loop, not recursion, because untrusted text may contain any number.
    while let Some((name, value)) = word[start..].split_once('=') {
        start += name.len() + 1;
        if !value.is_empty() && is_secret_name(name.rsplit(['/', '#', ':']).next().unwrap_or(name)) {
            return Some(start..word.len());
        }
    }
    unnamed_secret_range(&word[start..]).map(|range| start + range.start..start + range.end)
}

/// The part of a word that is a secret, if the word is not an assignment with `=`.
fn unnamed_secret_range(word: &str) -> Option<std::ops::Range<usize>> {
    if let Some((scheme, rest)) = word.split_once("://") {
        let authority = rest.split('/').next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@') {
            let start = scheme.len() + 3;
            return Some(start..start + user.len());
        }
    }
    if let Some((name, value)) = word.split_once(':')
        && !value.is_empty()
        && !value.starts_with('/')
        && is_secret_name(name)
    {
        return Some(name.len() + 1..word.len());
    }
    let word = word.trim_end_matches([':', '!', '\\']);
    let whole = 0..word.len();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if !word.bytes().all(is_token) {
        return None;
    }
    let is_jwt = word.starts_with("eyJ") && word.len() > 20 && word.matches('.').count() >= 1;
    let is_known = word.len() >= 16 && TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    (is_jwt || is_known).then_some(whole)
}

/// A URI without its query and fragment. The expressions of a URI template (`{?name}`) are names, and are kept.
pub(crate) fn strip_query(uri: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| !uri[..*at].ends_with('{');
    uri.match_indices(['?', '#']).find(begins).map_or(uri, |(at, _)| &uri[..at])
}

/// Removes credentials, queries and fragments from the URLs in a text.
fn strip_url_secrets(text: &str) -> Cow<'_, str> {
    const SLASHES: &str = "://";
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`' | '\\');
    let mut out = String::new();
    let (mut copied, mut from) = (0, 0);
    while let Some(at) = text[from..].find(SLASHES).map(|at| from + at) {
        let start = at + SLASHES.len();
        let end = text[start..].find(ends).map_or(text.len(), |length| start + length);
        let url = strip_query(&text[start..end]);
        let authority = url.split('/').next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@').filter(|(user, _)| *user != MASK) {
            out += &text[copied..start];
            out += MASK;
            copied = start + user.len();
        }
        if url.len() < end - start {
            out += &text[copied..start + url.len()];
            copied = end;
        }
        from = end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out += &text[copied..];
    Cow::Owned(out)
}

/// Truncates a text to this many bytes, with a mark.
pub(crate) fn truncate(text: &str, max_bytes: usize) -> Cow<'_, str> {
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    let end = (0..=max_bytes).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    Cow::Owned(format!("{}…", &text[..end]))
}

/// Formats bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for part in bytes.chunks(16) {
        let mut padded = [0; 16];
        padded[..part.len()].copy_from_slice(part);
        let digits = hex_digits(&padded);
        // Hexadecimal digits are ASCII, so this does not fail.
        text.push_str(std::str::from_utf8(digits[..part.len()].as_flattened()).unwrap_or_default());
    }
    text
}

/// Formats bytes as pairs of hexadecimal digits.
pub(crate) fn hex_digits<const N: usize>(bytes: &[u8; N]) -> [[u8; 2]; N] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
}

#[cfg(test)]
mod tests;
