//! Limits the number of label values: each new value costs memory here and in the metrics store, so clients must not be
//! able to create new values without limit.

use std::{
    collections::HashSet,
    sync::{PoisonError, RwLock},
};

use http::Method;

use super::cut::cut;

/// The label of all unknown values.
pub(crate) const OTHER: &str = "other";
/// Maximum number of tool names, and of prompt names.
const MAX_NAMES: usize = 100;

/// Protocol versions.
const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

fn known_or_other<'a>(list: &[&'static str], value: &'a str) -> &'static str
where
    'static: 'a,
{
    list.iter().find(|one| **one == value).copied().unwrap_or(OTHER)
}

/// The label of an MCP version.
pub(crate) fn mcp_version(version: &str) -> &'static str {
    known_or_other(&VERSIONS, version)
}

/// The label of an HTTP method, as in the conventions.
pub(crate) fn http_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => "_OTHER",
    }
}

/// The label of a JSON-RPC error code. Only the few codes that the protocol defines, or reserves for servers, have
/// their own labels.
pub(crate) fn rpc_code(code: i64) -> String {
    if matches!(code, -32700 | -32603..=-32600 | -32099..=-32000) {
        code.to_string()
    } else {
        OTHER.to_owned()
    }
}

/// Names that the server has confirmed by successful responses; callers may send any name.
#[derive(Debug, Default)]
pub(super) struct NameLabels(RwLock<HashSet<String>>);

impl NameLabels {
    /// The label of a name. A name that was `answered` successfully gets its own label while there is room.
    pub(super) fn label(&self, name: &str, answered: bool) -> String {
        let name = cut(name);
        if self.0.read().unwrap_or_else(PoisonError::into_inner).contains(name) {
            return name.to_owned();
        }
        if answered {
            let mut names = self.0.write().unwrap_or_else(PoisonError::into_inner);
            if names.len() < MAX_NAMES {
                names.insert(name.to_owned());
                return name.to_owned();
            }
        }
        OTHER.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_come_from_answers() {
        let names = NameLabels::default();
        assert_eq!(names.label("made-up", false), OTHER);
        for number in 0..MAX_NAMES {
            let name = format!("tool{number}");
            assert_eq!(names.label(&name, true), name);
        }
        assert_eq!(
            (names.label("tool0", false), names.label("one-more", true)),
            ("tool0".into(), OTHER.into())
        );
        let long = "ä".repeat(200);
        let names = NameLabels::default();
        assert_eq!(names.label(&long, true).len(), 128);
    }

    #[test]
    fn what_clients_choose_is_known_or_other() {
        assert_eq!((mcp_version("2025-11-25"), mcp_version("1")), ("2025-11-25", OTHER));
        assert_eq!([-32601, -32042, -32500, 7].map(rpc_code), ["-32601", "-32042", OTHER, OTHER]);
        assert_eq!(http_method(&Method::from_bytes(b"BREW").expect("a method")), "_OTHER");
    }
}
