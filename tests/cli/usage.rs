//! Checks that errors in a command line are reported before the command changes anything.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::support::Home;

/// Runs each line of words without an engine, and checks that all commands exit with the code.
#[track_caller]
fn all_end_with(home: &Home, code: i32, lines: &[&str]) {
    for line in lines {
        let args: Vec<&str> = line.split_whitespace().collect();
        let outcome = home.run_and_record(&args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{line}: {outcome:?}");
    }
    home.assert_nothing_left();
}

#[test]
fn an_unknown_option_or_command_is_refused_with_the_nearest_name() {
    let home = Home::without_engine();
    let lines = [
        "run image --isolate-netwrok",
        "run image --no-such-thing",
        "proxy name --target-url http://127.0.0.1:1",
        "list --outptu json",
        "lst",
        "group crate x",
    ];
    all_end_with(&home, 2, &lines);
    home.assert_transcript("usage/unknown");
}

#[test]
fn a_missing_or_superfluous_argument_is_refused() {
    let home = Home::without_engine();
    let lines = [
        "run",
        "run image argument",
        "run image --name",
        "proxy name",
        "proxy --target-uri http://127.0.0.1:1",
        "stop",
        "rm",
        "status",
        "status one two",
        "start one --all",
        "group create",
        "completion",
    ];
    all_end_with(&home, 2, &lines);
    home.assert_transcript("usage/missing");
}

#[test]
fn options_of_remote_servers_are_refused_for_others() {
    let home = Home::without_engine();
    let lines = [
        "run image --remote-auth-issuer https://issuer",
        "run image --remote-auth --remote-forward-headers X-A=b",
        "run http://mcp.example.com/mcp --remote-auth",
        "run https://mcp.example.com/mcp --remote-auth --remote-auth-bearer-token t",
        "run https://mcp.example.com/mcp --remote-auth-client-secret s",
        "run https://mcp.example.com/mcp --remote-auth-authorize-url https://id.example.com/a",
        "run https://mcp.example.com/mcp --remote-forward-headers Host=a",
        "proxy name --target-uri http://mcp.example.com --remote-auth-bearer-token t",
        "proxy name --target-uri http://127.0.0.1:1 --remote-auth-bearer-token-file absent",
    ];
    all_end_with(&home, 2, &lines);
    home.assert_transcript("usage/remote_only");
}

#[test]
fn a_flag_can_be_set_to_false() {
    let home = Home::new();
    let plan = home.run(&[
        "run",
        "mcpm-test/everything:1",
        "--plan",
        "--foreground=false",
        "--trust-proxy-headers=false",
        "-o",
        "json",
    ]);
    assert_eq!(plan.succeeded().json()["spec"]["proxy"]["trust_proxy_headers"], false);
    let plan = home.run(&["run", "mcpm-test/everything:1", "--plan", "--trust-proxy-headers", "-o", "json"]);
    assert_eq!(plan.succeeded().json()["spec"]["proxy"]["trust_proxy_headers"], true);
}

#[test]
fn a_bad_value_is_refused_with_what_was_expected() {
    let home = Home::without_engine();
    let lines = [
        "run image --proxy-port 99999",
        "run image --proxy-port -1",
        "run image --target-port 0",
        "run image --transport carrier-pigeon",
        "run image --proxy-mode stdio",
        "run image --foreground=maybe",
        "run image --env NAME",
        "run image --env =value",
        "run image --label word",
        "run image --volume /only-one",
        "run image --volume relative:also-relative",
        "run image --volume /a:/b:rx",
        "run image --publish eighty",
        "run image --publish 1:2:3:4",
        "run image --publish 80:70000",
        "run image --host http://127.0.0.1",
        "run image --endpoint-prefix no-slash",
        "run image --runtime vmware",
        "run image --otel-sampling-rate 3",
        "run image --otel-protocol carrier-pigeon",
        "run image --otel-endpoint ftp://otel.example",
        "run image --otel-endpoint http://otel.example",
        "run image --otel-endpoint https://user:hush@otel.example",
        "run image --otel-endpoint https://otel.example/x --otel-protocol grpc",
        "run image --otel-endpoint https://otel.example --otel-headers none",
        "run image --otel-endpoint https://otel.example --otel-headers host=x",
        "run image --otel-endpoint https://otel.example --otel-env-vars MCPM_SECRETS_PASSWORD",
        "run image --otel-endpoint https://otel.example --otel-custom-attributes a",
        "proxy p --target-uri http://127.0.0.1:1 --otel-endpoint http://otel.example",
        "proxy p --target-uri http://127.0.0.1:1 --otel-sampling-rate NaN",
        "run image --remote-auth-timeout soon",
        "run image --output xml",
        "run Upper/Case:1",
        "run ftp://127.0.0.1/server",
        "stop name --timeout soon",
        "logs name --tail many",
        "completion cmd",
    ];
    all_end_with(&home, 2, &lines);
    home.assert_transcript("usage/bad_value");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let home = Home::without_engine();
    let lines = [
        "run image --remote-auth-issuer https://a --remote-auth-token-url https://b",
        "run image --token-exchange-client-secret s --token-exchange-client-secret-file f",
        "run --from-config file --env A=b",
        "run image --from-config file",
        "run image --otel-endpoint https://otel.example --otel-tracing-enabled=false --otel-metrics-enabled=false",
        "run image --transport stdio --target-port 80",
        "run image --transport stdio --target-host 127.0.0.1",
        "run image --isolate-network --network host",
        "run image --volume /tmp:/a --volume /etc:/a",
        "run image --label mcpm-name=mine",
        "run image --label mcpm=false",
        "logs name --proxy --tail 1",
    ];
    all_end_with(&home, 2, &lines);
    home.assert_transcript("usage/conflicts");
}

#[test]
fn a_file_of_variables_is_checked_before_an_engine_is_asked() {
    let home = Home::without_engine();
    home.write("broken.env", "A=1\n\n# a comment\nnot an assignment\n");
    home.write("quotes.env", "A=\"1\n");
    home.write("folder/a.env", "A=1\n");
    home.write("folder/b.env", "=2\n");
    for (code, args) in [
        (4, ["run", "image", "--env-file", "missing.env"]),
        (1, ["run", "image", "--env-file", "folder"]),
        (2, ["run", "image", "--env-file", "broken.env"]),
        (2, ["run", "image", "--env-file", "quotes.env"]),
        (4, ["run", "image", "--env-file-dir", "missing"]),
        (2, ["run", "image", "--env-file-dir", "folder"]),
        (4, ["run", "image", "--volume", "missing:/data"]),
    ] {
        assert_eq!(home.run_and_record(&args).code, Some(code), "{args:?}");
    }
    home.assert_nothing_left();
    home.assert_transcript("usage/env_file");
}

#[test]
fn an_exported_file_is_checked_before_an_engine_is_asked() {
    let home = Home::without_engine();
    home.write("broken.json", "{\"version\": 1,");
    home.write("unknown.json", r#"{"version": 1, "run": {"server": "image", "colour": "red"}}"#);
    home.write("newer.json", r#"{"version": 2, "run": {"image": "image"}}"#);
    home.write("empty.json", r#"{"version": 1, "run": {}}"#);
    home.write("nested.json", r#"{"version": 1, "run": {"from_config": "broken.json"}}"#);
    home.write("bad.json", r#"{"version": 1, "run": {"server": "image", "proxy_port": 70000}}"#);
    home.write("later.json", r#"{"version": 1, "run": {"server": "image", "remote_auth": true}}"#);
    for (code, file) in [
        (4, "missing.json"),
        (2, "broken.json"),
        (2, "unknown.json"),
        (2, "newer.json"),
        (2, "empty.json"),
        (2, "nested.json"),
        (2, "bad.json"),
        (2, "later.json"),
    ] {
        assert_eq!(home.run_and_record(&["run", "--from-config", file]).code, Some(code), "{file}");
    }
    home.assert_nothing_left();
    home.assert_transcript("usage/from_config");
}

#[test]
fn invalid_policies_are_rejected_before_the_start() {
    let home = Home::without_engine();
    let file = home.write("overrides.json", "{\"toolsOverride\": {\n  \"a\": { \"nam\": \"b\" }\n}}\n");
    let target = ["--target-uri", "http://127.0.0.1:1"];
    for rules in [["--tools-override", file.as_str()], ["--tools-override", "absent"], ["--tools", "a,!"]] {
        for command in [&["run", "image"][..], &["proxy", "name", target[0], target[1]]] {
            let outcome = home.run_and_record(&[command, &rules[..]].concat());
            assert_eq!(outcome.code, Some(if rules[1] == "absent" { 4 } else { 2 }), "{outcome:?}");
        }
    }
    home.assert_nothing_left();
    home.assert_transcript("usage/rules");
}

#[test]
fn a_file_that_may_not_be_read_is_named() {
    let home = Home::without_engine();
    let closed = |path: String| {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        path
    };
    let file = closed(home.write("secret.env", "A=1\n"));
    let inner = closed(home.write("some/secret.env", "A=1\n"));
    home.write("closed/a.env", "A=1\n");
    let folder = closed(home.text("closed"));
    let config = closed(home.write("exported.json", "{}"));
    let volume = format!("{folder}/a.env:/data");
    let some = home.text("some");
    for args in [
        &["run", "image", "--env-file", &file][..],
        &["run", "image", "--env-file-dir", &some],
        &["run", "image", "--env-file-dir", &folder],
        &["run", "image", "--volume", &volume],
        &["run", "--from-config", &config],
    ] {
        let outcome = home.run_unprivileged(args);
        assert_eq!((outcome.code, outcome.stderr.lines().count()), (Some(1), 1), "{args:?}: {outcome:?}");
        assert_eq!(outcome.stdout, "");
    }
    assert!(!home.path("state").exists(), "nothing is left behind");
    // This lets the user who created the home remove it.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    drop(inner);
    home.assert_transcript("usage/unreadable");
}

#[test]
fn a_path_that_is_no_server_is_refused_before_an_engine_is_asked() {
    let home = Home::without_engine();
    home.write("notes.txt", "");
    home.write("folder/readme.md", "");
    home.write("two/package.json", "{}");
    home.write("two/pyproject.toml", "");
    home.write("server.py", "");
    home.write("module/go.mod", "module example.com/a\n");
    for (code, args) in [
        (4, &["run", "./absent.py"][..]),
        (2, &["run", "./notes.txt"]),
        (2, &["run", "./folder"]),
        (2, &["run", "./two"]),
        (2, &["run", "npx://./server.py"]),
        (2, &["run", "./server.py", "--with", "-r"]),
        (2, &["run", "./module", "--with", "example.com/b"]),
        (2, &["run", "image", "--with", "a"]),
        (2, &["run", "https://mcp.example.com/mcp", "--with", "a"]),
    ] {
        let outcome = home.run_and_record(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{args:?}: {outcome:?}");
    }
    home.assert_nothing_left();
    home.assert_transcript("usage/local");
}

#[test]
fn help_and_version_are_printed() {
    let home = Home::without_engine();
    assert_eq!(home.run_and_record(&["--version"]).code, Some(0));
    assert_eq!(home.run_and_record(&["--help"]).code, Some(0));
    assert_eq!(home.run_and_record(&["proxy", "-h"]).code, Some(0));
    assert_eq!(home.run_and_record(&[]).code, Some(2));
    for (code, topic) in [(0, "forms"), (0, "permissions"), (0, "transports"), (2, "nothing")] {
        assert_eq!(home.run_and_record(&["help", topic]).code, Some(code), "{topic}");
    }
    home.assert_transcript("usage/help");
}
