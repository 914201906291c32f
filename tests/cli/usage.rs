//! What is wrong with a command line is said before anything is touched.

use std::fs;

use super::support::Home;

/// Runs each line of words without an engine, and checks that all end with the code.
#[track_caller]
fn all_end_with(home: &Home, code: i32, lines: &[&str]) {
    for line in lines {
        let args: Vec<&str> = line.split_whitespace().collect();
        let outcome = home.says(&args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{line}: {outcome:?}");
    }
    home.has_nothing_left();
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
    home.matches("usage/unknown");
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
    home.matches("usage/missing");
}

#[test]
fn an_option_that_is_not_built_yet_is_refused() {
    let home = Home::without_engine();
    let lines = [
        "run image --isolate-network",
        "run image --secret name,target=NAME",
        "run image --oidc-issuer https://issuer",
        "run image --permission-profile none",
        "run image --tools a,b",
        "run uvx://package",
        "run npx://package",
        "run go://package",
        "run https://127.0.0.1/mcp",
        "proxy name --target-uri http://127.0.0.1:1 --remote-auth",
    ];
    all_end_with(&home, 3, &lines);
    home.matches("usage/unsupported");
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
fn help_version_completion_and_man_pages_are_printed() {
    let home = Home::without_engine();
    assert_eq!(home.says(&["--version"]).code, Some(0));
    assert_eq!(home.says(&["--help"]).code, Some(0));
    assert_eq!(home.says(&["proxy", "-h"]).code, Some(0));
    assert_eq!(home.says(&[]).code, Some(2));
    home.matches("usage/help");
    let root = mcpm_tests::root().join("docs");
    for (shell, file) in [("bash", "mcpm.bash"), ("zsh", "_mcpm"), ("fish", "mcpm.fish")] {
        let said = home.run(&["completion", shell]).succeeded();
        assert_eq!(said.stdout, fs::read_to_string(root.join("completions").join(file)).unwrap());
    }
    assert_eq!(home.run(&["man"]).succeeded().stdout, fs::read_to_string(root.join("man/mcpm.1")).unwrap());
    home.run(&["man", "pages/new"]).succeeded();
    let page = fs::read_to_string(home.path("pages/new/mcpm-run.1")).unwrap();
    assert_eq!(page, fs::read_to_string(root.join("man/mcpm-run.1")).unwrap());
}
