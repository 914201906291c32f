//! Checks that a client whose connection broke can resume its stream without losing messages.

use mcpm_tests::harness::mcp::{Session, notification, tool};
use serde_json::json;

use crate::legacy;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_goes_on_after_the_last_event_with_its_own_messages_only() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let mut streams = Vec::new();
    for id in [1, 2] {
        let mut params = tool("progress", json!({ "count": 3, "gate": "a" }));
        params["_meta"] = json!({ "progressToken": format!("t{id}") });
        let mut stream = session.request(id, "tools/call", params).await;
        // The priming event and one message are read, then the connection breaks.
        let priming = stream.event().await.unwrap();
        assert_eq!((priming.data.as_str(), priming.name), ("", None));
        let first = stream.event().await.unwrap();
        assert_eq!(first.json()["params"]["progress"], 1);
        streams.push((priming.id.unwrap(), first.id.unwrap()));
    }
    assert_ne!(streams[0], streams[1]);
    session.call(3, "open", json!({ "gate": "a" })).await;
    for (id, (priming, last)) in [1, 2].into_iter().zip(streams) {
        for (after, steps) in [(priming, vec![1, 2, 3]), (last, vec![2, 3])] {
            let mut stream = session.resume(&after).await;
            assert_eq!(stream.status, 200);
            for step in steps {
                let message = stream.message().await.unwrap();
                assert_eq!(message["params"], json!({ "progressToken": format!("t{id}"), "progress": step }));
            }
            assert_eq!(stream.message().await.unwrap()["id"], id);
            assert!(stream.message().await.is_none());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_still_written_goes_on_to_its_answer() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let mut params = tool("progress", json!({ "count": 1, "gate": "a" }));
    params["_meta"] = json!({ "progressToken": "t" });
    let mut stream = session.request(1, "tools/call", params).await;
    stream.event().await.unwrap();
    let last = stream.event().await.unwrap().id.unwrap();
    let mut resumed = session.resume(&last).await;
    session.call(2, "open", json!({ "gate": "a" })).await;
    assert_eq!(resumed.message().await.unwrap()["id"], 1);
    // The previous connection does not get it again.
    assert!(stream.message().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_events_are_unique_in_a_session() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let mut ids = Vec::new();
    for id in 0..5 {
        let mut stream = session.request(id, "tools/call", tool("notify", json!({ "count": 3 }))).await;
        while let Some(event) = stream.event().await {
            ids.push(event.id.unwrap());
        }
    }
    let mut standalone = session.listen().await;
    let changed = notification("notifications/tools/list_changed", json!({}));
    session.call(9, "say", json!({ "lines": [changed, changed] })).await;
    for _ in 0..2 {
        ids.push(standalone.event().await.unwrap().id.unwrap());
    }
    let all = ids.len();
    assert_eq!(all, 27);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_an_empty_event_only_where_clients_know_it() {
    let bridge = legacy().await;
    for (version, primed) in
        [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)]
    {
        let session = Session::with(bridge.http, version, json!({})).await;
        let mut stream = session.request(1, "tools/call", tool("notify", json!({ "count": 1 }))).await;
        let first = stream.event().await.unwrap();
        assert_eq!((first.data.is_empty(), first.retry.is_some()), (primed, primed), "{version}");
        assert!(first.id.is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standalone_stream_can_be_resumed() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let changed = |x: u8| notification("notifications/tools/list_changed", json!({ "x": x }));
    let mut stream = session.listen().await;
    for x in 1..=3 {
        bridge.process.send(&changed(x)).await;
    }
    let first = stream.event().await.unwrap();
    assert_eq!(first.json(), changed(1));
    stream.event().await.unwrap();
    drop(stream);
    let mut resumed = session.resume(&first.id.unwrap()).await;
    assert_eq!(resumed.message().await.unwrap(), changed(2));
    assert_eq!(resumed.message().await.unwrap(), changed(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_or_foreign_event_id_replays_nothing() {
    let bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let mut stream = one.request(1, "tools/call", tool("notify", json!({ "count": 2 }))).await;
    stream.event().await.unwrap();
    let id = stream.event().await.unwrap().id.unwrap();
    assert_eq!(other.resume(&id).await.status, 404);
    for bad in ["", "x", "1", "-1.1", "1.-1", "99.1", "1.1.1", "18446744073709551616.1"] {
        let status = one.resume(bad).await.status;
        assert!([400, 404].contains(&status), "{bad}: {status}");
    }
    // Beyond the end, there are no events, and the proxy does not panic.
    assert_eq!(one.resume("1.18446744073709551615").await.status, 200);
    assert_eq!(one.call(2, "echo", json!({})).await["id"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_events_do_not_evict_events_being_replayed() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let text = "x".repeat(60 << 10);
    let large = |data: u8| {
        notification("notifications/message", json!({ "level": "info", "data": data, "text": text }))
    };
    let lines: Vec<_> = (1..=4).map(large).collect();
    let mut stream =
        session.request("r", "tools/call", tool("say", json!({ "lines": lines, "gate": "a" }))).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(stream.event().await.unwrap().id.unwrap());
    }
    drop(stream);
    for data in 5..=9 {
        bridge.process.send(&large(data)).await;
    }
    bridge.process.open("a").await;
    bridge.process.drain_received().await;
    session.call("other", "echo", json!({})).await;
    let mut resumed = session.resume(&ids[1]).await;
    for data in 2..=9 {
        assert_eq!(resumed.message().await.unwrap()["params"]["data"], data);
    }
    assert_eq!(resumed.message().await.unwrap()["id"], "r");
}
