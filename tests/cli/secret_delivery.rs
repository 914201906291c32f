//! Tests `mcpm run --secret`: only the server gets the value.

use std::{fs, path::Path};

use super::support::{Home, Outcome, docker, inspect, wait_until};

const IMAGE: &str = "mcpm-test/everything:1";

/// Every file below a folder that contains a text.
pub(super) fn files_with(text: &str, folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_with(text, &path));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).contains(text) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// Files in `/proc` of processes on this machine that contain a text.
pub(super) fn processes_with(text: &str, file: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let content = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&content).contains(text)
    })
    .collect()
}

/// The processes in a container.
fn processes_in(container: &str) -> Vec<u32> {
    let listed = docker(&["top", container, "-eo", "pid"]);
    listed.lines().skip(1).map(|pid| pid.trim().parse().unwrap()).collect()
}

pub(super) fn says(outcome: &Outcome, text: &str) -> bool {
    outcome.stdout.contains(text) || outcome.stderr.contains(text)
}

/// The outputs of the commands that show a workload, and of an export.
#[track_caller]
fn assert_not_leaked(home: &Home, name: &str, canary: &str) {
    let config = home.text("exported.json");
    for command in [
        &["list"][..],
        &["list", "-o", "json"],
        &["list", "-o", "mcp-json"],
        &["status", name, "-o", "json"],
        &["logs", name],
        &["logs", name, "--proxy"],
        &["export", name],
        &["export", name, &config],
        &["secret", "list"],
    ] {
        let outcome = home.run(command).succeeded();
        assert!(!says(&outcome, canary), "{outcome:?}");
    }
    let exported = fs::read_to_string(&config).unwrap();
    assert!(!exported.contains(canary) && exported.contains("token,target=TOKEN"), "{exported}");
    let supervisor = home.supervisor(name);
    for file in ["cmdline", "environ"] {
        let text = fs::read(format!("/proc/{supervisor}/{file}")).unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(!text.contains(canary) && !text.contains("correct horse"), "{file}");
    }
    let told =
        docker(&["events", "--since", "5m", "--until", "0s", "--filter", &format!("container={name}")]);
    assert!(!told.contains(canary), "{told}");
}

/// The values that the shim passes on cannot be found elsewhere: the engine gets no variable with them.
#[test]
fn a_canary_of_an_isolated_server_is_not_in_the_engine_either() {
    let home = Home::with_password();
    let name = home.name("isolated");
    let canary = format!("canary-{}", home.name("value"));
    home.store_secret("token", &canary);
    let options = [IMAGE, "--name", &name, "--isolate-network", "--secret", "token,target=TOKEN"];
    let plan = home.run(&[&["run", "--plan"][..], &options].concat()).succeeded();
    assert!(plan.stdout.contains("TOKEN from `token`, handed to the server by the shim"), "{plan:?}");
    let mut before = 0;
    for begin in [&[&["run", "--debug"][..], &options].concat()[..], &["restart", &name]] {
        let outcome = home.run(begin).succeeded();
        assert!(!says(&outcome, &canary), "{outcome:?}");
        let server = processes_in(&name);
        let holders = processes_with(&canary, "environ");
        assert!(
            !holders.is_empty() && holders.iter().all(|pid| server.contains(pid)),
            "{holders:?} {server:?}"
        );
        assert_ne!(holders[0], std::mem::replace(&mut before, holders[0]));
        assert!(!docker(&["inspect", &name]).contains(&canary));
        assert_eq!(processes_with(&canary, "cmdline"), [0; 0]);
        assert_not_leaked(&home, &name, &canary);
        assert_eq!(files_with(&canary, &home.path("")), [""; 0]);
    }
}

/// The engine's own files are not checked here: the engine shows the variables of servers that are not isolated to
/// everyone who may inspect the container. `mcpm run --plan` says so.
#[test]
fn a_secret_value_appears_only_in_the_server() {
    let home = Home::with_password();
    let name = home.name("canary");
    let canary = format!("canary-{}", home.name("value"));
    home.store_secret("token", &canary);
    let secrets = ["--secret", "token,target=TOKEN", "--secret", "token,target=file:/run/secrets/token"];
    let options = [&[IMAGE, "--name", &name][..], &secrets].concat();
    for form in ["text", "json"] {
        let plan = home.run(&[&["run", "--plan", "-o", form][..], &options].concat()).succeeded();
        assert!(!says(&plan, &canary) && plan.stdout.contains("TOKEN"), "{plan:?}");
    }
    let run = home.run(&[&["run", "--debug"][..], &options].concat()).succeeded();
    assert!(!says(&run, &canary), "{run:?}");

    let server = processes_in(&name);
    let holders = processes_with(&canary, "environ");
    assert!(!holders.is_empty() && holders.iter().all(|pid| server.contains(pid)), "{holders:?} {server:?}");
    let delivered = format!("/proc/{}/root/run/secrets/token", server[0]);
    assert_eq!(fs::read_to_string(&delivered).unwrap(), canary);
    fs::write(&delivered, "changed").unwrap_err();

    assert_eq!(processes_with(&canary, "cmdline"), [0; 0]);
    assert_eq!(processes_with("correct horse", "cmdline"), [0; 0]);
    assert_eq!(files_with(&canary, &home.path("state")), [""; 0]);
    assert_eq!(files_with(&canary, &home.path("home")), [""; 0]);
    let container = inspect(&name);
    for part in ["Args", "Mounts", "HostConfig", "Path"] {
        assert!(!container[part].to_string().contains(&canary), "{part}");
    }
    assert!(!container["Config"]["Labels"].to_string().contains(&canary));
    assert_not_leaked(&home, &name, &canary);

    home.run(&["stop", &name]).succeeded();
    assert_eq!(files_with(&canary, &home.path("")), [""; 0], "a file outlived the workload");
}

/// The value of a variable in the environment of one of a container's processes.
fn variable(container: &str, name: &str) -> Option<String> {
    let mark = format!("{name}=");
    processes_in(container).into_iter().find_map(|pid| {
        // A process that has just ended has no environment.
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environ = String::from_utf8_lossy(&environ).into_owned();
        environ.split('\0').find_map(|pair| pair.strip_prefix(&mark)).map(str::to_owned)
    })
}

#[test]
fn values_are_read_again_at_each_start_and_kept_through_a_crash() {
    let home = Home::with_password();
    let name = home.name("again");
    home.store_secret("token", "first");
    home.run(&["run", IMAGE, "--name", &name, "--secret", "token,target=TOKEN"]).succeeded();
    assert_eq!(variable(&name, "TOKEN").unwrap(), "first");
    home.store_secret("token", "second");
    // The supervisor starts the server again without a prompt.
    let restarts = || home.status(&name)["restarts"].as_u64().unwrap();
    docker(&["kill", &name]);
    wait_until("the server is up again", || restarts() > 0 && home.status(&name)["status"] == "running");
    assert_eq!(variable(&name, "TOKEN").unwrap(), "first");
    home.run(&["restart", &name]).succeeded();
    assert_eq!(variable(&name, "TOKEN").unwrap(), "second");
    home.run(&["stop", &name]).succeeded();
    home.store_secret("token", "third");
    home.run(&["start", &name]).succeeded();
    assert_eq!(variable(&name, "TOKEN").unwrap(), "third");
    // If a restart cannot get its secrets, the running workload is left alone.
    home.run(&["secret", "rm", "token"]).succeeded();
    let refused = home.run(&["restart", &name]);
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert_eq!(home.status(&name)["status"], "running");
    // A new workload from the exported file refers to the same secret.
    let config = home.text("exported.json");
    home.run(&["export", &name, &config]).succeeded();
    home.run(&["rm", &name]).succeeded();
    assert_eq!(home.run(&["run", "--from-config", &config]).code, Some(4));
    home.store_secret("token", "fourth");
    home.run(&["run", "--from-config", &config]).succeeded();
    assert_eq!(variable(&name, "TOKEN").unwrap(), "fourth");
}

#[test]
fn a_missing_secret_is_one_error_before_anything_starts() {
    let home = Home::with_password();
    let name = home.name("missing");
    home.store_secret("there", "value");
    let run = |more: &[&str]| {
        let options = ["run", "mcpm-test/no-such-image:1", "--name", &name];
        assert_ne!(home.run_and_record(&[&options[..], more].concat()).code, Some(0));
    };
    run(&["--secret", "there,target=A", "--secret", "gone,target=B", "--secret", "lost,target=C"]);
    run(&["--secret", "there,target=A", "--secret", "there,target=A"]);
    run(&["--secret", "there,target=A", "--env", "A=1"]);
    run(&["--secret", "there,target=file:etc/passwd"]);
    run(&["--secret", "there,target=file:/a/../b"]);
    run(&["--secret", "there"]);
    home.set("MCPM_SECRETS_PASSWORD", "wrong");
    run(&["--secret", "there,target=A"]);
    home.assert_transcript("secret_delivery/missing");
    assert!(!home.record_dir(&name).exists());
    assert_eq!(docker(&["ps", "--all", "--quiet", "--filter", &format!("name={name}")]), "");
}

#[test]
fn a_secret_goes_before_a_file_and_a_run_in_the_foreground_gets_it_too() {
    let home = Home::with_password();
    let name = home.name("front");
    home.store_secret("token", "kept");
    home.write("file.env", "TOKEN=from-file\n");
    let options = ["--name", &name, "--secret", "token,target=TOKEN", "--env-file", "file.env"];
    let plan = home.run(&[&["run", IMAGE, "--plan"][..], &options].concat()).succeeded();
    let shown = "TOKEN from `token`, delivered through the engine's environment \
                 (visible to everyone who may inspect the container)  (given)";
    assert!(plan.stdout.contains(shown) && !plan.stdout.contains("environment file"), "{}", plan.stdout);
    let mut running = super::support::Program::start(
        &mut home.mcpm(&[&["run", IMAGE, "--foreground"][..], &options].concat()),
    );
    running.read_line();
    assert_eq!(variable(&name, "TOKEN").unwrap(), "kept");
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(0));
}

#[test]
fn secret_files_are_removed_after_a_failed_start_or_a_killed_supervisor() {
    let home = Home::with_password();
    let canary = format!("canary-{}", home.name("file"));
    home.store_secret("token", &canary);
    let secret = ["--secret", "token,target=file:/run/secrets/token"];
    let failed = home.name("failed");
    let run = home.run(&[&["run", "mcpm-test/quick-exit:1", "--name", &failed][..], &secret].concat());
    assert_eq!(run.code, Some(8), "{run:?}");
    wait_until("its supervisor is gone", || home.processes().is_empty());
    assert_eq!(files_with(&canary, &home.path("")), [""; 0]);

    let name = home.name("killed");
    home.run(&[&["run", IMAGE, "--name", &name][..], &secret].concat()).succeeded();
    let kept = files_with(&canary, &home.path(""));
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].starts_with(&home.text("runtime/mcpm/secrets")), "{kept:?}");
    super::support::kill("KILL", home.supervisor(&name));
    wait_until("its supervisor is gone", || home.status(&name)["status"] == "orphaned");
    // A new start replaces the secret's file, and a removal leaves nothing.
    home.run(&["restart", &name]).succeeded();
    assert_eq!(files_with(&canary, &home.path("")), kept);
    super::support::kill("KILL", home.supervisor(&name));
    wait_until("its supervisor is gone", || home.status(&name)["status"] == "orphaned");
    home.run(&["rm", &name]).succeeded();
    assert_eq!(files_with(&canary, &home.path("")), [""; 0]);
}

#[test]
fn without_a_runtime_folder_files_are_refused_and_nothing_is_left() {
    let home = Home::with_password();
    home.store_secret("token", "value");
    home.set("XDG_RUNTIME_DIR", "");
    let name = home.name("homeless");
    home.run_and_record(&["run", IMAGE, "--name", &name, "--secret", "token,target=file:/run/token"]);
    home.assert_transcript("secret_delivery/homeless");
    assert!(!home.record_dir(&name).exists());
}
