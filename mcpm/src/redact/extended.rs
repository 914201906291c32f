//! Extends a redactor with the tokens of one request.

use std::borrow::Cow;

use serde_json::Value;

use super::{MIN_SECRET_BYTES, Redactor, credential};
use crate::options::Secret;

/// A redactor with additional known values. They are prepared only for texts that may contain them.
#[derive(Debug)]
pub(crate) struct ExtendedRedactor<'a> {
    base: &'a Redactor,
    values: [Option<&'a Secret>; 2],
}

impl<'a> ExtendedRedactor<'a> {
    /// `values` are the tokens of the request.
    pub(crate) fn new(base: &'a Redactor, values: [Option<&'a Secret>; 2]) -> Self {
        Self { base, values }
    }

    /// Redacts secrets in a text.
    pub(crate) fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.occur_in(text) { self.merged().redact(text) } else { self.base.redact(text) }
    }

    /// Also redacts queries and fragments of URLs in the text.
    pub(crate) fn redact_with_urls<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.occur_in(text) {
            self.merged().redact_with_urls(text)
        } else {
            self.base.redact_with_urls(text)
        }
    }

    /// Redacts a JSON value, and queries and fragments of URLs in it.
    pub(crate) fn redact_json(&self, value: &mut Value) {
        self.merged().redact_json(value);
    }

    fn occur_in(&self, text: &str) -> bool {
        let occurs = |value: &str| value.len() >= MIN_SECRET_BYTES && text.contains(value);
        let values = self.values.iter().flatten().map(|value| value.expose());
        text.len() >= MIN_SECRET_BYTES
            && values.flat_map(|value| [Some(value), credential(value)]).flatten().any(occurs)
    }

    fn merged(&self) -> Redactor {
        let mut merged = self.base.clone();
        merged.add(self.values.iter().copied().flatten().cloned());
        merged
    }
}
