//! Defines registry entries, independent of the layout of the document that contains them.

use std::{cmp::Ordering, collections::BTreeMap};

use serde::Serialize;
use serde_json::Value;

use crate::options::Transport;

/// A server in a registry.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RegistryEntry {
    /// Its name, often `reverse.domain/name`.
    pub name: String,
    /// Its display name.
    pub title: Option<String>,
    /// Its description.
    pub description: String,
    /// Its version.
    pub version: Option<String>,
    /// `active`, `deprecated` or `deleted`, if it is known.
    pub status: Option<String>,
    /// Its tier, such as `Official` or `Community`.
    pub tier: Option<String>,
    /// The URL of its source.
    pub repository: Option<String>,
    /// Tags for searches.
    pub tags: Vec<String>,
    /// The tools that the server had when the entry was written.
    pub tools: Vec<String>,
    /// The stars of its source when the entry was written, if the registry counts them.
    pub stars: Option<u64>,
    /// Run methods, in the order of the registry.
    #[serde(rename = "ways")]
    pub run_methods: Vec<RunMethod>,
    /// Packages that mcpm does not run, such as `nuget`.
    #[serde(rename = "other_packages")]
    pub unsupported_packages: Vec<String>,
    /// Whether it is marked as the latest version.
    pub latest: bool,
}

/// A run method.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunMethod {
    /// An image, `npx://…`, `uvx://…`, or the URL of a remote server.
    pub server: String,
    /// Whether [`server`](Self::server) is an image.
    pub is_image: bool,
    /// How the server speaks MCP.
    pub transport: Option<Transport>,
    /// Port the server listens on.
    pub target_port: Option<u16>,
    /// Port that the proxy should listen on.
    pub proxy_port: Option<u16>,
    /// Arguments of the server.
    pub args: Vec<Argument>,
    /// Environment variables of the server.
    pub env: Vec<RegistryInput>,
    /// Headers for a remote server.
    pub headers: Vec<RegistryInput>,
    /// Files and folders to mount, in the syntax of the option `volume`; parts in braces are inputs.
    pub volumes: Vec<RegistryInput>,
    /// Flags for the container engine that are not supported.
    #[serde(rename = "ignored")]
    pub ignored_engine_flags: Vec<String>,
    /// A permission profile, in its JSON layout.
    pub permissions: Option<Value>,
    /// Who signed the image, in its JSON layout.
    pub provenance: Option<Value>,
}

/// An input of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RegistryInput {
    /// The name of the variable, of the header, or of the positional argument.
    pub name: String,
    /// Its description.
    pub description: Option<String>,
    /// Whether it is required.
    pub required: bool,
    /// Whether it is a secret.
    pub secret: bool,
    /// The default value.
    pub default: Option<String>,
    /// A fixed value, apart from the variables in braces.
    pub value: Option<String>,
    /// The allowed values; any if empty.
    pub choices: Vec<String>,
    /// The variables in [`value`](Self::value), by name.
    pub variables: BTreeMap<String, RegistryInput>,
}

/// An argument of a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// A positional argument.
    Positional(RegistryInput),
    /// A flag, and its value if it has one.
    Named {
        /// The flag with its dashes.
        flag: String,
        /// Its value; `None` for a switch.
        input: Option<RegistryInput>,
    },
}

impl RegistryEntry {
    /// Tells whether the entry contains every word of `query`, ignoring case.
    pub(super) fn matches(&self, query: &str) -> bool {
        let mut text = format!("{} {} ", self.name, self.description);
        text.extend(self.title.iter().chain(&self.tags).chain(&self.tools).map(|part| format!("{part} ")));
        let text = text.to_lowercase();
        query.split_whitespace().all(|word| text.contains(&word.to_lowercase()))
    }

    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        let version = |entry: &Self| entry.version.clone().unwrap_or_default();
        (self.latest, Ordering::Greater) > (other.latest, Ordering::Greater)
            || self.latest == other.latest
                && compare_versions(&version(self), &version(other)) != Ordering::Less
    }
}

/// Compares versions part by part: numbers numerically, and a release as newer than its pre-releases.
fn compare_versions(one: &str, other: &str) -> Ordering {
    let split = |text: &str| {
        let text = text.trim_start_matches('v');
        let (release, early) =
            text.split_once('-').map_or((text, None), |(release, early)| (release, Some(early)));
        let numbers: Vec<u64> = release.split('.').map(|part| part.parse().unwrap_or(0)).collect();
        (numbers, early.map(str::to_owned))
    };
    let ((one, one_early), (other, other_early)) = (split(one), split(other));
    one.cmp(&other).then_with(|| match (one_early, other_early) {
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (one, other) => one.cmp(&other),
    })
}

/// Removes line breaks and control characters from untrusted text.
pub(super) fn sanitize(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (older, newer) in [("1.9.0", "1.10.0"), ("1.0.0-rc.1", "1.0.0"), ("v1.2", "1.2.1"), ("", "0.1")] {
            assert_eq!(compare_versions(older, newer), Ordering::Less, "{older} {newer}");
        }
    }

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(sanitize("a\u{1b}[2Jb\n c\u{7}"), "a [2Jb c");
    }
}
