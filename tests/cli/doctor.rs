//! Checks that `mcpm doctor` finds problems that prevent workloads from running, and removes leftovers.

use std::os::unix::net::UnixListener;

#[cfg(target_os = "linux")]
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::Value;

use super::support::{Home, docker};

/// The result of one check.
#[track_caller]
fn finding<'a>(found: &'a Value, id: &str) -> &'a Value {
    found
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["id"] == id)
        .unwrap_or_else(|| panic!("no {id} in {found}"))
}

#[test]
fn a_machine_that_can_run_workloads_is_healthy_and_leftovers_are_removed() {
    let home = Home::new();
    let name = home.name("left");
    let labels =
        ["mcpm=true", &format!("mcpm-state={}", home.text("state/mcpm")), &format!("mcpm-name={name}")]
            .map(|label| format!("--label={label}"));
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    docker(&[&["create", "--name", &name][..], &labels, &["mcpm-test/everything:1"]].concat());

    let found = home.run(&["doctor", "-o", "json"]).succeeded().json();
    for id in [
        "runtime.engine",
        "folders.state",
        "network.loopback",
        "secrets.store",
        "secrets.keyring",
        "registry.reach",
        "clock",
        "workloads.state",
    ] {
        assert_eq!(finding(&found, id)["severity"], "ok", "{found}");
    }
    let left = finding(&found, "containers.leftover");
    assert_eq!((&left["severity"], &left["can_repair"]), (&"warning".into(), &true.into()), "{left}");
    assert!(left["message"].as_str().unwrap().contains(&name), "{left}");

    let fixed = home.run(&["doctor", "--fix"]).succeeded();
    assert_eq!(fixed.stderr, format!("removed the container `{name}`\n"));
    assert!(fixed.stdout.starts_with("CHECK ") && !fixed.stdout.contains("leftover"), "{fixed:?}");
    assert_eq!(docker(&["ps", "-aq", "--filter", &format!("name={name}")]), "");
}

#[test]
fn an_engine_that_accepts_and_never_responds_hangs_nothing() {
    let home = Home::new();
    let socket = home.text("mute.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let _open: Vec<_> = listener.incoming().collect();
    });
    home.set("DOCKER_HOST", &format!("unix://{socket}"));
    let found = home.run(&["doctor", "-o", "json"]);
    assert_eq!(found.code, Some(1), "{found:?}");
    let found = found.json();
    let engine = finding(&found, "runtime.engine");
    assert_eq!(engine["severity"], "error", "{engine}");
    assert!(engine["fix"].as_str().is_some(), "{engine}");
    // The other checks still run.
    for id in ["runtime.builtin", "folders.state", "secrets.store", "registry.reach"] {
        assert_eq!(finding(&found, id)["severity"], "ok", "{found}");
    }
}

#[test]
fn the_network_of_a_running_server_is_checked_in_its_container() {
    let home = Home::new();
    let unchecked = home.run(&["doctor", "-o", "json"]).json();
    let message = finding(&unchecked, "containers.ca")["message"].as_str().unwrap();
    assert!(message.starts_with("not checked"), "{message}");
    let name = home.name("time");
    let run = ["run", "uvx://mcp-server-time", "--name", &name, "--runtime-image", "mcpm-test/python:1"];
    home.run(&[&run[..], &["--ca-cert", "/etc/ssl/certs/ca-certificates.crt"]].concat()).succeeded();
    let found = home.run(&["doctor", "-o", "json"]).json();
    for id in ["containers.dns", "containers.ca"] {
        let message = finding(&found, id)["message"].as_str().unwrap();
        assert!(message.contains(&format!("the container of `{name}`")), "{found}");
    }
    home.run(&["rm", &name]).succeeded();
}

#[test]
fn what_is_broken_is_said_with_what_to_do() {
    let home = Home::without_engine();
    let found = home.run(&["doctor", "-o", "json"]);
    assert_eq!(found.code, Some(1), "{found:?}");
    let found = found.json();
    let engine = finding(&found, "runtime.engine");
    assert_eq!(engine["severity"], "error", "{engine}");
    assert!(engine["message"].as_str().unwrap().contains("DOCKER_HOST"), "{engine}");
    let text = home.run(&["doctor"]);
    assert_eq!((text.code, text.stderr.as_str()), (Some(1), ""), "{text:?}");
    assert!(text.stdout.contains("\nruntime.engine "), "{text:?}");

    // The state folder cannot be created, because a file is in its place.
    home.write("state", "");
    let found = home.run(&["doctor", "-o", "json"]).json();
    assert_eq!(finding(&found, "folders.state")["severity"], "error", "{found}");
}

/// Makes the query of Landlock's version fail for this thread and the processes that it starts.
#[cfg(target_os = "linux")]
fn deny_landlock(errno: libc::c_int) {
    let rules = [(libc::SYS_landlock_create_ruleset, Vec::new())].into();
    let denied = SeccompAction::Errno(errno.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, architecture).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_kernel_without_landlock_is_found_with_how_to_enable_it() {
    let home = Home::without_engine();
    for (errno, fix) in
        [(libc::EOPNOTSUPP, "`lsm=landlock,LIST`"), (libc::ENOSYS, "`CONFIG_SECURITY_LANDLOCK`")]
    {
        let run = || {
            deny_landlock(errno);
            [home.run(&["doctor", "-o", "json"]), home.run(&["doctor"])]
        };
        let [found, text] = std::thread::scope(|scope| scope.spawn(run).join()).unwrap();
        let found = found.json();
        let landlock = finding(&found, "runtime.landlock");
        assert_eq!(landlock["severity"], "warning", "{landlock}");
        let message = landlock["message"].as_str().unwrap();
        assert!(message.starts_with("only mounts restrict the files of servers"), "{landlock}");
        assert!(landlock["fix"].as_str().unwrap().contains(fix), "{landlock}");
        assert!(text.stdout.contains("\nruntime.landlock ") && text.stdout.contains(fix), "{text:?}");
    }
}
