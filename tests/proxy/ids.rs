//! Checks that two clients can use the same request ids at the same time.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use mcpm_tests::harness::{http::Http, mcp::Session, with_timeout};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde::Deserialize;
use serde_json::{json, value::RawValue};
use tokio::sync::Mutex;

use crate::legacy;

/// The number of calls that each client has in flight at once.
const CALLS: usize = 200;
const ROUNDS: u32 = 3;

/// A response, as it was written.
#[derive(Deserialize)]
struct Answer {
    id: Box<RawValue>,
    result: Echo,
}

#[derive(Deserialize)]
struct Echo {
    echo: Box<RawValue>,
}

/// Ids from a small pool, so that clients use the same ones, with the string form of each number and forms that are
/// easily changed.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => (0..150_u32).prop_map(|number| number.to_string()),
        6 => (0..150_u32).prop_map(|number| format!("\"{number}\"")),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => Just("18446744073709551616".to_owned()),
        1 => Just("1.0".to_owned()),
        1 => Just("1e3".to_owned()),
        1 => any::<String>().prop_map(|text| json!(text).to_string()),
        1 => Just(r#""\u0031""#.to_owned()),
    ]
}

/// Arguments whose text must come back unchanged: spaces, number forms, order and escapes.
fn arguments() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("1.0".to_owned()),
        Just("-0".to_owned()),
        Just("1E+2".to_owned()),
        Just("123456789012345678901234567890".to_owned()),
        any::<String>().prop_map(|text| json!(text).to_string()),
        Just(r#""\u00e9\ud83d\ude00\/""#.to_owned()),
    ];
    let value = scalar.prop_recursive(3, 12, 4, |inner| {
        let key = "[a-f]{1,3}";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" , "))),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|fields| object(&fields)),
        ]
    });
    prop::collection::btree_map("[a-f]{1,3}", value, 0..4).prop_map(|fields| object(&fields))
}

fn object(fields: &std::collections::BTreeMap<String, String>) -> String {
    // In reverse order, so that code that sorts keys is detected.
    let fields = fields.iter().rev().map(|(key, value)| format!("\"{key}\" :{value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// The concurrent calls of one client: ids that differ from each other, and arguments.
fn calls() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((id(), arguments()), CALLS * 2).prop_map(|calls| {
        let mut ids = BTreeSet::new();
        let twice = |(id, _): &(String, String)| ids.insert(id.clone());
        let mut calls: Vec<_> = calls.into_iter().filter(twice).take(CALLS).collect();
        let missing = CALLS - calls.len();
        calls
            .extend((0..missing).map(|number| (format!("{}", 1000 + number), format!("{{\"n\":{number}}}"))));
        calls
    })
}

/// The gate at which a call waits.
fn gate(round: u32, number: usize) -> String {
    format!("{round}-{number}")
}

/// Makes all calls at once, the first with gate number `first`.
async fn all_at_once(session: Arc<Session>, round: u32, first: usize, calls: Vec<(String, String)>) {
    let calls = calls.into_iter().zip(first..).map(|((id, arguments), number)| {
        let session = Arc::clone(&session);
        tokio::spawn(async move {
            let sent = format!("{{\"gate\":\"{}\",\"is\":{arguments}}}", gate(round, number));
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{sent}}}}}"#
            );
            let mut response = session.post(body).await;
            let text = match response.is_events() {
                true => response.message_text().await.unwrap(),
                false => response.text().await,
            };
            let answer: Answer = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!((answer.id.get(), answer.result.echo.get()), (id.as_str(), sent.as_str()));
        })
    });
    for call in calls.collect::<Vec<_>>() {
        with_timeout("all answers", call).await.unwrap();
    }
}

#[test]
fn clients_with_the_same_ids_each_get_their_own_answers() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let bridge = runtime.block_on(legacy());
    let life = Mutex::new(bridge.process);
    let open = |http: Http| Arc::new(runtime.block_on(Session::open(http)));
    let (one, other) = (open(bridge.http), open(bridge.http));
    let mut runner = TestRunner::new(Config { cases: ROUNDS, max_shrink_iters: 20, ..Config::default() });
    // The server has received all calls before it responds to the first one, in an order that is printed if this fails.
    let order = Just((0..2 * CALLS).collect::<Vec<_>>()).prop_shuffle();
    let rounds = AtomicU32::new(0);
    let outcome = runner.run(&(calls(), calls(), order), |(ones, others, order)| {
        let number = rounds.fetch_add(1, Ordering::Relaxed);
        let round = async {
            let mut life = life.lock().await;
            let both = (
                tokio::spawn(all_at_once(Arc::clone(&one), number, 0, ones)),
                tokio::spawn(all_at_once(Arc::clone(&other), number, CALLS, others)),
            );
            for _ in &order {
                life.line("tools/call").await;
            }
            for call in &order {
                life.open(&gate(number, *call)).await;
            }
            (both.0.await, both.1.await)
        };
        let (first, second) = runtime.block_on(round);
        first.and(second).map_err(|error| TestCaseError::fail(error.to_string()))
    });
    outcome.unwrap();
    runtime.block_on(bridge.running.stop(std::time::Duration::ZERO));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_get_their_own_answer_in_any_order() {
    let mut bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let (first, second) = (one.clone(), other.clone());
    let first = tokio::spawn(async move { first.call(7, "echo", json!({"gate": "a", "who": 1})).await });
    bridge.process.received("tools/call").await;
    let second = tokio::spawn(async move { second.call(7, "echo", json!({"gate": "b", "who": 2})).await });
    bridge.process.received("tools/call").await;
    bridge.process.open("b").await;
    let answer = with_timeout("the second answer", second).await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["echo"]["who"]), (&json!(7), &json!(2)));
    bridge.process.open("a").await;
    let answer = with_timeout("the first answer", first).await.unwrap();
    assert_eq!((&answer["id"], &answer["result"]["echo"]["who"]), (&json!(7), &json!(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_carries_the_callers_id_with_its_type() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    for id in [json!(3), json!("3"), json!(-3), json!("")] {
        let answer = session.call(id.clone(), "error", json!({"code": -32602})).await;
        let expected = json!({
            "jsonrpc": "2.0",
            "id": id,
            "error": { "code": -32602, "message": "as asked", "data": { "by": "scripted-server" } },
        });
        assert_eq!(answer, expected);
    }
}
