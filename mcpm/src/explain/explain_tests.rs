//! Tests of recording and finding denials.

use super::*;
use crate::{
    line_writer::{
        BackgroundLineWriter,
        tests::{BlockingSink, MemorySink},
    },
    name::WorkloadName,
    options::Secret,
    redact::Redactor,
};

fn environment(state_dir: &Path) -> Environment {
    Environment { state_dir: state_dir.to_owned(), ..Environment::from_lookup(|_| None) }
}

fn refused(recent: &DenialLog, id: &DenialId) -> DenialRecord {
    let refused = recent.record(id, Reason::ToolNotListed);
    refused
        .rule(Some("Bearer canary"))
        .input("tool", "send")
        .input("url", "https://me:canary@a.example/?token=canary")
        .fix(Some("let `send` through"))
        .input("known", "it is the value")
        .build()
}

#[tokio::test]
async fn a_refusal_is_explained_by_its_id_from_memory_and_from_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = environment(folder.path());
    let store = Store::new(folder.path());
    let name: WorkloadName = "one".parse().expect("a name");
    let claim = store.create(&name).expect("a folder");
    let of_workload = DenialLog::new("one", Some(workload_log_path(&store.folder(&name))));
    let of_proxy = DenialLog::new("two", Some(proxy_log_dir(folder.path()).join("two.jsonl")));
    let in_memory = DenialLog::new("three", None);
    let masks = || Redactor::new([Secret::from("the value")], &[]);
    let [of_workload, of_proxy, in_memory] =
        [of_workload, of_proxy, in_memory].map(|recent| recent.masks(masks()));
    for (recent, on_disk) in [(&of_workload, true), (&of_proxy, true), (&in_memory, false)] {
        let id = DenialId::new();
        recent.push_and_wait(refused(recent, &id)).await;
        let explained = explain_in(id.as_str(), recent).expect("it is kept");
        assert_eq!((explained.reason.as_str(), explained.layer.as_str()), ("tools.not_listed", "tools"));
        let refusal = explained.refusal.clone().expect("the refusal");
        assert_eq!((refusal.server.as_str(), refusal.fix.as_str()), (recent.server(), "let `send` through"));
        assert_eq!((&*refusal.inputs["tool"], &*refusal.inputs["known"]), ("send", "it is [redacted]"));
        assert!(!format!("{explained:?}").contains("canary"), "{explained:?}");
        match explain(id.as_str(), &environment) {
            Ok(found) => assert!(on_disk && found == explained, "{found:?}"),
            Err(error) => assert!(!on_disk && error.kind() == ErrorKind::NotFound, "{error}"),
        }
    }
    drop(claim);
}

#[tokio::test]
async fn flushed_denials_are_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = proxy_log_dir(folder.path()).join("p.jsonl");
    let recent = DenialLog::new("p", Some(path.clone()));
    recent.flush().await;
    assert!(!path.exists(), "nothing was kept");
    let ids: Vec<DenialId> = (0..100).map(|_| DenialId::new()).collect();
    ids.iter().for_each(|id| recent.push(refused(&recent, id)));
    recent.flush().await;
    assert!(ids.iter().all(|id| find_in(id, &path).is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_slow_disk_holds_up_a_client_for_a_moment_only() {
    let (go, wait) = std::sync::mpsc::channel();
    let memory = MemorySink::default();
    let journal =
        BackgroundLineWriter::start(Box::new(BlockingSink(wait, memory.clone())), 8, None).expect("a thread");
    let recent = DenialLog::new("p", None).with_journal(journal);
    let id = DenialId::new();
    let asked = tokio::time::Instant::now();
    recent.push_and_wait(refused(&recent, &id)).await;
    // The elapsed time is that of the paused clock of the test.
    assert!(asked.elapsed().as_secs() < 1 && recent.find(&id).is_some());
    assert_eq!(memory.text(), "");
    drop(go);
    tokio::time::resume();
    recent.flush().await;
    assert!(memory.text().contains(id.as_str()));
}

#[tokio::test]
async fn the_denial_log_is_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = proxy_log_dir(folder.path()).join("p.jsonl");
    let recent = DenialLog::new("p", Some(path.clone()));
    let ids: Vec<DenialId> = (0..4000).map(|_| DenialId::new()).collect();
    for id in &ids {
        recent.push_and_wait(refused(&recent, id)).await;
    }
    assert!(recent.find(&ids[0]).is_none() && recent.find(&ids[3999]).is_some());
    assert!(find(&ids[0], &environment(folder.path())).is_none());
    // The denial is no longer in memory, but still in the rotated file.
    assert!(recent.find(&ids[3500]).is_none());
    assert!(find(&ids[3500], &environment(folder.path())).is_some());
    let sizes = fs::read_dir(proxy_log_dir(folder.path())).expect("a folder");
    let sizes: Vec<u64> = sizes.map(|file| file.expect("a file").metadata().expect("a file").len()).collect();
    assert!(sizes.len() == 2 && sizes.iter().all(|size| *size <= 256 << 10), "{sizes:?}");
}

#[tokio::test]
async fn unauthenticated_denials_do_not_evict_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = environment(folder.path());
    let path = proxy_log_dir(folder.path()).join("p.jsonl");
    let recent = DenialLog::new("p", Some(path.clone()));
    let known = DenialId::new();
    recent.push_and_wait(refused(&recent, &known)).await;
    let unauthenticated = [Reason::TokenMissing, Reason::OriginNotAllowed, Reason::BodyTooLarge];
    let ids: Vec<DenialId> = (0..3000).map(|_| DenialId::new()).collect();
    for (id, reason) in ids.iter().zip(unauthenticated.into_iter().cycle()) {
        let refused = recent.record(id, reason).input("Origin", &"x".repeat(500)).build();
        recent.push_and_wait(refused).await;
    }
    let (first, last) = (&ids[0], &ids[2999]);
    assert!(recent.find(&known).is_some() && find(&known, &environment).is_some());
    assert!(recent.find(last).is_some() && find(last, &environment).is_some());
    assert!(recent.find(first).is_none() && find(first, &environment).is_none());
    let files = fs::read_dir(proxy_log_dir(folder.path())).expect("a folder");
    let sizes: Vec<u64> = files.map(|file| file.expect("a file").metadata().expect("a file").len()).collect();
    assert!(sizes.len() == 3 && sizes.iter().all(|size| *size <= 256 << 10), "{sizes:?}");
    assert!(recent.last().is_some_and(|refused| refused.id == known.as_str()));
}

#[tokio::test]
async fn denials_of_failed_starts_are_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = environment(folder.path());
    let (path, kept) = (folder.path().join("gone/refusals.jsonl"), failed_start_log_path(folder.path()));
    DenialLog::new("w", None).copy_to(&kept);
    assert!(!kept.exists(), "there was none");
    let mut last = None;
    for _ in 0..20 {
        let recent = DenialLog::new("w", Some(path.clone()));
        let ids: Vec<DenialId> = (0..200).map(|_| DenialId::new()).collect();
        ids.iter().for_each(|id| recent.push(refused(&recent, id)));
        recent.copy_to(&kept);
        recent.flush().await;
        last = ids.into_iter().next_back();
    }
    fs::remove_dir_all(folder.path().join("gone")).expect("a folder");
    assert!(find(&last.expect("some"), &environment).is_some());
    let files = fs::read_dir(proxy_log_dir(folder.path())).expect("a folder");
    let sizes: Vec<u64> = files.map(|file| file.expect("a file").metadata().expect("a file").len()).collect();
    assert!(sizes.len() == 2 && sizes.iter().all(|size| *size <= 256 << 10), "{sizes:?}");
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = DenialId::new();
    let recent = DenialLog::new("p", None);
    let line = serde_json::to_string(&refused(&recent, &id)).expect("JSON");
    let path = folder.path().join("a.jsonl");
    fs::write(&path, format!("{{\"id\":\"{id}\"\nnone\n{}\n{line}\n", line.replace("\"fix\"", "\"new\"")))
        .expect("a file");
    assert_eq!(find_in(&id, &path).map(|found| found.id), Some(id.to_string()));
    fs::write(&path, [b"\xff\xfe{\n", line.as_bytes()].concat()).expect("a file");
    assert_eq!(find_in(&id, &path).map(|found| found.id), Some(id.to_string()));
    for text in ["", "nothing", "tools.not_listed ", "0123456789abcdef012", "../../../../etc/pass"] {
        assert_eq!(explain(text, &environment(folder.path())).expect_err(text).kind(), ErrorKind::NotFound);
    }
    let explained = explain("origin.not_allowed", &environment(folder.path())).expect("a reason");
    assert_eq!((explained.refusal, explained.layer.as_str()), (None, "origin"));
}
