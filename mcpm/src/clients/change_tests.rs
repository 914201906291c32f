//! Tests changes of entries, and the record of entries after a failed change.

use std::fs;

use serde_json::json;

use super::{tests::User, *};

const NEW_URL: &str = "http://127.0.0.1:4001/mcp";

fn set_read_only(path: &Path, is_read_only: bool) {
    let mut permissions = fs::metadata(path).unwrap().permissions();
    permissions.set_readonly(is_read_only);
    fs::set_permissions(path, permissions).unwrap();
}

#[test]
fn a_url_is_updated_in_each_file_that_can_be_written() {
    let user = User::new();
    for client in ["cursor", "vscode"] {
        user.add(client, "time").unwrap();
    }
    for read_only in ["cursor", "vscode"] {
        set_read_only(&user.file(read_only), true);
    }
    user.clients.update_url("time", NEW_URL);
    set_read_only(&user.file("cursor"), false);
    user.clients.update_url("time", NEW_URL);
    let urls = |user: &User| {
        let entries = user.clients.entries().unwrap();
        entries.into_iter().map(|entry| (entry.client, entry.url, entry.state)).collect::<Vec<_>>()
    };
    let old = Some("http://127.0.0.1:4000/mcp".to_owned());
    let new = Some(NEW_URL.to_owned());
    assert_eq!(
        urls(&user),
        [("cursor", new.clone(), EntryState::Present), ("vscode", old, EntryState::Present)]
    );
    set_read_only(&user.file("vscode"), false);
    user.clients.update_url("time", NEW_URL);
    assert_eq!(
        urls(&user),
        [("cursor", new.clone(), EntryState::Present), ("vscode", new, EntryState::Present)]
    );
}

#[test]
fn an_entry_with_the_wanted_url_is_known_although_its_record_has_the_old_one() {
    let user = User::new();
    user.add("cursor", "time").unwrap();
    // As if mcpm had been killed between the file and the record.
    let file = user.file("cursor");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("http://127.0.0.1:4000/mcp", NEW_URL)).unwrap();
    user.clients.update_url("time", NEW_URL);
    let entries = user.clients.entries().unwrap();
    assert_eq!(
        (entries[0].url.as_deref(), entries[0].state),
        (Some(NEW_URL), EntryState::Present),
        "{entries:?}"
    );
}

#[test]
fn a_command_that_starts_mcpm_through_another_program_is_the_users() {
    let user = User::new();
    user.add("claude-desktop", "time").unwrap();
    let file = user.file("claude-desktop");
    let own = json!({"command": "env", "args": ["A=1", "mcpm", "proxy", "stdio", "time"]});
    let text = json!({"mcpServers": {"time": own}}).to_string();
    fs::write(&file, &text).unwrap();
    assert_eq!(user.add("claude-desktop", "time").unwrap_err().kind(), ErrorKind::NameTaken);
    user.clients.remove("claude-desktop", "time", None).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}

#[test]
fn an_entry_that_the_user_disabled_stays_disabled() {
    let user = User::new();
    user.add("goose", "time").unwrap();
    let file = user.file("goose");
    let text = fs::read_to_string(&file).unwrap().replace("enabled: true", "enabled: false");
    assert!(text.contains("enabled: false"), "{text}");
    fs::write(&file, &text).unwrap();
    user.add("goose", "time").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
}
