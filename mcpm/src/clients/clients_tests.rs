//! Tests of clients with the files of a home folder.

use std::{fs, os::unix::fs::PermissionsExt as _, thread};

use serde_json::{Value, json};

use super::*;
use crate::{
    environment::Variables,
    options::{ProxyMode, Secret},
};

/// A user with the folders of all clients.
struct User {
    folder: tempfile::TempDir,
    clients: Clients,
}

impl User {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let mut environment = Environment::from_lookup(|name| (name == "HOME").then(|| home.clone().into()));
        environment.working_dir = folder.path().to_owned();
        for client in CLIENTS {
            let file = client.user_file(&environment).unwrap();
            fs::create_dir_all(file.parent().unwrap()).unwrap();
        }
        fs::create_dir(home.join(".claude")).unwrap();
        Self { clients: Clients::new(environment).program("/bin/mcpm"), folder }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn file(&self, client: &str) -> PathBuf {
        locate::client(client).unwrap().user_file(&self.clients.environment).unwrap()
    }

    fn add(&self, client: &str, name: &str) -> Result<WrittenEntry> {
        self.clients.add(client, &target(name), &EntryOptions::default())
    }
}

fn target(name: &str) -> ClientTarget {
    ClientTarget {
        name: name.to_owned(),
        url: "http://127.0.0.1:4000/mcp".to_owned(),
        transport: ProxyMode::StreamableHttp,
        requires_login: false,
    }
}

/// A configuration that a user of a client may have, with comments and other servers.
fn sample(client: &str) -> &'static str {
    match client {
        "claude-code" => include_str!("samples/claude-code.json"),
        "claude-desktop" => include_str!("samples/claude-desktop.json"),
        "cursor" => include_str!("samples/cursor.json"),
        "vscode" => include_str!("samples/vscode.json"),
        "windsurf" => include_str!("samples/windsurf.json"),
        "zed" => include_str!("samples/zed.json"),
        "cline" => include_str!("samples/cline.json"),
        "continue" => include_str!("samples/continue.json"),
        "gemini-cli" => include_str!("samples/gemini-cli.json"),
        "codex" => include_str!("samples/codex.toml"),
        "goose" => include_str!("samples/goose.yaml"),
        "lm-studio" => include_str!("samples/lm-studio.json"),
        "opencode" => include_str!("samples/opencode.json"),
        _ => panic!("no sample for {client}"),
    }
}

#[test]
fn each_client_gets_its_form_and_its_file_back() {
    let user = User::new();
    let url = "http://127.0.0.1:4000/mcp";
    let command = json!({ "command": "/bin/mcpm", "args": ["proxy", "stdio", "time"] });
    for (client, expected) in [
        ("claude-code", json!({ "type": "http", "url": url })),
        ("claude-desktop", command),
        ("cursor", json!({ "url": url })),
        ("vscode", json!({ "type": "http", "url": url })),
        ("windsurf", json!({ "serverUrl": url })),
        ("zed", json!({ "url": url })),
        ("cline", json!({ "type": "streamableHttp", "url": url })),
        ("continue", json!({ "type": "http", "url": url })),
        ("gemini-cli", json!({ "httpUrl": url })),
        ("codex", json!({ "url": url })),
        ("goose", json!({ "type": "streamable_http", "name": "time", "enabled": true, "uri": url })),
        ("lm-studio", json!({ "url": url })),
        ("opencode", json!({ "type": "remote", "url": url })),
    ] {
        let file = user.file(client);
        let format = locate::client(client).unwrap();
        for before in [Some(sample(client)), None] {
            match before {
                Some(before) => fs::write(&file, before).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            let written = user.add(client, "time").unwrap();
            assert_eq!(written.file, file);
            let text = fs::read_to_string(&file).unwrap();
            let place = EntryPath { map: map_of(format, &text), name: "time" };
            assert_eq!(edit::entry(format.syntax, &text, place).unwrap().unwrap(), expected, "{client}");
            let backup = written.backup.map(|path| fs::read_to_string(path).unwrap());
            assert_eq!(backup.as_deref(), before);
            // It is the same the second time.
            assert_eq!(user.add(client, "time").unwrap().backup, None);
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            assert!(is_part_of(before.unwrap_or_default(), &text), "{text}");
            user.clients.update_url("time", "http://127.0.0.1:4001/mcp");
            assert_eq!(fs::read_to_string(&file).unwrap(), text.replace(":4000/", ":4001/"));
            user.clients.remove_workload("time");
            assert_eq!(fs::read_to_string(&file).ok().as_deref(), before, "{client}");
        }
        let _ = fs::remove_file(&file);
    }
    assert!(user.clients.entries().unwrap().is_empty());
}

/// Whether a text differs from a longer one by what is missing only.
fn is_part_of(part: &str, whole: &str) -> bool {
    let mut bytes = whole.bytes();
    part.bytes().all(|byte| bytes.any(|other| other == byte))
}

#[test]
fn a_bridge_is_entered_for_a_workload_with_sse() {
    let user = User::new();
    let sse = ClientTarget { transport: ProxyMode::Sse, ..target("old") };
    for (client, expected) in [
        ("cursor", json!({ "command": "/bin/mcpm", "args": ["proxy", "stdio", "old"] })),
        ("vscode", json!({ "type": "stdio", "command": "/bin/mcpm", "args": ["proxy", "stdio", "old"] })),
        ("opencode", json!({ "type": "local", "command": ["/bin/mcpm", "proxy", "stdio", "old"] })),
        ("codex", json!({ "command": "/bin/mcpm", "args": ["proxy", "stdio", "old"] })),
        (
            "goose",
            json!({
                "type": "stdio", "name": "old", "enabled": true, "cmd": "/bin/mcpm", "args": ["proxy", "stdio", "old"]
            }),
        ),
    ] {
        user.clients.add(client, &sse, &EntryOptions::default()).unwrap();
        let format = locate::client(client).unwrap();
        let text = fs::read_to_string(user.file(client)).unwrap();
        let found = edit::entry(format.syntax, &text, EntryPath { map: format.map, name: "old" }).unwrap();
        assert_eq!(found.unwrap(), expected);
        user.clients.update_url("old", "http://127.0.0.1:4001/sse");
        assert_eq!(fs::read_to_string(user.file(client)).unwrap(), text);
    }
    user.clients.remove_workload("old");
    assert!(!user.file("goose").exists());
}

#[test]
fn opencode_2_has_its_servers_in_another_place() {
    let user = User::new();
    let before = "{\n  \"mcp\": {\n    \"servers\": {\n      \"x\": { \"type\": \"local\" }\n    }\n  }\n}\n";
    fs::write(user.file("opencode"), before).unwrap();
    user.add("opencode", "time").unwrap();
    let text = fs::read_to_string(user.file("opencode")).unwrap();
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["mcp"]["servers"]["time"]["type"], "remote");
    user.clients.remove_workload("time");
    assert_eq!(fs::read_to_string(user.file("opencode")).unwrap(), before);
}

#[test]
fn tokens_are_references() {
    let user = User::new();
    let options = EntryOptions { token_variable: Some("TIME_TOKEN".to_owned()), ..EntryOptions::default() };
    for (client, expected) in [
        ("claude-code", "\"Authorization\": \"Bearer ${TIME_TOKEN}\""),
        ("cursor", "\"Authorization\": \"Bearer ${env:TIME_TOKEN}\""),
        ("opencode", "\"Authorization\": \"Bearer {env:TIME_TOKEN}\""),
        ("codex", "bearer_token_env_var = \"TIME_TOKEN\""),
    ] {
        user.clients.add(client, &target("time"), &options).unwrap();
        assert!(fs::read_to_string(user.file(client)).unwrap().contains(expected), "{client}");
    }
    for client in ["zed", "claude-desktop"] {
        let error = user.clients.add(client, &target("time"), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(!user.file(client).exists());
    }
    let secret = EntryOptions { token_variable: Some("sk-1234".to_owned()), ..EntryOptions::default() };
    let error = user.clients.add("cursor", &target("time"), &secret).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    let closed = ClientTarget { requires_login: true, ..target("closed") };
    let notes = user.clients.add("cursor", &closed, &EntryOptions::default()).unwrap().notes;
    assert_eq!(notes, ["`closed` requires a login, which Cursor has to make"]);
}

#[test]
fn bad_files_are_left_as_they_are() {
    let user = User::new();
    let file = user.file("cursor");
    let refused = |problem: &str| {
        let before = fs::read(&file).ok();
        let error = user.add("cursor", "time").unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
        assert_eq!(fs::read(&file).ok(), before);
        assert!(user.clients.entries().unwrap().is_empty());
    };
    fs::write(&file, "{ \"mcpServers\": ").unwrap();
    refused("is not valid JSON");
    let status = user.clients.status().unwrap();
    let cursor = status.iter().find(|status| status.client == "cursor").unwrap();
    assert!(cursor.installed && cursor.problem.as_ref().unwrap().contains("is not valid JSON"));
    fs::write(&file, b"{\"\xff\": 1}").unwrap();
    refused("is not valid UTF-8");
    fs::write(&file, format!("{{\"a\": \"{}\"}}", "b".repeat(16 << 20))).unwrap();
    refused("is larger than 16777216 bytes");
    fs::write(&file, "{\"mcpServers\": {\"time\": {\"url\": \"http://other\"}}}").unwrap();
    let error = user.add("cursor", "time").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameTaken);
    let error = user.clients.check("cursor", Some("time"), &EntryOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameTaken);
    user.clients.check("cursor", Some("other"), &EntryOptions::default()).unwrap();
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/nonexistent", &file).unwrap();
    refused("is a symbolic link to a file that does not exist");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/null", &file).unwrap();
    refused("is not a regular file");
    fs::remove_file(&file).unwrap();
    fs::write(&file, "{}").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    let error = user.add("cursor", "time").unwrap_err();
    assert!(error.to_string().contains("is read-only"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
}

#[test]
fn a_link_is_followed_and_stays() {
    let user = User::new();
    let real = user.home().join("dotfiles.json");
    fs::write(&real, "{}\n").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let file = user.file("cursor");
    std::os::unix::fs::symlink(&real, &file).unwrap();
    user.add("cursor", "time").unwrap();
    assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("time"));
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    user.clients.remove("cursor", "time", None).unwrap();
    assert_eq!(fs::read_to_string(&real).unwrap(), "{}\n");
}

#[test]
fn a_file_that_was_changed_meanwhile_is_left_as_it_is() {
    let user = User::new();
    let file = user.file("cursor");
    fs::write(&file, "{}").unwrap();
    let read = ConfigFile::read(&file).unwrap();
    fs::write(&file, "{\"a\": 1}").unwrap();
    for error in [read.write("{\"b\": 1}", false).unwrap_err(), read.delete().unwrap_err()] {
        assert!(error.to_string().contains("was changed by another program meanwhile"), "{error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\"a\": 1}");
    let missing = user.file("zed");
    let read = ConfigFile::read(&missing).unwrap();
    fs::write(&missing, "new").unwrap();
    read.write("{}", false).unwrap_err();
    assert_eq!(fs::read_to_string(&missing).unwrap(), "new");
    let entries = fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(entries, 1, "temporary files are left");
}

#[test]
fn what_the_user_has_changed_stays() {
    let user = User::new();
    let file = user.file("cursor");
    user.add("cursor", "time").unwrap();
    let mine = fs::read_to_string(&file).unwrap().replace("127.0.0.1:4000", "mine");
    fs::write(&file, &mine).unwrap();
    assert_eq!(user.clients.entries().unwrap()[0].state, EntryState::Changed);
    user.clients.update_url("time", "http://127.0.0.1:4001/mcp");
    assert_eq!(fs::read_to_string(&file).unwrap(), mine);
    user.clients.remove_workload("time");
    assert_eq!(fs::read_to_string(&file).unwrap(), mine);
    assert!(user.clients.entries().unwrap().is_empty());
    let error = user.clients.remove("cursor", "time", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn an_entry_in_a_broken_file_is_removed_later() {
    let user = User::new();
    let file = user.file("cursor");
    user.add("cursor", "time").unwrap();
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{good}}}")).unwrap();
    user.clients.update_url("time", "http://127.0.0.1:4001/mcp");
    user.clients.remove_workload("time");
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{good}}}"));
    assert_eq!(user.clients.entries().unwrap()[0].state, EntryState::Unreadable);
    fs::write(&file, good).unwrap();
    assert_eq!(user.clients.entries().unwrap()[0].state, EntryState::Present);
    user.clients.remove("cursor", "time", None).unwrap();
    assert!(!file.exists() && user.clients.entries().unwrap().is_empty());
}

#[test]
fn projects_have_files_of_their_own() {
    let user = User::new();
    let project = user.folder.path().join("project");
    fs::create_dir(&project).unwrap();
    let options = EntryOptions { project: Some("project".into()), ..EntryOptions::default() };
    for client in ["claude-code", "cursor", "vscode", "zed", "continue", "gemini-cli", "codex", "opencode"] {
        let written = user.clients.add(client, &target("time"), &options).unwrap();
        assert!(written.file.starts_with(&project) && written.file.is_file(), "{written:?}");
        assert_eq!(fs::metadata(&written.file).unwrap().permissions().mode() & 0o777, 0o644);
    }
    let error = user.clients.check("windsurf", None, &options).unwrap_err();
    assert!(error.to_string().contains("Windsurf has no configuration file for a project"), "{error}");
    let entries = user.clients.entries().unwrap();
    assert!(entries.iter().all(|entry| entry.project.as_deref() == Some(&project)));
    user.clients.remove("cursor", "time", Some(Path::new("project"))).unwrap();
    assert!(!project.join(".cursor/mcp.json").exists());
    user.clients.remove_workload("time");
    assert!(!project.join(".mcp.json").exists());
}

#[test]
fn concurrent_additions_lose_nothing() {
    let user = User::new();
    let names: Vec<String> = (0..8).map(|number| format!("server-{number}")).collect();
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| user.add("cursor", name).unwrap());
            scope.spawn(|| user.add("goose", name).unwrap());
        }
    });
    assert_eq!(user.clients.entries().unwrap().len(), 16);
    assert!(user.clients.entries().unwrap().iter().all(|entry| entry.state == EntryState::Present));
    thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| user.clients.remove_workload(name));
        }
    });
    assert!(!user.file("cursor").exists() && !user.file("goose").exists());
}

#[test]
fn clients_are_found_by_their_folders_and_programs() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    fs::create_dir_all(home.join(".cursor")).unwrap();
    fs::write(folder.path().join("codex"), "").unwrap();
    let mut environment = Environment::from_lookup(|name| (name == "HOME").then(|| home.clone().into()));
    let path = ("PATH".to_owned(), folder.path().to_str().unwrap().to_owned());
    let claude = folder.path().join("claude");
    let other = ("CLAUDE_CONFIG_DIR".to_owned(), claude.to_str().unwrap().to_owned());
    environment.variables = Variables::from_iter([path, other]);
    let clients = Clients::new(environment);
    let status = clients.status().unwrap();
    let installed: Vec<_> =
        status.iter().filter(|status| status.installed).map(|status| status.client).collect();
    assert_eq!(installed, ["cursor", "codex"]);
    assert_eq!(status[0].file, Some(claude.join(".claude.json")));
    let error = clients.add("zed", &target("time"), &EntryOptions::default()).unwrap_err();
    assert!(error.to_string().contains("Zed is not installed"), "{error}");
    let error = clients.check("zedd", None, &EntryOptions::default()).unwrap_err();
    assert!(error.to_string().contains("there is no client `zedd`"), "{error}");
    clients.add("codex", &target("time"), &EntryOptions::default()).unwrap();
    assert!(home.join(".codex/config.toml").is_file());
}

#[test]
fn entries_of_users_become_options() {
    let user = User::new();
    let mut clients = user.clients.clone();
    clients.environment.variables = [("TOKEN".to_owned(), "t0ken".to_owned())].into_iter().collect();
    let file = user.file("cursor");
    for (entry, expected) in [
        (
            json!({ "command": "npx", "args": ["-y", "@scope/server@1.2.3", "/data"], "env": { "API_KEY": "k", "MODE": "fast" } }),
            Ok(
                "server npx://@scope/server@1.2.3|secret my-server/API_KEY,target=API_KEY|env MODE=fast|args /data|name my-server",
            ),
        ),
        (
            json!({ "command": "/usr/bin/uvx", "args": ["--from", "mcp-server-x==1", "serve", "--db", "a b"] }),
            Ok("package_command serve|server uvx://mcp-server-x@1|args --db|args a b|name my-server"),
        ),
        (
            json!({ "command": "docker", "args": ["run", "-i", "--rm", "-e", "DB_URL", "-e", "A=1", "-v", "/a:/b:ro", "mcp/db", "x"], "env": { "DB_URL": "${env:TOKEN}" } }),
            Ok(
                "secret my-server/DB_URL,target=DB_URL|env A=1|volume /a:/b:ro|server image:mcp/db|args x|name my-server",
            ),
        ),
        (
            json!({ "url": "https://mcp.example.com/mcp", "headers": { "Authorization": "Bearer ${TOKEN}" } }),
            Ok(
                "server https://mcp.example.com/mcp|secret my-server/Authorization,target=header:Authorization|name my-server",
            ),
        ),
        (
            json!({ "type": "sse", "url": "https://mcp.example.com/sse" }),
            Ok("server https://mcp.example.com/sse|transport sse|name my-server"),
        ),
        (json!({ "command": "node", "args": ["index.js"] }), Err("`node` runs a program of this machine")),
        (
            json!({ "command": "npx", "args": ["x", "--api-key=s3cret"] }),
            Err("its argument `--api-key` seems"),
        ),
        (json!({ "command": "npx", "args": ["--call", "x"] }), Err("mcpm has nothing like `--call`")),
        (
            json!({ "command": "docker", "args": ["run", "--privileged", "x"] }),
            Err("mcpm has nothing like `--privileged`"),
        ),
        (
            json!({ "url": "https://x/mcp", "headers": { "A": "${input:key}" } }),
            Err("it refers to `input:key`"),
        ),
        (json!({ "command": "npx", "args": ["x"], "disabled": true }), Err("it is disabled")),
        (json!({ "command": "npx", "args": ["x"], "cwd": "/x" }), Err("its field `cwd`")),
        (
            json!({ "command": "/bin/mcpm", "args": ["proxy", "stdio", "x"] }),
            Err("a command of mcpm already"),
        ),
        (json!({}), Err("neither a command nor a URL")),
        (
            json!({ "command": "npx", "args": ["x"], "excludeTools": ["delete"] }),
            Err("its field `excludeTools`"),
        ),
        (json!({ "command": "npx", "args": ["x"], "autoApprove": [] }), Ok("server npx://x|name my-server")),
        (json!({ "command": "npx", "args": ["x", "--port", 8080] }), Err("an argument that is not a text")),
        (json!({ "command": "npx", "args": ["-p", "a", "-p", "b", "c"] }), Err("several packages")),
        (json!({ "command": "npx", "args": ["x", "Bearer ${TOKEN}"] }), Err("a variable in an argument")),
        (json!({ "url": "https://x/mcp?a=${TOKEN}" }), Err("a variable in an argument or a URL")),
        (json!({ "url": "https://x/mcp?api_key=1" }), Err("its URL seems to contain a secret")),
        (json!({ "url": "https://u:p@x/mcp" }), Err("its URL seems to contain a secret")),
        (
            json!({ "command": "npx", "args": ["x"], "env": { "NPM_CONFIG_REGISTRY": "https://x" } }),
            Err("its variable `NPM_CONFIG_REGISTRY`"),
        ),
        (
            json!({ "command": "npx", "args": ["x"], "env": { "A": "$TOKEN" } }),
            Err("a form that mcpm does not know"),
        ),
        (
            json!({ "command": "docker", "args": ["run", "-e", "A=x${TOKEN}", "y"] }),
            Ok("secret my-server/A,target=A|server image:y|name my-server"),
        ),
        (json!({ "command": "docker", "args": ["run", "-v", "data:/data", "x"] }), Err("a named volume")),
        (json!({ "command": "docker", "args": ["run", "-uroot:pw", "x"] }), Err("nothing like `-u` of")),
    ] {
        fs::write(&file, json!({ "mcpServers": { "My Server": entry } }).to_string()).unwrap();
        let candidates = clients.import_candidates("cursor", None).unwrap();
        assert_eq!((candidates.len(), candidates[0].entry.as_str()), (1, "My Server"));
        match (&candidates[0].server, expected) {
            (Ok(server), Ok(expected)) => {
                let options = server.options.iter().map(|(name, text)| format!("{name} {text}"));
                assert_eq!(options.collect::<Vec<_>>().join("|"), expected);
                assert!(!format!("{server:?}").contains("t0ken"));
            }
            (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn an_entry_is_taken_over_and_put_back() {
    let user = User::new();
    for (client, name, secret) in [
        ("claude-code", "filesystem", "@modelcontextprotocol/server-filesystem"),
        ("cursor", "db", "mcp/postgres"),
        ("cline", "weather", "get_forecast"),
        ("vscode", "perplexity", "server-perplexity-ask"),
        ("codex", "context7", "@upstash/context7-mcp"),
        ("goose", "filesystem", "@modelcontextprotocol/server-filesystem"),
        ("opencode", "jira", "https://jira.example.com/mcp"),
    ] {
        let file = user.file(client);
        fs::write(&file, sample(client)).unwrap();
        let secrets = BTreeMap::from([("new/A".to_owned(), Secret::from(secret))]);
        let server = ImportedServer { name: "new".to_owned(), options: Vec::new(), secrets: secrets.clone() };
        let written = user.clients.take_over(client, name, &server, &target("new"), None).unwrap();
        assert_eq!(fs::read_to_string(written.backup.unwrap()).unwrap(), sample(client));
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("http://127.0.0.1:4000/mcp") && !text.contains(secret), "{text}");
        let record =
            fs::read_to_string(user.clients.environment.state_dir.join("clients/entries.json")).unwrap();
        assert!(!record.contains(secret), "{record}");
        user.clients.update_url("new", "http://127.0.0.1:4001/mcp");
        let imported = user.clients.imported(client, None).unwrap();
        assert_eq!(
            (imported[0].entry.as_str(), imported[0].secrets.as_slice()),
            (name, &["new/A".to_owned()][..])
        );
        user.clients.put_back(client, "new", &BTreeMap::new(), None).unwrap_err();
        // The workload may be removed before; its entry stays until the earlier one is put back.
        user.clients.remove_workload("new");
        let refused = user.clients.remove(client, "new", None).unwrap_err();
        assert!(refused.to_string().contains(&format!("import {client} --undo {name}`")), "{refused}");
        user.clients.put_back(client, "new", &secrets, None).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), sample(client), "{client}");
        assert!(user.clients.entries().unwrap().is_empty());
    }
}

#[test]
fn what_a_user_writes_beside_an_entry_stays_when_it_is_removed() {
    let user = User::new();
    user.clients.add("cursor", &target("time"), &EntryOptions::default()).unwrap();
    let file = user.file("cursor");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("// team notes\n{text}")).unwrap();
    user.clients.remove("cursor", "time", None).unwrap();
    assert!(fs::read_to_string(&file).unwrap().starts_with("// team notes\n"));
}
