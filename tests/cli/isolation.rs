//! Tests permission profiles and isolation on the command line: which options are rejected, what a plan shows, and
//! which files a recorded profile overwrites.

use super::support::Home;

#[test]
fn unenforceable_isolation_is_rejected_before_contacting_an_engine() {
    let home = Home::without_engine();
    home.write("typo.json", r#"{"network": {"outbound": {"allow_hosts": ["a.example"]}}}"#);
    home.write("rules.json", r#"{"network": {"outbound": {"allow_host": ["a.example"]}}}"#);
    let hosted = r#"{"network": {"mode": "host", "outbound": {"allow_host": ["a.example"]}}}"#;
    home.write("hosted.json", hosted);
    home.write("mount.json", r#"{"read": ["/no/such/folder"], "network": {}}"#);
    home.write("privileged.json", r#"{"privileged": true}"#);
    for (line, code) in [
        ("--permission-profile missing.json", 4),
        ("--permission-profile typo.json", 2),
        ("--permission-profile mount.json", 4),
        ("--permission-profile privileged.json", 2),
        ("--permission-profile none --network host", 2),
        ("--permission-profile none --publish 8080", 2),
        ("--permission-profile rules.json --publish 8080", 2),
        ("--permission-profile rules.json --network host", 2),
        ("--permission-profile rules.json --network other", 2),
        ("--permission-profile hosted.json", 2),
        ("--isolate-network --network host", 2),
        ("--isolate-network --network other", 2),
        ("--isolate-network --target-host 127.0.0.2 --transport sse", 2),
        ("--learn out.json --permission-profile none", 2),
        ("--volume .:/.mcpm/x", 2),
    ] {
        let args: Vec<&str> = ["run", "image"].into_iter().chain(line.split(' ')).collect();
        assert_eq!(home.run_and_record(&args).code, Some(code), "{line}");
    }
    home.assert_transcript("isolation/refused");
}

#[test]
fn a_recorded_profile_overwrites_only_itself() {
    let home = Home::new();
    let name = home.name("learn");
    let run = ["run", "mcpm-test/everything:1", "--name", &name, "--learn", "learnt.json"];
    let own = home.write("learnt.json", r#"{"network": {"outbound": {"allow_host": ["a.example:443"]}}}"#);
    let before = std::fs::read_to_string(&own).unwrap();
    assert_eq!(home.run_and_record(&run).code, Some(2));
    assert_eq!(std::fs::read_to_string(&own).unwrap(), before);
    home.assert_nothing_left();
    std::fs::remove_file(&own).unwrap();
    home.run_and_record(&run).succeeded();
    let learnt = std::fs::read_to_string(&own).unwrap();
    assert!(learnt.contains("network") && !learnt.contains("a.example"), "{learnt}");
    // Nobody watches a workload in the background, so `mcpm stop` prints the findings.
    home.run_and_record(&["stop", &name]).succeeded();
    // A later start continues with the learned profile, including the user's changes.
    std::fs::write(&own, before).unwrap();
    home.run_and_record(&["restart", &name]).succeeded();
    assert!(std::fs::read_to_string(&own).unwrap().contains("a.example:443"));
    std::fs::write(&own, "{").unwrap();
    assert_eq!(home.run_and_record(&["restart", &name]).code, Some(2));
    assert_eq!(std::fs::read_to_string(&own).unwrap(), "{");
    home.run_and_record(&["rm", &name]).succeeded();
    home.assert_transcript("isolation/learn");
}

#[test]
fn a_plan_shows_the_effective_permissions() {
    let home = Home::new();
    home.write(
        "rules.json",
        r#"{
            "read": ["rules.json:/rules.json"],
            "network": {"outbound": {"allow_host": ["*.a.example", "b.example:22"], "allow_port": [443, "8000-8100"]}},
            "resources": {"memory": "512m", "cpus": 1.5, "pids": 64}, "read_only_root": true, "tmpfs": ["/tmp"]
        }"#,
    );
    let image = "mcpm-test/everything:1";
    for more in [
        &["--permission-profile", "none"][..],
        &["--permission-profile", "rules.json"],
        &["--permission-profile", "rules.json", "--isolate-network=false"],
        &["--permission-profile", "rules.json", "--isolate-network=false", "--network", "host"],
        &["--isolate-network", "--allow-runtime-gateway"],
    ] {
        let name = home.name("p");
        let outcome = home.run(&[&["run", image, "--name", &name, "--plan"][..], more].concat()).succeeded();
        let shown = |row: &str| {
            let lines = outcome.stdout.lines().filter(|line| line.starts_with(row));
            lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        let (network, outbound, confinement) = (shown("network"), shown("outbound"), shown("confinement"));
        match more {
            [_, "none"] => {
                assert_eq!(network, ["network none (derived)"]);
                assert_eq!(outbound, ["outbound nothing (given)"]);
            }
            [_, "rules.json"] => {
                assert_eq!(network, ["network none (derived)"]);
                let rules = "outbound `*.a.example`, `b.example:22`, on port 443, 8000-8100 (given)";
                assert_eq!(outbound, [rules]);
                let bounds = "confinement no capabilities, no new privileges, 64 processes, 512m of memory, \
                              1.500 processors, read-only root";
                assert_eq!(confinement, [bounds]);
                assert!(outcome.stdout.contains("-> /rules.json (ro)"), "{}", outcome.stdout);
                assert_eq!(shown("in memory"), ["in memory /tmp, at most 64m (given)"]);
            }
            [_, "rules.json", _, of_host @ ..] => {
                let shared =
                    if of_host.is_empty() { "network bridge (default)" } else { "network host (given)" };
                assert_eq!(network, [shared]);
                assert_eq!(outbound, ["outbound everything: not isolated (given)"]);
                assert_eq!(shown("warning").len(), 1, "{}", outcome.stdout);
            }
            _ => {
                assert_eq!(network, ["network none (given)"]);
                assert_eq!(outbound, ["outbound everything public, and the runtime gateway (default)"]);
            }
        }
    }
    home.assert_nothing_left();
}
