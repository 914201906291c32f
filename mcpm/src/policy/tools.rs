//! Which tools clients see, and under which names: one decision for lists and for calls.
//!
//! [`ToolPolicy::resolve`] is the decision, [`ToolPolicy::list_entry`] asks it: a tool is in a list under a name if and only if a
//! call of that name reaches that tool. Names of `--tools` are those that clients see.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, PoisonError},
};

use super::{ToolOverride, invalid};
use crate::Result;

/// Longest name that a tool may be given.
const MAX_NAME_BYTES: usize = 128;
/// Longest name that is compared with patterns, which takes time with the product of both lengths.
const MAX_MATCHED_NAME_BYTES: usize = 4096;

/// The decision.
#[derive(Debug)]
pub(crate) struct ToolPolicy {
    allowed: Vec<String>,
    denied: Vec<String>,
    /// By the server's own name.
    overrides: BTreeMap<String, ToolOverride>,
    /// The server's own names of tools that have another one, by that.
    renamed: HashMap<String, String>,
    /// What the options name that no tool in a list had so far; `None` once a list was complete.
    unmatched: Mutex<Option<BTreeSet<ConfiguredTool>>>,
}

/// What the options name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ConfiguredTool {
    /// A name or pattern, as clients see tools.
    Pattern(String),
    /// A tool with an override, by the server's own name.
    Overridden(String),
}

/// How a client sees a tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedTool<'a> {
    pub(crate) name: &'a str,
    /// Its description, if it is not the server's own.
    pub(crate) description: Option<&'a str>,
}

/// Why a name reaches no tool.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HiddenTool {
    /// What hides it, in the words of the options.
    pub(crate) rule: String,
    /// The smallest change that would let it through.
    pub(crate) fix: String,
    /// Whether that shows more tools.
    pub(crate) exposes_tools: bool,
}

impl ToolPolicy {
    /// Takes names and patterns, and overrides by the server's own names. `None` when there are neither.
    ///
    /// # Errors
    /// `InvalidOption` for names that cannot be and for those that collide.
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
            check(name)
                .map_err(|reason| invalid(format!("invalid value `{pattern}` for `tools`: {reason}")))?;
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
            // Whoever goes by the old name of a renamed tool hides or shows another one than is meant.
            if let Some(new) = overrides.get(name).and_then(|one| one.name.as_ref())
                && new != name
                && !tools.renamed.contains_key(name)
            {
                let message = format!("`tools` names `{name}`, which clients see as `{new}`");
                return Err(invalid(message).hint(format!("name `{new}`")));
            }
        }
        Ok(Some(tools))
    }

    /// The server's own name of the tool that a client calls; `None` when there is no such tool for clients.
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
            // It goes by another name now.
            (None, Some(ToolOverride { name: Some(other), .. })) if other != name => None,
            (None, _) => Some(name),
        }
    }

    /// Why a client calls nothing with a name: what [`resolve`](Self::resolve) goes by, and what would have it reach a tool.
    pub(crate) fn explain_hidden(&self, name: &str) -> HiddenTool {
        if self.is_too_long(name) {
            let rule = format!("a name of more than {MAX_MATCHED_NAME_BYTES} bytes is compared with nothing");
            let fix = "call the tool by the name that lists show".to_owned();
            return HiddenTool { rule, fix, exposes_tools: false };
        }
        let other = self.overrides.get(name).and_then(|given| given.name.as_deref());
        let other = other.filter(|other| *other != name && !self.renamed.contains_key(name));
        // The name that it has to pass with.
        let shown = other.unwrap_or(name);
        let denied = self.denied.iter().filter(|one| matches(one, shown));
        let denied: Vec<String> = denied.map(|one| format!("!{one}")).collect();
        let listed = self.allowed.is_empty() || self.allowed.iter().any(|one| matches(one, shown));
        let rule = match other {
            _ if !denied.is_empty() => denied.join(","),
            _ if !listed => self.allowed.join(","),
            Some(other) => format!("`{name}` is `{other}` to clients"),
            None => String::new(),
        };
        let mut fix = Vec::new();
        fix.extend(other.map(|other| format!("call it `{other}`")));
        if !denied.is_empty() {
            fix.push(format!("take `{}` out of option `tools`", denied.join(",")));
        }
        if !listed {
            fix.push(format!("add `{shown}` to option `tools`"));
        }
        HiddenTool { rule, fix: fix.join(", and "), exposes_tools: !denied.is_empty() || !listed }
    }

    /// How clients see a tool of the server's; `None` when they do not.
    pub(crate) fn list_entry<'a>(&'a self, own: &'a str) -> Option<ListedTool<'a>> {
        let given = self.overrides.get(own);
        let name = given.and_then(|given| given.name.as_deref()).unwrap_or(own);
        // Of two tools with one name, the one that was given it keeps it.
        (self.resolve(name) == Some(own))
            .then(|| ListedTool { name, description: given.and_then(|given| given.description.as_deref()) })
    }

    /// Whether no list of the server was complete so far.
    pub(crate) fn awaits_list(&self) -> bool {
        self.unmatched.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Notes the server's own names of the tools in a page of a list. At the end of the first list, returns what the
    /// options name that no tool has.
    pub(crate) fn note_list<'a>(
        &self,
        own: impl IntoIterator<Item = &'a str>,
        is_last_page: bool,
    ) -> Option<Vec<String>> {
        let mut unmatched = self.unmatched.lock().unwrap_or_else(PoisonError::into_inner);
        let names = unmatched.as_mut()?;
        for own in own {
            let shown = self.overrides.get(own).and_then(|given| given.name.as_deref()).unwrap_or(own);
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

/// The server's own names by the names that were given, unless two collide.
fn renamed(overrides: &BTreeMap<String, ToolOverride>) -> Result<HashMap<String, String>> {
    let mut renamed = HashMap::new();
    let mut given = BTreeSet::new();
    for (own, one) in overrides {
        check(own).map_err(|reason| invalid(format!("the tool `{own}` cannot be overridden: {reason}")))?;
        let name = one.name.as_ref().unwrap_or(own);
        check(name).map_err(|reason| invalid(format!("`{name}` is no name for a tool: {reason}")))?;
        if name.contains(['*', '?']) || name.starts_with('!') {
            return Err(invalid(format!(
                "`{name}` is no name for a tool: `*`, `?` and `!` are for patterns"
            )));
        }
        if !given.insert(name) {
            return Err(invalid(format!("two tools are given the name `{name}`")));
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
        return Err("the name has a control character or a comma");
    }
    Ok(())
}

/// Whether a pattern is all of a name: `*` is any text, `?` any one letter.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut place) = (0, 0);
    // Where the last `*` stands, and where in the name it was tried to end.
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(letter) if *letter == '?' || *letter == name[place] => (at, place) = (at + 1, place + 1),
            _ => match star {
                Some((began, ended)) => {
                    star = Some((began, ended + 1));
                    (at, place) = (began + 1, ended + 1);
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
