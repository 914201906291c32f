//! Tests of tool filters: lists, calls, batches and headers, in both eras.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{
    policy::ToolOverride,
    proxy::{
        layers::policy_tests::{Server, json_of, modern, post, read, run},
        respond::Response,
    },
};

/// A layer with these options; an override consists of the name, the new name and the new description.
fn layer(patterns: &[&str], overrides: &[(&str, &str, &str)]) -> ToolFilter {
    let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let overrides: BTreeMap<String, ToolOverride> = overrides
        .iter()
        .map(|(own, name, text)| {
            ((*own).to_owned(), ToolOverride { name: given(name), description: given(text) })
        })
        .collect();
    let tools = tools::ToolPolicy::new(&patterns, &overrides).expect("options").expect("something to decide");
    ToolFilter::new(Arc::new(tools))
}

/// A server with these tools, given as the text of a list.
fn server(events: bool, list: &'static str) -> Server {
    Server::new(events, move |message| match message.method() {
        "tools/list" => Some(list.to_owned()),
        "tools/call" => Some(format!(r#"{{"content":[],"was":{}}}"#, message.params())),
        _ => None,
    })
}

const LIST: &str = r#"{"_meta":{"x":1.0},"tools":[ {"name":"a","inputSchema":{"n":1.50}} ,
{ "title":"B", "name":"b" , "description":"old"},{"name":"c"}, {"name":"d"}, {"x":1}, {"name":"a","Name":"c"}],"nextCursor":"n","ttlMs":5,"cacheScope":"public"}"#;
const ASK: &str = r#"{"jsonrpc":"2.0","id":"q","method":"tools/list"}"#;

fn call(name: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": {} } })
        .to_string()
}

#[tokio::test]
async fn lists_show_what_may_be_called_and_keep_everything_else() {
    let expected = r#"{"jsonrpc":"2.0","id":"q","result":{"_meta":{"x":1.0},"tools":[{"name":"a","inputSchema":{"n":1.50}},{ "title":"B", "name":"beta" , "description":"new \"one\""},{"description":"d","name":"d"}],"nextCursor":"n","ttlMs":5,"cacheScope":"public"}}"#;
    for events in [false, true] {
        let layer = layer(&["a", "beta", "d"], &[("b", "beta", "new \"one\""), ("d", "", "d")]);
        let response = run(layer, post(ASK), &server(events, LIST)).await;
        let length = response.headers().get(header::CONTENT_LENGTH).cloned();
        let (status, text) = read(response).await;
        assert_eq!((status, text.as_str()), (200, expected));
        assert!(events || length.is_some_and(|length| length.to_str().ok() == Some(&text.len().to_string())));
    }
}

#[tokio::test]
async fn a_page_may_become_empty_and_the_next_is_still_to_come() {
    let response = run(layer(&["z"], &[]), post(ASK), &server(false, LIST)).await;
    let (_, answer) = json_of(response).await;
    assert_eq!((&answer["result"]["tools"], &answer["result"]["nextCursor"]), (&json!([]), &json!("n")));
}

#[tokio::test]
async fn a_list_is_filtered_whatever_was_asked() {
    // This happens when a server confuses two requests with the same id, or responds on another stream.
    let server = Server::new(false, |_| Some(LIST.to_owned()));
    let (_, answer) =
        json_of(run(layer(&["c"], &[]), post(&ASK.replace("tools/list", "ping")), &server).await).await;
    assert_eq!(answer["result"]["tools"], json!([{ "name": "c" }]));
}

#[tokio::test]
async fn a_list_that_can_be_read_in_two_ways_is_not_shown() {
    for list in [r#"{"tools":[],"tools":[{"name":"x"}]}"#, r#"{"Tools":[{"name":"x"}]}"#] {
        let server = Server::new(false, move |_| Some(list.to_owned()));
        let (_, answer) = json_of(run(layer(&["a"], &[]), post(ASK), &server).await).await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("q"), &json!(-32603)), "{list}");
        assert_eq!(answer["error"]["data"]["reason"], "messages.answer_unclear");
    }
}

#[tokio::test]
async fn a_call_reaches_the_tool_that_the_list_shows() {
    let server = server(false, LIST);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":1.0,"name":"b\u0065ta","arguments":{}}}"#;
    let (status, _) = read(run(layer(&[], &[("b", "beta", "")]), post(body), &server).await).await;
    assert_eq!(status, 200);
    let (got, headers) = server.got.lock().expect("a lock").pop().expect("a request");
    assert_eq!(got, body.replace(r"b\u0065ta", "b"));
    assert_eq!(headers.get(header::CONTENT_LENGTH).expect("a length"), &got.len().to_string());
}

#[tokio::test]
async fn the_header_follows_the_name_in_the_stateless_era() {
    for (own, header) in [("b", "b"), ("ü", "=?base64?w7w=?="), (" x", "=?base64?IHg=?=")] {
        let server = server(true, LIST);
        let request = modern("tools/call", json!({ "name": "beta" }));
        let (status, _) = read(run(layer(&[], &[(own, "beta", "")]), request, &server).await).await;
        assert_eq!(status, 200);
        let (got, headers) = server.got.lock().expect("a lock").pop().expect("a request");
        assert_eq!(headers.get(MCP_NAME).expect("a name"), header);
        let got: Value = serde_json::from_str(&got).expect("JSON");
        assert_eq!(got["params"]["name"], json!(own));
    }
}

#[tokio::test]
async fn a_hidden_tool_is_refused_as_one_that_does_not_exist() {
    let refused = |status: u16, name: &str| {
        (
            status,
            json!({
                "jsonrpc": "2.0", "id": 1,
                "error": {
                    "code": -32602, "message": format!("Unknown tool: {name}"),
                    "data": { "reason": "tools.not_listed" },
                },
            }),
        )
    };
    // The id of the denial is different each time.
    let read = async |response: Response| {
        let header = response.headers()["mcpm-refusal"].to_str().map(str::to_owned).expect("text");
        let (status, mut answer) = json_of(response).await;
        let data = answer["error"]["data"].as_object_mut().expect("an object");
        assert_eq!(data.remove("refusal"), Some(header.into()));
        (status, answer)
    };
    for name in ["b", "A", "a ", "", "nothing"] {
        let server = server(false, LIST);
        let response = run(layer(&["a"], &[]), post(&call(name)), &server).await;
        assert!(
            response
                .extensions()
                .get::<Denial>()
                .is_some_and(|denial| denial.reason == Reason::ToolNotListed)
        );
        assert_eq!(read(response).await, refused(200, name));
        let response = run(layer(&["a"], &[]), modern("tools/call", json!({ "name": name })), &server).await;
        assert_eq!(read(response).await, refused(400, name));
        // A client of the deprecated transport reads only the status.
        let mut request = post(&call(name));
        request.headers_mut().remove(header::ACCEPT);
        assert_eq!(read(run(layer(&["a"], &[]), request, &server).await).await, refused(400, name));
        assert!(server.methods().is_empty());
    }
}

#[tokio::test]
async fn other_spellings_of_a_call_are_denied() {
    for (body, reason) in [
        (r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"b"}}"#, "tools.not_listed"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":{"name":"b"}}"#, "tools.not_listed"),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
            "tools.not_listed",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","NAME":"b"}}"#,
            "tools.not_listed",
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"na\u006de":"b"}}"#, "tools.not_listed"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["a"]}}"#, "tools.not_listed"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":["a"]}"#, "tools.not_listed"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, "tools.not_listed"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/invoke","params":{"name":"b"}}"#, "tools.unknown_method"),
    ] {
        let server = server(false, LIST);
        let response = run(layer(&["a"], &[]), post(body), &server).await;
        let denial = response.extensions().get::<Denial>().cloned().expect(body);
        assert_eq!(denial.reason.id(), reason, "{body}");
        assert!(server.methods().is_empty(), "{body}");
    }
    // Renaming alone does not restrict methods.
    let server = server(false, LIST);
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/invoke"}"#;
    assert_eq!(read(run(layer(&[], &[("b", "beta", "")]), post(body), &server).await).await.0, 200);
}

#[tokio::test]
async fn of_an_array_all_pass_or_none() {
    let server = server(false, LIST);
    let body = format!("[{},{},{ASK}]", call("a"), call("b").replace(":1,", ":2,"));
    let response = run(layer(&["a"], &[]), post(&body), &server).await;
    let (status, answer) = json_of(response).await;
    let told: Vec<_> = answer
        .as_array()
        .expect("an array")
        .iter()
        .map(|one| (one["id"].clone(), one["error"]["code"].clone()))
        .collect();
    let expected = [(json!(1), json!(-32600)), (json!(2), json!(-32602)), (json!("q"), json!(-32600))];
    assert_eq!((status, told.as_slice()), (200, &expected[..]));
    assert!(server.methods().is_empty());
    let body = format!("[{}, {ASK}]", call("alpha"));
    let (_, answer) =
        json_of(run(layer(&["alpha"], &[("a", "alpha", "")]), post(&body), &server).await).await;
    assert_eq!(server.methods(), [format!("[{},{ASK}]", call("a"))]);
    assert_eq!(answer[1]["result"]["tools"][0]["name"], json!("alpha"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_name_that_no_list_shows_is_refused_in_every_spelling(
        patterns in prop::collection::vec("!?[ab*?]{1,3}", 1..4),
        renamed in prop::option::of("[abc]{1,2}"),
        name in "[abcA]{1,2}",
        spelling in 0..4usize,
        events: bool,
    ) {
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let overrides = renamed.iter().map(|new| ("a", new.as_str(), "")).collect::<Vec<_>>();
        let given = |text: &str| ToolOverride { name: Some(text.to_owned()), description: None };
        let map = overrides.iter().map(|(own, new, _)| ((*own).to_owned(), given(new))).collect();
        let texts: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
        prop_assume!(tools::ToolPolicy::new(&texts, &map).is_ok());
        let list = r#"{"tools":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"A"},{"name":"ab"},{"name":"bb"}]}"#;
        let escaped: String = name.chars().map(|letter| format!("\\u{:04x}", u32::from(letter))).collect();
        let plain = call(&name);
        let request = match spelling {
            0 => post(&plain),
            1 => post(&plain.replace(&format!("\"name\":\"{name}\""), &format!("\"name\":\"{escaped}\""))),
            2 => post(&format!("[{plain}]")),
            _ => modern("tools/call", json!({ "name": name })),
        };
        futures_util::FutureExt::now_or_never(async {
            let server = server(events, list);
            let (_, listed) = json_of(run(layer(&patterns, &overrides), post(ASK), &server).await).await;
            let listed = listed["result"]["tools"].as_array().expect("a list").clone();
            let is_listed = listed.iter().any(|tool| tool["name"] == json!(name));
            server.got.lock().expect("a lock").clear();
            let response = run(layer(&patterns, &overrides), request, &server).await;
            let refused = response.extensions().get::<Denial>().is_some();
            // A call of a tool that the server does not have may or may not be forwarded.
            let exists = ["a", "b", "c", "A", "ab", "bb"].contains(&name.as_str()) || is_listed;
            assert!(!exists || is_listed != refused, "{name} {is_listed} {refused}");
            assert!(!refused || server.methods().is_empty());
        }).expect("ready");
    }
}
