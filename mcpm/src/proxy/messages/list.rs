//! Filters and changes the lists of tools, prompts, resources and templates in responses.
//!
//! A response is treated as a list if it has the form of one, whatever was requested: responses also arrive on other
//! streams, and servers confuse concurrent requests that have the same id.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::HookVerdict;
use crate::{
    explain::Reason,
    mcp::message::{Message, MessageKind, splice},
    proxy::denial::Denial,
};

/// The decision about an item of a list.
pub(in crate::proxy) enum ListItem {
    Keep,
    Drop,
    /// Replaces the item with this text.
    Change(Bytes),
}

/// Calls `decide` for each item of the lists that a result has under `keys`, with the index of the key. Everything else
/// in the message stays unchanged: a cursor, cache hints and unknown fields.
pub(in crate::proxy) fn rewrite_lists<const N: usize>(
    message: &Message,
    keys: [&str; N],
    mut decide: impl FnMut(usize, &str) -> ListItem,
) -> HookVerdict {
    if message.kind() != MessageKind::Response || !message.has_result_object() {
        return HookVerdict::Keep;
    }
    let Some(fields) = message.result_fields() else { return unreadable(keys[0]) };
    let mut edits = Vec::new();
    for (place, key) in keys.into_iter().enumerate() {
        let list = match fields.get_unique(key) {
            Ok(Some(list)) if list.get().starts_with('[') => list,
            Ok(_) => continue,
            Err(_) => return unreadable(key),
        };
        let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(list.get()) else {
            return unreadable(key);
        };
        let mut kept: Vec<Cow<'_, [u8]>> = Vec::with_capacity(items.len());
        let mut same = true;
        for item in items {
            match decide(place, item.get()) {
                ListItem::Keep => kept.push(Cow::Borrowed(item.get().as_bytes())),
                ListItem::Drop => same = false,
                ListItem::Change(text) => {
                    same = false;
                    kept.push(Cow::Owned(text.to_vec()));
                }
            }
        }
        if !same {
            edits
                .push((message.span_of_text(list.get()), [b"[", kept.join(&b',').as_slice(), b"]"].concat()));
        }
    }
    if edits.is_empty() {
        return HookVerdict::Keep;
    }
    let mut edits: Vec<_> = edits.iter().map(|(span, text)| (span.clone(), text.as_slice())).collect();
    HookVerdict::Replace(splice(message.bytes(), &mut edits).freeze())
}

/// Denies a list that parsers could read differently.
fn unreadable(key: &str) -> HookVerdict {
    let denial = Denial::new(Reason::AnswerUnclear).input("list", key);
    HookVerdict::Deny(Box::new(denial), format!("the server's list of `{key}` cannot be read"))
}
