//! Tests entries of clients whose configuration files are in a home folder.

use std::{fs, os::unix::fs::PermissionsExt as _, thread};

use serde_json::{Value, json};

use super::*;
use crate::{environment::Variables, options::ProxyMode};

/// A user with the folders of all clients.
pub(super) struct User {
    pub(super) folder: tempfile::TempDir,
    pub(super) clients: Clients,
}

impl User {
    pub(super) fn new() -> Self {
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

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(super) fn file(&self, client: &str) -> PathBuf {
        locate::client(client).unwrap().user_file(&self.clients.environment).unwrap()
    }

    pub(super) fn add(&self, client: &str, name: &str) -> Result<WrittenEntry> {
        self.clients.add(client, &target(name), &EntryOptions::default())
    }
}

pub(super) fn target(name: &str) -> ClientTarget {
    ClientTarget {
        name: name.to_owned(),
        url: "http://127.0.0.1:4000/mcp".to_owned(),
        transport: ProxyMode::StreamableHttp,
        requires_login: false,
    }
}

/// A configuration that a user of a client may have, with comments and other servers.
pub(super) fn sample(client: &str) -> &'static str {
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
            // A second addition changes nothing.
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

/// Whether a text can be made from a longer one by removing parts of it.
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
    assert_eq!(notes, ["`closed` requires a login, which Cursor has to perform"]);
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
    refused("is a symbolic link to `/nonexistent`, which mcpm does not follow");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let error = user.add("cursor", "time").unwrap_err();
    assert!(error.to_string().contains("is not a regular file"), "{error}");
    fs::remove_dir(&file).unwrap();
    let real = user.home().join("dotfiles.json");
    fs::write(&real, "{}").unwrap();
    std::os::unix::fs::symlink(&real, &file).unwrap();
    refused("is a symbolic link to");
    assert!(fs::symlink_metadata(&file).unwrap().is_symlink());
    fs::remove_file(&file).unwrap();
    fs::write(&file, "{}").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    let error = user.add("cursor", "time").unwrap_err();
    assert!(error.to_string().contains("is read-only"), "{error}");
    let error = user.clients.check("cursor", None, &EntryOptions::default()).unwrap_err();
    assert!(error.to_string().contains("is read-only"), "{error}");
    assert!(user.clients.entries().unwrap().is_empty());
    assert_eq!(fs::read_to_string(&file).unwrap(), "{}");
}

#[test]
fn a_file_keeps_its_group_its_mode_and_its_acl() {
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::{XattrFlags, getxattr, setxattr};

    const ACL: &str = "system.posix_acl_access";
    let user = User::new();
    let file = user.file("cursor");
    fs::write(&file, "{}\n").unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(&file, None, Some(4321)).unwrap();
    }
    // Version 2, then a tag, the permissions and the id of the owner, a user, the group, the mask, and all others.
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)];
    let entries = entries.iter().flat_map(|(tag, permissions, id)| {
        [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
    });
    let acl: Vec<u8> = 2_u32.to_le_bytes().into_iter().chain(entries).collect();
    let has_acl = setxattr(&file, ACL, &acl, XattrFlags::empty()).is_ok();
    let has_attributes = setxattr(&file, "user.note", b"mine", XattrFlags::empty()).is_ok();
    let mode = if has_acl { 0o660 } else { 0o640 };
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    user.add("cursor", "time").unwrap();
    let found = fs::metadata(&file).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, mode);
    assert!(!is_root || found.gid() == 4321, "{}", found.gid());
    let attribute = |name: &str| {
        let mut value = vec![0; 1024];
        let length = getxattr(&file, name, &mut value[..]).unwrap();
        value.truncate(length);
        value
    };
    assert!(!has_acl || attribute(ACL) == acl);
    assert!(!has_attributes || attribute("user.note") == b"mine");
}

#[test]
fn fields_that_the_user_has_added_stay_when_an_entry_is_added_again() {
    let user = User::new();
    let token = EntryOptions { token_variable: Some("TOKEN".to_owned()), ..EntryOptions::default() };
    let moved = ClientTarget { url: "http://127.0.0.1:4000/mcp".to_owned(), ..target("time") };
    for (client, old, new) in [
        (
            "cursor",
            "\"url\"",
            "\"timeout\": 30, // mine\n      \"headers\": { \"X-A\": \"b\" },\n      \"url\"",
        ),
        ("codex", "url =", "startup_timeout_sec = 20.5 # mine\nurl ="),
        ("goose", "    type:", "    timeout: 300 # mine\n    envs: {}\n    type:"),
        ("opencode", "\"url\"", "\"enabled\": false,\n      \"url\""),
    ] {
        let file = user.file(client);
        user.clients.add(client, &target("time"), &EntryOptions::default()).unwrap();
        let mine = fs::read_to_string(&file).unwrap().replacen(old, new, 1);
        assert!(mine.contains(new), "{mine}");
        fs::write(&file, &mine).unwrap();
        user.clients.add(client, &moved, &EntryOptions::default()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), mine, "{client}");
        if client == "goose" {
            continue;
        }
        user.clients.add(client, &moved, &token).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let kept = mine.lines().filter(|line| !line.contains("headers"));
        assert!(kept.clone().all(|line| text.contains(line.trim_end_matches(','))), "{client}: {text}");
        assert!(text.contains("TOKEN"), "{client}: {text}");
        if client == "cursor" {
            assert!(text.contains("\"X-A\": \"b\""), "{text}");
        }
        assert_eq!(
            user.clients.entries().unwrap().iter().find(|one| one.client == client).unwrap().state,
            EntryState::Present
        );
    }
    // The entry would get another form, and fields that the user has added must not be lost silently.
    let sse = ClientTarget { transport: ProxyMode::Sse, ..target("time") };
    let before = fs::read_to_string(user.file("cursor")).unwrap();
    let error = user.clients.add("cursor", &sse, &EntryOptions::default()).unwrap_err();
    assert!(error.to_string().contains("`mcpm client remove cursor time`"), "{error}");
    assert_eq!(fs::read_to_string(user.file("cursor")).unwrap(), before);
}

#[test]
fn a_failed_write_leaves_no_record() {
    let user = User::new();
    let file = user.file("cursor");
    user.add("zed", "time").unwrap();
    let recorded = user.clients.entries().unwrap().len();
    // Nobody can create a file in that folder.
    fs::remove_dir_all(file.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/proc/self", file.parent().unwrap()).unwrap();
    user.add("cursor", "time").unwrap_err();
    assert_eq!(user.clients.entries().unwrap().len(), recorded);
    user.clients.remove_workload("time");
    assert!(user.clients.entries().unwrap().is_empty());
}

#[test]
fn a_file_that_was_changed_meanwhile_is_left_as_it_is() {
    let user = User::new();
    let file = user.file("cursor");
    fs::write(&file, "{}").unwrap();
    let read = ConfigFile::read(&file).unwrap();
    fs::write(&file, "{\"a\": 1}").unwrap();
    for error in [read.write("{\"b\": 1}", false).unwrap_err(), read.delete().unwrap_err()] {
        assert!(error.to_string().contains("was changed by another program in the meantime"), "{error}");
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
    assert!(
        error.to_string().contains("Windsurf does not read configuration files from project folders"),
        "{error}"
    );
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
    assert!(error.to_string().contains("`zedd` is not a supported client"), "{error}");
    clients.add("codex", &target("time"), &EntryOptions::default()).unwrap();
    assert!(home.join(".codex/config.toml").is_file());
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
