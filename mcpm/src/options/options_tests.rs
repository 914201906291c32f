//! Tests rules for all rows of the option table, and operations on option sets.

use std::collections::HashSet;

use super::*;
use crate::ErrorKind;

fn every_row() -> impl Iterator<Item = (&'static str, &'static OptionSpec)> {
    let rows =
        |command: &'static str, specs: &'static [OptionSpec]| specs.iter().map(move |spec| (command, spec));
    rows("run", WorkloadOptions::SPECS).chain(rows("proxy", ProxyOptions::SPECS))
}

fn run(values: &[(&str, &str)]) -> WorkloadOptions {
    let mut options = WorkloadOptions::default();
    for (name, text) in values {
        options.set(name, text).unwrap();
    }
    options
}

#[test]
fn names_and_letters_are_unique_within_a_command() {
    for command in ["run", "proxy"] {
        let mut names = HashSet::new();
        let mut letters = HashSet::from(['h', 'V']);
        for (_, spec) in every_row().filter(|(of, _)| *of == command) {
            assert!(names.insert(spec.name), "`{}` is declared twice for {command}", spec.name);
            if let Some(letter) = spec.short {
                assert!(letters.insert(letter), "-{letter} is taken in {command}");
            }
        }
    }
}

#[test]
fn names_are_lower_case_words() {
    for (_, spec) in every_row() {
        let words = spec.name.split('_');
        let lower = |word: &str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        assert!(words.clone().all(lower), "`{}`", spec.name);
        assert!(!spec.flag().contains('_'), "--{}", spec.flag());
    }
}

#[test]
fn help_lines_are_one_short_phrase() {
    for (_, spec) in every_row() {
        let help = spec.help();
        assert!(!help.is_empty() && !help.ends_with('.'), "`{}`: {help}", spec.name);
        assert!(help.chars().count() <= 100, "`{}`: {help}", spec.name);
        assert!(help.starts_with(|c: char| c.is_uppercase()), "`{}`: {help}", spec.name);
        assert!(!help.contains("default:") && !help.contains("by default"), "`{}`: {help}", spec.name);
    }
}

#[test]
fn details_are_sentences() {
    for (_, spec) in every_row() {
        let details = spec.details();
        assert!(details.is_empty() || details.ends_with('.'), "`{}`: {details}", spec.name);
    }
}

#[test]
fn defaults_parse() {
    for (_, spec) in every_row() {
        if let Some(text) = spec.default {
            assert_eq!(spec.check(text), Ok(()), "`{}`", spec.name);
            assert!(spec.computed_default.is_none(), "`{}` has two defaults", spec.name);
        }
    }
    assert_eq!(WorkloadOptions::defaults().check_values().map_err(|e| e.to_string()), Ok(()));
    assert_eq!(ProxyOptions::defaults().host.as_deref(), Some("127.0.0.1"));
}

#[test]
fn names_in_settings_are_options_of_the_same_command() {
    for (command, spec) in every_row() {
        let known = |name: &str| every_row().any(|(of, other)| of == command && other.name == name);
        assert!(spec.conflicts_with.iter().all(|name| known(name)), "`{}`", spec.name);
        if let Required::Unless(other) = spec.required {
            assert!(known(other), "`{}`", spec.name);
        }
    }
}

#[test]
fn arguments_without_a_flag_have_a_placeholder_of_their_own() {
    for (_, spec) in every_row()
        .filter(|(_, spec)| matches!(spec.place, ArgumentPosition::Positional | ArgumentPosition::Trailing))
    {
        assert!(spec.placeholder.is_some() && spec.short.is_none(), "`{}`", spec.name);
    }
}

#[test]
fn working_values_of_options_without_their_feature_parse() {
    for (_, spec) in every_row() {
        assert!(spec.feature.is_some() || spec.supported_values.is_empty(), "`{}`", spec.name);
        assert!(spec.supported_values.iter().all(|text| spec.check(text).is_ok()), "`{}`", spec.name);
    }
}

#[test]
fn an_option_is_set_by_field_or_flag_name() {
    let options = run(&[("proxy-port", "9090"), ("proxy_mode", "sse")]);
    assert_eq!((options.proxy_port, options.proxy_mode), (Some(9090), Some(ProxyMode::Sse)));
    assert_eq!(options.given().collect::<Vec<_>>(), ["proxy_mode", "proxy_port"]);
}

#[test]
fn an_unknown_option_is_refused() {
    let error = ProxyOptions::default().set("proxy-port", "1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert_eq!(error.to_string(), "`proxy` has no option `proxy-port`");
}

#[test]
fn a_bad_value_names_its_option_and_stores_nothing() {
    let mut options = WorkloadOptions::default();
    for (name, text, message) in [
        ("env", "KEY", "invalid value for `env`: expected `KEY=VALUE`"),
        ("env", "=v", "invalid value for `env`: the name before `=` is empty"),
        (
            "transport",
            "http",
            "invalid value `http` for `transport`: expected `sse`, `streamable-http` or `stdio`",
        ),
        ("target-port", "0", "invalid value `0` for `target_port`: expected a number from 1 to 65535"),
        ("target-port", "-1", "invalid value `-1` for `target_port`: expected a number from 1 to 65535"),
        ("proxy-port", "65536", "invalid value `65536` for `proxy_port`: expected a port from 0 to 65535"),
        (
            "otel-sampling-rate",
            "1.5",
            "invalid value `1.5` for `otel_sampling_rate`: expected a number from 0 to 1",
        ),
        (
            "otel-sampling-rate",
            "NaN",
            "invalid value `NaN` for `otel_sampling_rate`: expected a number from 0 to 1",
        ),
        ("oidc-scopes", "a,,b", "invalid value `a,,b` for `oidc_scopes`: an item of the list is empty"),
        ("isolate-network", "yes", "invalid value `yes` for `isolate_network`: expected `true` or `false`"),
        ("env-file", "", "invalid value `` for `env_file`: expected a path"),
    ] {
        let error = options.set(name, text).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidOption, message));
    }
    assert_eq!(options, WorkloadOptions::default());
}

#[test]
fn a_list_takes_commas_and_repetition_and_other_repeatables_do_not() {
    let options = run(&[("tools", "a, b"), ("tools", "c"), ("args", "x,y")]);
    assert_eq!(options.tools, ["a", "b", "c"]);
    assert_eq!(options.args, ["x,y"]);
}

#[test]
fn given_options_take_precedence_over_lower_layers() {
    let options = run(&[("group", "mine"), ("label", "a=1")]).or(run(&[("label", "b=2"), ("name", "n")]));
    let options = options.or(WorkloadOptions::defaults());
    assert_eq!((options.group.as_deref(), options.name.as_deref()), (Some("mine"), Some("n")));
    assert_eq!(options.label, [KeyValue::from(("a", "1"))]);
    assert_eq!(options.oidc_scopes, ["openid"]);
}

#[test]
fn contradictions_name_both_options() {
    for (values, message) in [
        (
            vec![("remote-auth-issuer", "https://i"), ("remote-auth-token-url", "https://t")],
            "`remote_auth_issuer` cannot be used with `remote_auth_token_url`",
        ),
        (vec![("from-config", "f"), ("host", "h")], "`from_config` cannot be used with `host`"),
        (vec![("from-config", "f"), ("server", "s")], "`from_config` cannot be used with `server`"),
    ] {
        let error = run(&values).check().unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidOption, message));
    }
}

#[test]
fn sources_with_a_precedence_do_not_contradict_each_other() {
    let options = run(&[("remote-auth-client-secret", "s"), ("remote-auth-client-secret-file", "f")]);
    assert!(options.check_conflicts().is_ok());
}

#[test]
fn an_exported_file_goes_with_foreground_and_debug_alone() {
    assert!(run(&[("from-config", "f"), ("foreground", "true"), ("debug", "true")]).check().is_ok());
}

#[test]
fn missing_required_options_are_reported() {
    let missing = |result: crate::Result<()>| result.unwrap_err().to_string();
    assert_eq!(missing(run(&[]).check()), "`server` is required");
    let mut options = ProxyOptions { server_name: Some("s".into()), ..Default::default() };
    assert_eq!(missing(options.check()), "`target_uri` is required");
    options.target_uri = Some("http://t".into());
    assert!(options.check().is_ok());
}

#[test]
fn options_of_a_feature_are_rejected_exactly_in_builds_without_it() {
    for (_, spec) in every_row() {
        let missing = spec.feature.filter(|feature| !feature.is_enabled());
        let expected = missing.map(|feature| format!("`{}` needs the Cargo feature `{feature}`", spec.name));
        let error = spec.unsupported_error();
        assert_eq!(error.as_ref().map(|error| error.message().to_owned()), expected, "`{}`", spec.name);
        assert!(error.is_none_or(|error| error.kind() == ErrorKind::Unsupported), "`{}`", spec.name);
    }
}

#[test]
fn json_holds_given_options_without_secrets() {
    let options = run(&[
        ("server", "s"),
        ("proxy-port", "0"),
        ("foreground", "false"),
        ("publish", "[::1]:80:80/udp"),
        ("env", "A=b=c"),
        ("volume", "./d:/d:ro,Z"),
        ("otel-sampling-rate", "0.5"),
        ("remote-auth-timeout", "90s"),
        ("remote-auth-client-secret", "hidden"),
        ("remote-forward-headers", "X-Key=hidden"),
        ("otel-headers", "x-key=hidden"),
    ]);
    let json = serde_json::to_string(&options).unwrap();
    assert_eq!(
        json,
        r#"{"server":"s","proxy_port":0,"publish":["[::1]:80:80/udp"],"env":["A=b=c"],"volume":["./d:/d:ro,Z"],"#.to_owned()
            + r#""foreground":false,"remote_auth_timeout":"1m30s","otel_sampling_rate":0.5}"#
    );
    let read: WorkloadOptions = serde_json::from_str(&json).unwrap();
    let shown = WorkloadOptions {
        remote_auth_client_secret: None,
        remote_forward_headers: vec![],
        otel_headers: vec![],
        ..options.clone()
    };
    assert_eq!(read, shown);
    assert!(!format!("{options:?}").contains("hidden"));
    // Secrets, which JSON omits, can be passed separately.
    let mut whole = read;
    let secrets = options.secrets();
    assert!(!format!("{secrets:?}").contains("hidden") && secrets.len() == 3);
    secrets.iter().for_each(|(name, secret)| whole.set(name, secret.expose()).unwrap());
    assert_eq!(whole, options);
}

#[test]
fn json_may_bring_secrets_and_nothing_unknown() {
    let read = |json| serde_json::from_str::<ProxyOptions>(json);
    let options =
        read(r#"{"remote_auth_bearer_token":"t","remote_forward_headers":["A=b"],"port":null}"#).unwrap();
    assert_eq!(options.remote_auth_bearer_token, Some(Secret::from("t")));
    assert_eq!(options.remote_forward_headers, [Header::from(("A", "b"))]);
    assert!(read(r#"{"proxy_port":1}"#).unwrap_err().to_string().contains("unknown field `proxy_port`"));
    assert!(read(r#"{"port":"80"}"#).is_err());
}

#[test]
fn setters_take_what_is_natural() {
    let built = crate::workload::WorkloadBuilder::default()
        .server("image")
        .label(("a", "b"))
        .env(("K", "v"))
        .publish((8080, 80))
        .volume(VolumeSpec::new("/h", "/c").read_only())
        .allowed_origins("https://a")
        .allowed_origins("https://b")
        .proxy_port(8080_u16)
        .build()
        .unwrap();
    let built = built.options();
    assert_eq!(built.allowed_origins, ["https://a", "https://b"]);
    assert_eq!(built.group.as_deref(), Some("default"));
}

#[test]
fn values_made_by_hand_are_checked_as_typed_ones_are() {
    let message = |builder: crate::workload::WorkloadBuilder| builder.build().unwrap_err().to_string();
    let builder = || crate::workload::WorkloadBuilder::default().server("image");
    assert_eq!(
        message(builder().target_port(0_u16)),
        "invalid value `0` for `target_port`: expected a number from 1 to 65535"
    );
    assert_eq!(
        message(builder().label(("", "v"))),
        "invalid value `=v` for `label`: the key before `=` is empty"
    );
    assert_eq!(
        message(builder().label(("a=b", "c"))),
        "invalid value `a=b=c` for `label`: a part of the value cannot be written in the text form"
    );
    assert_eq!(
        message(builder().remote_forward_headers(("A", "b\n"))),
        "invalid value for `remote_forward_headers`: the value contains a character that is not allowed in headers"
    );
}
