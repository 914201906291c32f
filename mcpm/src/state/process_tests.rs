use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// A process that lives until its standard input is closed.
fn waiting() -> (Child, ProcessId) {
    let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let process = ProcessId::of(child.id());
    (child, process)
}

#[cfg(target_os = "linux")]
#[test]
fn the_start_time_is_found_behind_any_name() {
    let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987 20 21\n";
    for name in ["(cat)", "(a b)", "(a) (b) R 1)", "(\u{fffd})"] {
        assert_eq!(parse_stat(&format!("42 {name} {rest}")), Some(987));
        assert_eq!(parse_stat(&format!("42 {name} {}", rest.replacen('S', "Z", 1))), None);
    }
    assert_eq!(parse_stat("42 (cat) S 1 2"), None);
    assert_eq!(parse_stat(""), None);
}

#[test]
fn this_process_lives() {
    assert!(ProcessId::current().is_alive());
    assert!(ProcessId { start_time: None, ..ProcessId::current() }.is_alive());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_process_with_the_same_pid_is_left_alone() {
    let earlier = ProcessId { start_time: Some(1), ..ProcessId::current() };
    assert!(!earlier.is_alive());
    assert!(!earlier.terminate().unwrap());
    assert!(!earlier.kill().unwrap());
    assert!(earlier.wait_exit(LONG).await);
}

#[test]
fn a_pid_that_stands_for_no_process_is_never_signalled() {
    for pid in [0, u32::MAX, 1 << 31] {
        let process = ProcessId { pid, start_time: None };
        assert!(!process.is_alive());
        assert!(!process.kill().unwrap());
    }
}

#[tokio::test]
async fn waiting_ends_with_the_process_or_with_the_limit() {
    let (mut child, process) = waiting();
    assert!(!process.wait_exit(Duration::ZERO).await);
    let (gone, killed) = tokio::join!(process.wait_exit(LONG), async { process.kill() });
    assert!(gone && killed.unwrap());
    // The process was not waited for yet, so its pid is still in use.
    assert!(!ProcessId { start_time: process.start_time.or(Some(0)), ..process }.is_alive());
    child.wait().unwrap();
    assert!(!process.is_alive());
    assert!(!process.terminate().unwrap());
    assert!(process.wait_exit(Duration::ZERO).await);
}

#[tokio::test]
async fn waiting_works_where_the_kernel_cannot_tell() {
    let (mut child, process) = waiting();
    let (_, asked) = tokio::join!(process.poll_until_exit(), async {
        let asked = process.terminate();
        child.wait().unwrap();
        asked
    });
    assert!(asked.unwrap());
}
