use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::Path,
};

use futures_util::{StreamExt as _, TryStreamExt as _, future::poll_immediate};

use super::*;
use crate::{Environment, testing::with_timeout, workload::RecordedEventKind};

const DENIAL: &str = r#"{"version":1,"id":"0123456789abcdef0123","time":"2026-01-01T00:00:02.500Z","server":"w","reason":"tools.not_listed","fix":"add `x`"}"#;

fn line(second: u32, rest: &str) -> String {
    format!("2026-01-01T00:00:0{second}.123456Z  INFO mcpm::event: {rest}\n")
}

fn append(path: &Path, text: &str) {
    let mut file: File = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Workloads of an empty state folder.
fn workloads() -> (tempfile::TempDir, Workloads) {
    let root = tempfile::tempdir().unwrap();
    let mut environment = Environment::from_lookup(|_| None);
    environment.state_dir = root.path().to_owned();
    let workloads = Workloads::new(environment);
    (root, workloads)
}

fn create(workloads: &Workloads, name: &str) -> PathBuf {
    let name = name.parse().unwrap();
    workloads.store.create(&name).unwrap().commit();
    workloads.store.folder(&name)
}

fn kinds(events: &[RecordedEvent]) -> Vec<(&str, &str)> {
    events.iter().map(|event| (event.workload.as_str(), event.event.as_str())).collect()
}

#[tokio::test]
async fn events_of_all_files_are_in_the_order_of_time() {
    let (_root, workloads) = workloads();
    let (one, two) = (create(&workloads, "one"), create(&workloads, "two"));
    append(&one.join("supervisor.log.1"), &line(1, "a event=\"starting\""));
    append(
        &one.join("supervisor.log"),
        &(line(2, "b event=\"ready\"") + "other\n" + &line(4, "c event=\"ended\"")),
    );
    append(&one.join("refusals.jsonl"), &format!("damaged\n{DENIAL}\n"));
    append(&two.join("supervisor.log"), &line(3, "d event=\"starting\""));
    let all: Vec<_> = workloads.events(&[""; 0], false).unwrap().try_collect().await.unwrap();
    let expected =
        [("one", "starting"), ("one", "ready"), ("one", "denied"), ("two", "starting"), ("one", "ended")];
    assert_eq!(kinds(&all), expected);
    let one: Vec<_> = workloads.events(&["two"], false).unwrap().try_collect().await.unwrap();
    assert_eq!(kinds(&one), [("two", "starting")]);
    assert_eq!(workloads.events(&["three"], false).map(drop).unwrap_err().kind(), crate::ErrorKind::NotFound);
}

#[tokio::test]
async fn events_are_followed_over_new_workloads_and_files() {
    let (_root, workloads) = workloads();
    let mut events = workloads.events(&[""; 0], true).unwrap();
    assert!(poll_immediate(events.next()).await.is_none());
    let mut next = async || with_timeout(events.next()).await.unwrap().unwrap();
    let folder = create(&workloads, "one");
    let log = folder.join("supervisor.log");
    append(&log, &line(1, "a event=\"starting\""));
    assert_eq!(next().await.message, "a");
    // A line is read when it is complete.
    let (begin, end) = ("2026-01-01T00:00:02Z  INFO mcpm::event: b ", "event=\"ready\"\n");
    append(&log, begin);
    append(&folder.join("refusals.jsonl"), &format!("{DENIAL}\n"));
    assert_eq!(next().await.event, RecordedEventKind::Denied);
    append(&log, end);
    assert_eq!(next().await.message, "b");
    fs::rename(&log, folder.join("supervisor.log.1")).unwrap();
    append(&log, &line(3, "c event=\"ended\""));
    assert_eq!(next().await.message, "c");
    // Another workload gets the name.
    workloads.store.remove(&"one".parse().unwrap()).unwrap();
    append(&create(&workloads, "one").join("supervisor.log"), &line(4, "d event=\"starting\""));
    assert_eq!(next().await.message, "d");
}
