//! Tests the entries of workloads in the configuration files of MCP clients.

use std::fs;

use serde_json::{Value, json};

use super::{
    remote::server_with_hook,
    support::{Home, Program, PseudoTerminal, Session, testbed_variable},
};

const STDIO: &str = "mcpm-test/everything:1";

/// A user of Claude Code, Claude Desktop, Cursor and Codex.
fn user() -> Home {
    let home = Home::new();
    home.write("home/.claude.json", "{\n  \"numStartups\": 1\n}\n");
    home.write("home/.config/Claude/claude_desktop_config.json", "{}");
    home.write("home/.cursor/mcp.json", "{\n\t// mine\n\t\"mcpServers\": {}\n}\n");
    home.write("home/.codex/config.toml", "model = \"a\" # b\r\n");
    home
}

fn json_file(home: &Home, path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(home.path(path)).unwrap()).unwrap()
}

/// The names of the tools that a client finds when it reads a file.
#[track_caller]
fn tools(home: &Home, path: &str) -> Vec<String> {
    let client = mcpm_tests::root().join("tests/clients/fastmcp_config.py");
    let mut command = home.command(testbed_variable("MCPM_TEST_FASTMCP_PYTHON"));
    let output = command.arg(client).arg(home.path(path)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_workload_is_entered_used_moved_and_removed() {
    let home = user();
    let files = [
        "home/.claude.json",
        "home/.config/Claude/claude_desktop_config.json",
        "home/.cursor/mcp.json",
        "home/.codex/config.toml",
    ];
    let before = files.map(|file| fs::read_to_string(home.path(file)).unwrap());
    let name = home.name("a");
    let run = ["run", STDIO, "--name", &name, "--client", "claude-code", "--client", "claude-desktop"];
    let run = home.run_and_record(&run).succeeded();
    let url = run.url();
    assert_eq!(json_file(&home, files[0])["mcpServers"][&name], json!({ "type": "http", "url": url }));
    for file in &files[..2] {
        assert!(tools(&home, file).contains(&"test_simple_text".to_owned()), "{file}");
    }
    for args in [
        &["client", "add", "cursor", &name][..],
        &["client", "add", "cursor", &name],
        &["client", "add", "codex", "--group", "default", "--token-env", "TOKEN"],
        &["client", "list"],
        &["client", "list", "cursor", "--output", "json"],
        &["client", "status", "codex"],
        &["client", "status", "codex", "--output", "json"],
    ] {
        home.run_and_record(args).succeeded();
    }
    assert!(
        fs::read_to_string(home.path(files[3])).unwrap().contains("bearer_token_env_var = \"TOKEN\"\r\n")
    );

    // The workload is started on another port.
    home.run(&["stop", &name]).succeeded();
    let spec = home.record_dir(&name).join("spec.json");
    let port = url.rsplit_once(':').unwrap().1.trim_end_matches("/mcp").to_owned();
    let text = fs::read_to_string(&spec).unwrap().replace(&format!("\"port\": {port}"), "\"port\": 0");
    fs::write(&spec, text).unwrap();
    let moved = home.run(&["start", &name]).succeeded().url();
    assert_ne!(moved, url);
    assert_eq!(json_file(&home, files[0])["mcpServers"][&name]["url"], moved);
    for file in &files[2..] {
        assert!(fs::read_to_string(home.path(file)).unwrap().contains(&moved), "{file}");
    }
    assert!(!Session::open(&moved).tools().is_empty());

    home.run_and_record(&["client", "remove", "cursor", &name]).succeeded();
    assert_eq!(home.run_and_record(&["client", "remove", "cursor", &name]).code, Some(4));
    home.run_and_record(&["rm", &name]).succeeded();
    assert_eq!(files.map(|file| fs::read_to_string(home.path(file)).unwrap()), before);
    home.run_and_record(&["client", "list", "-o", "json"]).succeeded();
    home.assert_nothing_left();
    home.replace(&url, "URL");
    home.assert_transcript("clients/life");
}

#[test]
fn a_workload_in_the_foreground_leaves_no_entry() {
    let home = user();
    let name = home.name("f");
    let run = ["run", STDIO, "--name", &name, "--foreground", "--client", "cursor"];
    let mut program = Program::start(&mut home.mcpm(&run));
    program.wait_for_stderr("added");
    assert!(fs::read_to_string(home.path("home/.cursor/mcp.json")).unwrap().contains(&name));
    program.signal("TERM");
    assert_eq!(program.wait().code, Some(0));
    assert_eq!(
        fs::read_to_string(home.path("home/.cursor/mcp.json")).unwrap(),
        "{\n\t// mine\n\t\"mcpServers\": {}\n}\n"
    );
}

#[test]
fn a_terminal_shows_the_next_step() {
    let home = user();
    let (program, name, other) = (home.program(), home.name("n"), home.name("q"));
    let line = format!("{program} run {STDIO} --name {name}");
    let (code, shown) = PseudoTerminal::spawn(home.command("script"), &line).wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains(&format!("next: mcpm client add claude-code {name}")), "{shown}");
    let line = format!("{program} run {STDIO} --name {other} --quiet");
    let (code, shown) = PseudoTerminal::spawn(home.command("script"), &line).wait();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("next:"), "{shown}");
}

#[test]
fn what_cannot_be_entered_is_refused() {
    let home = Home::without_engine();
    // No client's program is installed.
    home.set("PATH", &home.text("home"));
    home.write("home/.cursor/mcp.json", "{ broken");
    for (code, args) in [
        (2, &["client", "add", "nothing", "absent"][..]),
        (4, &["client", "add", "zed", "absent"]),
        (2, &["client", "add", "cursor", "absent"]),
        (2, &["run", "image:1", "--client", "cursor"]),
        (2, &["client", "add", "claude-desktop", "absent", "--project", "."]),
        (4, &["client", "add", "codex", "absent", "--project", "."]),
        (2, &["client", "add", "codex"]),
        (4, &["client", "remove", "codex", "absent"]),
        (2, &["client", "status", "nothing"]),
        (0, &["client", "status", "cursor"]),
        (0, &["client", "list"]),
    ] {
        let outcome = home.run_and_record(args);
        assert_eq!(outcome.code, Some(code), "{args:?}: {outcome:?}");
    }
    assert_eq!(fs::read_to_string(home.path("home/.cursor/mcp.json")).unwrap(), "{ broken");
    home.assert_transcript("clients/refused");
}

#[test]
fn commands_at_the_same_time_lose_nothing() {
    let home = user();
    let name = home.name("c");
    home.run(&["run", STDIO, "--name", &name]).succeeded();
    let projects: Vec<String> = (0..6).map(|number| home.text(&format!("project-{number}"))).collect();
    let start = |project: &String| {
        fs::create_dir(project).unwrap();
        Program::start(&mut home.mcpm(&["client", "add", "cursor", &name, "--project", project]))
    };
    let started: Vec<Program> = projects.iter().map(start).collect();
    for program in started {
        program.wait().succeeded();
    }
    let entries = home.run(&["client", "list", "-o", "json"]).succeeded().json();
    assert_eq!(entries.as_array().unwrap().len(), projects.len(), "{entries}");
    home.run(&["rm", &name]).succeeded();
    for project in projects {
        assert!(!std::path::Path::new(&project).join(".cursor/mcp.json").exists());
    }
}

#[test]
fn entries_are_imported_and_put_back() {
    let home = user();
    home.set("MCPM_SECRETS_PASSWORD", "pw");
    let (name, canary) = (home.name("i"), "canary-7f3a");
    let before = format!(
        "{{\n   \"mcpServers\": {{\n      \"{name}\": {{\n         \"command\": \"docker\",\n         \"args\": [ \"run\", \"-i\", \"--rm\", \
         \"-e\", \"API_KEY\", \"{STDIO}\" ],\n         \"env\": {{ \"API_KEY\" : \"{canary}\" }}\n      }},\n\
         \"local\": {{ \"command\": \"node\", \"args\": [\"index.js\"] }} }}\n}}\n"
    );
    home.write("home/.cursor/mcp.json", &before);
    let file = || fs::read_to_string(home.path("home/.cursor/mcp.json")).unwrap();
    home.run_and_record(&["client", "import", "cursor", "--plan"]).succeeded();
    home.run_and_record(&["client", "import", "cursor", "--plan", "--output", "json"]).succeeded();
    assert_eq!(home.run_and_record(&["client", "import", "cursor", "absent"]).code, Some(4));
    assert_eq!(file(), before);

    let imported = home.run(&["client", "import", "cursor"]).succeeded();
    assert!(imported.stderr.contains("`local` was not imported"), "{imported:?}");
    let url = imported.url();
    let text = file();
    assert!(text.contains(&url) && text.contains("index.js") && !text.contains(canary), "{text}");
    assert!(Session::open(&url).tools().contains(&"test_simple_text".to_owned()));
    let secret = format!("{name}/API_KEY");
    assert_eq!(home.run(&["secret", "get", &secret]).succeeded().stdout, format!("{canary}\n"));
    let mut grep = home.command("grep");
    let found = grep.args(["-rl", canary]).arg(home.path("state")).arg(home.path("home")).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(found.lines().all(|path| path.contains("/clients/backups/")), "{found}");

    let undone = home.run(&["client", "import", "cursor", "--undo"]).succeeded();
    assert!(undone.stderr.contains(&format!("restored `{name}` in ")), "{undone:?}");
    assert_eq!(file(), before);
    assert_eq!(home.run(&["secret", "get", &secret]).code, Some(4));
    home.assert_nothing_left();
    home.assert_transcript("clients/import");
}

#[test]
fn an_entry_that_is_changed_while_its_server_starts_is_left_alone() {
    let home = Home::without_engine();
    home.set("MCPM_SECRETS_PASSWORD", "pw");
    let path = home.write("home/.cursor/mcp.json", "{}");
    let changed = "{\n  \"mcpServers\": { \"mine\": { \"command\": \"npx\", \"args\": [\"other\"] } }\n}\n";
    let body = json!({ "jsonrpc": "2.0", "id": 2, "result": { "tools": [] } }).to_string();
    let file = path.clone();
    let (authority, _told) = server_with_hook(&["200 OK"], body, move || fs::write(&file, changed).unwrap());
    let entry = json!({ "url": format!("http://{authority}/mcp"), "headers": { "X-Key": "canary" } });
    fs::write(&path, json!({ "mcpServers": { "mine": entry } }).to_string()).unwrap();
    let refused = home.run(&["client", "import", "cursor"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("was changed while its server started"), "{refused:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), changed);
    assert_eq!(home.run(&["list", "-o", "json"]).succeeded().json(), json!([]));
    assert_eq!(home.run(&["secret", "list", "-o", "json"]).succeeded().json(), json!([]));
    assert_eq!(home.run(&["client", "list", "-o", "json"]).succeeded().json(), json!([]));
}
