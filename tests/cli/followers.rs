//! Checks that commands with `--follow` or `--watch` exit when nothing reads their output any more.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use super::support::{Home, kill, wait_until};

/// Starts a command whose output the test reads from a pipe.
fn start(home: &Home, args: &[&str]) -> Child {
    home.mcpm(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}

/// Records more events than a pipe holds.
fn record_events(home: &Home) {
    let folder = home.record_dir("noisy");
    fs::create_dir_all(&folder).unwrap();
    let line = "2026-01-01T00:00:01.123456Z  INFO mcpm::event: x event=\"ready\"\n";
    fs::write(folder.join("supervisor.log"), line.repeat(10_000)).unwrap();
}

#[test]
fn an_idle_command_ends_with_its_reader() {
    let home = Home::without_engine();
    for args in [&["events", "--follow"][..], &["list", "--watch"], &["list", "--watch", "-o", "json"]] {
        let mut child = start(&home, args);
        drop(child.stdout.take());
        assert!(child.wait().unwrap().success(), "{args:?}");
    }
}

#[test]
fn a_command_that_prints_ends_with_its_reader() {
    let home = Home::without_engine();
    record_events(&home);
    for args in [&["events", "--follow"][..], &["events", "noisy", "--follow", "-o", "json"]] {
        let mut child = start(&home, args);
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("ready"), "{line}");
        assert!(child.wait().unwrap().success(), "{args:?}");
    }
}

#[test]
fn a_command_whose_reader_does_not_read_can_be_stopped() {
    let home = Home::without_engine();
    record_events(&home);
    let mut child = start(&home, &["events"]);
    let mut output = BufReader::with_capacity(1, child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    // A pipe holds up to 64 KiB, in pages that lines do not fill completely.
    wait_until("the pipe is full", || rustix::io::ioctl_fionread(output.get_ref()).unwrap() > 56 << 10);
    kill("TERM", child.id());
    assert!(child.wait().unwrap().success());
}
