//! Rewrites the library's messages for the command line: replaces names of settings by flags.
//!
//! The library names a setting by its field, because it is used from several languages. Only the words around a name
//! show that it is a setting: messages about files contain the same names for fields, and users may have given the same
//! names to tools, groups and servers.

use mcpm::options::{ArgumentPosition, OptionSet, OptionSpec, ProxyOptions, ValueKind, WorkloadOptions};

/// Words before the name of a setting.
const BEFORE: [&str; 8] =
    ["set ", "omit ", "leave out ", "with ", "without ", "needs ", "option ", "options "];

/// Separators of settings in a list.
const BETWEEN: [&str; 5] = [", ", " or ", " and ", ", or ", ", and "];

/// Words after the settings at the beginning of a message.
const ABOUT: [&str; 11] = [
    " needs ",
    " requires ",
    " contains ",
    " names `",
    " turns ",
    " holds ",
    " is for ",
    " are for ",
    " is given, ",
    " is required",
    " is not supported yet",
];

/// Words after a setting anywhere in a message.
const ANYWHERE: [&str; 3] = [" has no effect", " cannot be used with ", " set to `"];

/// A setting of `mcpm proxy tunnel`, which is not in the option table.
const TUNNEL_FIELD: &str = "`allow_unauthenticated`";
const TUNNEL_FLAG: &str = "`--allow-unauthenticated`";

/// Replaces the names of settings by flags: ``set `proxy_port` to `0` `` becomes ``use `--proxy-port 0` ``, and
/// ``without `offline` `` becomes ``without `--offline` ``.
pub(crate) fn with_flags(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    let mut is_list = begins_with_settings(message);
    while let Some((before, quoted)) = rest.split_once('`') {
        let is_first = out.is_empty() && before.is_empty();
        let at = message.len() - quoted.len() - 1;
        out += before;
        let goes_on = is_list && (is_first || BETWEEN.contains(&before));
        let named = setting(quoted).filter(|(_, after)| goes_on || is_named(&message[..at], after));
        let Some((spec, after)) = named else {
            is_list = false;
            out.push('`');
            rest = quoted;
            continue;
        };
        is_list = true;
        rest = after;
        let is_flag = matches!(spec.place, ArgumentPosition::Flag | ArgumentPosition::Global);
        let set = before.ends_with("set ").then_some(" to `");
        let value = [Some(" set to `"), set]
            .into_iter()
            .flatten()
            .filter(|_| is_flag)
            .find_map(|to| after.strip_prefix(to)?.split_once('`'));
        let Some((value, after)) = value else {
            out += &shown(spec);
            continue;
        };
        if set.is_some() {
            out.truncate(out.len() - "set ".len());
            out += "use ";
        }
        out += &match (spec.kind, value) {
            (ValueKind::Bool, "true") => shown(spec),
            (ValueKind::Bool, _) => format!("`{}={value}`", spec.display_name()),
            _ => format!("`{} {value}`", spec.display_name()),
        };
        is_list = false;
        rest = after;
    }
    in_context(out + rest).replace(TUNNEL_FIELD, TUNNEL_FLAG)
}

/// The context of an error names its option without quotes.
fn in_context(message: String) -> String {
    let option = message.split_once("(option: ").and_then(|(before, rest)| {
        let (name, after) = rest.split_once(')')?;
        Some(format!("{before}(option: {}){after}", spec(name)?.display_name()))
    });
    option.unwrap_or(message)
}

/// Returns whether a message begins with settings that it then describes.
fn begins_with_settings(message: &str) -> bool {
    let mut rest = message;
    while let Some((_, after)) = rest.strip_prefix('`').and_then(setting) {
        let next = BETWEEN.iter().find_map(|between| after.strip_prefix(*between));
        match next.filter(|next| next.starts_with('`')) {
            Some(next) => rest = next,
            None => return ABOUT.iter().chain(&ANYWHERE).any(|about| after.starts_with(*about)),
        }
    }
    false
}

/// Returns whether the words around a name show that it is a setting.
fn is_named(before: &str, after: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut starts = BEFORE.iter().filter_map(|word| before.strip_suffix(*word));
    let is_value = before.ends_with(" for ") && before.contains("invalid value ") && after.starts_with(": ");
    is_value
        || starts.any(|start| !start.ends_with(is_part))
        || ANYWHERE.iter().any(|about| after.starts_with(*about))
}

/// Returns the setting whose name is quoted here, and the rest of the message.
fn setting(quoted: &str) -> Option<(&'static OptionSpec, &str)> {
    let (name, after) = quoted.split_once('`')?;
    Some((spec(name)?, after))
}

fn spec(name: &str) -> Option<&'static OptionSpec> {
    WorkloadOptions::SPECS.iter().chain(ProxyOptions::SPECS).find(|spec| spec.name == name)
}

fn shown(spec: &OptionSpec) -> String {
    match spec.place {
        ArgumentPosition::Trailing => "arguments after `--`".to_owned(),
        ArgumentPosition::Flag | ArgumentPosition::Global | ArgumentPosition::Positional => {
            format!("`{}`", spec.display_name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::with_flags;

    #[test]
    fn settings_become_flags() {
        for (message, expected) in [
            ("a; set `transport` to `sse`", "a; use `--transport sse`"),
            ("set `proxy_port` to another, or to 0", "set `--proxy-port` to another, or to 0"),
            ("set `port` to `1`, or set `host`", "use `--port 1`, or set `--host`"),
            ("set `transport` to `streamable-http` or `sse`", "use `--transport streamable-http` or `sse`"),
            ("set `a` to `b`, and set `target_port` to `1`", "set `a` to `b`, and use `--target-port 1`"),
            ("set `transport", "set `transport"),
            ("set `transport` to `sse", "set `--transport` to `sse"),
            ("set `otel_insecure` to `true` for x", "use `--otel-insecure` for x"),
            ("lift it with `isolate_network` set to `false`", "lift it with `--isolate-network=false`"),
            ("`proxy_mode` set to `sse` is for x", "`--proxy-mode sse` is for x"),
            (
                "`audit_config` turns it on, and `enable_audit` set to `false` off",
                "`--audit-config` turns it on, and `--enable-audit=false` off",
            ),
            (
                "leave out `otel_endpoint`, `otel_tracing_enabled` or `otel_metrics_enabled`",
                "leave out `--otel-endpoint`, `--otel-tracing-enabled` or `--otel-metrics-enabled`",
            ),
            ("leave out `network`, or `isolate_network`", "leave out `--network`, or `--isolate-network`"),
            (
                "image `network`: a; run it without `offline`",
                "image `network`: a; run it without `--offline`",
            ),
            ("give it with `env` or `args`, or run", "give it with `--env` or arguments after `--`, or run"),
            ("add `host` to option `tools`", "add `host` to option `--tools`"),
            ("see options `port` and `host`", "see options `--port` and `--host`"),
            ("bad (option: otel_headers): cause; hint", "bad (option: --otel-headers): cause; hint"),
        ] {
            assert_eq!(with_flags(message), expected, "{message}");
        }
    }

    #[test]
    fn settings_that_a_message_is_about_become_flags() {
        for (message, expected) in [
            ("`resource_url` has no effect without x", "`--resource-url` has no effect without x"),
            (" WARN `resource_url` has no effect", " WARN `--resource-url` has no effect"),
            (
                "`oidc_client_secret` needs `oidc_client_id`",
                "`--oidc-client-secret` needs `--oidc-client-id`",
            ),
            ("`from_config` cannot be used with `env`", "`--from-config` cannot be used with `--env`"),
            (
                "`from_config` cannot be used with `server`",
                "`--from-config` cannot be used with `SERVER_OR_IMAGE_OR_PROTOCOL`",
            ),
            ("`target_uri` is required", "`--target-uri` is required"),
            ("`publish`, `network` are for containers", "`--publish`, `--network` are for containers"),
            ("`tools` names `tools`, and `a` is `b`", "`--tools` names `tools`, and `a` is `b`"),
            ("invalid value `tools` for `tools`: bad", "invalid value `tools` for `--tools`: bad"),
            ("invalid value `a`b` for `tools`: bad", "invalid value `a`b` for `--tools`: bad"),
            ("invalid value for `env`: bad", "invalid value for `--env`: bad"),
        ] {
            assert_eq!(with_flags(message), expected, "{message}");
        }
    }

    #[test]
    fn other_names_are_left_as_they_are() {
        for message in [
            "",
            "`",
            "`proxy_port` in `f` is bad",
            "set `nothing`",
            "offset `port`",
            "unknown field `host`, expected one of `port`, `name` or `env`",
            "the group `tools` has workloads: a",
            "`network` is not a valid permission profile",
            "in use by `server` (pid 1)",
            "`tools`, `host`",
            "`tools",
            "set `--port` to another",
            "bad (option: nothing)",
        ] {
            assert_eq!(with_flags(message), message, "{message}");
        }
    }
}
