//! Tests the limits on the memory and the processes that clients and servers can make a proxy use, with real sockets
//! and processes.

use mcpm_tests::harness::{
    mcp::{LEGACY, Session, initialize, notification, request, tool},
    with_timeout,
};
use serde_json::{Value, json};

use crate::{legacy, script};

/// Capabilities that no other client has.
fn distinct_capabilities(number: usize) -> Value {
    json!({ "experimental": { number.to_string(): {} } })
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_hang_up_over_their_handshake_leave_no_process_behind() {
    let bridge = script().await.start(&["--hold-initialize"]).await;
    let mut lives = vec![bridge.process];
    for number in 0..8 {
        let hung_up = bridge.http.post("/mcp", initialize(LEGACY, distinct_capabilities(number)).to_string());
        let hung_up = hung_up.send_only().await;
        if number > 0 {
            lives.push(bridge.script.next_process().await);
        }
        lives[number].received("initialize").await;
        drop(hung_up);
    }
    for number in 8..12 {
        let refused = bridge
            .http
            .post("/mcp", initialize(LEGACY, distinct_capabilities(number)).to_string())
            .send()
            .await;
        assert_eq!((refused.status, refused.headers.get("retry-after")), (503, Some("1")));
        assert_eq!(refused.answer().await["error"]["data"]["reason"], "limit.processes");
    }
    // After the server has responded, every client can get the process: clients with the same parameters share it, and
    // for other clients it is replaced.
    for life in &mut lives {
        life.open("initialize").await;
    }
    let same = Session::with(bridge.http, LEGACY, distinct_capabilities(3)).await;
    assert_eq!(same.call(1, "echo", json!({})).await["id"], 1);
    let opening = tokio::spawn(Session::with(bridge.http, LEGACY, distinct_capabilities(20)));
    let mut renewed = bridge.script.next_process().await;
    renewed.received("initialize").await;
    renewed.open("initialize").await;
    let other = with_timeout("a session", opening).await.unwrap();
    assert_eq!(other.call(1, "echo", json!({})).await["id"], 1);
    with_timeout("the process that was renewed to end", lives[0].ended()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_initialize_larger_than_any_client_needs_is_refused() {
    let bridge = legacy().await;
    let large = json!({ "experimental": { "x": "x".repeat(1 << 20) } });
    let refused = bridge.http.post("/mcp", initialize(LEGACY, large).to_string()).send().await;
    assert_eq!(refused.status, 413);
    let answer = refused.answer().await;
    assert_eq!((&answer["id"], &answer["error"]["data"]["reason"]), (&json!(0), &json!("limit.initialize")));
    Session::open(bridge.http).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_to_a_server_that_reads_nothing_are_refused_beyond_a_bound() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let hang = request(1, "tools/call", tool("hang", json!({}))).to_string();
    let _call = session.with_session_headers(bridge.http.post("/mcp", hang)).send_only().await;
    bridge.process.received("tools/call").await;
    let note = notification("notifications/x", json!({ "x": "x".repeat(8 << 20) })).to_string();
    let mut taken = 0;
    let refused = loop {
        let response = session.post(note.clone()).await;
        if response.status != 202 {
            break response;
        }
        taken += 1;
        assert!(taken < 8, "{taken} times 8 MiB were taken");
    };
    assert_eq!((refused.status, refused.headers.get("retry-after")), (503, Some("1")));
    let reason = refused.answer().await["error"]["data"]["reason"].clone();
    assert_eq!(reason, "limit.queue");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_longer_than_a_line_may_be_is_an_error() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let answer = session.call("big", "big", json!({ "count": 33 << 20 })).await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("big"), &json!(-32603)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("32 MiB"), "{answer}");
    assert_eq!(session.call(2, "echo", json!({})).await["id"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_is_not_lost_with_its_connection() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let mut params = tool("progress", json!({ "count": 1, "gate": "go" }));
    params["_meta"] = json!({ "progressToken": "t" });
    params["arguments"]["text"] = "x".repeat(1 << 20).into();
    let mut left = session.request("large", "tools/call", params).await;
    left.event().await.unwrap();
    let last = left.event().await.unwrap().id.unwrap();
    assert_eq!(session.call("open", "open", json!({ "gate": "go" })).await["id"], "open");
    // Only a part of the response was read before the connection broke.
    drop(left);
    for _ in 0..2 {
        let mut resumed = session.resume(&last).await;
        let answer = resumed.message().await.unwrap();
        assert_eq!(answer["id"], "large");
        assert_eq!(answer["result"]["echo"]["text"].as_str().unwrap().len(), 1 << 20);
        assert!(resumed.message().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replay_buffers_are_bounded_and_report_loss() {
    let bridge = legacy().await;
    let (mut broken, mut lost) = (Vec::new(), 0);
    for _ in 0..4 {
        let session = Session::open(bridge.http).await;
        for number in 0..4 {
            let call = request(number, "tools/call", tool("big", json!({ "count": 10 << 20 }))).to_string();
            let call = session
                .with_session_headers(bridge.http.post("/mcp", call))
                .header("Accept", "text/event-stream");
            let mut response = call.send().await;
            if response.status != 200 {
                let answer = response.json().await;
                assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(number), &json!(-32603)));
                lost += 1;
                continue;
            }
            broken.push((session.clone(), response.event().await.unwrap().id.unwrap(), number));
        }
    }
    let mut kept = 0;
    for (session, first, number) in broken {
        let mut resumed = session.resume(&first).await;
        let answer = resumed.message().await.unwrap();
        assert_eq!(answer["id"], number);
        if answer.get("result").is_some() {
            kept += 1;
        } else {
            assert_eq!(answer["error"]["code"], -32603);
            lost += 1;
        }
    }
    assert!((1..=4).contains(&kept) && kept + lost == 16, "{kept} answers of 10 MiB were kept, {lost} lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_messages_at_once_without_a_session_are_refused_in_plain_words() {
    let bridge = legacy().await;
    let batch = json!([initialize(LEGACY, json!({}))]).to_string();
    let refused = bridge.http.post("/mcp", batch).send().await;
    assert_eq!(refused.status, 400);
    let answer = refused.answer().await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("one by one"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_that_is_not_taken_is_refused_for_its_own_cause() {
    let bridge = legacy().await;
    let session = Session::with(bridge.http, "2025-03-26", json!({})).await;
    let many: Vec<Value> = (0..1001).map(|number| request(number, "tools/list", json!({}))).collect();
    let refused = session.post(json!(many).to_string()).await;
    assert_eq!(refused.status, 400);
    let answer = refused.answer().await;
    assert_eq!(answer["error"]["code"], -32600);
    assert!(answer["error"]["message"].as_str().unwrap().contains("1000"), "{answer}");
    for (body, code, text) in [("[{\"id\":1},", -32700, "EOF"), ("[]", -32600, "no message")] {
        let refused = session.post(body.to_owned()).await;
        assert_eq!(refused.status, 400, "{body}");
        let answer = refused.answer().await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(text), "{answer}");
    }
    let one = json!([request(1, "tools/list", json!({}))]).to_string();
    let unknown = bridge.http.post("/mcp", one).header("Mcp-Session-Id", "0").send().await;
    assert_eq!((unknown.status, &unknown.answer().await["error"]["code"]), (404, &json!(-32001)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answers_to_an_array_are_bounded_and_each_is_told() {
    let bridge = legacy().await;
    let session = Session::with(bridge.http, "2025-03-26", json!({})).await;
    let calls: Vec<Value> =
        (0..16).map(|id| request(id, "tools/call", tool("big", json!({ "count": 8 << 20 })))).collect();
    let response = session.post(json!(calls).to_string()).await;
    assert_eq!(response.status, 200);
    let answers = response.json().await;
    for (id, answer) in answers.as_array().unwrap().iter().enumerate() {
        assert_eq!(answer["id"], id);
        let is_lost = answer["error"]["data"]["reason"] == "limit.memory";
        assert!(is_lost || answer.get("result").is_some(), "{}", answer["error"]);
    }
    assert_eq!(answers.as_array().unwrap().len(), 16);
    assert_eq!(session.call(20, "echo", json!({})).await["id"], 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_nearly_as_long_as_a_line_may_be_arrives_whole() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let answer = session.call("big", "big", json!({ "count": 30 << 20 })).await;
    assert!(answer["result"].to_string().len() > 30 << 20, "{}", answer["error"]);
}
