//! Finds the name that a user may have meant.

/// Returns the known name with the smallest edit distance to `name`, ignoring case, if it is similar.
pub(crate) fn nearest<'a>(known: impl IntoIterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let name = name.to_lowercase();
    let alike = known.into_iter().map(|one| (distance(&one.to_lowercase(), &name), one));
    let (distance, nearest) = alike.min()?;
    (distance <= nearest.len().max(3) / 3 && distance < name.chars().count().max(1)).then_some(nearest)
}

/// Shortens a parser's error about an unknown field: replaces the list of all fields with the field that was probably
/// meant.
pub(crate) fn suggest_field(error: &str) -> String {
    const UNKNOWN: &str = "unknown field `";
    let found = error.find(UNKNOWN).and_then(|at| {
        let (name, rest) = error[at + UNKNOWN.len()..].split_once('`')?;
        Some((&error[..at], name, rest.strip_prefix(", expected ")?))
    });
    let Some((before, name, choices)) = found else { return error.to_owned() };
    let end = [" at line ", "\n"].iter().filter_map(|end| choices.find(end)).min().unwrap_or(choices.len());
    // The JSON parser puts names in backticks, the YAML parser does not.
    let known = choices[..end].split([' ', ',', '`']).filter(|word| !["", "one", "of", "or"].contains(word));
    let meant = nearest(known, name).map(|known| format!(" (did you mean `{known}`?)")).unwrap_or_default();
    format!("{before}{UNKNOWN}{name}`{meant}{}", &choices[end..])
}

/// The Levenshtein distance of two texts.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        for (above, its) in row.iter_mut().skip(1).zip(other.chars()) {
            let replaced = diagonal + usize::from(letter != its);
            diagonal = *above;
            left = replaced.min(left + 1).min(diagonal + 1);
            *above = left;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_that_was_meant_replaces_all_others() {
        for (error, expected) in [
            (
                "unknown field `nam`, expected one of `name`, `group` at line 1 column 4",
                "unknown field `nam` (did you mean `name`?) at line 1 column 4",
            ),
            (
                "bad: unknown field `nam`, expected `name` or `group`",
                "bad: unknown field `nam` (did you mean `name`?)",
            ),
            ("unknown field `colour`, expected `name`\n | x", "unknown field `colour`\n | x"),
            (
                "unknown field `nam`, expected one of group, name",
                "unknown field `nam` (did you mean `name`?)",
            ),
            (
                "unknown field `x`, there are no fields at line 1",
                "unknown field `x`, there are no fields at line 1",
            ),
            ("expected value at line 1 column 1", "expected value at line 1 column 1"),
        ] {
            assert_eq!(suggest_field(error), expected);
        }
    }

    #[test]
    fn the_nearest_name_is_one_that_is_alike() {
        assert_eq!((distance("", "ab"), distance("kitten", "sitting"), distance("ab", "ab")), (2, 3, 0));
        let known = ["Action", "MCP", "Resource", "Tool", "call_tool", "get_prompt"];
        for (name, expected) in [
            ("Tol", Some("Tool")),
            ("tool", Some("Tool")),
            ("calltool", Some("call_tool")),
            ("resources", Some("Resource")),
            ("mcp", Some("MCP")),
            ("list_tools", None),
            ("", None),
        ] {
            assert_eq!(nearest(known, name), expected, "{name}");
        }
    }
}
