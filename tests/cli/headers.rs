//! Tests the headers that a remote server requires in each request.

use std::process::Command;

use serde_json::json;

use super::{
    remote::server,
    support::{Home, PseudoTerminal, Session},
};

#[test]
fn a_header_that_a_remote_server_requires_is_typed_once_and_sent_with_each_request() {
    let home = Home::without_engine();
    let (authority, told) = server(&["200 OK"]);
    let headers = json!([{"name": "Authorization", "value": "Bearer {token}", "isRequired": true, "isSecret": true,
        "variables": {"token": {"isRequired": true}}}]);
    let remote =
        json!({"type": "streamable-http", "url": format!("http://{authority}/mcp?k=v"), "headers": headers});
    let document = json!({"name": "com.example/far", "version": "1.0.0", "remotes": [remote]});
    let registry = home.write("far.json", &document.to_string());
    let (name, canary) = (home.name("far"), format!("canary-{}", home.name("value")));
    let run = ["run", "far", "--registry", &registry, "--name", &name, "--enable-audit"];
    let refused = home.run(&run);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("`--secret NAME,target=header:authorization`"), "{refused:?}");
    home.assert_nothing_left();

    let program = home.program();
    let mut typing =
        PseudoTerminal::spawn(home.command("script"), &format!("{program} --debug {}", run.join(" ")));
    typing.expect_then_type("token: ", &format!("{canary}\r"));
    let (code, shown) = typing.wait();
    assert_eq!((code, shown.contains(&canary)), (Some(0), false), "{shown}");
    let sent = format!("Bearer {canary}");
    assert_eq!(told.recv().unwrap().1, sent, "the first question has it, too");
    let url = home.status(&name)["url"].as_str().unwrap().to_owned();
    let mut curl = Command::new("curl");
    let curl = curl.args(["-s", "--noproxy", "*", "-H", "Authorization: Bearer mine", &url]);
    assert!(curl.output().unwrap().status.success());
    assert_eq!(told.recv().unwrap().1, sent, "in place of what a client says under that name");
    Session::without_session(&url).list_tools();
    assert_eq!(told.recv().unwrap().1, sent);
    for folder in ["state", "home", "runtime"] {
        let found = Command::new("grep").args(["-rl", &canary]).arg(home.path(folder)).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "files below {folder}");
    }
    for args in [&["status", &name, "-o", "json"][..], &["logs", &name, "--proxy"], &["export", &name]] {
        let outcome = home.run(args).succeeded();
        assert!(!outcome.stdout.contains(&canary) && !outcome.stderr.contains(&canary), "{outcome:?}");
    }

    // The user cannot be prompted again, so the running workload continues.
    let refused = home.run(&["restart", &name]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert_eq!(home.status(&name)["status"], "running");
    let mut typing = PseudoTerminal::spawn(home.command("script"), &format!("{program} restart {name}"));
    typing.expect_then_type("the whole value of the header: ", &format!("Token {canary}\r"));
    let (code, shown) = typing.wait();
    assert_eq!((code, shown.contains(&canary)), (Some(0), false), "{shown}");
    assert_eq!(told.recv().unwrap().1, format!("Token {canary}"));
    home.run(&["stop", &name]).succeeded();
    let audit = std::fs::read_to_string(home.record_dir(&name).join("audit.jsonl")).unwrap();
    assert!(audit.contains(r#""credential":"authorization""#) && !audit.contains(&canary), "{audit}");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn a_header_is_given_as_a_secret_to_any_remote_server() {
    let home = Home::without_engine();
    let (authority, told) = server(&["200 OK"]);
    let (name, url) = (home.name("given"), format!("http://{authority}/mcp"));
    home.set("MCPM_SECRET_login", "Bearer canary");
    let run = ["run", &url, "--name", &name, "--secret", "login,target=header:Authorization"];
    let plan = home.run(&[&run[..], &["--plan"]].concat()).succeeded().stdout;
    assert!(plan.contains("Authorization from `login`, sent to the remote server"), "{plan}");
    let served = home.run(&run).succeeded().url();
    assert_eq!(told.recv().unwrap().1, "Bearer canary");
    Session::without_session(&served).list_tools();
    assert_eq!(told.recv().unwrap().1, "Bearer canary");
    let exported = home.text("exported.json");
    home.run(&["export", &name, &exported]).succeeded();
    assert!(!std::fs::read_to_string(&exported).unwrap().contains("canary"));
    home.run(&["rm", &name]).succeeded();
    home.run(&["run", "--from-config", &exported]).succeeded();
    assert_eq!(told.recv().unwrap().1, "Bearer canary", "what was exported is the same workload");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();

    for (code, server, target, words) in [
        (2, "https://mcp.example.com/mcp", "KEY", "is for containers"),
        (2, "https://mcp.example.com/mcp", "header:Host", "is not a header that can be set"),
        (2, "https://mcp.example.com/mcp", "header:a b", "expected the name of a header"),
        (2, "http://mcp.example.com/mcp", "header:X-Key", "would be sent unencrypted"),
        (2, "image:example", "header:X-Key", "a container gets no headers"),
    ] {
        let outcome = home.run(&["run", server, "--secret", &format!("login,target={target}")]);
        assert_eq!(outcome.code, Some(code), "{target}: {outcome:?}");
        assert!(outcome.stderr.contains(words), "{target}: {outcome:?}");
        assert!(!outcome.stderr.contains("canary"), "{outcome:?}");
    }
    home.assert_nothing_left();
}
