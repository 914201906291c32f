//! Decides which tools clients can see and call, and under which names and descriptions.
//!
//! [`ToolPolicy::resolve`] maps the name in a call to a tool, and [`ToolPolicy::list_entry`] uses the same mapping: a
//! list contains a tool under a name if and only if a call of that name reaches that tool. Patterns in `--tools` match
//! the names that clients see.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use super::ToolOverride;
use crate::{Result, config_file::invalid};

/// Maximum length of a tool's new name in bytes.
const MAX_NAME_BYTES: usize = 128;
/// Maximum length of a name that is matched with patterns, because matching takes time proportional to both
/// lengths.
const MAX_MATCHED_NAME_BYTES: usize = 4096;

/// The tool filter and the overrides.
#[derive(Debug)]
pub(crate) struct ToolPolicy {
    allowed: Vec<String>,
    denied: Vec<String>,
    /// Overrides by the server's name of the tool.
    overrides: BTreeMap<String, ToolOverride>,
    /// The server's names of renamed tools, by their new names.
    renamed: HashMap<String, String>,
    /// Names in the options that matched no tool in a list so far; `None` after the first complete list.
    unmatched: Mutex<Option<BTreeSet<ConfiguredTool>>>,
}

/// A tool that the options refer to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ConfiguredTool {
    /// A name or pattern, as clients see tools.
    Pattern(String),
    /// A tool with an override, by the server's name.
    Overridden(String),
}

/// A tool as a client sees it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedTool<'a> {
    pub(crate) name: &'a str,
    /// Its description, if it is overridden.
    pub(crate) description: Option<&'a str>,
}

/// Why a name reaches no tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HiddenTool {
    /// The rule that hides it, with the option's name.
    pub(crate) rule: String,
    /// The smallest change of the configuration that would allow it.
    pub(crate) fix: String,
    /// Whether that change makes additional tools visible.
    pub(crate) exposes_tools: bool,
}

impl ToolPolicy {
    /// Creates a policy from names and patterns, and overrides by the server's names. `None` if there are neither.
    ///
    /// # Errors
    /// `InvalidOption` for invalid names and name collisions.
    pub(crate) fn new(
        patterns: &[String],
        overrides: &BTreeMap<String, ToolOverride>,
    ) -> Result<Option<Self>> {
        if patterns.is_empty() && overrides.is_empty() {
            return Ok(None);
        }
        let (mut allowed, mut denied) = (Vec::new(), Vec::new());
        for pattern in patterns {
            let (names, name) = match pattern.strip_prefix('!') {
                Some(name) => (&mut denied, name),
                None => (&mut allowed, pattern.as_str()),
            };
            check(name).map_err(|reason| {
                let reason = if pattern == "!" { "no name follows the `!`" } else { reason };
                invalid(format!("invalid value `{pattern}` for `tools`: {reason}"))
            })?;
            names.push(name.to_owned());
        }
        let patterns = allowed.iter().chain(&denied).cloned().map(ConfiguredTool::Pattern);
        let unmatched = patterns.chain(overrides.keys().cloned().map(ConfiguredTool::Overridden)).collect();
        let tools = Self {
            allowed,
            denied,
            overrides: overrides.clone(),
            renamed: renamed(overrides)?,
            unmatched: Mutex::new(Some(unmatched)),
        };
        for name in tools.allowed.iter().chain(&tools.denied) {
            // A rule with the old name of a renamed tool would apply to a different tool than intended.
            if let Some(new) = overrides.get(name).and_then(|one| one.name.as_ref())
                && new != name
                && !tools.renamed.contains_key(name)
            {
                let message = format!("`tools` contains `{name}`, which clients see as `{new}`");
                return Err(invalid(message).hint(format!("use `{new}`")));
            }
        }
        Ok(Some(tools))
    }

    /// The server's name of the tool that a client calls; `None` if clients see no such tool.
    pub(crate) fn resolve<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let matches = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        if self.is_too_long(name)
            || matches(&self.denied)
            || !(self.allowed.is_empty() || matches(&self.allowed))
        {
            return None;
        }
        match (self.renamed.get(name), self.overrides.get(name)) {
            (Some(own), _) => Some(own),
            // The tool has been renamed.
            (None, Some(ToolOverride { name: Some(other), .. })) if other != name => None,
            (None, _) => Some(name),
        }
    }

    /// Why a name reaches no tool, and which change would allow it.
    pub(crate) fn explain_hidden(&self, name: &str) -> HiddenTool {
        if self.is_too_long(name) {
            let rule = format!("a name of more than {MAX_MATCHED_NAME_BYTES} bytes matches no tool");
            let fix = "call the tool by its name in the tool list".to_owned();
            return HiddenTool { rule, fix, exposes_tools: false };
        }
        let other = self.overrides.get(name).and_then(|rename_of| rename_of.name.as_deref());
        let other = other.filter(|other| *other != name && !self.renamed.contains_key(name));
        // The name that the filter is applied to.
        let shown = other.unwrap_or(name);
        let denied = self.denied.iter().filter(|one| matches(one, shown));
        let denied: Vec<String> = denied.map(|one| format!("!{one}")).collect();
        let listed = self.allowed.is_empty() || self.allowed.iter().any(|one| matches(one, shown));
        let rule = match other {
            _ if !denied.is_empty() => denied.join(","),
            _ if !listed => self.allowed.join(","),
            Some(other) => format!("`{name}` is renamed to `{other}`"),
            None => String::new(),
        };
        let mut fix = Vec::new();
        fix.extend(other.map(|other| format!("call it `{other}`")));
        if !denied.is_empty() {
            fix.push(format!("remove `{}` from option `tools`", denied.join(",")));
        }
        if !listed {
            fix.push(format!("add `{shown}` to option `tools`"));
        }
        HiddenTool { rule, fix: fix.join(", and "), exposes_tools: !denied.is_empty() || !listed }
    }

    /// How clients see a tool; `None` if it is hidden.
    pub(crate) fn list_entry<'a>(&'a self, own: &'a str) -> Option<ListedTool<'a>> {
        let overridden = self.overrides.get(own);
        let name = overridden.and_then(|overridden| overridden.name.as_deref()).unwrap_or(own);
        // If two tools have one name, the renamed one keeps it.
        (self.resolve(name) == Some(own)).then(|| ListedTool {
            name,
            description: overridden.and_then(|overridden| overridden.description.as_deref()),
        })
    }

    /// Whether the server has sent no complete list yet.
    pub(crate) fn awaits_list(&self) -> bool {
        self.unmatched.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Records the server's names in a page of a list. At the end of the first list, returns the names in the
    /// options that matched no tool.
    pub(crate) fn note_list<'a>(
        &self,
        own: impl IntoIterator<Item = &'a str>,
        is_last_page: bool,
    ) -> Option<Vec<String>> {
        let mut unmatched = self.unmatched.lock().unwrap_or_else(PoisonError::into_inner);
        let names = unmatched.as_mut()?;
        for own in own {
            let shown = self.overrides.get(own).and_then(|renamed| renamed.name.as_deref()).unwrap_or(own);
            names.retain(|named| match named {
                ConfiguredTool::Pattern(_) if shown.len() > MAX_MATCHED_NAME_BYTES => true,
                ConfiguredTool::Pattern(pattern) => !matches(pattern, shown),
                ConfiguredTool::Overridden(name) => name != own,
            });
        }
        if !is_last_page {
            return None;
        }
        let names: BTreeSet<String> = unmatched
            .take()?
            .into_iter()
            .map(|named| match named {
                ConfiguredTool::Pattern(name) | ConfiguredTool::Overridden(name) => name,
            })
            .collect();
        (!names.is_empty()).then(|| names.into_iter().collect())
    }

    fn is_too_long(&self, name: &str) -> bool {
        self.hides() && name.len() > MAX_MATCHED_NAME_BYTES
    }

    /// Whether tools are hidden, and not only renamed.
    pub(crate) fn hides(&self) -> bool {
        !self.allowed.is_empty() || !self.denied.is_empty()
    }
}

/// The server's names by the new names, unless two collide.
fn renamed(overrides: &BTreeMap<String, ToolOverride>) -> Result<HashMap<String, String>> {
    let mut renamed = HashMap::new();
    let mut new_names = BTreeSet::new();
    for (own, one) in overrides {
        check(own).map_err(|reason| invalid(format!("the tool `{own}` cannot be overridden: {reason}")))?;
        let name = one.name.as_ref().unwrap_or(own);
        check(name).map_err(|reason| invalid(format!("`{name}` is not a valid tool name: {reason}")))?;
        if name.contains(['*', '?']) || name.starts_with('!') {
            return Err(invalid(format!(
                "`{name}` is not a valid tool name: `*`, `?` and `!` are reserved for patterns"
            )));
        }
        if !new_names.insert(name) {
            return Err(invalid(format!("two tools are renamed to `{name}`")));
        }
        if name != own {
            renamed.insert(name.clone(), own.clone());
        }
    }
    Ok(renamed)
}

fn check(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("the name is empty");
    }
    if name.len() > MAX_NAME_BYTES {
        return Err("the name is longer than 128 bytes");
    }
    if name.chars().any(|letter| letter.is_control() || letter == ',') {
        return Err("the name contains a control character or a comma");
    }
    Ok(())
}

/// Whether a pattern matches a whole name: `*` matches any text, `?` any one character.
fn matches(pattern: &str, name: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return pattern == name;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut index) = (0, 0);
    // The position of the last `*`, and the end of the text that this `*` is currently assumed to match.
    let mut star: Option<(usize, usize)> = None;
    while index < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, index));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[index] => (at, index) = (at + 1, index + 1),
            _ => match star {
                Some((began, ended)) => {
                    star = Some((began, ended + 1));
                    (at, index) = (began + 1, ended + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
