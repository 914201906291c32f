use super::*;

fn record() -> (tempfile::TempDir, Arc<Record>) {
    let root = tempfile::tempdir().unwrap();
    let store = Store::new(root.path());
    let name: WorkloadName = "time".parse().unwrap();
    store.create(&name).unwrap().commit();
    let record = Arc::new(Record::begin(store, name, WorkloadEvents::new()).unwrap());
    record.update(Phase::Running, None, |_| {});
    (root, record)
}

fn written(record: &Record) -> (Phase, Option<String>) {
    let status: Status = record.store.load(&record.name, Document::Status).unwrap();
    (status.phase, status.reason)
}

fn running(reason: &str) -> (Phase, Option<String>) {
    (Phase::Running, Some(reason.to_owned()))
}

#[tokio::test(start_paused = true)]
async fn remarks_are_written_now_and_then_and_the_last_one_always() {
    let (_root, record) = record();
    record.set_reason(Some("first".to_owned()));
    tokio::time::sleep(REMARK_PAUSE / 4).await;
    assert_eq!(written(&record), running("first"));
    for number in 0..1000 {
        record.set_reason(Some(number.to_string()));
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(REMARK_PAUSE / 4).await;
    assert_eq!(written(&record), running("first"));
    assert_eq!(record.status().reason.as_deref(), Some("999"));
    tokio::time::sleep(REMARK_PAUSE).await;
    assert_eq!(written(&record), running("999"));
    tokio::time::sleep(REMARK_PAUSE).await;
    record.set_reason(None);
    tokio::time::sleep(REMARK_PAUSE / 4).await;
    assert_eq!(written(&record), (Phase::Running, None));
}

#[tokio::test(start_paused = true)]
async fn a_remark_that_waits_brings_no_removed_record_back() {
    let (_root, record) = record();
    record.set_reason(Some("first".to_owned()));
    tokio::time::sleep(REMARK_PAUSE / 4).await;
    record.set_reason(Some("second".to_owned()));
    record.update(Phase::Stopped, None, |_| {});
    assert_eq!(written(&record), (Phase::Stopped, None));
    record.store.remove(&record.name).unwrap();
    tokio::time::sleep(2 * REMARK_PAUSE).await;
    assert_eq!(record.store.names().unwrap(), []);
}

#[tokio::test]
async fn an_engine_that_goes_away_is_told_of_and_recorded() {
    let (_root, record) = record();
    let mut events = record.events.subscribe();
    record.on_event(ServerEvent::EngineLost { reason: "was lost: no socket".to_owned() });
    let Some(WorkloadEvent::Warning { message }) = events.next().await else { panic!("no warning") };
    assert!(message.ends_with("was lost: no socket"), "{message}");
    assert_eq!(record.status().reason, Some(message));
    record.on_event(ServerEvent::EngineBack);
    assert_eq!((record.status().phase, record.status().reason), (Phase::Running, None));
}
