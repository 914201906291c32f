//! Words the library's messages for the command line: settings that they name become flags.

use mcpm::options::{OptionSet, OptionSpec, Place, ProxyOptions, WorkloadOptions};

/// How the library begins an advice about a setting.
const SET: &str = "set `";

/// What the library says of a setting that changes nothing.
const NO_EFFECT: &str = "` has no effect";

/// Turns ``set `proxy_port` to `0` `` into ``use `--proxy-port 0` ``, and names any other setting by its flag.
pub(crate) fn with_flags(message: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(message.len()), message);
    if let Some((name, after)) = message.strip_prefix('`').and_then(|message| message.split_once('`'))
        && rest[name.len() + 1..].starts_with(NO_EFFECT)
        && let Some(flag) = flag_of(name)
    {
        out += &format!("`--{flag}`");
        rest = after;
    }
    while let Some((before, after)) = rest.split_once(SET) {
        out.push_str(before);
        let flag = after.split_once('`').and_then(|(name, after)| Some((flag_of(name)?, after)));
        let Some((flag, after)) = flag else {
            out.push_str(SET);
            rest = after;
            continue;
        };
        let value = after.strip_prefix(" to `").and_then(|value| value.split_once('`'));
        (out, rest) = match value {
            Some((value, after)) => (out + &format!("use `--{flag} {value}`"), after),
            None => (out + &format!("set `--{flag}`"), after),
        };
    }
    out + rest
}

fn flag_of(name: &str) -> Option<String> {
    let is_flag = |spec: &&OptionSpec| spec.name == name && matches!(spec.place, Place::Flag | Place::Global);
    WorkloadOptions::SPECS.iter().chain(ProxyOptions::SPECS).find(is_flag).map(OptionSpec::flag)
}

#[cfg(test)]
mod tests {
    use super::with_flags;

    #[test]
    fn settings_in_advice_become_flags() {
        for (message, expected) in [
            ("a; set `transport` to `sse`", "a; use `--transport sse`"),
            ("set `proxy_port` to another, or to 0", "set `--proxy-port` to another, or to 0"),
            ("set `port` to `1`, or set `host`", "use `--port 1`, or set `--host`"),
            ("set `server` to `a`", "set `server` to `a`"),
            ("`resource_url` has no effect without x", "`--resource-url` has no effect without x"),
            ("`proxy_port` in `f` is bad", "`proxy_port` in `f` is bad"),
            ("set `nothing`", "set `nothing`"),
            ("set `transport", "set `transport"),
            ("set `transport` to `sse", "set `--transport` to `sse"),
            ("", ""),
        ] {
            assert_eq!(with_flags(message), expected, "{message}");
        }
    }
}
