//! Checks that a server does not see files that match a pattern in an ignore file.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::Command,
};

use super::support::{Home, Program, docker, testbed_variable, wait_until};

/// An image with a shell.
const IMAGE: &str = "mcpm-test/python:1";

/// The output of a script in a container, including errors.
fn says(container: &str, script: &str) -> String {
    let script = format!("({script}) 2>&1");
    let output = Command::new("docker").args(["exec", container, "sh", "-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A folder to be mounted at `/d`, which contains ignored files.
fn project(home: &Home) {
    for (path, text) in [
        ("home/.config/mcpm/mcpmignore", "*.pem\n"),
        ("project/.mcpmignore", ".env*\n!.env.example\nprivate/\ncurrent\n"),
        ("project/.env", "hush"),
        ("project/.env.example", "example"),
        ("project/plain", "plain"),
        ("project/private/deep/file", "hush"),
        ("project/sub/.mcpmignore", "notes\n!.env\n"),
        ("project/sub/.env", "let in again"),
        ("project/sub/notes", "hush"),
        ("project/sub/key.pem", "hush"),
        ("project/releases/5/file", "hush"),
    ] {
        home.write(path, text);
    }
    // The user of the server makes no difference.
    for path in ["project", "project/.env", "project/private"] {
        fs::set_permissions(home.path(path), fs::Permissions::from_mode(0o777)).unwrap();
    }
    symlink("releases/5", home.path("project/current")).unwrap();
    symlink(".env", home.path("project/link-to-env")).unwrap();
    symlink("private/deep/file", home.path("project/link-to-private")).unwrap();
}

#[test]
fn a_server_reads_and_changes_nothing_that_is_ignored() {
    let home = Home::new();
    project(&home);
    let name = home.name("ignore");
    let run = ["run", IMAGE, "--name", &name, "-v", "project:/d", "--transport", "stdio"];
    let run = [&run[..], &["--print-resolved-overlays", "--", "mcp-server-time"]].concat();
    let outcome = home.run(&run);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let overlays: Vec<&str> =
        outcome.stderr.lines().filter_map(|line| line.strip_prefix("overlay: ")).collect();
    assert_eq!(
        overlays,
        [
            "/d/.env",
            "/d/.mcpmignore",
            "/d/private",
            "/d/releases/5",
            "/d/sub/.mcpmignore",
            "/d/sub/key.pem",
            "/d/sub/notes"
        ],
        "{outcome:?}"
    );
    assert!(!says(&name, "grep -r hush /d; cat /d/link* /d/current/file").contains("hush"));
    assert_eq!(
        says(&name, "cat /d/.env /d/sub/notes /d/link-to-env; ls -A /d/private /d/current/"),
        "/d/current/:\n\n/d/private:\n"
    );
    assert_eq!(says(&name, "cat /d/.env.example /d/plain /d/sub/.env"), "exampleplainlet in again");
    // The server may change the mounted files, but not the mounts that hide files.
    assert_eq!(says(&name, "echo x > /d/new && cat /d/new"), "x\n");
    for change in [
        "echo x > /d/.env",
        "touch /d/private/new",
        "rm /d/.env",
        "mv /d/private /d/public",
        "umount /d/.env",
        "echo > /d/.mcpmignore",
        "rm /d/sub/.mcpmignore",
        "mv /d/plain /d/.mcpmignore",
    ] {
        assert!(
            says(&name, &format!("{change} && echo done")).lines().all(|line| line != "done"),
            "{change}"
        );
    }
    assert_eq!(fs::read_to_string(home.path("project/.env")).unwrap(), "hush");
    assert_eq!(fs::metadata(home.path("state/mcpm/overlays/file")).unwrap().len(), 0);

    assert!(fs::read_to_string(home.path("project/.mcpmignore")).unwrap().contains("private/"));

    // New ignored files are hidden at the next start. Files that are no longer ignored become visible after the user
    // has accepted the change.
    home.write("project/.env.local", "hush");
    home.write("project/.mcpmignore", ".env*\n!.env.example\n");
    let restarted = home.run(&["restart", &name]).succeeded();
    assert!(restarted.stderr.contains("private` and 1 more stay ignored"), "{restarted:?}");
    assert_eq!(says(&name, "cat /d/.env.local; ls -A /d/private"), "");
    let accepted = home.run(&["ignore", "accept", "project"]).succeeded().stdout;
    assert_eq!(accepted, format!("{}\n", home.path("project/.mcpmignore").canonicalize().unwrap().display()));
    let restarted = home.run(&["restart", &name]).succeeded();
    assert_eq!(restarted.stderr, "");
    assert_eq!(says(&name, "cat /d/.env.local /d/private/deep/file"), "hush");
    home.run(&["stop", &name]).succeeded();
    home.write("project/.mcpmignore", "broken[\n");
    let refused = home.run(&["start", &name]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[test]
fn what_a_server_moves_and_writes_uncovers_nothing() {
    let home = Home::new();
    home.write("project/.mcpmignore", "/config/key\n.env\n");
    home.write("project/config/key", "hush");
    home.write("project/sub/.env", "hush");
    for path in ["project", "project/config", "project/sub"] {
        fs::set_permissions(home.path(path), fs::Permissions::from_mode(0o777)).unwrap();
    }
    let name = home.name("mover");
    let run = ["run", IMAGE, "--name", &name, "-v", "project:/d", "--transport", "stdio"];
    home.run(&[&run[..], &["--", "mcp-server-time"]].concat()).succeeded();
    for (scheme, left) in [
        ("mv /d/config /d/settings && echo '!.env' > /d/sub/.mcpmignore", "/d/settings/key"),
        ("mv /d/sub /d/settings/deeper", "/d/settings/deeper/.env"),
        ("mkdir /d/config && mv /d/settings /d/config/again", "/d/config/again/deeper/.env"),
    ] {
        assert_eq!(says(&name, &format!("{scheme} && ls {left}")), format!("{left}\n"));
        // The supervisor starts the server again without asking the user.
        docker(&["kill", &name]);
        wait_until("it is started again", || home.status(&name)["restarts"] == 1);
        home.wait_for_status(&name, "running");
        assert!(!says(&name, "grep -r hush /d").contains("hush"), "{scheme}");
        let restarted = home.run(&["restart", &name]).succeeded();
        assert!(restarted.stderr.contains("mcpm ignore accept"), "{scheme}: {restarted:?}");
        assert!(!says(&name, "grep -r hush /d").contains("hush"), "{scheme}");
        home.run(&["stop", &name]).succeeded();
        home.run(&["start", &name]).succeeded();
    }
    // A workload that is created again does not see more files.
    home.run(&["rm", &name]).succeeded();
    home.run(&[&run[..], &["--", "mcp-server-time"]].concat()).succeeded();
    assert!(!says(&name, "grep -r hush /d").contains("hush"));
    home.run(&["rm", &name]).succeeded();
    for path in ["nowhere", "home"] {
        assert_eq!(home.run(&["ignore", "accept", path]).code, Some(4), "{path}");
    }
}

#[test]
fn a_plan_shows_what_is_covered_and_why_not() {
    let home = Home::new();
    project(&home);
    let shown = |more: &[&str]| {
        let plan =
            ["run", IMAGE, "--plan", "--name", "ignored", "-v", "project:/d:ro", "--transport", "stdio"];
        let plan = home.run(&[&plan[..], more].concat()).succeeded().stdout;
        plan.lines().filter(|line| line.starts_with("overlay")).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = shown(&[]);
    assert_eq!(all.len(), 5, "{all:?}");
    assert!(all[0].ends_with("/d/.env (an empty file)") && all[1].ends_with("/d/private (an empty folder)"));
    let local = shown(&["--ignore-globally=false"]);
    assert_eq!(local.len(), 4, "{local:?}");
}

#[test]
fn an_ignore_file_that_cannot_be_used_stops_the_start() {
    let home = Home::new();
    let name = home.name("bad");
    let run = |home: &Home| {
        let run = ["run", IMAGE, "--name", &name, "-v", "project:/d", "--transport", "stdio"];
        assert_ne!(home.run_and_record(&[&run[..], &["--", "mcp-server-time"]].concat()).code, Some(0));
        assert!(!home.record_dir(&name).exists());
    };
    home.write("project/.mcpmignore", "fine\nbroken[\n");
    run(&home);
    home.write("project/.mcpmignore", "dir/\n");
    home.write("project/dir/file", "");
    fs::create_dir_all(home.path("home/.config/mcpm/mcpmignore")).unwrap();
    run(&home);
    fs::remove_dir(home.path("home/.config/mcpm/mcpmignore")).unwrap();
    home.write("project/.mcpmignore", "*.tmp\n");
    (0..501).for_each(|number| drop(home.write(&format!("project/{number}.tmp"), "")));
    run(&home);
    home.assert_transcript("ignore/bad");
}

/// Runs git in a folder.
fn git(home: &Home, folder: &str, args: &[&str], input: &str) -> String {
    let mut command = home.command("git");
    command.args(args).current_dir(home.path(folder));
    home.run_with_stdin(input, &mut command).stdout
}

#[test]
fn git_agrees_about_what_is_ignored() {
    let home = Home::new();
    let names = ["a", "b.txt", "B.TXT", "c d", "#e", "!f", "g[1]", "h\\i", ".j", "k.tar.gz", "éa", "l "];
    let folders = ["", "x/", "x/y/", "x/y/z/", "x.d/", "w/x/", "w/a/", "build/", "x/build/b/"];
    for (folder, name) in folders.iter().flat_map(|folder| names.map(|name| (folder, name))) {
        home.write(&format!("project/{folder}{name}"), "");
    }
    let patterns = [
        (
            "",
            "b.txt\n!x/y/b.txt\n/a\nx/**/c d\n\\#e\n\\!f\ng\\[1\\]\n*.gz\n!/k.tar.gz\nw/*\n!w/x\n**/y/z/.j\nl \n\n",
        ),
        ("x/", "*.txt\n!B.TXT\nbuild/\n/y/a\n#e\n"),
        ("x/y/", "/z/*\n!/z/a\n\u{e9}?\n\\l\\ \n"),
        ("x.d/", "**\n!*/\n!k*\n"),
        ("build/", "[a-c]*\n![!a]\n*\\i\n"),
    ];
    for (folder, text) in patterns {
        home.write(&format!("project/{folder}.mcpmignore"), text);
        home.write(&format!("project/{folder}.gitignore"), text);
    }
    git(&home, "project", &["init", "--quiet"], "");
    let mut paths: Vec<String> =
        folders.iter().flat_map(|folder| names.map(|name| format!("{folder}{name}"))).collect();
    paths.sort();
    let asked = paths.iter().map(|path| format!("{path}\0")).collect::<String>();
    let said = git(&home, "project", &["check-ignore", "--no-index", "--stdin", "-z"], &asked);
    let mut ignored: Vec<&str> = said.split_terminator('\0').collect();
    ignored.sort_unstable();
    assert!(ignored.len() > 20 && ignored.len() < paths.len() - 20, "{ignored:?}");
    let plan = ["run", IMAGE, "--plan", "-o", "json", "-v", "project:/d", "--transport", "stdio"];
    let plan = home.run(&plan).succeeded().json();
    let overlays = plan["spec"]["place"]["container"]["overlays"].as_array().unwrap();
    let overlays: Vec<&str> = overlays.iter().map(|overlay| overlay["target"].as_str().unwrap()).collect();
    let is_covered = |path: &&String| {
        let target = format!("/d/{path}");
        overlays.iter().any(|overlay| target == *overlay || target.starts_with(&format!("{overlay}/")))
    };
    let covered: Vec<&String> = paths.iter().filter(is_covered).collect();
    assert_eq!(covered, ignored);
}

/// A file system that ignores the case of names, like those of macOS and Windows.
struct IgnoringCase {
    folder: String,
    _server: Program,
}

impl IgnoringCase {
    fn mount(home: &Home, folder: &str, files: &[&str]) -> Self {
        let folder = home.text(folder);
        fs::create_dir(&folder).unwrap();
        let program = mcpm_tests::root().join("tests/cli/case_insensitive_fs.py");
        let mut server = home.command(testbed_variable("MCPM_TEST_PYTHON"));
        let mut server = Program::start(server.arg(program).arg(&folder).args(files));
        assert_eq!(server.read_line(), "mounted");
        Self { folder, _server: server }
    }
}

impl Drop for IgnoringCase {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.folder).status();
    }
}

#[test]
fn what_is_ignored_on_a_file_system_that_ignores_case_is_refused() {
    let home = Home::new();
    home.write("home/.config/mcpm/mcpmignore", ".env\n");
    for (folder, file) in [("lower", ".env"), ("upper", ".ENV")] {
        let mounted = IgnoringCase::mount(&home, folder, &["plain", file]);
        let name = home.name(folder);
        let volume = format!("{}:/d", mounted.folder);
        let run =
            ["run", IMAGE, "--name", &name, "-v", &volume, "--transport", "stdio", "--", "mcp-server-time"];
        let outcome = home.run(&run);
        let expected = format!(
            "error: `{}/{file}` is ignored, but cannot be hidden: its file system is case-insensitive, so a \
             server could open it with another spelling; move it out of the mounted folder, or mount folders that do not \
             contain it\n",
            mounted.folder
        );
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), expected.as_str()), "{outcome:?}");
    }
    // Paths that are not ignored can be mounted.
    let mounted = IgnoringCase::mount(&home, "other", &["plain", "Readme"]);
    let volume = format!("{}:/d", mounted.folder);
    let name = home.name("other");
    let run = ["run", IMAGE, "--name", &name, "-v", &volume, "--transport", "stdio", "--", "mcp-server-time"];
    home.run(&run).succeeded();
    assert_eq!(says(&name, "cat /d/README"), "content of Readme\n");
    home.run(&["rm", &name]).succeeded();
}
