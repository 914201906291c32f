//! Tests the import of servers from the configurations of clients: the options that a client's entries are converted
//! into, and how entries are replaced and restored.

use std::fs;

use serde_json::json;

use super::{
    super::tests::{User, sample, target},
    *,
};

/// A workload that was started from an entry, with these secrets.
fn imported_server(
    user: &User,
    client: &str,
    entry: &str,
    secrets: &BTreeMap<String, Secret>,
) -> ImportedServer {
    let format = locate::client(client).unwrap();
    let text = fs::read_to_string(user.file(client)).unwrap();
    let place = EntryPath { map: map_of(format, &text), name: entry };
    let original = edit::entry(format.syntax, &text, place).unwrap().unwrap();
    let original = Secret::from(original.to_string());
    ImportedServer { name: "new".to_owned(), options: Vec::new(), secrets: secrets.clone(), original }
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
            json!({ "command": "uvx", "args": ["--with", "httpx>=0.27,<1", "-w", "rich", "--with=zod", "--from", "x", "serve", "--with", "y"] }),
            Ok(
                "with_package httpx>=0.27,<1|with_package rich|with_package zod|package_command serve|server uvx://x|args --with|args y|name my-server",
            ),
        ),
        (
            json!({ "command": "uv", "args": ["tool", "run", "--with", "rich", "x"] }),
            Ok("with_package rich|server uvx://x|name my-server"),
        ),
        (
            json!({ "command": "uvx", "args": ["--with", "./local", "x"] }),
            Err("additional package that mcpm cannot install"),
        ),
        (
            json!({ "command": "uvx", "args": ["x", "--with"] }),
            Ok("server uvx://x|args --with|name my-server"),
        ),
        (json!({ "command": "uvx", "args": ["--with"] }), Err("additional package that mcpm cannot install")),
        (
            json!({ "command": "npx", "args": ["--with", "y", "x"] }),
            Err("mcpm has no equivalent of `--with`"),
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
        (json!({ "command": "node", "args": ["index.js"] }), Err("`node` runs a local program")),
        (
            json!({ "command": "npx", "args": ["x", "--api-key=s3cret"] }),
            Err("its argument `--api-key` seems"),
        ),
        (json!({ "command": "npx", "args": ["--call", "x"] }), Err("mcpm has no equivalent of `--call`")),
        (
            json!({ "command": "docker", "args": ["run", "--privileged", "x"] }),
            Err("mcpm has no equivalent of `--privileged`"),
        ),
        (
            json!({ "url": "https://x/mcp", "headers": { "A": "${input:key}" } }),
            Err("it refers to the variable `input:key`"),
        ),
        (json!({ "command": "npx", "args": ["x"], "disabled": true }), Err("it is disabled")),
        (json!({ "command": "npx", "args": ["x"], "cwd": "/x" }), Err("its field `cwd`")),
        (json!({ "command": "/bin/mcpm", "args": ["proxy", "stdio", "x"] }), Err("it already starts mcpm")),
        (json!({}), Err("neither a command nor a URL")),
        (
            json!({ "command": "npx", "args": ["x"], "excludeTools": ["delete"] }),
            Err("its field `excludeTools`"),
        ),
        (json!({ "command": "npx", "args": ["x"], "autoApprove": [] }), Ok("server npx://x|name my-server")),
        (json!({ "command": "npx", "args": ["x", "--port", 8080] }), Err("an argument that is not a string")),
        (json!({ "command": "npx", "args": ["-p", "a", "-p", "b", "c"] }), Err("several packages")),
        (
            json!({ "command": "npx", "args": ["x", "Bearer ${TOKEN}"] }),
            Err("an argument or its URL refers to a variable"),
        ),
        (json!({ "url": "https://x/mcp?a=${TOKEN}" }), Err("an argument or its URL refers to a variable")),
        (json!({ "url": "https://x/mcp?api_key=1" }), Err("its URL seems to contain a secret")),
        (json!({ "url": "https://u:p@x/mcp" }), Err("its URL seems to contain a secret")),
        (
            json!({ "command": "npx", "args": ["x"], "env": { "NPM_CONFIG_REGISTRY": "https://x" } }),
            Err("its variable `NPM_CONFIG_REGISTRY`"),
        ),
        (
            json!({ "command": "npx", "args": ["x"], "env": { "A": "$TOKEN" } }),
            Err("a form that mcpm does not support"),
        ),
        (
            json!({ "command": "docker", "args": ["run", "-e", "A=x${TOKEN}", "y"] }),
            Ok("secret my-server/A,target=A|server image:y|name my-server"),
        ),
        (json!({ "command": "docker", "args": ["run", "-v", "data:/data", "x"] }), Err("a named volume")),
        (json!({ "command": "docker", "args": ["run", "-uroot:pw", "x"] }), Err("no equivalent of `-u` in")),
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
        let server = imported_server(&user, client, name, &secrets);
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
        // The workload may be removed first; its entry stays until the earlier entry is put back.
        user.clients.remove_workload("new");
        let refused = user.clients.remove(client, "new", None).unwrap_err();
        assert!(refused.to_string().contains(&format!("import {client} --undo {name}`")), "{refused}");
        user.clients.put_back(client, "new", &secrets, None).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), sample(client), "{client}");
        assert!(user.clients.entries().unwrap().is_empty());
    }
}

#[test]
fn an_entry_that_was_changed_meanwhile_is_not_taken_over() {
    let user = User::new();
    let file = user.file("cursor");
    fs::write(&file, sample("cursor")).unwrap();
    let server = imported_server(&user, "cursor", "db", &BTreeMap::new());
    let changed = sample("cursor").replace("mcp/postgres", "mcp/other");
    assert_ne!(changed, sample("cursor"));
    for text in [changed.as_str(), "{}"] {
        fs::write(&file, text).unwrap();
        let error = user.clients.take_over("cursor", "db", &server, &target("new"), None).unwrap_err();
        assert!(error.to_string().contains("was changed while its server started"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    assert!(user.clients.entries().unwrap().is_empty());
}

#[test]
fn an_import_that_was_recorded_only_is_undone() {
    let user = User::new();
    let file = user.file("cursor");
    for undo in [true, false] {
        fs::write(&file, sample("cursor")).unwrap();
        let secrets = BTreeMap::from([("new/A".to_owned(), Secret::from("mcp/postgres"))]);
        let server = imported_server(&user, "cursor", "db", &secrets);
        user.clients.take_over("cursor", "db", &server, &target("new"), None).unwrap();
        // As if mcpm had ended between the record and the file.
        fs::write(&file, sample("cursor")).unwrap();
        if undo {
            user.clients.put_back("cursor", "new", &BTreeMap::new(), None).unwrap();
        } else {
            user.clients.remove("cursor", "new", None).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), sample("cursor"));
        assert!(user.clients.entries().unwrap().is_empty());
    }
}
