//! Takes secrets out of what is recorded: by the names under which they stand, and by what they look like.
//!
//! It cannot know every secret. What is known to be one is masked by its value ([`Redactor`]); of the rest, fields that
//! are named like secrets lose their value, and so do texts of a form that only credentials have.

use std::borrow::Cow;

use serde_json::Value;

use crate::options::Secret;

pub(crate) mod url;

/// What stands in place of a secret.
pub(crate) const MASK: &str = "[redacted]";
/// Names of secrets: a field whose name has one of these in it, `-` and `_` left out, in any case.
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
    // Nobody's but the server's and its client's (MCP 2026-07-28): neither what a call is continued with, nor what people
    // have answered.
    "requeststate",
    "inputresponses",
];
/// Of those, the ones that are in other words as well, so that they must be the whole name.
const EXACT_SECRET_NAMES: [&str; 2] = ["otp", "pin"];
/// Names that only look like those of secrets: marks that the protocol gives to pages and progress.
const NON_SECRET_NAMES: [&str; 5] =
    ["progresstoken", "maxtokens", "inputtokens", "outputtokens", "totaltokens"];
/// Beginnings of tokens that their issuers made to be known by.
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
/// A known value that is shorter is no secret that could be looked for.
const MIN_SECRET_BYTES: usize = 6;

/// Secrets that are known by value, and names beside the usual ones.
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

    /// The same with more values.
    pub(crate) fn with<'a>(&self, values: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut masks = self.clone();
        masks.add(values.into_iter().cloned());
        masks
    }

    fn add(&mut self, values: impl IntoIterator<Item = Secret>) {
        for value in values {
            // Of a header's value the credential alone may be repeated.
            let credential = value.expose().split_once(' ').filter(|(scheme, _)| is_auth_scheme(scheme));
            let credential = credential.map(|(_, credential)| Secret::from(credential.trim()));
            let all = [Some(value), credential].into_iter().flatten();
            self.values.extend(all.filter(|value| value.expose().len() >= MIN_SECRET_BYTES));
        }
        // The longest first: of one that has another in it nothing may be left.
        self.values.sort_by_key(|value| std::cmp::Reverse(value.expose().len()));
    }

    /// A text without secrets.
    pub(crate) fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        map_cow(self.redact_known_values(text), redact_credentials)
    }

    /// The same without what stands behind the paths of URLs in it.
    pub(crate) fn redact_with_urls<'a>(&self, text: &'a str) -> Cow<'a, str> {
        map_cow(map_cow(self.redact_known_values(text), strip_url_secrets), redact_credentials)
    }

    /// A text without values that are known. It comes before anything is masked by its form, which may take a part of a
    /// value away and leave the rest.
    fn redact_known_values<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut known = Cow::Borrowed(text);
        for value in &self.values {
            if known.contains(value.expose()) {
                known = known.replace(value.expose(), MASK).into();
            }
        }
        known
    }

    /// Takes secrets out of a JSON value, and what stands behind the paths of URLs in it.
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

/// Does one more thing to a text.
fn map_cow(text: Cow<'_, str>, also: impl Fn(&str) -> Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => also(text),
        Cow::Owned(text) => Cow::Owned(also(&text).into_owned()),
    }
}

fn normalize_name(name: &str) -> String {
    let mut folded = String::with_capacity(name.len());
    folded
        .extend(name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' ')).map(|c| c.to_ascii_lowercase()));
    folded
}

/// Whether a name is that of a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    is_normalized_secret_name(&normalize_name(name))
}

fn is_normalized_secret_name(folded: &str) -> bool {
    let letters = folded.as_bytes();
    // Each word of a text comes here. Hardly any has two letters with which a secret's name begins, so that few words
    // are compared with all names.
    let may_start = |pair: &[u8]| {
        let (first, second) = (pair[0].wrapping_sub(b'a'), pair[1].wrapping_sub(b'a'));
        first < 26 && second < 26 && SECRET_NAME_STARTS[usize::from(first)] >> second & 1 == 1
    };
    let is_named = |rest: &[u8]| {
        SECRET_NAME_PARTS.iter().any(|name| match EXACT_SECRET_NAMES.contains(name) {
            true => folded == *name,
            false => rest.starts_with(name.as_bytes()),
        })
    };
    let is_secret =
        letters.windows(2).enumerate().any(|(at, pair)| may_start(pair) && is_named(&letters[at..]));
    is_secret && !NON_SECRET_NAMES.contains(&folded)
}

/// A text without what has the form of a credential: the word after `Bearer` or `Basic`, signed tokens, tokens with a
/// known beginning, passwords in URLs, and what is given to a name of a secret (`token=...`, `api key: ...`), as in JSON
/// that stands in a text.
pub(crate) fn redact_credentials(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let (mut kept, mut before_end) = (0, 0);
    let (mut scheme, mut given) = (None, AssignmentState::None);
    for (start, word) in words(text) {
        if start < kept {
            continue;
        }
        let between = &text[before_end..start];
        before_end = start + word.len();
        if between.contains([',', ';', '&', ')', ']', '}']) {
            given = AssignmentState::None;
        }
        let (range, next) = if text[..start].ends_with('[') && text[start..].starts_with(&MASK[1..]) {
            (None, AssignmentState::None)
        } else if is_scheme_credential(scheme, word) {
            (Some(start..start + word.len()), AssignmentState::None)
        } else {
            let (hidden, next) = given.step(word);
            let hidden =
                hidden.or_else(|| secret_range(word).filter(|_| next != AssignmentState::ExpectValue));
            let mut range = hidden.map(|range| start + range.start..start + range.end);
            if let (Some(range), AssignmentState::ExpectValue, Some(quote)) =
                (&mut range, given, opening_quote(between))
            {
                // All that is quoted, which may be several words.
                let end = text[range.end..].find(quote).map_or(range.end, |more| range.end + more);
                range.end = range.start + text[range.start..end].trim_end_matches('\\').len();
            }
            (range, next)
        };
        (scheme, given) = (Some(word), next);
        if let Some(range) = range {
            out.push_str(&text[kept..range.start]);
            out.push_str(MASK);
            kept = range.end;
            before_end = before_end.max(kept);
        }
    }
    if kept == 0 && out.is_empty() {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[kept..]);
    Cow::Owned(out)
}

/// What the words before one say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AssignmentState {
    None,
    /// The one before is the name of a secret.
    AfterName,
    /// It is given to the name of a secret.
    ExpectValue,
}

impl AssignmentState {
    /// Which part of a word is hidden for what stands before it, and what it says of the next one.
    fn step(self, word: &str) -> (Option<std::ops::Range<usize>>, Self) {
        // Quotes within quotes.
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
        let given = match core.split_once([':', '=']) {
            Some(("", value)) if self == Self::AfterName => Some(value),
            Some((name, value)) if !name.is_empty() && is_secret_name(name) => Some(value),
            None if is_secret_name(core) => return (None, Self::AfterName),
            _ => None,
        };
        match given.map(|value| value.trim_matches('\\')) {
            Some(value) if value.is_empty() || is_auth_scheme(value) => (None, Self::ExpectValue),
            Some(value) if core.starts_with([':', '=']) => {
                let end = start + core.len();
                (Some(end - value.len()..end), Self::None)
            }
            _ => (None, Self::None),
        }
    }
}

/// Whether a word says how what comes next lets its bearer in.
fn is_auth_scheme(word: &str) -> bool {
    ["bearer", "basic", "dpop", "digest", "token"].iter().any(|name| word.eq_ignore_ascii_case(name))
}

/// The quote that a value begins with, by what stands before it.
fn opening_quote(between: &str) -> Option<char> {
    between.chars().next_back().filter(|last| matches!(last, '"' | '\'' | '`'))
}

/// Whether a word is what an authentication scheme says, by the word before it.
fn is_scheme_credential(before: Option<&str>, word: &str) -> bool {
    match before.map(str::to_ascii_lowercase).as_deref() {
        Some("bearer" | "dpop") => true,
        // It is a word of every day, too.
        Some("basic") => {
            word.len() >= 8
                && word.len().is_multiple_of(4)
                && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
        }
        _ => false,
    }
}

/// The words of a text and where they begin. A query's parts are words.
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

/// Which part of a word is a secret.
fn secret_range(word: &str) -> Option<std::ops::Range<usize>> {
    let mut start = 0;
    // One after the other: there may be as many as a stranger likes.
    while let Some((name, value)) = word[start..].split_once('=') {
        start += name.len() + 1;
        if !value.is_empty() && is_secret_name(name.rsplit(['/', '#', ':']).next().unwrap_or(name)) {
            return Some(start..word.len());
        }
    }
    unnamed_secret_range(&word[start..]).map(|range| start + range.start..start + range.end)
}

/// Which part of a word, of which nothing is given to a name with `=`, is a secret.
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

/// A URI without its query and its fragment, which may hold anything. The expressions of a URI template (`{?name}`) are
/// names, and stay.
pub(crate) fn strip_query(uri: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| !uri[..*at].ends_with('{');
    uri.match_indices(['?', '#']).find(begins).map_or(uri, |(at, _)| &uri[..at])
}

/// A text in which no URL says who logs in with it, or more than its path.
fn strip_url_secrets(text: &str) -> Cow<'_, str> {
    const SLASHES: &str = "://";
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`' | '\\');
    let mut out = String::new();
    let (mut kept, mut from) = (0, 0);
    while let Some(at) = text[from..].find(SLASHES).map(|at| from + at) {
        let start = at + SLASHES.len();
        let end = text[start..].find(ends).map_or(text.len(), |length| start + length);
        let place = strip_query(&text[start..end]);
        let authority = place.split('/').next().unwrap_or_default();
        if let Some((user, _)) = authority.rsplit_once('@').filter(|(user, _)| *user != MASK) {
            out += &text[kept..start];
            out += MASK;
            kept = start + user.len();
        }
        if place.len() < end - start {
            out += &text[kept..start + place.len()];
            kept = end;
        }
        from = end;
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    out += &text[kept..];
    Cow::Owned(out)
}

/// A text cut off at so many bytes, with a mark.
pub(crate) fn truncate(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    Cow::Owned(format!("{}…", &text[..end]))
}

/// Bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

#[cfg(test)]
mod tests;
