//! Tests the audit log file when several processes write to it, and when it cannot be written.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::support::{Home, Program, wait_until};

/// Requests `/health` of a proxy, and returns the response.
fn ask(url: &str, id: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nX-Request-Id: {id}\r\n");
    write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn is_accepted(answer: &str) -> bool {
    let refused = answer.starts_with("HTTP/1.1 503 ") && answer.contains("audit.not_written");
    assert!(refused != answer.contains(r#""status""#), "{answer}");
    !refused
}

/// A proxy without a server behind it, with this audit configuration; `command` starts it and gets its arguments.
fn proxy(
    home: &Home,
    name: &str,
    config: &Value,
    command: impl FnOnce(&[&str]) -> Command,
) -> (Program, String) {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = format!("http://{closed}/mcp");
    let config = home.write(&format!("{name}.json"), &config.to_string());
    let mut command = command(&["proxy", name, "--target-uri", &target, "--audit-config", &config]);
    let mut proxy = Program::start(&mut command);
    let url = proxy.read_line().split_whitespace().last().unwrap().to_owned();
    (proxy, url)
}

/// The events in a file, which has one event per line.
fn events(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{}: {text}", path.display());
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn request_id(event: &Value) -> &str {
    event["source"]["extra"]["request_id"].as_str().unwrap_or_default()
}

#[track_caller]
fn ended(proxy: Program) {
    proxy.signal("TERM");
    let outcome = proxy.wait();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn concurrent_writers_lose_no_events_and_tear_no_lines() {
    let home = Home::without_engine();
    let config = json!({"logFile": home.text("logs/audit.jsonl"), "rotateSize": 4096, "rotateCount": 1000});
    home.write("logs/audit.jsonl", "");
    let names = ["one", "two"];
    let proxies = names.map(|name| proxy(&home, name, &config, |args| home.mcpm(args)));
    std::thread::scope(|scope| {
        for ((_, url), name) in proxies.iter().zip(names) {
            for client in 0..2 {
                scope.spawn(move || {
                    for number in 0..100 {
                        assert!(is_accepted(&ask(url, &format!("{name}-{client}-{number}"))));
                    }
                });
            }
        }
    });
    for (proxy, _) in proxies {
        ended(proxy);
    }
    let mut found = Vec::new();
    for file in fs::read_dir(home.path("logs")).unwrap().map(|file| file.unwrap().path()) {
        assert!(fs::metadata(&file).unwrap().len() <= 4096, "{}", file.display());
        found.extend(events(&file).into_iter().map(|event| {
            let id = request_id(&event).to_owned();
            assert!(id.starts_with(event["component"].as_str().unwrap()), "{event}");
            id
        }));
    }
    let different: BTreeSet<&String> = found.iter().collect();
    assert_eq!((found.len(), different.len()), (400, 400));
}

/// Runs the program in a mount namespace where `DIR/small` has room for a few events, until `DIR/small/other` is
/// deleted.
fn with_small_disk(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    let script =
        "mount -t tmpfs -o size=1m none small && head -c 1000k /dev/zero > small/other && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script, "sh", &home.program()]).args(args);
    command
}

#[test]
fn a_full_disk_denies_requests_or_counts_lost_events() {
    for fail_closed in [true, false] {
        let home = Home::without_engine();
        fs::create_dir(home.path("small")).unwrap();
        let config = json!({"logFile": "small/audit.jsonl", "failClosed": fail_closed});
        let (mut proxy, url) = proxy(&home, "front", &config, |args| with_small_disk(&home, args));
        // The path as the proxy sees it.
        let small = format!("/proc/{}/root{}", proxy.pid(), home.text("small"));
        let log = Path::new(&small).join("audit.jsonl");
        // There is room for far fewer events.
        let answers = (0..300).map(|number| is_accepted(&ask(&url, &number.to_string())));
        let let_through = answers.take_while(|accepted| *accepted).count();
        assert_eq!(let_through == 300, !fail_closed);
        proxy.wait_for_stderr("lines were dropped");
        if fail_closed {
            // Each caller who got a response has an event, and no other caller has one.
            let recorded = events(&log);
            let ids: Vec<_> = (0..let_through).map(|number| number.to_string()).collect();
            assert_eq!(recorded.iter().map(request_id).collect::<Vec<_>>(), ids);
        }
        // After space is freed, the next event contains the number of missing events.
        fs::remove_file(Path::new(&small).join("other")).unwrap();
        assert!(is_accepted(&ask(&url, "after")));
        wait_until("the event is written", || {
            fs::read_to_string(&log).is_ok_and(|text| text.contains(r#""request_id":"after""#))
        });
        let (losses, recorded): (Vec<Value>, Vec<Value>) =
            events(&log).into_iter().partition(|event| event["type"] == "events_lost");
        let lost: u64 =
            losses.iter().map(|event| event["metadata"]["extra"]["events"].as_u64().unwrap()).sum();
        let refused = usize::from(fail_closed);
        assert_eq!(recorded.len() + usize::try_from(lost).unwrap(), let_through + refused + 1, "{losses:?}");
        assert!(lost > 0 && request_id(recorded.last().unwrap()) == "after", "{recorded:?}");
        ended(proxy);
    }
}

#[test]
fn a_deleted_log_is_recreated_and_a_deleted_folder_denies_requests() {
    let home = Home::without_engine();
    home.write("logs/audit.jsonl", "");
    let config = json!({"logFile": home.text("logs/audit.jsonl"), "failClosed": true});
    let (proxy, url) = proxy(&home, "front", &config, |args| home.mcpm(args));
    let log = home.path("logs/audit.jsonl");
    assert!(is_accepted(&ask(&url, "a")));
    fs::remove_file(&log).unwrap();
    assert!(is_accepted(&ask(&url, "b")));
    assert_eq!(events(&log).iter().map(request_id).collect::<Vec<_>>(), ["b"]);
    fs::rename(home.path("logs"), home.path("away")).unwrap();
    let refused = ask(&url, "c");
    assert!(!is_accepted(&refused));
    // Only the operator may see the cause.
    let id = refused.lines().find_map(|line| line.strip_prefix("mcpm-refusal: ")).unwrap();
    let explained = home.run(&["explain", id, "-o", "json"]).succeeded().json();
    assert_eq!(explained["reason"], "audit.not_written");
    let cause = explained["refusal"]["inputs"]["cause"].as_str().unwrap();
    assert!(cause.contains("No such file or directory") && !refused.contains(cause), "{explained}");
    fs::rename(home.path("away"), home.path("logs")).unwrap();
    assert!(is_accepted(&ask(&url, "d")));
    let shown: Vec<Value> = events(&log);
    let shown: Vec<_> =
        shown.iter().map(|event| (event["type"].as_str().unwrap(), request_id(event))).collect();
    assert_eq!(shown, [("http_request", "b"), ("events_lost", ""), ("http_request", "d")]);
    ended(proxy);
}

#[test]
fn an_unwritable_audit_folder_fails_the_start() {
    let home = Home::without_engine();
    home.write("config.json", r#"{"logFile": "/proc/self/audit.jsonl"}"#);
    home.write("nobodys.json", r#"{"logFile": "closed/audit.jsonl"}"#);
    fs::create_dir(home.path("closed")).unwrap();
    fs::set_permissions(home.path("closed"), fs::Permissions::from_mode(0o555)).unwrap();
    let proxy = ["proxy", "front", "--target-uri", "http://127.0.0.1:1/mcp", "--audit-config"];
    let start = |config| [&proxy[..], &[config]].concat();
    for outcome in [home.run(&start("config.json")), home.run_unprivileged(&start("nobodys.json"))] {
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""), "{outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
        assert!(outcome.stderr.contains("audit.jsonl`: "), "{outcome:?}");
        assert!(outcome.stderr.contains("set another `logFile`"), "{outcome:?}");
    }
    assert_eq!(fs::read_dir(home.path("closed")).unwrap().count(), 0);
}

/// Returns whether a process waits for the lock of a file.
fn waits(pid: u32) -> bool {
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks
        .lines()
        .any(|line| line.contains("-> FLOCK") && line.split_whitespace().any(|word| word == pid.to_string()))
}

/// Simulates a disk that does not respond: another process holds the lock of the file, and releases it when the test
/// says so.
struct SlowDisk {
    // Must be dropped before its home.
    proxy: Program,
    log: PathBuf,
    held: fs::File,
    asking: std::thread::JoinHandle<String>,
    _home: Home,
}

impl SlowDisk {
    /// Sends a request, and waits until the proxy waits for the lock.
    fn with_a_request(fail_closed: bool) -> Self {
        let home = Home::without_engine();
        let log = home.write("audit.jsonl", "");
        let config = json!({"logFile": log, "failClosed": fail_closed});
        let (proxy, url) = proxy(&home, "front", &config, |args| home.mcpm(args));
        let held = fs::File::open(&log).unwrap();
        held.lock().unwrap();
        let asking = std::thread::spawn(move || ask(&url, "held"));
        wait_until("the log is waited for", || waits(proxy.pid()));
        Self { proxy, log: log.into(), held, asking, _home: home }
    }
}

#[test]
fn a_slow_disk_delays_requests_only_with_fail_closed() {
    let disk = SlowDisk::with_a_request(false);
    assert!(is_accepted(&disk.asking.join().unwrap()));
    assert!(events(&disk.log).is_empty());
    disk.held.unlock().unwrap();
    wait_until("the event is written", || !events(&disk.log).is_empty());
    ended(disk.proxy);

    let disk = SlowDisk::with_a_request(true);
    assert!(!disk.asking.is_finished() && events(&disk.log).is_empty());
    disk.held.unlock().unwrap();
    assert!(is_accepted(&disk.asking.join().unwrap()));
    assert_eq!(events(&disk.log).len(), 1);
    ended(disk.proxy);
}

#[test]
#[ignore = "nightly: the disk is given up after ten seconds"]
fn a_request_that_cannot_be_recorded_in_time_is_denied() {
    let disk = SlowDisk::with_a_request(true);
    assert!(!is_accepted(&disk.asking.join().unwrap()));
    disk.held.unlock().unwrap();
    ended(disk.proxy);
}
