//! Starts an OTLP receiver over HTTP and gRPC, and reads the exports that it receives.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    process::Stdio,
    thread,
};

use serde_json::Value;
use tokio::{
    process::{Child, Command},
    sync::mpsc,
};

use super::{certificate_authority::CertificateAuthority, testbed, with_timeout};
use crate::root;

/// The process of the receiver.
pub struct OtlpReceiver {
    /// Host and port for OTLP over HTTP.
    pub http: String,
    /// Host and port for OTLP over gRPC.
    pub grpc: String,
    lines: mpsc::UnboundedReceiver<String>,
    process: Child,
}

/// The received exports.
#[derive(Debug, Default)]
pub struct OtlpExports {
    /// All exports as text.
    pub text: String,
    /// The spans in the order in which they arrived.
    pub spans: Vec<Span>,
    /// Data points of metrics by name, with the count of a histogram or the value of a sum.
    pub points: Vec<(String, Attributes, f64)>,
    /// The attributes of the resource.
    pub resource: Attributes,
    /// Headers of each request.
    pub headers: Vec<Value>,
}

/// Attributes: values by name.
pub type Attributes = BTreeMap<String, String>;

/// One span.
#[derive(Debug, Clone)]
pub struct Span {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: String,
    /// The id of its parent; empty if it has none.
    pub parent: String,
    /// The id of its trace.
    pub trace: String,
    /// `SPAN_KIND_SERVER`, for example.
    pub kind: String,
    /// Whether its status is an error.
    pub failed: bool,
    /// The start and the end, in nanoseconds.
    pub times: (u64, u64),
    /// The traces that it links to.
    pub links: Vec<String>,
    /// Its attributes.
    pub attributes: Attributes,
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

/// A large number, which JSON contains as text.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl OtlpExports {
    /// Adds one export.
    pub fn add(&mut self, export: &Value) {
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

    /// Returns the only span with a name.
    pub fn span(&self, name: &str) -> &Span {
        let found: Vec<&Span> = self.spans.iter().filter(|span| span.name == name).collect();
        match found[..] {
            [one] => one,
            _ => panic!("{} spans `{name}`: {:#?}", found.len(), self.spans),
        }
    }

    /// Returns the sum of a metric over all data points with these attributes.
    pub fn count(&self, metric: &str, with: &[(&str, &str)]) -> f64 {
        let has = |attributes: &Attributes| {
            with.iter().all(|(key, value)| attributes.get(*key).is_some_and(|known| known == value))
        };
        let points = self.points.iter().filter(|(name, attributes, _)| name == metric && has(attributes));
        points.map(|(_, _, value)| value).sum()
    }
}

impl OtlpReceiver {
    /// Starts a receiver; `mode` is empty, `--hang` or `--refuse`.
    pub async fn start(mode: &str) -> Self {
        Self::started(Some(mode).filter(|mode| !mode.is_empty()).into_iter()).await
    }

    /// Starts a receiver that uses TLS.
    pub async fn over_tls(authority: &CertificateAuthority) -> Self {
        Self::started(["--tls", &authority.server, &authority.key].into_iter()).await
    }

    async fn started(args: impl Iterator<Item = &str>) -> Self {
        let (input, output) = std::io::pipe().unwrap();
        let process = Command::new(testbed::path("MCPM_TEST_RECEIVER_PYTHON"))
            .arg(root().join("tests/telemetry/receiver.py"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(output)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (tell, mut lines) = mpsc::unbounded_channel();
        // Its output is read even while the test does something else: a receiver whose output is blocked accepts no
        // exports.
        thread::spawn(move || BufReader::new(input).lines().try_for_each(|line| tell.send(line.unwrap())));
        let said = with_timeout("the receiver", lines.recv()).await.unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        Self { http: text(&said["http"]), grpc: text(&said["grpc"]), lines, process }
    }

    /// Waits for the next export, and returns its protocol.
    pub async fn next(&mut self) -> (String, Value) {
        let line = with_timeout("an export", self.lines.recv()).await.unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        (format!("{} {}", text(&said["protocol"]), text(&said["signal"])), said)
    }

    /// Returns all received exports, after all senders have stopped.
    pub async fn finish(mut self) -> OtlpExports {
        drop(self.process.stdin.take());
        let mut exports = OtlpExports::default();
        while let Some(line) = with_timeout("the end of the receiver", self.lines.recv()).await {
            let said: Value = serde_json::from_str(&line).unwrap();
            exports.headers.push(said["headers"].clone());
            exports.add(&said["export"]);
        }
        exports
    }
}
