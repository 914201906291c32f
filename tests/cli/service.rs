//! Checks that workloads which ran before a shutdown of the machine run again after the machine has started.

use super::support::{Home, Session, docker, kill, wait_until};

#[test]
fn workloads_that_ran_answer_on_their_urls_after_a_reboot() {
    let home = Home::new();
    let run = |what: &str, image: &str| {
        let name = home.name(what);
        let url = home.run(&["run", image, "--name", &name]).succeeded().url();
        (name, url)
    };
    let (told, killed) =
        (run("a-told", "mcpm-test/everything:1"), run("b-killed", "mcpm-test/everything-http:1"));
    let stopped = run("c-stopped", "mcpm-test/everything:1");
    home.run(&["stop", &stopped.0]).succeeded();

    // A shutdown asks programs to end, and kills those that have not ended.
    let (first, second) = (home.supervisor(&told.0), home.supervisor(&killed.0));
    kill("TERM", first);
    kill("KILL", second);
    docker(&["kill", &killed.0]);
    wait_until("all supervisors have ended", || home.processes().is_empty());
    assert_eq!(home.status(&told.0)["status"], "stopped");

    let started = home.run(&["start", "--interrupted"]).succeeded();
    let expected = [&told, &killed].map(|(name, url)| format!("{name}  {url}\n")).concat();
    assert_eq!(started.stdout, expected);
    for (_, url) in [&told, &killed] {
        assert!(!Session::open(url).tools().is_empty(), "{url}");
    }
    assert_eq!(home.status(&stopped.0)["status"], "stopped");
    let again = home.run(&["start", "--interrupted"]).succeeded();
    assert_eq!((again.stdout.as_str(), again.stderr.as_str()), ("", ""));
}

#[test]
fn the_unit_is_one_that_systemd_accepts() {
    let home = Home::without_engine();
    home.set("XDG_CONFIG_HOME", &home.text("with a space and 100%"));
    let unit = home.run(&["service", "install", "--print"]).succeeded().stdout;
    assert!(unit.contains("with a space and 100%%\""), "{unit}");
    let file = home.write("mcpm.service", &unit);
    let checked = home.command("systemd-analyze").args(["verify", "--user", &file]).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.is_empty(), "{said}\n{unit}");

    // No user manager of systemd runs here, and nothing is left behind.
    let refused = home.run(&["service", "install"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(3), ""), "{refused:?}");
    assert!(refused.stderr.contains("`systemctl --user daemon-reload` failed"), "{refused:?}");
    let path = home.path("with a space and 100%/systemd/user/mcpm.service");
    assert!(!path.exists());
    assert_eq!(
        home.run(&["service", "status"]).succeeded().stdout,
        format!("{}  not installed\n", path.display())
    );
    assert_eq!(home.run(&["service", "uninstall"]).code, Some(4));
}
