use std::{
    os::unix::fs::PermissionsExt,
    sync::Barrier,
    thread,
    time::{Duration, SystemTime},
};

use super::*;
use crate::{
    state::{Phase, Status},
    workload::WorkloadSpec,
};

fn name(text: &str) -> WorkloadName {
    text.parse().unwrap()
}

fn store() -> (tempfile::TempDir, Store) {
    let root = tempfile::tempdir().unwrap();
    let store = Store::new(&root.path().join("deep/state"));
    (root, store)
}

fn status() -> Status {
    Status::starting(SystemTime::UNIX_EPOCH)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_store_that_was_never_written_is_empty() {
    let (_root, store) = store();
    assert_eq!(store.names().unwrap(), []);
    store.remove(&name("time")).unwrap();
    assert!(!store.workloads.exists());
    let error = store.load::<Status>(&name("time"), Document::Status).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn kept_workloads_are_listed_in_order_and_private() {
    let (_root, store) = store();
    for text in ["bb", "aa-2", "aa"] {
        let claim = store.create(&name(text)).unwrap();
        store.save(claim.name(), Document::Status, &status()).unwrap();
        claim.commit();
    }
    assert_eq!(store.names().unwrap(), [name("aa"), name("aa-2"), name("bb")]);
    assert_eq!(store.load::<Status>(&name("aa"), Document::Status).unwrap(), status());
    assert_eq!(mode(&store.workloads), 0o700);
    assert_eq!(mode(&store.folder(&name("aa"))), 0o700);
    assert_eq!(mode(&store.folder(&name("aa")).join("status.json")), 0o600);
}

#[test]
fn a_dropped_claim_leaves_nothing() {
    let (_root, store) = store();
    let claim = store.create(&name("time")).unwrap();
    store.save(claim.name(), Document::Status, &status()).unwrap();
    fs::write(store.log_path(claim.name()), "line").unwrap();
    drop(claim);
    assert_eq!(fs::read_dir(&store.workloads).unwrap().count(), 0);
}

#[test]
fn a_dropped_claim_spares_a_later_workload_of_its_name() {
    let (_root, store) = store();
    let first = store.create(&name("time")).unwrap();
    store.remove(&name("time")).unwrap();
    store.create(&name("time")).unwrap().commit();
    drop(first);
    assert_eq!(store.names().unwrap(), [name("time")]);
}

#[test]
fn of_many_threads_one_gets_the_name() {
    let (_root, store) = store();
    let start = Barrier::new(8);
    let claims: Vec<Result<Claim>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    store.create(&name("time"))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = claims.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 7));
    for error in lost.into_iter().filter_map(Result::err) {
        assert_eq!(error.kind(), ErrorKind::NameTaken);
        assert_eq!(
            error.to_string(),
            "a workload named `time` exists already; remove it with `mcpm rm time`, or set `name` to another"
        );
    }
}

#[test]
fn a_reader_never_sees_half_a_document() {
    let (_root, store) = store();
    let claim = store.create(&name("time")).unwrap();
    store.save(claim.name(), Document::Status, &status()).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for second in 0..100 {
                let mut status = status();
                let reason = Some("x".repeat(second * 97));
                status.enter(Phase::Failed, reason, SystemTime::UNIX_EPOCH + Duration::from_secs(1));
                store.save(claim.name(), Document::Status, &status).unwrap();
            }
        });
        while !writer.is_finished() {
            store.load::<Status>(claim.name(), Document::Status).unwrap();
        }
    });
}

#[test]
fn damaged_documents_are_refused_named_and_left_alone() {
    let (_root, store) = store();
    let claim = store.create(&name("time")).unwrap();
    let path = store.folder(claim.name()).join("status.json");
    let good = serde_json::to_value(status()).unwrap();
    let with = |key: &str, value: serde_json::Value| {
        let mut document = good.clone();
        document[key] = value;
        document.to_string()
    };
    for (text, says) in [
        (String::new(), "is damaged"),
        ("{\"version\": 1".to_owned(), "is damaged"),
        ("{}".to_owned(), "missing field `version`"),
        (
            with("version", 2.into()),
            "has format version 2, which this version of mcpm does not support; it supports version 1",
        ),
        (with("colour", "red".into()), "unknown field `colour`"),
        (with("phase", "paused".into()), "unknown variant `paused`"),
    ] {
        fs::write(&path, &text).unwrap();
        let error = store.load::<Status>(claim.name(), Document::Status).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CorruptState);
        let message = error.to_string();
        assert!(message.contains(says), "{message}");
        assert!(message.contains(path.to_str().unwrap()), "{message}");
        assert!(message.ends_with("or remove the workload with `mcpm rm time`"), "{message}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn the_kept_samples_of_all_versions_of_a_spec_are_read_as_the_same() {
    let (_root, store) = store();
    let claim = store.create(&name("time")).unwrap();
    let path = store.folder(claim.name()).join("spec.json");
    let newest = include_str!("samples/spec.v2.json");
    for sample in [include_str!("samples/spec.v1.json"), newest] {
        fs::write(&path, sample).unwrap();
        let mut spec: WorkloadSpec = store.load(claim.name(), Document::Spec).unwrap();
        // The first version did not record the engine.
        assert_eq!(spec.engine.is_none(), sample != newest);
        spec.engine.get_or_insert("unix:///var/run/docker.sock".to_owned());
        assert_eq!(serde_json::to_string_pretty(&spec).unwrap() + "\n", newest);
    }
    let remote = include_str!("samples/spec-remote.v2.json");
    fs::write(&path, remote).unwrap();
    let spec: WorkloadSpec = store.load(claim.name(), Document::Spec).unwrap();
    assert!(spec.container().is_none());
    assert_eq!(serde_json::to_string_pretty(&spec).unwrap() + "\n", remote);
    let package = include_str!("samples/spec-package.v2.json");
    fs::write(&path, package).unwrap();
    let spec: WorkloadSpec = store.load(claim.name(), Document::Spec).unwrap();
    assert_eq!(spec.package.as_ref().unwrap().version.as_deref(), Some("2026.10.19"));
    assert_eq!(serde_json::to_string_pretty(&spec).unwrap() + "\n", package);
    fs::write(&path, "{\"version\": 1}").unwrap();
    let error = store.load::<WorkloadSpec>(claim.name(), Document::Spec).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CorruptState);
}

#[test]
fn the_kept_sample_of_an_isolated_workload_is_read_and_written_back() {
    let (_root, store) = store();
    let claim = store.create(&name("iso")).unwrap();
    let sample = include_str!("samples/spec-isolated.v2.json");
    fs::write(store.folder(claim.name()).join("spec.json"), sample).unwrap();
    let spec: WorkloadSpec = store.load(claim.name(), Document::Spec).unwrap();
    assert!(spec.isolation.as_ref().is_some_and(|isolation| isolation.outbound.is_limited()));
    assert_eq!(serde_json::to_string_pretty(&spec).unwrap() + "\n", sample);
}

#[test]
fn a_workload_without_its_documents_is_listed_and_can_be_removed() {
    let (_root, store) = store();
    store.create(&name("time")).unwrap().commit();
    assert_eq!(store.names().unwrap(), [name("time")]);
    let error = store.load::<Status>(&name("time"), Document::Spec).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CorruptState);
    assert!(error.message().ends_with("spec.json` is missing"), "{error}");
    store.remove(&name("time")).unwrap();
    store.remove(&name("time")).unwrap();
    assert_eq!(store.names().unwrap(), []);
}

#[test]
fn a_late_status_does_not_bring_a_removed_workload_back() {
    let (_root, store) = store();
    store.create(&name("time")).unwrap().commit();
    store.remove(&name("time")).unwrap();
    let error = store.save(&name("time"), Document::Status, &status()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(store.names().unwrap(), []);
}

#[test]
fn a_document_without_its_version_is_never_written() {
    let (_root, store) = store();
    let claim = store.create(&name("time")).unwrap();
    let error = store.save(claim.name(), Document::Spec, &serde_json::json!({"version": 1})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert_eq!(fs::read_dir(store.folder(claim.name())).unwrap().count(), 0);
}

#[test]
fn an_interrupted_removal_is_not_listed_and_goes_at_the_next_opening() {
    let (root, store) = store();
    store.create(&name("time")).unwrap().commit();
    let left = store.workloads.join(".removing-old.1-0");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("spec.json"), "{}").unwrap();
    fs::write(store.workloads.join("a-file"), "").unwrap();
    assert_eq!(store.names().unwrap(), [name("time")]);
    let again = Store::new(&root.path().join("deep/state"));
    assert!(!left.exists());
    assert_eq!(again.names().unwrap(), [name("time")]);
}
