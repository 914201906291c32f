//! What a registry says of a server, in one form whatever the layout of its document.

use std::{cmp::Ordering, collections::BTreeMap};

use serde::Serialize;
use serde_json::Value;

use crate::options::Transport;

/// A server in a registry.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RegistryEntry {
    /// Its name, often `reverse.domain/name`.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What it does.
    pub description: String,
    /// Its version.
    pub version: Option<String>,
    /// `active`, `deprecated` or `deleted`, when the registry says so.
    pub status: Option<String>,
    /// Who stands for it, such as `Official` or `Community`.
    pub tier: Option<String>,
    /// Where its source is.
    pub repository: Option<String>,
    /// Words it is found by.
    pub tags: Vec<String>,
    /// The tools it had when the entry was written.
    pub tools: Vec<String>,
    /// How it can be run, in the order of the registry.
    #[serde(rename = "ways")]
    pub run_methods: Vec<RunMethod>,
    /// Packages that mcpm does not run, such as `nuget`.
    #[serde(rename = "other_packages")]
    pub unsupported_packages: Vec<String>,
    /// Whether the registry says that no version is newer.
    pub latest: bool,
}

/// One way to run a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunMethod {
    /// What is run: an image, `npx://…`, `uvx://…`, or the URL of a remote server.
    pub server: String,
    /// Whether [`server`](Self::server) is an image, which looks like any other text.
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
    /// Headers that a remote server wants.
    pub headers: Vec<RegistryInput>,
    /// Files and folders to mount, as `--volume` takes them; parts in braces are inputs.
    pub volumes: Vec<RegistryInput>,
    /// What is asked of the container engine and has no option here.
    #[serde(rename = "ignored")]
    pub ignored_engine_flags: Vec<String>,
    /// A permission profile, in its JSON layout.
    pub permissions: Option<Value>,
    /// Who signed the image, in its JSON layout.
    pub provenance: Option<Value>,
}

/// A value that a server is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RegistryInput {
    /// Its name: of the variable, of the header, or what a positional argument stands for.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whether the server does not work without.
    pub required: bool,
    /// Whether it must not be shown.
    pub secret: bool,
    /// A value that is taken when none is given.
    pub default: Option<String>,
    /// A value that is not up to the user, apart from the variables in braces.
    pub value: Option<String>,
    /// The values it can have; any when empty.
    pub choices: Vec<String>,
    /// The variables in [`value`](Self::value), by name.
    pub variables: BTreeMap<String, RegistryInput>,
}

/// An argument of a server.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Argument {
    /// A value on its own.
    Positional(RegistryInput),
    /// A flag, and its value if it has one.
    Named {
        /// The flag with its dashes.
        flag: String,
        /// Its value; `None` for a flag that stands alone.
        input: Option<RegistryInput>,
    },
}

impl RegistryEntry {
    /// Tells whether every word of `query` is in the entry, in any case.
    pub(super) fn matches(&self, query: &str) -> bool {
        let mut text = format!("{} {} ", self.name, self.description);
        text.extend(self.title.iter().chain(&self.tags).map(|part| format!("{part} ")));
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

/// Compares versions part by part: numbers as such, and a release after what leads up to it.
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

/// Makes text of others fit for a terminal: no line breaks, no control characters.
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
