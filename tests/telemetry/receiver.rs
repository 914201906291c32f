//! A receiver of OTLP, and servers whose proxies send to it.

use std::{collections::BTreeMap, process::Stdio};

use mcpm::{Proxy, ProxyBuilder, RunningProxy};
use mcpm_tests::{
    harness::{
        http::Http,
        testbed,
        upstream::{Answer, Received, Upstream},
        within,
    },
    root,
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    sync::mpsc,
};

/// What receives.
pub(crate) struct Receiver {
    pub(crate) http: String,
    pub(crate) grpc: String,
    lines: Lines<BufReader<ChildStdout>>,
    process: Child,
}

/// What was received.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    /// All of it, as text.
    pub(crate) text: String,
    pub(crate) spans: Vec<Span>,
    /// Points of metrics, by name, with what a histogram counted or what a sum adds up to.
    pub(crate) points: Vec<(String, Attributes, f64)>,
    /// What is said of the service.
    pub(crate) resource: Attributes,
    /// Headers of each request.
    pub(crate) headers: Vec<Value>,
}

pub(crate) type Attributes = BTreeMap<String, String>;

/// One span.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) trace: String,
    pub(crate) kind: String,
    pub(crate) failed: bool,
    /// When it began and ended, in nanoseconds.
    pub(crate) times: (u64, u64),
    pub(crate) links: Vec<String>,
    pub(crate) attributes: Attributes,
}

fn attributes(value: &Value) -> Attributes {
    let all = value.as_array().into_iter().flatten();
    all.map(|one| {
        let value = one["value"].as_object().unwrap().values().next().unwrap();
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (one["key"].as_str().unwrap().to_owned(), value)
    })
    .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A large number, which JSON has as text.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Exports {
    /// Takes one export in.
    pub(crate) fn add(&mut self, export: &Value) {
        self.text += &export.to_string();
        for resource in list(&export["resourceSpans"]) {
            self.resource = attributes(&resource["resource"]["attributes"]);
            for span in list(&resource["scopeSpans"]).flat_map(|scope| list(&scope["spans"])) {
                self.spans.push(Span {
                    name: text(&span["name"]),
                    id: text(&span["spanId"]),
                    parent: text(&span["parentSpanId"]),
                    trace: text(&span["traceId"]),
                    kind: text(&span["kind"]),
                    failed: span["status"]["code"] == "STATUS_CODE_ERROR" || span["status"]["code"] == 2,
                    times: (number(&span["startTimeUnixNano"]), number(&span["endTimeUnixNano"])),
                    links: list(&span["links"]).map(|link| text(&link["traceId"])).collect(),
                    attributes: attributes(&span["attributes"]),
                });
            }
        }
        for resource in list(&export["resourceMetrics"]) {
            self.resource = attributes(&resource["resource"]["attributes"]);
            for metric in list(&resource["scopeMetrics"]).flat_map(|scope| list(&scope["metrics"])) {
                let name = text(&metric["name"]);
                for kind in ["histogram", "sum"] {
                    for point in list(&metric[kind]["dataPoints"]) {
                        let number = |field: &str| {
                            let value = &point[field];
                            value.as_f64().or_else(|| value.as_str()?.parse().ok())
                        };
                        let value = number("count").or(number("asInt")).or(number("asDouble")).unwrap_or(0.0);
                        self.points.push((name.clone(), attributes(&point["attributes"]), value));
                    }
                }
            }
        }
    }

    /// The one span of a name.
    pub(crate) fn span(&self, name: &str) -> &Span {
        let found: Vec<&Span> = self.spans.iter().filter(|span| span.name == name).collect();
        match found[..] {
            [one] => one,
            _ => panic!("{} spans `{name}`: {:#?}", found.len(), self.spans),
        }
    }

    /// What a metric says of points with these attributes, all of them together.
    pub(crate) fn count(&self, metric: &str, with: &[(&str, &str)]) -> f64 {
        let has = |attributes: &Attributes| {
            with.iter().all(|(key, value)| attributes.get(*key).is_some_and(|known| known == value))
        };
        let points = self.points.iter().filter(|(name, attributes, _)| name == metric && has(attributes));
        points.map(|(_, _, value)| value).sum()
    }
}

impl Receiver {
    /// Starts one; `mode` is empty, `--hang` or `--refuse`.
    pub(crate) async fn start(mode: &str) -> Self {
        let mut process = Command::new(testbed::path("MCPM_TEST_RECEIVER_PYTHON"))
            .arg(root().join("tests/telemetry/receiver.py"))
            .args(Some(mode).filter(|mode| !mode.is_empty()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = within("the receiver", lines.next_line()).await.unwrap().unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        Self { http: text(&said["http"]), grpc: text(&said["grpc"]), lines, process }
    }

    /// Waits for the next export, and says by which protocol it came.
    pub(crate) async fn next(&mut self) -> (String, Value) {
        let line = within("an export", self.lines.next_line()).await.unwrap().unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        (format!("{} {}", text(&said["protocol"]), text(&said["signal"])), said)
    }

    /// All that was received, now that nobody sends any more.
    pub(crate) async fn all(mut self) -> Exports {
        drop(self.process.stdin.take());
        let mut exports = Exports::default();
        while let Some(line) = within("the end of the receiver", self.lines.next_line()).await.unwrap() {
            let said: Value = serde_json::from_str(&line).unwrap();
            exports.headers.push(said["headers"].clone());
            exports.add(&said["export"]);
        }
        exports
    }
}

/// A proxy, and what its server gets.
pub(crate) struct Measured {
    pub(crate) proxy: RunningProxy,
    pub(crate) http: Http,
    pub(crate) through: mpsc::UnboundedReceiver<Received>,
}

/// What a server answers to a body.
pub(crate) fn answer(body: &str) -> Answer {
    let (kind, answer) = match body {
        body if body.contains("notifications/") => {
            return Answer { status: "202 Accepted".into(), ..Answer::default() };
        }
        body if body.contains("\"missing\"") => (
            "application/json",
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#.to_owned(),
        ),
        body if body.contains("\"tools/list\"") => {
            let id = &serde_json::from_str::<Value>(body).unwrap()["id"];
            ("application/json", format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]}}}}"#))
        }
        body if body.contains("\"broken\"") => {
            let events = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
            ("text/event-stream", format!("data: {events}\n\n"))
        }
        _ => ("application/json", r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#.to_owned()),
    };
    let session = if body.contains("\"initialize\"") { "Mcp-Session-Id: session-1\r\n" } else { "" };
    Answer {
        status: "200 OK".to_owned(),
        headers: format!("Content-Type: {kind}\r\n{session}"),
        body: answer,
    }
}

/// A proxy with telemetry, set up by the test.
pub(crate) async fn measured(set_up: impl FnOnce(ProxyBuilder) -> ProxyBuilder) -> Measured {
    let server = Upstream::listen().await;
    let (tell, through) = mpsc::unbounded_channel();
    let uri = server.uri("/mcp");
    server.serve(move |received| {
        let answered = answer(&String::from_utf8_lossy(&received.body));
        let Received { line, headers, body } = received;
        let copy = Received { line: line.clone(), headers: headers.clone(), body: body.clone() };
        // Who listened may be gone.
        let _ = tell.send(copy);
        answered
    });
    let proxy = set_up(Proxy::builder("measured", uri)).build().unwrap().start().await.unwrap();
    Measured { http: Http(proxy.address()), proxy, through }
}

/// A call of a tool.
pub(crate) fn call(name: &str, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{{"a":"canary-argument"}}{meta}}}}}"#
    )
}
