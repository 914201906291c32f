//! Checks that the bridge does not change the content of messages.

use mcpm_tests::harness::mcp::{Session, tool};
use serde::Deserialize;
use serde_json::{json, value::RawValue};

use crate::legacy;

const TEXTS: [&str; 7] = [
    r#"{"n":[1.0,-0,1E+2,1e-7,123456789012345678901234567890,0.10]}"#,
    r#"{"z":1,"a":2,"m":{"y":null,"b":[]}}"#,
    r#"{"spaces" :  "\t" , "ideographic":"　全角　スペース"}"#,
    r#"{"zwj":"👩‍👩‍👧‍👦 👨🏽‍🚀","bom":"﻿","rtl":"שלום","separators":"\u2028 \u2029  "}"#,
    r#"{"escapes":"\u00e9\ud83d\ude00\/\b\f\n\r\t\"\\","nul":"\u0000"}"#,
    r#"{"lone":"\ud800"}"#,
    r#"{"":{"":{"":[[[[[[[[]]]]]]]]}}}"#,
];

#[tokio::test(flavor = "multi_thread")]
async fn numbers_order_spaces_and_characters_survive_both_ways() {
    #[derive(Deserialize)]
    struct Answer {
        result: Echo,
    }
    #[derive(Deserialize)]
    struct Echo {
        echo: Box<RawValue>,
    }
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    for text in TEXTS {
        let body = format!(
            r#"{{ "params" : {{"arguments":{text},"name":"echo","unknown":{text}}},"method":"tools/call", "id":1,"jsonrpc":"2.0","top":{text}}}"#
        );
        let response = session.post(body.clone()).await.text().await;
        let answer: Answer = serde_json::from_str(&response).unwrap();
        assert_eq!(answer.result.echo.get(), text);
        let seen = bridge.process.line("tools/call").await;
        let (before, after) = body.split_once("1,\"jsonrpc").unwrap();
        assert!(seen.starts_with(before) && seen.ends_with(after), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_on_a_stream_survives_as_well() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    for text in TEXTS {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{text}}}}}"#
        );
        let post = session
            .with_session_headers(bridge.http.post("/mcp", body))
            .header("Accept", "text/event-stream");
        let mut stream = post.send().await;
        stream.event().await.unwrap();
        let data = stream.event().await.unwrap().data;
        assert!(data.contains(&format!("\"echo\":{text}")), "{data}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn raw_line_breaks_in_a_body_reach_the_server_as_one_line() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let body = "\r\n{\n  \"jsonrpc\": \"2.0\",\r\n\t\"id\":\n1,\r\"method\": \"tools/call\",\n\"params\": {\"name\": \"echo\",\n\"arguments\": {\"a\":\n[1,\n2]}}\n}\n";
    let answer = session.post(body).await.json().await;
    assert_eq!(answer["result"]["echo"], json!({ "a": [1, 2] }));
    let seen = bridge.process.line("tools/call").await;
    let spaces = body.replace(['\n', '\r'], " ");
    let (before, after) = spaces.split_once("1,").unwrap();
    assert!(seen.starts_with(before) && seen.ends_with(after), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_results_and_requests_pass_whole() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let answer = session.call(1, "big", json!({ "count": 5 << 20 })).await;
    assert_eq!(answer["result"]["content"][0]["text"].as_str().unwrap().len(), 5 << 20);
    let text: String = (0..200 << 10).map(|n: u32| char::from(b'a' + (n % 26) as u8)).collect();
    let answer = session.call(2, "echo", json!({ "text": text })).await;
    assert_eq!(answer["result"]["echo"]["text"].as_str(), Some(text.as_str()));
    let post = session.with_session_headers(
        bridge.http.post(
            "/mcp",
            mcpm_tests::harness::mcp::request(3, "tools/call", tool("big", json!({ "count": 5 << 20 })))
                .to_string(),
        ),
    );
    let answer = post.header("Accept", "text/event-stream").send().await.answer().await;
    assert_eq!(answer["result"]["content"][0]["text"].as_str().unwrap().len(), 5 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_on_the_servers_output_is_passed_over() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let messages = session.request(1, "tools/call", tool("garbage", json!({}))).await.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["id"], 1);
}
