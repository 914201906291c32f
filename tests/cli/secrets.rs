//! Checks that the values of variables are only in the places that need them.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::support::{Home, docker, inspect};

/// Every process that has the text in a file below `/proc/PID`.
fn processes_with(text: &str, file: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let content = fs::read(entry.path().join(file)).unwrap_or_default();
        if String::from_utf8_lossy(&content).contains(text) {
            found.push(String::from_utf8_lossy(&content).replace('\0', " "));
        }
    }
    found
}

#[test]
fn a_given_value_is_in_no_argument_environment_label_plan_or_log() {
    let home = Home::new();
    let name = home.name("s");
    let secret = format!("hush-{}", home.name("value"));
    let (given, file) = (format!("TOKEN={secret}"), format!("OTHER={secret}\n"));
    home.write("file.env", &file);
    let options = ["mcpm-test/everything:1", "--name", &name, "-e", &given, "--env-file", "file.env"];
    for form in [&[][..], &["--output", "json"]] {
        let plan = home.run(&[&["run", "--plan"][..], &options, form].concat()).succeeded();
        assert!(!plan.stdout.contains(&secret) && plan.stdout.contains("TOKEN"), "{plan:?}");
    }
    let run = home.run(&[&["run", "--debug"][..], &options].concat()).succeeded();
    assert!(!run.stderr.contains(&secret) && !run.stdout.contains(&secret), "{run:?}");
    assert_eq!(processes_with(&secret, "cmdline"), [""; 0]);
    let supervisor = home.supervisor(&name);
    let environ = fs::read(format!("/proc/{supervisor}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environ).contains(&secret));
    let container = inspect(&name);
    assert!(!container["Config"]["Labels"].to_string().contains(&secret));
    assert!(container["Config"]["Env"].to_string().contains(&secret), "the server gets it");
    for command in
        [&["list", "-o", "json"][..], &["status", &name], &["logs", &name], &["logs", &name, "--proxy"]]
    {
        let outcome = home.run(command).succeeded();
        assert!(!outcome.stdout.contains(&secret) && !outcome.stderr.contains(&secret), "{command:?}");
    }
    let docker_says =
        docker(&["events", "--since", "5m", "--until", "0s", "--filter", &format!("container={name}")]);
    assert!(!docker_says.contains(&secret));
}

#[test]
fn records_are_readable_by_their_owner_alone() {
    let home = Home::new();
    let name = home.name("r");
    home.run(&["run", "mcpm-test/everything:1", "--name", &name, "-e", "A=hush"]).succeeded();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    home.write("exported.json", "what was there before");
    fs::set_permissions(home.path("exported.json"), fs::Permissions::from_mode(0o644)).unwrap();
    home.run(&["export", &name, "exported.json"]).succeeded();
    assert_eq!(mode(&home.path("exported.json")), 0o600, "values are in it");
    assert_eq!(mode(&home.record_dir(&name)), 0o700);
    for entry in fs::read_dir(home.record_dir(&name)).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn a_bad_value_is_not_repeated() {
    let home = Home::without_engine();
    for args in [
        ["run", "image", "--env", "hush"],
        ["run", "image", "--env", "=hush"],
        ["run", "image", "--remote-auth-bearer-token", "hush"],
        ["run", "image", "--remote-forward-headers", "hush"],
    ] {
        let outcome = home.run(&args);
        assert!(matches!(outcome.code, Some(2 | 3)), "{outcome:?}");
        assert!(!outcome.stderr.contains("hush"), "{outcome:?}");
    }
    let file = home.write("broken.env", "A=1\nhush\n");
    assert!(!home.run(&["run", "image", "--env-file", &file]).stderr.contains("hush"));
}
