//! Tests volumes, the root file system and hidden files, as a server sees them.

use std::{fs, os::unix::fs::symlink};

use super::server::{open_to_all, says, start};
use crate::support::Home;

pub(super) fn volumes_are_mounted_as_asked(home: &Home) {
    let name = home.name("v");
    home.write("ro/file", "hello");
    home.write("rw/file", "");
    open_to_all(&home.path("ro"));
    open_to_all(&home.path("rw"));
    let ro = format!("{}:/ro:ro", home.text("ro"));
    start(home, &name, &["--volume", &ro, "--volume", "rw:/rw"]);
    assert_eq!(says(home, "cat /ro/file"), "hello");
    for change in ["echo x > /ro/new", "echo x > /ro/file", "rm /ro/file"] {
        assert!(says(home, change).contains("Read-only"), "{change}");
    }
    assert_eq!(says(home, "echo written > /rw/new && cat /rw/new"), "written\n");
    assert_eq!(fs::read_to_string(home.path("rw/new")).unwrap(), "written\n");
    // Paths outside of the volumes do not exist in the container.
    assert!(says(home, &format!("ls {}", home.text("ro"))).contains("No such file"));
}

pub(super) fn a_profile_makes_the_root_read_only(home: &Home) {
    let name = home.name("r");
    home.write("profile.json", r#"{"network": {}, "read_only_root": true, "tmpfs": ["/tmp"]}"#);
    start(home, &name, &["--permission-profile", "profile.json"]);
    assert_eq!(says(home, "echo x > /tmp/new && cat /tmp/new"), "x\n");
    for change in ["echo x > /new", "mkdir /folder", "rm /everything-server", "echo x > /etc/new"] {
        let said = says(home, &format!("{change} && echo done"));
        assert!(!said.contains("done") && !said.is_empty(), "{change}: {said}");
    }
}

pub(super) fn a_server_reads_and_changes_nothing_that_is_ignored(home: &Home) {
    for (path, text) in [
        ("home/.config/mcpm/mcpmignore", "*.pem\n"),
        ("project/.mcpmignore", ".env*\n!.env.example\nprivate/\n"),
        ("project/.env", "hush"),
        ("project/.env.example", "example"),
        ("project/plain", "plain"),
        ("project/private/deep/file", "hush"),
        ("project/sub/key.pem", "hush"),
    ] {
        home.write(path, text);
    }
    open_to_all(&home.path("project"));
    symlink(".env", home.path("project/link-to-env")).unwrap();
    symlink("private/deep/file", home.path("project/link-to-private")).unwrap();
    let name = home.name("i");
    start(home, &name, &["--volume", "project:/d"]);
    assert!(!says(home, "grep -r hush /d; cat /d/link*").contains("hush"));
    assert_eq!(says(home, "cat /d/.env /d/link-to-env; ls -A /d/private"), "");
    assert_eq!(says(home, "cat /d/.env.example /d/plain"), "exampleplain");
    // The server may change the mounted files, but not the mounts that hide files.
    assert_eq!(says(home, "echo x > /d/new && cat /d/new"), "x\n");
    for change in [
        "echo x > /d/.env",
        "touch /d/private/new",
        "rm /d/.env",
        "mv /d/private /d/public",
        "umount /d/.env",
        "mount -t tmpfs none /d/sub",
        "echo > /d/.mcpmignore",
        "mv /d/plain /d/.mcpmignore",
    ] {
        let said = says(home, &format!("{change} && echo done"));
        assert!(said.lines().all(|line| line != "done"), "{change}: {said}");
    }
    assert_eq!(fs::read_to_string(home.path("project/.env")).unwrap(), "hush");
    // New ignored files are hidden at the next start.
    home.write("project/.env.local", "hush");
    home.run(&["restart", &name]).succeeded();
    assert_eq!(says(home, "cat /d/.env.local; ls -A /d/private"), "");
}
