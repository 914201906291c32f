//! Tests of what hooks see and change, in every form of a response.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body::{Body as HttpBody, Frame};
use proptest::prelude::*;

use super::*;
use crate::{
    memory::{Account, LazyAccount},
    proxy::{
        body::{Body, BodyError},
        respond::Response,
    },
};

/// Drops messages that contain `secret`, changes messages that contain `old`, and records all messages that it sees.
#[derive(Clone, Default)]
struct RedactingHook(Arc<Mutex<Vec<String>>>);

impl Hook for RedactingHook {
    fn on_message(&self, said: &ResponseMessage<'_>) -> HookVerdict {
        let text = String::from_utf8_lossy(said.message.bytes()).into_owned();
        let method = said.request.map(Message::method).unwrap_or_default();
        self.0.lock().expect("a lock").push(format!("{method} {text}"));
        match text.as_str() {
            text if text.contains("secret") => HookVerdict::Drop,
            text if text.contains("old") => HookVerdict::Replace(text.replace("\"old\"", "\"new\"\n").into()),
            _ => HookVerdict::Keep,
        }
    }

    fn on_end(&self, broken: bool) {
        self.0.lock().expect("a lock").push(format!("end {broken}"));
    }
}

struct Pieces(std::vec::IntoIter<Bytes>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(self.0.next().map(|piece| Ok(Frame::data(piece))))
    }
}

fn answer(kind: &str, text: &str, size: usize) -> Response {
    let pieces: Vec<Bytes> = text.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
    let mut response = Response::new(Body::stream(Pieces(pieces.into_iter())));
    response.headers_mut().insert(header::CONTENT_TYPE, kind.parse().expect("a header value"));
    response
}

fn asked(text: &str) -> Arc<RequestMessages> {
    Arc::new(
        RequestMessages::read(&HeaderMap::new(), Bytes::copy_from_slice(text.as_bytes())).expect("messages"),
    )
}

async fn run(
    response: Response,
    asked: Option<Arc<RequestMessages>>,
    strict: bool,
) -> (StatusCode, String, String) {
    let censor = RedactingHook::default();
    let hooks = Hooks::default();
    hooks.add(Arc::new(censor.clone()));
    let response = run_hooks(response, &hooks, asked, None, strict, strict, LazyAccount::new(None)).await;
    let (status, length) = (response.status(), response.headers().get(header::CONTENT_LENGTH).cloned());
    let body = response.into_body().collect(Account::new).await.expect("a body");
    if let Some(length) = length {
        assert_eq!(length.to_str().ok(), Some(body.len().to_string().as_str()));
    }
    let seen = censor.0.lock().expect("a lock").join("|");
    (status, String::from_utf8(body.to_vec()).expect("text"), seen)
}

const A: &str = r#"{"jsonrpc":"2.0","id":1,"result":{ "n" : 1.0 }}"#;
const OLD: &str = r#"{"jsonrpc":"2.0","id":1,"result":"old"}"#;
const SECRET: &str = r#"{"jsonrpc":"2.0","method":"secret"}"#;

#[tokio::test]
async fn messages_of_a_stream_pass_however_they_arrive() {
    let text = format!(
        ": hello\n\nid: 1\nretry: 5\ndata: \n\nevent: endpoint\ndata: /messages\n\n\
         id: 2\r\nevent: message\r\ndata: {A}\r\n\r\n\
         : a word\nid: 3\nevent: message\n: and another\ndata:{OLD}\nx: y\n\n\
         id: 4\ndata: {SECRET}\n\nevent: message\ndata: {SECRET}\n\n\
         data: {{\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":\"old\"}}\n\n\
         data: [{A},{SECRET},{OLD}]\r\rdata: {A}"
    );
    let changed = r#"{"jsonrpc":"2.0","id":1,"result":"new" }"#;
    let expected = format!(
        ": hello\n\nid: 1\nretry: 5\ndata: \n\nevent: endpoint\ndata: /messages\n\n\
         id: 2\r\nevent: message\r\ndata: {A}\r\n\r\n\
         : a word\nid: 3\nevent: message\n: and another\ndata: {changed}\nx: y\n\n\
         id: 4\n\n\
         data: {{\"jsonrpc\":\"2.0\", \"id\":1,\"result\":\"new\" }}\n\n\
         data: [{A},{changed}]\r\rdata: {A}"
    );
    for size in [1, 2, 3, 7, 10_000] {
        let asked = asked(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        let (_, body, seen) = run(answer("text/event-stream", &text, size), Some(asked), true).await;
        assert_eq!(body, expected, "in pieces of {size}");
        assert!(seen.starts_with(&format!("tools/list {A}|tools/list {OLD}| {SECRET}|")), "{seen}");
        assert!(seen.ends_with("end false"), "{seen}");
    }
}

#[tokio::test]
async fn no_sse_parser_sees_a_line_the_hooks_did_not() {
    let good = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"a\u{2028}data: b\"}";
    let replaced = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":\"old\",\"y\":\"\u{85}\"}}";
    for end in ["\u{b}", "\u{c}", "\u{1c}", "\u{1d}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}"] {
        let text = format!(
            ": hello{end}data: {SECRET}\n\nid: 1{end}data: {SECRET}\nretry: 5\n\n\
             event: endpoint\ndata: /messages{end}data: {SECRET}\n\n\
             data: {end}{SECRET}\n\ndata: \u{a0}{SECRET}\n\n: kept\ndata: {good}\n\ndata: {replaced}\n\n\
             : {end}data: {SECRET}"
        );
        let expected = format!(
            "\nretry: 5\n\n: kept\ndata: {}\n\ndata: {}\n\n",
            good.replace('\u{2028}', "\\u2028"),
            replaced.replace("\"old\"", "\"new\" ").replace('\u{85}', "\\u0085")
        );
        for size in [1, 1000] {
            let (_, body, _) = run(answer("text/event-stream", &text, size), None, true).await;
            assert_eq!(body, expected, "{end:?} in pieces of {size}");
            let (_, body, _) = run(answer("text/event-stream", &text, size), None, false).await;
            assert!(body.starts_with(&format!(": hello{end}data")), "nothing depends on it");
        }
    }
}

#[tokio::test]
async fn json_is_changed_whole_and_otherwise_untouched() {
    for (text, status, expected) in [
        (A, 200, A),
        (OLD, 200, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"new\"\n}"),
        (SECRET, 202, ""),
        (r#" [{"jsonrpc":"2.0","method":"secret"}] "#, 202, ""),
    ] {
        let (got, body, seen) = run(answer("application/json; charset=utf-8", text, 5), None, true).await;
        assert_eq!((got.as_u16(), body.as_str()), (status, expected));
        assert!(seen.ends_with("|end false"), "{seen}");
    }
    let html = "<html>secret</html>";
    let (_, body, seen) = run(answer("text/html", html, 5), None, true).await;
    assert_eq!((body.as_str(), seen.as_str()), (html, "end false"));
}

#[tokio::test]
async fn messages_are_inspected_whatever_their_content_type() {
    let event = |text: &str| format!("data: {text}\n\n");
    // If the content type is not that of messages, the first bytes decide.
    for kind in ["text/html", "text/plain", "application/octet-stream"] {
        for size in [1, 100] {
            let (status, body, _) = run(answer(kind, SECRET, size), None, true).await;
            assert_eq!((status.as_u16(), body.as_str()), (202, ""), "{kind}");
            let (_, body, _) = run(answer(kind, &event(SECRET), size), None, true).await;
            assert_eq!(body, "", "{kind}");
            let (_, body, seen) = run(answer(kind, "Accepted", size), None, true).await;
            assert_eq!((body.as_str(), seen.as_str()), ("Accepted", "end false"));
        }
        let (_, body, seen) = run(answer(kind, SECRET, 9), None, false).await;
        assert_eq!((body.as_str(), seen.as_str()), (SECRET, "end false"), "nothing depends on it");
    }
    // Parsers of event streams skip unknown lines.
    for kind in ["text/html", "text/plain"] {
        for begun in ["x: y\n", "x\r\n", "Accepted\n\n"] {
            for asked in [None, Some(asked(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#))] {
                let (_, body, seen) =
                    run(answer(kind, &format!("{begun}{}", event(SECRET)), 9), asked, true).await;
                assert!(!body.contains("secret") && seen.contains("secret"), "{body:?} {seen}");
            }
        }
    }
    let mut silent = answer("text/html", SECRET, 9);
    silent.headers_mut().remove(header::CONTENT_TYPE);
    assert_eq!(run(silent, None, true).await.1, "");
    // A response that clients could interpret differently reaches none of them.
    let asks = || Some(asked(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#));
    for kind in [
        "text/plain; x=application/json",
        "text/event-stream; charset=utf-16",
        "application/json, text/event-stream",
        "application/json; charset=utf-7",
    ] {
        for asks in [asks(), None] {
            let (status, body, seen) = run(answer(kind, A, 9), asks, true).await;
            assert_eq!(status, StatusCode::BAD_GATEWAY, "{kind}");
            assert!(!body.contains("\"n\"") && seen == "end true", "{kind}: {body}");
        }
        assert_eq!(run(answer(kind, A, 9), asks(), false).await.1, A);
    }
}

#[tokio::test]
async fn ambiguous_messages_are_rejected() {
    let doubled = r#"{"jsonrpc":"2.0","id":1,"result":{},"result":"other"}"#;
    let folded = r#"{"jsonrpc":"2.0","id":1,"result":{},"Result":"other"}"#;
    let no_json = r#"{"jsonrpc":"2.0","id":1,"result":"other",}"#;
    let asks = || Some(asked(r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#));
    for text in [doubled, folded, no_json, &format!("[{folded}]")] {
        // With and without a request, and with any status: some clients also parse the bodies of error responses.
        for (status, asks) in [(200, asks()), (200, None), (400, asks()), (404, None)] {
            let mut response = answer("application/json", text, 9);
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            let (got, body, _) = run(response, asks, true).await;
            assert_eq!(got, StatusCode::BAD_GATEWAY, "{status} {text}");
            assert!(!body.contains("other"), "{body}");
        }
        let (_, body, _) = run(answer("application/json", text, 9), asks(), false).await;
        assert_eq!(body, text);
        let event = format!("data: {text}\n\ndata: {A}\n\n");
        assert_eq!(
            run(answer("text/event-stream", &event, 9), asks(), true).await.1,
            format!("data: {A}\n\n")
        );
    }
    // A text that no client takes for a message is forwarded.
    for text in [r#"{"error":"invalid_token"}"#, r#"{"resource":"x"}"#, "[1,2]"] {
        let (status, body, _) = run(answer("application/json", text, 9), None, true).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, text));
    }
}

#[tokio::test]
async fn unparseable_responses_pass_only_without_strict_hooks() {
    let asks = || Some(asked(r#"{"jsonrpc":"2.0","id":"x","method":"a"}"#));
    for text in [r#"{"id":1,"result":{}}"#, r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#, "{", "[{}]"] {
        let (status, body, _) = run(answer("application/json", text, 9), asks(), true).await;
        assert_eq!(status, StatusCode::BAD_GATEWAY, "{text}");
        assert!(body.starts_with(r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32603"#), "{body}");
        assert!(body.contains(r#""reason":"messages.answer_unclear""#), "{body}");
        let (status, body, _) = run(answer("application/json", text, 9), asks(), false).await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, text));
        let event = format!("event: x\ndata: {text}\n\ndata: {A}\n\n");
        let (_, body, _) = run(answer("text/event-stream", &event, 9), asks(), true).await;
        assert_eq!(body, format!("data: {A}\n\n"));
        let (_, body, _) = run(answer("text/event-stream", &event, 9), asks(), false).await;
        assert_eq!(body, event);
    }
    let encoded = || {
        let mut response = answer("application/json", A, 9);
        response.headers_mut().insert(header::CONTENT_ENCODING, "gzip".parse().expect("a header value"));
        response
    };
    assert_eq!(run(encoded(), asks(), true).await.0, StatusCode::BAD_GATEWAY);
    assert_eq!(run(encoded(), asks(), false).await.1, A);
    // An error response often has a format of its own, which may also be JSON.
    let mut refused = answer("application/json", r#"{"error":"invalid_token"}"#, 9);
    *refused.status_mut() = StatusCode::UNAUTHORIZED;
    assert_eq!(run(refused, asks(), true).await.1, r#"{"error":"invalid_token"}"#);
}

#[test]
fn an_event_beyond_the_limit_ends_the_stream_or_passes_unread() {
    let long = "x".repeat(200);
    let text =
        format!("data: {A}\n\ndata: {{\"jsonrpc\":\"2.0\",\ndata: {long}\ndata: }}\n\ndata: {OLD}\n\n");
    let run = |strict| {
        let hooks: Vec<Arc<dyn Hook>> = vec![Arc::new(RedactingHook::default())];
        let asked = asked(r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"method":"b"}]"#);
        let passage = hook_chain::HookChain {
            hooks,
            request: Some(asked),
            recent: None,
            strict,
            answered_ids: Vec::new(),
            account: LazyAccount::new(None),
        };
        let pieces: Vec<Bytes> = text.as_bytes().chunks(10).map(Bytes::copy_from_slice).collect();
        let body = Body::stream(Pieces(pieces.into_iter()));
        let body = Body::stream(sse_body::HookedSseBody::new(body, passage, 100));
        let body = futures_util::FutureExt::now_or_never(body.collect(Account::new))
            .expect("ready")
            .expect("a body");
        String::from_utf8(body.to_vec()).expect("text")
    };
    let strict = run(true);
    let reason = "a message of the server is larger than 100 bytes";
    let error = format!(r#"[{{"jsonrpc":"2.0","id":2,"error":{{"code":-32603,"message":"{reason}","#);
    let reason = r#""data":{"reason":"messages.answer_unclear","refusal":""#;
    assert!(strict.starts_with(&format!("data: {A}\n\nevent: message\ndata: {error}{reason}")), "{strict}");
    assert_eq!(
        run(false),
        text.replace(&format!("data: {OLD}"), "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"new\" }")
    );
}

#[tokio::test]
async fn the_hook_of_the_innermost_layer_sees_a_message_first() {
    struct Appends(&'static str);
    impl Hook for Appends {
        fn on_message(&self, said: &ResponseMessage<'_>) -> HookVerdict {
            let text =
                String::from_utf8_lossy(said.message.bytes()).replace("\"}", &format!("{}\"}}", self.0));
            HookVerdict::Replace(text.into())
        }
    }
    let mut request = http::Request::new(Body::empty());
    let hooks = Hooks::of_request(&mut request);
    hooks.add(Arc::new(Appends(" outer")));
    Hooks::of_request(&mut request).add(Arc::new(Appends(" inner")));
    let response = run_hooks(
        answer("application/json", OLD, 5),
        &hooks,
        None,
        None,
        true,
        false,
        LazyAccount::new(None),
    )
    .await;
    let body = response.into_body().collect(Account::new).await.expect("a body");
    assert_eq!(&body[..], br#"{"jsonrpc":"2.0","id":1,"result":"old inner outer"}"#);
}

#[test]
fn a_response_is_matched_by_id_unless_two_requests_share_it() {
    let asked = asked(
        r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":"1","method":"b"},
            {"jsonrpc":"2.0","id":2,"method":"c"},{"jsonrpc":"2.0","id":2,"method":"d"}]"#,
    );
    let method = |id: &str| {
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#);
        let answer = Message::parse(answer.into()).expect("an answer");
        asked.request_for(&answer).map(|asked| asked.method().to_owned())
    };
    assert_eq!(method("1").as_deref(), Some("a"));
    assert_eq!(method(r#""\u0031""#).as_deref(), Some("b"));
    assert_eq!((method("2"), method("3")), (None, None));
    assert!(asked.single().is_none() && asked.is_batch());
}

/// Keeps all messages.
struct Noop;

impl Hook for Noop {
    fn on_message(&self, _: &ResponseMessage<'_>) -> HookVerdict {
        HookVerdict::Keep
    }
}

proptest! {
    #[test]
    fn a_stream_that_nobody_changes_stays_the_same(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "data: ", "data:", "id: 1", "event: message", ":", "\n", "\r", "\r\n", "\n\n", "\r\n\r\n", A, OLD,
                "{", "[", " ", "\u{feff}", "x",
            ]),
            0..30,
        ),
        size in 1usize..40,
    ) {
        let text = parts.concat();
        let hooks = Hooks::default();
        hooks.add(Arc::new(Noop));
        let response = answer("text/event-stream", &text, size);
        let passed = futures_util::FutureExt::now_or_never(async {
            run_hooks(response, &hooks, None, None, false, false, LazyAccount::new(None))
                .await
                .into_body()
                .collect(Account::new)
                .await.expect("a body")
        });
        prop_assert_eq!(passed.expect("ready"), text.as_bytes());
    }
}

#[tokio::test]
async fn a_large_answer_that_is_there_already_is_neither_copied_nor_booked_again() {
    let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"x":"{}"}}}}"#, "x".repeat(30 << 20));
    let asked = asked(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#);
    let account = Account::new();
    let body = account.reserve_until_dropped(Bytes::from(text));
    let begin = body.as_ptr();
    let response = crate::proxy::respond::json(StatusCode::OK, body);
    let hooks = Hooks::default();
    hooks.add(Arc::new(RedactingHook::default()));
    let response = run_hooks(response, &hooks, Some(asked), None, true, false, LazyAccount::new(None)).await;
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect(Account::new).await.expect("a body");
    assert_eq!(body.as_ptr(), begin);
}
