//! Tests with the cases in `tests/data`, and of properties that hold for all names.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    about: String,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    overrides: BTreeMap<String, ToolOverride>,
    /// The tools as clients see them, by the server's name; `null` if hidden.
    #[serde(default)]
    listed: BTreeMap<String, Option<String>>,
    /// The tool that a call reaches, by the called name.
    #[serde(default)]
    called: BTreeMap<String, Option<String>>,
    /// The expected error of the options.
    refused: Option<String>,
}

#[test]
fn cases() {
    let text = include_str!("../../../tests/data/policy/tools.json");
    let cases: Vec<Case> = serde_json::from_str(text).expect("cases");
    for case in cases {
        let about = &case.about;
        let tools = match (ToolPolicy::new(&case.tools, &case.overrides), case.refused) {
            (Ok(Some(tools)), None) => tools,
            (Err(error), Some(refused)) => {
                assert!(error.to_string().contains(&refused), "{about}: {error}");
                continue;
            }
            (outcome, refused) => panic!("{about}: {outcome:?}, {refused:?}"),
        };
        for (own, name) in &case.listed {
            assert_eq!(tools.list_entry(own).map(|shown| shown.name), name.as_deref(), "{about}: {own}");
        }
        for (name, own) in &case.called {
            assert_eq!(tools.resolve(name), own.as_deref(), "{about}: {name}");
        }
    }
}

#[test]
fn unmatched_names_are_reported_once_after_the_first_list() {
    let patterns = ["fetch", "gone", "read_*", "!writ?", "!x*", "page"].map(str::to_owned);
    let named = |name: &str| ToolOverride { name: Some(name.to_owned()), description: None };
    let overrides =
        BTreeMap::from([("open".to_owned(), named("page")), ("shut".to_owned(), named("closed"))]);
    let tools = ToolPolicy::new(&patterns, &overrides).expect("options").expect("a filter");
    assert!(tools.awaits_list());
    assert_eq!(tools.note_list(["fetch", "write"], false), None);
    assert_eq!(tools.note_list([], false), None, "a page may be empty");
    let unmatched = tools.note_list(["open", "other"], true).expect("some are unmatched");
    assert_eq!(unmatched, ["gone", "read_*", "shut", "x*"]);
    assert!(!tools.awaits_list());
    assert_eq!(tools.note_list([], true), None, "it is told once");
    let all = ToolPolicy::new(&["*".to_owned()], &BTreeMap::new()).expect("options").expect("a filter");
    assert_eq!(all.note_list(["a"], true), None);
}

#[test]
fn a_name_that_is_too_long_to_be_compared_is_hidden() {
    for patterns in [&["*"][..], &["!x"]] {
        let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        let tools = ToolPolicy::new(&patterns, &BTreeMap::new()).expect("patterns").expect("a filter");
        for (length, called) in [(MAX_MATCHED_NAME_BYTES, true), (MAX_MATCHED_NAME_BYTES + 1, false)] {
            let name = "a".repeat(length);
            assert_eq!((tools.resolve(&name).is_some(), tools.list_entry(&name).is_some()), (called, called));
            assert_eq!(tools.explain_hidden(&name).rule.contains("more than"), !called);
        }
    }
}

#[test]
fn without_options_there_is_nothing_to_decide() {
    assert!(ToolPolicy::new(&[], &BTreeMap::new()).expect("no options").is_none());
}

#[test]
fn what_hides_a_tool_is_named_with_the_smallest_change() {
    let renamed = |name: &str| ToolOverride { name: Some(name.to_owned()), description: None };
    let overrides = BTreeMap::from([("b".to_owned(), renamed("beta")), ("x".to_owned(), renamed("c"))]);
    for (patterns, name, rule, fix) in [
        (&["!delete_*"][..], "delete_all", "!delete_*", "remove `!delete_*` from option `tools`"),
        (&["a", "d*", "!d?", "!*e"], "de", "!d?,!*e", "remove `!d?,!*e` from option `tools`"),
        (&["a", "!d"], "d", "!d", "remove `!d` from option `tools`, and add `d` to option `tools`"),
        (&["a", "e_*"], "d", "a,e_*", "add `d` to option `tools`"),
        (&["beta"], "b", "`b` is renamed to `beta`", "call it `beta`"),
        (&["a"], "b", "a", "call it `beta`, and add `beta` to option `tools`"),
        (&["!b*"], "b", "!b*", "call it `beta`, and remove `!b*` from option `tools`"),
        // The name now belongs to another tool.
        (&["a"], "c", "a", "add `c` to option `tools`"),
    ] {
        let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        let tools = ToolPolicy::new(&patterns, &overrides).expect("options").expect("something to decide");
        assert_eq!(tools.resolve(name), None, "{patterns:?} {name}");
        let widens = fix.contains("option `tools`");
        let expected = HiddenTool { rule: rule.to_owned(), fix: fix.to_owned(), exposes_tools: widens };
        assert_eq!(tools.explain_hidden(name), expected, "{patterns:?} {name}");
    }
}

prop_compose! {
    fn any_tools()(
        patterns in prop::collection::vec("!?[abAB*?]{1,3}", 0..4),
        overrides in prop::collection::btree_map("[abAB]{1,2}", prop::option::of("[abAB]{1,2}"), 0..4),
    ) -> Option<ToolPolicy> {
        let overrides = overrides.into_iter()
            .map(|(own, name)| (own, ToolOverride { name, description: Some("d".to_owned()) })).collect();
        ToolPolicy::new(&patterns, &overrides).ok().flatten()
    }
}

proptest! {
    #[test]
    fn what_no_list_shows_cannot_be_called_and_what_one_shows_can(
        tools in any_tools(),
        server in prop::collection::btree_set("[abABc]{1,2}", 0..12),
        called in "[abABc]{1,2}",
    ) {
        let Some(tools) = tools else { return Ok(()) };
        let shown: Vec<(&str, &str)> = server.iter()
            .filter_map(|own| tools.list_entry(own).map(|shown| (shown.name, own.as_str())))
            .collect();
        let names: BTreeSet<&str> = shown.iter().map(|(name, _)| *name).collect();
        prop_assert_eq!(names.len(), shown.len(), "a name stands twice");
        for (name, own) in &shown {
            prop_assert_eq!(tools.resolve(name), Some(*own));
        }
        // Among the server's tools, a call reaches exactly those that the list contains under that name.
        match tools.resolve(&called).filter(|own| server.contains(*own)) {
            Some(own) => prop_assert!(shown.contains(&(called.as_str(), own))),
            None => prop_assert!(!names.contains(called.as_str())),
        }
        if tools.resolve(&called).is_none() {
            let hidden = tools.explain_hidden(&called);
            prop_assert!(!hidden.rule.is_empty() && !hidden.fix.is_empty(), "{hidden:?}");
        }
    }

    #[test]
    fn a_pattern_without_wildcards_is_itself(name in "\\PC{1,8}", other in "\\PC{1,8}") {
        prop_assume!(!name.contains(['*', '?']));
        prop_assert!(matches(&name, &name));
        prop_assert_eq!(matches(&name, &other), name == other);
    }
}
