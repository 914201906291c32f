//! What is kept of refusals, and where it is found again.

use super::*;
use crate::{
    journal::{
        Journal,
        tests::{Memory, Slow},
    },
    name::WorkloadName,
    options::Secret,
    redact::Masks,
};

fn environment(state_dir: &Path) -> Environment {
    Environment { state_dir: state_dir.to_owned(), ..Environment::from_lookup(|_| None) }
}

fn refused(recent: &Recent, id: &RefusalId) -> Refused {
    let refused = recent.refused(id, Reason::ToolNotListed);
    refused
        .rule(Some("Bearer canary"))
        .input("tool", "send")
        .input("url", "https://me:canary@a.example/?token=canary")
        .fix(Some("let `send` through"))
        .input("known", "it is the value")
        .done()
}

#[tokio::test]
async fn a_refusal_is_explained_by_its_id_from_memory_and_from_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = environment(folder.path());
    let store = Store::new(folder.path());
    let name: WorkloadName = "one".parse().expect("a name");
    let claim = store.create(&name).expect("a folder");
    let of_workload = Recent::new("one", Some(file_of_workload(&store.folder(&name))));
    let of_proxy = Recent::new("two", Some(folder_of_proxies(folder.path()).join("two.jsonl")));
    let in_memory = Recent::new("three", None);
    let masks = || Masks::new([Secret::from("the value")], &[]);
    let [of_workload, of_proxy, in_memory] =
        [of_workload, of_proxy, in_memory].map(|recent| recent.masks(masks()));
    for (recent, on_disk) in [(&of_workload, true), (&of_proxy, true), (&in_memory, false)] {
        let id = RefusalId::new();
        recent.keep_and_wait(refused(recent, &id)).await;
        let explained = explain_recent(id.as_str(), recent).expect("it is kept");
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
async fn what_was_kept_is_on_disk_once_it_is_flushed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder_of_proxies(folder.path()).join("p.jsonl");
    let recent = Recent::new("p", Some(path.clone()));
    recent.flush().await;
    assert!(!path.exists(), "nothing was kept");
    let ids: Vec<RefusalId> = (0..100).map(|_| RefusalId::new()).collect();
    ids.iter().for_each(|id| recent.keep(refused(&recent, id)));
    recent.flush().await;
    assert!(ids.iter().all(|id| find_in(id, &path).is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_slow_disk_holds_up_a_client_for_a_moment_only() {
    let (go, wait) = std::sync::mpsc::channel();
    let memory = Memory::default();
    let journal = Journal::start(Box::new(Slow(wait, memory.clone())), 8, None).expect("a thread");
    let recent = Recent::new("p", None).written_by(journal);
    let id = RefusalId::new();
    let asked = tokio::time::Instant::now();
    recent.keep_and_wait(refused(&recent, &id)).await;
    // By the clock of the test, which goes on when nothing else can.
    assert!(asked.elapsed().as_secs() < 1 && recent.find(&id).is_some());
    assert_eq!(memory.text(), "");
    drop(go);
    tokio::time::resume();
    recent.flush().await;
    assert!(memory.text().contains(id.as_str()));
}

#[tokio::test]
async fn no_more_than_the_last_ones_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder_of_proxies(folder.path()).join("p.jsonl");
    let recent = Recent::new("p", Some(path.clone()));
    let ids: Vec<RefusalId> = (0..4000).map(|_| RefusalId::new()).collect();
    for id in &ids {
        recent.keep_and_wait(refused(&recent, id)).await;
    }
    assert!(recent.find(&ids[0]).is_none() && recent.find(&ids[3999]).is_some());
    assert!(find(&ids[0], &environment(folder.path())).is_none());
    // One that went from memory, and is in the older file.
    assert!(recent.find(&ids[3500]).is_none());
    assert!(find(&ids[3500], &environment(folder.path())).is_some());
    let sizes = fs::read_dir(folder_of_proxies(folder.path())).expect("a folder");
    let sizes: Vec<u64> = sizes.map(|file| file.expect("a file").metadata().expect("a file").len()).collect();
    assert!(sizes.len() == 2 && sizes.iter().all(|size| *size <= 256 << 10), "{sizes:?}");
}

#[tokio::test]
async fn strangers_push_nobody_elses_refusals_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = environment(folder.path());
    let path = folder_of_proxies(folder.path()).join("p.jsonl");
    let recent = Recent::new("p", Some(path.clone()));
    let known = RefusalId::new();
    recent.keep_and_wait(refused(&recent, &known)).await;
    let strangers = [Reason::TokenMissing, Reason::OriginNotAllowed, Reason::BodyTooLarge];
    let ids: Vec<RefusalId> = (0..3000).map(|_| RefusalId::new()).collect();
    for (id, reason) in ids.iter().zip(strangers.into_iter().cycle()) {
        let refused = recent.refused(id, reason).input("Origin", &"x".repeat(500)).done();
        recent.keep_and_wait(refused).await;
    }
    let (first, last) = (&ids[0], &ids[2999]);
    assert!(recent.find(&known).is_some() && find(&known, &environment).is_some());
    assert!(recent.find(last).is_some() && find(last, &environment).is_some());
    assert!(recent.find(first).is_none() && find(first, &environment).is_none());
    let files = fs::read_dir(folder_of_proxies(folder.path())).expect("a folder");
    let sizes: Vec<u64> = files.map(|file| file.expect("a file").metadata().expect("a file").len()).collect();
    assert!(sizes.len() == 3 && sizes.iter().all(|size| *size <= 256 << 10), "{sizes:?}");
    assert!(recent.last().is_some_and(|refused| refused.id == known.as_str()));
}

#[tokio::test]
async fn what_led_to_a_failed_start_is_found_without_its_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = environment(folder.path());
    let (path, kept) = (folder.path().join("gone/refusals.jsonl"), file_of_failed_starts(folder.path()));
    Recent::new("w", None).copy_to(&kept);
    assert!(!kept.exists(), "there was none");
    let mut last = None;
    for _ in 0..20 {
        let recent = Recent::new("w", Some(path.clone()));
        let ids: Vec<RefusalId> = (0..200).map(|_| RefusalId::new()).collect();
        ids.iter().for_each(|id| recent.keep(refused(&recent, id)));
        recent.copy_to(&kept);
        recent.flush().await;
        last = ids.into_iter().next_back();
    }
    fs::remove_dir_all(folder.path().join("gone")).expect("a folder");
    assert!(find(&last.expect("some"), &environment).is_some());
    let files = fs::read_dir(folder_of_proxies(folder.path())).expect("a folder");
    let sizes: Vec<u64> = files.map(|file| file.expect("a file").metadata().expect("a file").len()).collect();
    assert!(sizes.len() == 2 && sizes.iter().all(|size| *size <= 256 << 10), "{sizes:?}");
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let id = RefusalId::new();
    let recent = Recent::new("p", None);
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
