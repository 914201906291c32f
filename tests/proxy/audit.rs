//! Tests the audit log of running proxies, in front of HTTP servers and stdio servers.

use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf, time::Duration};

use mcpm::{
    audit::{AuditSink, AuditSpec},
    policy::PolicySpec,
    proxy::{Proxy, ProxySpec, RunningProxy, StdioProxy},
};
use mcpm_tests::harness::{
    http::Http,
    mcp::{Modern, Session, request, tool},
    upstream::{Upstream, UpstreamResponse},
    with_timeout,
};
use serde_json::{Value, json};

use crate::script;

const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send","arguments":{"to":"x"}}}"#;
const OK: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

/// A proxy with an audit log.
struct AuditedProxy {
    running: RunningProxy,
    folder: tempfile::TempDir,
}

impl AuditedProxy {
    /// Starts a proxy in front of `target`, with additional options, and with these settings in the configuration
    /// beside the file name.
    async fn start(target: &str, options: &[(&str, &str)], config: Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config;
        if config["logFile"].is_null() {
            config["logFile"] = "audit.jsonl".into();
        }
        // Relative names are relative to the working folder, which tests share.
        let log = folder.path().join(config["logFile"].as_str().unwrap());
        config["logFile"] = log.to_str().unwrap().into();
        let path = folder.path().join("config.json");
        fs::write(&path, config.to_string()).unwrap();
        let mut proxy = Proxy::builder("up", target).audit_config(path);
        for (name, value) in options {
            proxy = proxy.set(name, value).unwrap();
        }
        let running = with_timeout("the proxy to start", proxy.build().unwrap().start()).await.unwrap();
        Self { running, folder }
    }

    fn http(&self) -> Http {
        Http(self.running.address().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("audit.jsonl")
    }

    /// Stops the proxy and returns the recorded events.
    async fn events(&self) -> Vec<Value> {
        with_timeout("the proxy to stop", self.running.stop()).await;
        events(&fs::read_to_string(self.file()).unwrap())
    }
}

fn events(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Responds to each request with the result of a function.
async fn server(content: &str, body: impl Into<String>) -> String {
    let upstream = Upstream::listen().await;
    let uri = upstream.uri("/mcp");
    let (headers, body) = (format!("Content-Type: {content}\r\n"), body.into());
    upstream.serve(move |_| UpstreamResponse {
        status: "200 OK".to_owned(),
        headers: headers.clone(),
        body: body.clone(),
    });
    uri
}

fn extra<'a>(event: &'a Value, name: &str) -> &'a Value {
    &event["metadata"]["extra"][name]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_audit_event() {
    let audited = AuditedProxy::start(&server("application/json", OK).await, &[], json!({})).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let other = "00-11111111111111111111111111111111-2222222222222222-01";
    let params = json!({ "name": "send", "arguments": {}, "_meta": { "traceparent": trace } });
    let response = audited
        .http()
        .post("/mcp?key=canary", request(1, "tools/call", params).to_string())
        .header("Mcp-Session-Id", "canary-session")
        .header("User-Agent", "tests/1")
        .header("traceparent", other)
        .header("X-Forwarded-For", "203.0.113.9")
        .send()
        .await;
    assert_eq!(response.text().await, OK);
    let events = audited.events().await;
    let [event] = &events[..] else { panic!("{events:?}") };
    for (name, value) in [
        ("level", json!("AUDIT")),
        ("msg", json!("audit_event")),
        ("type", json!("mcp_tool_call")),
        ("outcome", json!("success")),
        ("component", json!("up")),
        ("source", json!({ "type": "network", "value": "127.0.0.1", "extra": { "user_agent": "tests/1" } })),
        ("subjects", json!({ "user": "anonymous" })),
        ("target", json!({ "endpoint": "/mcp", "method": "tools/call", "name": "send", "type": "tool" })),
    ] {
        assert_eq!(event[name], value, "{name}");
    }
    assert_eq!(extra(event, "trace_id"), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(extra(event, "http_status"), 200);
    assert_eq!(extra(event, "credential"), "none");
    assert_eq!(extra(event, "response_size_bytes"), OK.len());
    assert!(extra(event, "duration_ms").as_f64().unwrap() > 0.0);
    assert_eq!(extra(event, "session").as_str().unwrap().len(), 16);
    assert_eq!(event["audit_id"].as_str().unwrap().len(), 36);
    assert!(event["data"].is_null(), "{event}");
    assert!(!event.to_string().contains("canary"), "{event}");
    assert_eq!(fs::metadata(audited.file()).unwrap().mode() & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_seen_in_json_in_events_and_in_results_of_tools() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no: token=canary"}}"#;
    let of_tool = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
    for (body, code, tool_error) in [(error, json!(-32000), Value::Null), (of_tool, Value::Null, json!(true))]
    {
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#;
        let stream = format!("data: {note}\n\ndata: {body}\n\n");
        for (content, body) in [("application/json", body.to_owned()), ("text/event-stream", stream)] {
            for (detect, outcome) in [(true, "application_error"), (false, "success")] {
                let config = json!({ "detectApplicationErrors": detect });
                let audited = AuditedProxy::start(&server(content, &*body).await, &[], config).await;
                audited.http().post("/mcp", CALL).send().await.text().await;
                let events = audited.events().await;
                let [event] = &events[..] else { panic!("{events:?}") };
                assert_eq!(event["outcome"], outcome, "{content}: {event}");
                assert_eq!(*extra(event, "jsonrpc_error_code"), code, "{event}");
                assert_eq!(*extra(event, "tool_error"), tool_error, "{event}");
                let transport = if content == "application/json" { "http" } else { "sse" };
                assert_eq!(extra(event, "transport"), transport);
                if !code.is_null() {
                    assert_eq!(extra(event, "jsonrpc_error_message"), "no: token=[redacted]");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_recorded_when_they_begin_and_errors_on_them_when_they_come() {
    let error = r#"{"jsonrpc":"2.0","id":9,"error":{"code":-1,"message":"late"}}"#;
    let target = server("text/event-stream", format!(": hello\n\ndata: {error}\n\n")).await;
    let audited = AuditedProxy::start(&target, &[], json!({})).await;
    audited.http().get("/mcp").header("Accept", "text/event-stream").send().await.text().await;
    let events = audited.events().await;
    let shown: Vec<_> = events.iter().map(|event| (&event["type"], &event["outcome"])).collect();
    let expected = [
        (&json!("sse_connection"), &json!("success")),
        (&json!("mcp_stream_error"), &json!("application_error")),
    ];
    assert_eq!(shown, expected);
    assert_eq!(extra(&events[1], "jsonrpc_error_code"), -1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_layer_refuses_is_recorded_with_its_reason_and_can_be_explained() {
    let options = [("tools", "other"), ("allowed_origins", "https://a.example")];
    let audited = AuditedProxy::start(&server("application/json", OK).await, &options, json!({})).await;
    let hidden = audited.http().post("/mcp", CALL).send().await;
    let strange = audited.http().post("/mcp", CALL).header("Origin", "https://evil.example").send().await;
    // A client that waits for `100 Continue` does not send its body, so the proxy does not wait for it.
    let large = audited.http().request("POST", "/mcp").header("Content-Type", "application/json");
    let large = large.header("Content-Length", "99999999").header("Expect", "100-continue").send().await;
    let refusals: Vec<String> = [&hidden, &strange, &large]
        .iter()
        .map(|response| response.headers.get("mcpm-refusal").unwrap().to_owned())
        .collect();
    let data = hidden.json().await["error"]["data"].clone();
    assert_eq!(data, json!({ "reason": "tools.not_listed", "refusal": refusals[0] }));
    let events = audited.events().await;
    assert_eq!(events.len(), 3, "{events:?}");
    for (event, (refusal, (kind, outcome, reason, status))) in events.iter().zip(refusals.iter().zip([
        ("mcp_tool_call", "denied", "tools.not_listed", 200),
        ("mcp_request", "denied", "origin.not_allowed", 403),
        ("mcp_request", "denied", "body_limit.too_large", 413),
    ])) {
        assert_eq!((&event["type"], &event["outcome"]), (&json!(kind), &json!(outcome)), "{event}");
        assert_eq!((extra(event, "reason"), extra(event, "refusal")), (&json!(reason), &json!(refusal)));
        assert_eq!(extra(event, "http_status"), status);
        assert!(extra(event, "credential").is_null(), "the server was sent nothing");
        let explained = audited.running.explain(refusal).unwrap();
        assert_eq!(explained.reason, reason);
    }
    let explained = audited.running.explain(&refusals[0]).unwrap().refusal.unwrap();
    assert_eq!((explained.server.as_str(), explained.inputs["tool"].as_str()), ("up", "send"));
    assert_eq!(explained.rule.as_deref(), Some("other"));
    assert_eq!(explained.fix, "if clients should use the tool, add `send` to option `tools`");
    let explained = audited.running.explain(&refusals[1]).unwrap().refusal.unwrap();
    assert_eq!(
        explained.fix,
        "if you trust the page, add `https://evil.example` to option `allowed_origins`"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ambiguous_list_is_denied_recorded_and_explained() {
    let doubled = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"tools":[{"name":"other"}]}}"#;
    for (content, body) in
        [("application/json", doubled.to_owned()), ("text/event-stream", format!("data: {doubled}\n\n"))]
    {
        let target = server(content, body).await;
        let audited = AuditedProxy::start(&target, &[("tools", "a")], json!({})).await;
        let list = request(1, "tools/list", json!({})).to_string();
        let answer = audited.http().post("/mcp", list).send().await.text().await;
        let events = audited.events().await;
        let [event] = &events[..] else { panic!("{events:?}") };
        let (reason, refusal) = (extra(event, "reason"), extra(event, "refusal").as_str().unwrap());
        assert_eq!((&event["outcome"], reason), (&json!("denied"), &json!("messages.answer_unclear")));
        assert!(answer.contains(refusal) && !answer.contains("other"), "{content}: {answer}");
        let explained = audited.running.explain(refusal).unwrap();
        assert_eq!(
            (explained.layer.as_str(), &*explained.refusal.unwrap().inputs["list"]),
            ("messages", "tools")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_pipe_is_recorded_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.jsonl");
    let audit = AuditSpec { sink: AuditSink::File(log.clone()), ..AuditSpec::default() };
    let policy = PolicySpec { tools: vec!["!regional".to_owned()], ..PolicySpec::default() };
    let spec = ProxySpec { policy, audit: Some(audit), ..ProxySpec::default() };
    let script = script().await;
    let proxy = StdioProxy::new("scripted", script.process(&["--modern"])).spec(spec);
    let bridge = script.serve(proxy).await;
    let session = Session::open(bridge.http).await;
    session.ask(1, "tools/list", json!({})).await;
    session.call(2, "echo", json!({})).await;
    session.call(3, "regional", json!({})).await;
    let modern = Modern(bridge.http).call(4, "echo", json!({})).await;
    assert_eq!(modern["id"], 4);
    with_timeout("the proxy to stop", bridge.running.stop(Duration::from_secs(1))).await;
    let events = events(&fs::read_to_string(log).unwrap());
    let shown =
        events.iter().map(|event| (event["type"].as_str().unwrap(), event["outcome"].as_str().unwrap()));
    let shown: Vec<_> = shown.collect();
    assert_eq!(
        shown,
        [
            ("mcp_initialize", "success"),
            ("mcp_notification", "success"),
            ("mcp_tools_list", "success"),
            ("mcp_tool_call", "success"),
            ("mcp_tool_call", "denied"),
            ("mcp_tool_call", "success"),
        ]
    );
    assert_eq!(
        (extra(&events[3], "credential"), extra(&events[4], "credential")),
        (&json!("none"), &json!(null))
    );
    // A client sends its name once per session, or with each request if there is no session.
    for event in [&events[0], &events[5]] {
        assert_eq!(event["subjects"]["client_name"], "test", "{event}");
    }
    let sessions: Vec<_> = events[..5].iter().map(|event| extra(event, "session").clone()).collect();
    assert!(sessions.iter().all(|one| *one == sessions[0] && one.is_string()), "{sessions:?}");
    assert!(!events.iter().any(|event| event.to_string().contains(&session.id)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_recorded_is_refused_when_it_must_be_and_passes_otherwise() {
    for fail_closed in [true, false] {
        let upstream = Upstream::listen().await;
        let config = json!({ "logFile": "/dev/full", "failClosed": fail_closed });
        let audited = AuditedProxy::start(&upstream.uri("/mcp"), &[], config).await;
        let asking = audited.http().post("/mcp", CALL).send();
        if fail_closed {
            let response = asking.await;
            assert_eq!(response.status, 503);
            let refusal = response.headers.get("mcpm-refusal").unwrap().to_owned();
            let answer = response.json().await;
            assert_eq!(answer["id"], 1, "{answer}");
            assert_eq!(answer["error"]["data"]["reason"], "audit.not_written");
            assert_eq!(audited.running.explain(&refusal).unwrap().layer, "audit");
            assert!(upstream.try_accept().await.is_none(), "nothing reached the server");
        } else {
            let answering = async {
                let (mut connection, _) = upstream.request().await;
                connection.answer("200 OK", "content-type: application/json\r\n", OK).await;
            };
            let (response, ()) = tokio::join!(asking, answering);
            assert_eq!(response.text().await, OK);
        }
        with_timeout("the proxy to stop", audited.running.stop()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_fail_closed_a_call_is_on_record_before_the_server_sees_it() {
    let upstream = Upstream::listen().await;
    let audited = AuditedProxy::start(&upstream.uri("/mcp"), &[], json!({ "failClosed": true })).await;
    let asking = audited.http().post("/mcp", CALL).send();
    let answering = async {
        let (mut connection, _) = upstream.request().await;
        let so_far = events(&fs::read_to_string(audited.file()).unwrap());
        connection.answer("200 OK", "content-type: application/json\r\n", OK).await;
        so_far
    };
    let (response, so_far) = tokio::join!(asking, answering);
    // The outcome is recorded before the client gets the response, too.
    let then = events(&fs::read_to_string(audited.file()).unwrap());
    assert_eq!(response.text().await, OK);
    let ([before], [_, after]) = (&so_far[..], &then[..]) else { panic!("{so_far:?} {then:?}") };
    assert_eq!((&before["outcome"], &after["outcome"]), (&json!("pending"), &json!("success")));
    assert_eq!(before["audit_id"], after["audit_id"]);
    assert_eq!(before["target"]["name"], "send");
}

#[tokio::test(flavor = "multi_thread")]
async fn data_is_recorded_without_secrets_and_cut_off_with_a_mark() {
    let result = json!({ "jsonrpc": "2.0", "id": 1, "result": {
        "content": [{ "type": "text", "text": "Bearer canary-answer and https://me:canary@a.example" }],
        "accessToken": "canary",
        "resultType": "input_required",
        "requestState": "canary-state",
        "inputRequests": { "a": { "method": "elicitation/create", "params": {
            "mode": "url", "message": "open https://a.example/login?state=canary",
            "url": "https://a.example/login?state=canary#canary",
        } } },
    } });
    let target = server("application/json", result.to_string()).await;
    let config = json!({ "includeRequestData": true, "includeResponseData": true, "redact": ["ssn"] });
    let arguments = json!({
        "password": "canary", "ssn": "canary", "nested": [{ "api_key": { "deep": "canary" } }], "city": "Berlin",
        "header": "Authorization: Bearer canary", "url": "https://a.example/?token=canary",
    });
    let mut params = tool("send", arguments);
    params["requestState"] = "canary-state".into();
    params["inputResponses"] = json!({ "a": { "action": "accept", "content": { "answer": "canary" } } });
    let ask = request(1, "tools/call", params).to_string();
    let audited = AuditedProxy::start(&target, &[], config.clone()).await;
    let post = audited.http().post("/mcp?access_token=canary", ask.clone());
    post.header("Authorization", "Bearer canary").header("Cookie", "a=canary").send().await.text().await;
    let whole = audited.events().await;
    let text = whole[0].to_string();
    assert!(!text.contains("canary"), "{text}");
    assert_eq!(extra(&whole[0], "credential"), "caller");
    assert_eq!(whole[0]["data"]["request"]["arguments"]["city"], "Berlin");
    assert_eq!(whole[0]["data"]["response"]["accessToken"], "[redacted]");
    let asked = &whole[0]["data"]["response"]["inputRequests"]["a"]["params"];
    assert_eq!(asked["url"], "https://a.example/login", "{text}");
    let mut config = config;
    config["maxDataSize"] = 40.into();
    let audited = AuditedProxy::start(&target, &[], config).await;
    audited.http().post("/mcp", ask).send().await.text().await;
    let cut = &audited.events().await[0]["data"];
    for data in [&cut["request"], &cut["response"]] {
        assert_eq!(data["truncated"], true, "{cut}");
        assert!(data["size"].as_u64().unwrap() > 40 && data["text"].as_str().unwrap().len() <= 43, "{cut}");
    }
    assert!(!cut.to_string().contains("canary"), "{cut}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_proxy_sends_to_others_is_never_recorded_wherever_it_stands() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"what is opaque-1?"}}"#;
    let options = [
        ("otel_endpoint", "http://127.0.0.1:9"),
        ("otel_headers", "x-key=Bearer opaque-1"),
        ("tools", "!opaque-1,!opaque-?"),
    ];
    let audited = AuditedProxy::start(&server("application/json", error).await, &options, json!({})).await;
    let call = |name: &str| request(1, "tools/call", tool(name, json!({}))).to_string();
    audited.http().post("/mcp", call("a")).send().await.text().await;
    let hidden = audited.http().post("/mcp", call("opaque-1")).send().await;
    let refusal = hidden.headers.get("mcpm-refusal").unwrap().to_owned();
    let events = audited.events().await;
    assert_eq!(extra(&events[0], "jsonrpc_error_message"), "what is [redacted]?");
    assert_eq!(events[1]["target"]["name"], "[redacted]");
    let explained = format!("{:?}", audited.running.explain(&refusal).unwrap());
    assert!(explained.contains("opaque-?") && !explained.contains("opaque-1"), "{explained}");
    assert!(!format!("{events:?}").contains("opaque-1"), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_file_rotates_without_torn_lines() {
    let config = json!({ "rotateSize": 4096, "rotateCount": 2 });
    let audited = AuditedProxy::start(&server("application/json", OK).await, &[], config).await;
    for _ in 0..40 {
        audited.http().post("/mcp", CALL).send().await.text().await;
    }
    with_timeout("the proxy to stop", audited.running.stop()).await;
    let mut found = 0;
    for name in ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"] {
        let text = fs::read_to_string(audited.folder.path().join(name)).unwrap();
        assert!(text.len() <= 4096, "{name}: {}", text.len());
        found += events(&text).len();
    }
    assert!(!audited.folder.path().join("audit.jsonl.3").exists());
    assert!((12..40).contains(&found), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_of_an_array_is_an_event_and_only_chosen_types_are() {
    let answers = format!("[{OK},{}]", OK.replace("\"id\":1", "\"id\":2").replace("result", "error"));
    let answers = answers.replace(r#""error":{"content":[]}"#, r#""error":{"code":5,"message":"m"}"#);
    let batch = format!(
        r#"[{CALL},{{"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{{"name":"p"}}}},{{"jsonrpc":"2.0","method":"notifications/x"}},{{"jsonrpc":"2.0","id":3,"method":"ping"}}]"#
    );
    let target = server("application/json", answers).await;
    let config = json!({
        "eventTypes": ["mcp_tool_call", "mcp_prompt_get", "mcp_ping"], "excludeEventTypes": ["mcp_ping"],
        "component": "gate",
    });
    let audited = AuditedProxy::start(&target, &[], config).await;
    audited.http().post("/mcp", batch).send().await.text().await;
    audited.http().get("/health").send().await.text().await;
    let events = audited.events().await;
    let [call, prompt] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&call["target"]["name"], &call["outcome"]), (&json!("send"), &json!("success")));
    assert_eq!((&prompt["target"]["name"], &prompt["outcome"]), (&json!("p"), &json!("application_error")));
    assert_eq!((extra(call, "batch"), &call["component"]), (&json!(true), &json!("gate")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_disconnect_is_recorded() {
    for events in [false, true] {
        let upstream = Upstream::listen().await;
        let audited = AuditedProxy::start(&upstream.uri("/mcp"), &[], json!({})).await;
        let client = audited.http().post("/mcp", CALL).send_only().await;
        let (mut connection, _) = upstream.request().await;
        if events {
            connection.begin_events().await;
            connection.chunk(": hello\n\n").await;
            let mut seen = [0; 12];
            let mut client = client;
            tokio::io::AsyncReadExt::read_exact(&mut client, &mut seen).await.unwrap();
            drop(client);
        } else {
            drop(client);
        }
        // The proxy closes the connection to the server after the client has disconnected.
        with_timeout("the connection to be closed", connection.closed()).await;
        let recorded = audited.events().await;
        let [event] = &recorded[..] else { panic!("{recorded:?}") };
        assert_eq!((&event["type"], &event["outcome"]), (&json!("mcp_tool_call"), &json!("client_gone")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_client_addresses_need_a_trusted_proxy() {
    for (trusted, expected) in [("true", "203.0.113.9"), ("false", "127.0.0.1")] {
        let options = [("trust_proxy_headers", trusted)];
        let audited = AuditedProxy::start(&server("application/json", OK).await, &options, json!({})).await;
        let post = audited.http().post("/mcp", CALL).header("X-Forwarded-For", "198.51.100.1, 203.0.113.9");
        post.send().await.text().await;
        assert_eq!(audited.events().await[0]["source"]["value"], expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unwritable_audit_log_fails_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    fs::write(&config, json!({ "logFile": folder.path().join("none/audit") }).to_string()).unwrap();
    let proxy = Proxy::builder("up", "http://127.0.0.1:1/mcp").audit_config(&config).build().unwrap();
    let error = proxy.start().await.unwrap_err();
    assert_eq!(error.kind(), mcpm::ErrorKind::Io);
    assert!(error.to_string().contains("none/audit`: "), "{error}");
    fs::write(&config, r#"{"enabled":false}"#).unwrap();
    let off = Proxy::builder("up", "http://127.0.0.1:1/mcp").audit_config(&config).build().unwrap();
    with_timeout("the proxy to start", off.start()).await.unwrap().stop().await;
}
