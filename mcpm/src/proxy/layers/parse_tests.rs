//! Tests of what the layer parses, what it denies, and what it leaves unchanged.

use std::sync::Mutex;

use bytes::Bytes;

use super::*;
use crate::proxy::layer::Endpoint;

/// Responds with the methods that it received, and records the received bytes.
#[derive(Default)]
struct Server {
    got: Mutex<Option<(Bytes, HeaderMap)>>,
}

impl Endpoint for Server {
    fn handle(&self, request: Request) -> ResponseFuture<'_> {
        Box::pin(async move {
            let asked = request.extensions().get::<Arc<RequestMessages>>().cloned();
            let (parts, body) = request.into_parts();
            let body = body.collect(crate::memory::Account::new).await.expect("a body");
            *self.got.lock().expect("a lock") = Some((body, parts.headers));
            let methods: Vec<String> = asked
                .iter()
                .flat_map(|asked| asked.messages())
                .map(|message| message.method().to_owned())
                .collect();
            let mut response = respond::empty(StatusCode::OK);
            *response.body_mut() = Body::from(Bytes::from(methods.join(" ")));
            response
        })
    }

    fn health(&self) -> std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn post(body: impl Into<Bytes>, headers: &[(&'static str, &str)]) -> Request {
    let mut request = Request::new(Body::from(body.into()));
    *request.method_mut() = Method::POST;
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a header value"));
    }
    request
}

fn recent() -> Arc<DenialLog> {
    Arc::new(DenialLog::new("server", None))
}

async fn run(strict: bool, request: Request) -> (StatusCode, String, Option<(Bytes, HeaderMap)>) {
    let server = Server::default();
    let response = Parse::new(strict, recent()).handle(request, Next::new(&[], &server)).await;
    let status = response.status();
    let body = response.into_body().collect(crate::memory::Account::new).await.expect("a body");
    let got = server.got.lock().expect("a lock").take();
    (status, String::from_utf8(body.to_vec()).expect("text"), got)
}

const LIST: &str = r#" {"jsonrpc":"2.0","id":1,"method":"tools/list","x":1.0} "#;

#[tokio::test]
async fn messages_are_read_once_and_bytes_stay() {
    for strict in [true, false] {
        let (status, methods, got) =
            run(strict, post(LIST, &[("accept-encoding", "gzip"), ("range", "bytes=1-")])).await;
        assert_eq!((status, methods.as_str()), (StatusCode::OK, "tools/list"));
        let (body, headers) = got.expect("a request");
        assert_eq!(body, LIST);
        assert_eq!(headers.get(header::ACCEPT_ENCODING).expect("a header"), "identity");
        assert!(!headers.contains_key(header::RANGE));
        let both = format!("[{LIST},{LIST}]");
        assert_eq!(run(strict, post(both, &[])).await.1, "tools/list tools/list");
    }
}

#[tokio::test]
async fn ambiguous_bodies_are_denied() {
    for body in [
        "{",
        "x",
        "[]",
        "7",
        r#"{"id":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","\u004dethod":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","param\u017f":{}}"#,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping","PARAMS":{}}]"#,
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
    ] {
        let (status, answer, got) = run(true, post(body, &[])).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(answer.contains(r#""reason":"messages.unclear","refusal":""#) && got.is_none(), "{answer}");
    }
    for body in ["{", "x", r#"{"id":1}"#] {
        let (status, methods, got) = run(false, post(body, &[])).await;
        assert_eq!((status, methods.as_str()), (StatusCode::OK, ""));
        assert_eq!(got.expect("a request").0, body);
    }
    let encoded = &[("content-encoding", "gzip")];
    let (status, answer, _) = run(true, post(LIST, encoded)).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert!(answer.contains(r#""reason":"messages.encoded""#), "{answer}");
    assert_eq!(run(false, post("\u{1f}", encoded)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn bodies_in_other_charsets_are_denied() {
    let json = "application/json";
    for (lines, sound) in [
        (&[][..], true),
        (&[json], true),
        (&["application/json; charset=utf-8"], true),
        (&["application/json;Charset=\"UTF-8\"; x=y"], true),
        (&["application/json; charset=utf-16"], false),
        (&["application/json; charset=utf-8; charset=utf-7"], false),
        (&["application/json; charset"], false),
        (&["application/json; charset*=utf-16''"], false),
        (&["application/json; x=\";charset=utf-7\""], false),
        (&["application/json, text/plain; charset=utf-7"], false),
        (&[json, json], false),
        (&[json, "application/json; charset=utf-16"], false),
    ] {
        for strict in [true, false] {
            let mut request = post(LIST, &[]);
            for line in lines {
                request.headers_mut().append(header::CONTENT_TYPE, line.parse().expect("a value"));
            }
            let (status, _, got) = run(strict, request).await;
            assert_eq!(status.is_success(), sound || !strict, "{lines:?}");
            assert_eq!(got.is_none(), status == StatusCode::UNSUPPORTED_MEDIA_TYPE, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn a_batch_is_bounded() {
    let batch = |count: usize| format!("[{}]", vec![LIST; count].join(","));
    assert_eq!(run(true, post(batch(1000), &[])).await.0, StatusCode::OK);
    let (status, answer, got) = run(true, post(batch(1001), &[])).await;
    assert!(status == StatusCode::BAD_REQUEST && got.is_none(), "{answer}");
    assert_eq!(run(false, post(batch(1001), &[])).await.1, "", "it passes unread");
}

#[tokio::test]
async fn ambiguous_field_names_are_denied() {
    let name = &[("mcp-name", "a")];
    for params in [r#"{"name":"a","name":"b"}"#, r#"{"name":"b","name":"a"}"#, r#"{"name":"a","Name":"b"}"#] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        assert_eq!(run(true, post(call, name)).await.0, StatusCode::BAD_REQUEST, "{params}");
    }
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":1,"x":2,"name":"\u0061"}}"#;
    assert_eq!(run(true, post(call, name)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_form_passes_but_json_labelled_as_a_form_does_not() {
    let form = &[("content-type", "application/x-www-form-urlencoded")];
    assert_eq!(run(true, post("grant_type=refresh_token", form)).await.0, StatusCode::OK);
    assert_eq!(run(true, post("{", form)).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(run(true, post(LIST, form)).await.1, "tools/list");
    assert_eq!(run(true, post("grant_type=refresh_token", &[])).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn any_method_with_a_body_is_read_when_something_depends_on_it() {
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let mut request = post("{", &[]);
        *request.method_mut() = method.clone();
        assert_eq!(run(true, request).await.0, StatusCode::BAD_REQUEST);
        let mut request = post(LIST, &[]);
        *request.method_mut() = method;
        assert_eq!(run(true, request).await.1, "tools/list");
    }
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_refused_in_both_eras() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
    for (headers, status) in [
        (&[("mcp-method", "tools/call"), ("mcp-name", "a")][..], 200),
        (&[("mcp-name", "=?base64?YQ==?=")], 200),
        (&[("mcp-name", "b")], 400),
        (&[("mcp-method", "tools/list")], 400),
    ] {
        let (got, answer, _) = run(true, post(call, headers)).await;
        assert_eq!(got.as_u16(), status, "{headers:?}");
        assert_eq!(answer.contains(r#""reason":"messages.contradicted""#), status == 400, "{answer}");
        assert_eq!(run(false, post(call, headers)).await.0, StatusCode::OK);
    }
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let modern =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"a",{meta}}}}}"#);
    let version = ("mcp-protocol-version", "2026-07-28");
    let sound = [version, ("mcp-method", "tools/call"), ("mcp-name", "a")];
    assert_eq!(run(true, post(modern.clone(), &sound)).await.0, StatusCode::OK);
    let (status, answer, _) = run(true, post(modern, &sound[..2])).await;
    assert!(status == StatusCode::BAD_REQUEST && answer.contains("-32020"), "{answer}");
}
