//! Checks that only the server gets the value of a secret.

use std::fs;

use super::server::IMAGE;
use crate::{
    secret_delivery::{files_with, processes_with, says},
    support::{Home, wait_until},
};

pub(super) fn a_canary_is_in_the_server_only(home: &Home) {
    let name = home.name("canary");
    let canary = format!("canary-{}", home.name("value"));
    home.store_secret("token", &canary);
    let secret =
        ["--isolate-network", "--secret", "token,target=TOKEN", "--secret", "token,target=file:/run/token"];
    let run = [&["run", IMAGE, "--name", &name, "--transport", "stdio", "--debug"][..], &secret].concat();
    for begin in [&run[..], &["restart", &name]] {
        let outcome = home.run(begin).succeeded();
        assert!(!says(&outcome, &canary), "{outcome:?}");
        let (server, first) = (home.processes_in(&name), home.first_process(&name));
        let holders = processes_with(&canary, "environ");
        assert!(!holders.is_empty(), "the server gets it");
        // The shim is the first process. It has passed the value on, and does not have it any more.
        assert!(
            holders.iter().all(|pid| server.contains(pid) && *pid != first),
            "{holders:?} {server:?} {first}"
        );
        assert_eq!(processes_with(&canary, "cmdline"), [0; 0]);
        let delivered = format!("/proc/{first}/root/run/token");
        assert_eq!(fs::read_to_string(&delivered).unwrap(), canary);
        for folder in ["state", "home"] {
            assert_eq!(files_with(&canary, &home.path(folder)), [""; 0]);
        }
        for command in [&["list", "-o", "json"][..], &["status", &name], &["logs", &name], &["export", &name]]
        {
            assert!(!says(&home.run(command).succeeded(), &canary), "{command:?}");
        }
    }
    home.run(&["stop", &name]).succeeded();
    assert_eq!(files_with(&canary, &home.path("")), [""; 0], "a file outlived the workload");
}

/// The value of a variable in the environment of one of a container's processes.
fn variable(home: &Home, container: &str, name: &str) -> Option<String> {
    let mark = format!("{name}=");
    home.processes_in(container).into_iter().find_map(|pid| {
        // A process that has just ended has no environment.
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environ = String::from_utf8_lossy(&environ).into_owned();
        environ.split('\0').find_map(|pair| pair.strip_prefix(&mark)).map(str::to_owned)
    })
}

pub(super) fn values_are_read_again_at_each_start_and_kept_through_a_crash(home: &Home) {
    let name = home.name("again");
    home.store_secret("token", "first");
    let secret = ["--isolate-network", "--secret", "token,target=TOKEN"];
    home.run(&[&["run", IMAGE, "--name", &name, "--transport", "stdio"][..], &secret].concat()).succeeded();
    assert_eq!(variable(home, &name, "TOKEN").unwrap(), "first");
    home.store_secret("token", "second");
    home.kill_server(&name);
    wait_until("the server is up again", || {
        let status = home.status(&name);
        status["restarts"].as_u64() > Some(0) && status["status"] == "running"
    });
    assert_eq!(variable(home, &name, "TOKEN").unwrap(), "first");
    home.run(&["restart", &name]).succeeded();
    assert_eq!(variable(home, &name, "TOKEN").unwrap(), "second");
    // If a restart cannot get its secrets, the running workload is left alone.
    home.run(&["secret", "rm", "token"]).succeeded();
    assert_eq!(home.run(&["restart", &name]).code, Some(4));
    assert_eq!(home.status(&name)["status"], "running");
}
