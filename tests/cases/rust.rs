//! Runs a case in Rust.

use std::{
    collections::HashMap,
    fmt::Display,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use mcpm::{
    ConnectOptions, Environment, Error, ErrorKind, ProxyBuilder, Result, RunningProxy, RunningWorkload,
    WorkloadBuilder,
    explain::Explanation,
    options::Secret,
    stdio_bridge::Connection,
    user_prompt::{LoginPrompt, UserPrompt},
    workload::{EventStream, WorkloadEvent, Workloads},
};
use mcpm_tests::harness::http::Http;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use url::Url;

/// Runs the case in a file; `variables` are the variables in its lines.
pub(crate) async fn run(file: &Path, variables: &HashMap<&str, String>, environment: Environment) {
    let mut case = Case::new(environment);
    for (number, line) in std::fs::read_to_string(file).unwrap().lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut line = line.to_owned();
        for (name, value) in variables {
            line = line.replace(&format!("${name}"), value);
        }
        eprintln!("{}:{}: {line}", file.display(), number + 1);
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        Box::pin(case.carry_out(verb, rest)).await;
    }
}

struct Case {
    environment: Environment,
    options: Vec<(String, String)>,
    prompt: Option<Arc<Prompt>>,
    events: Option<EventStream>,
    workload: Option<RunningWorkload>,
    proxy: Option<RunningProxy>,
    /// The connection, and the id of the last request.
    connection: Option<(BufReader<Connection>, u64)>,
    explanation: Option<Explanation>,
    /// The phase of the workload once it is stopped.
    stopped: bool,
}

/// A user who follows or cancels the login, and who allows or denies access to this machine.
#[derive(Debug)]
struct Prompt {
    /// The word in the case that selects the behavior.
    behaviour: String,
    prompted: AtomicUsize,
}

#[async_trait]
impl UserPrompt for Prompt {
    async fn ask_secret(&self, _: &str) -> Result<Option<Secret>> {
        Ok(None)
    }

    async fn approve(&self, _: &str) -> Result<bool> {
        self.prompted.fetch_add(1, Ordering::Relaxed);
        Ok(self.behaviour == "approve")
    }

    async fn show_login(&self, login: &LoginPrompt) -> Result<()> {
        if self.behaviour == "cancel" {
            return Err(Error::new(ErrorKind::Interrupted, "the user cancelled the prompt"));
        }
        self.prompted.fetch_add(1, Ordering::Relaxed);
        let mut next = Some(login.url.clone());
        while let Some(url) = next.take() {
            let url = Url::parse(&url).unwrap();
            let address = format!("127.0.0.1:{}", url.port().unwrap()).parse().unwrap();
            let path = format!("{}?{}", url.path(), url.query().unwrap_or_default());
            let response = Http(address).get(&path).send().await;
            next = response.headers.get("location").map(|location| (*location).to_owned());
        }
        Ok(())
    }
}

/// Checks an outcome: after `fails`, its kind and a text of its message; otherwise that there is no error.
fn expect<T>(outcome: Result<T>, rest: &str) -> Option<T> {
    match (outcome, rest.strip_prefix("fails ")) {
        (Ok(value), None) => Some(value),
        (Ok(_), Some(_)) => panic!("it did not fail"),
        (Err(error), None) => panic!("{error}"),
        (Err(error), Some(expected)) => {
            let (kind, text) = expected.split_once(' ').unwrap_or((expected, ""));
            assert_eq!(error.kind().as_str(), kind, "{error}");
            assert!(error.to_string().contains(text), "{error}");
            None
        }
    }
}

fn stopped(what: impl Display) -> Error {
    Error::new(ErrorKind::Upstream, format!("{what} has stopped"))
}

impl Case {
    fn new(environment: Environment) -> Self {
        Self {
            environment,
            options: Vec::new(),
            prompt: None,
            events: None,
            workload: None,
            proxy: None,
            connection: None,
            explanation: None,
            stopped: false,
        }
    }

    async fn carry_out(&mut self, verb: &str, rest: &str) {
        let (first, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        match verb {
            "option" => self.options.push((first.to_owned(), tail.to_owned())),
            "prompt" => {
                let prompt = || Prompt { behaviour: rest.to_owned(), prompted: AtomicUsize::new(0) };
                self.prompt = (rest != "none").then(|| Arc::new(prompt()));
            }
            "start" if first == "workload" => {
                let started = self.start_workload().await;
                if let Some(workload) = expect(started, tail) {
                    self.workload = Some(workload);
                }
            }
            "start" => {
                let started = self.start_proxy().await;
                self.proxy = expect(started, tail);
            }
            "start-recorded" => {
                let started = self.start_recorded(first).await;
                if let Some(workload) = expect(started, tail) {
                    self.workload = Some(workload);
                }
            }
            "start-and-cancel" => self.start_and_cancel().await,
            "event" => while self.next_event().await["event"] != rest {},
            "phase" => assert_eq!(self.phase(), rest),
            "url" => assert_eq!(!self.workload.as_ref().unwrap().url().is_empty(), rest == "present"),
            "connect" => {
                if let Some(connection) = expect(self.connect(None), rest) {
                    self.connection = Some((BufReader::new(connection), 0));
                    self.shake_hands().await;
                }
            }
            "connect-with" => {
                let connection = self.connect(Some(rest)).unwrap();
                self.connection = Some((BufReader::new(connection), 0));
                self.shake_hands().await;
            }
            "connect-denied" => {
                let connection = self.connect(None).unwrap();
                self.connection = Some((BufReader::new(connection), 0));
                let response = self.initialize().await;
                assert_eq!(response["error"]["data"]["reason"], rest, "{response}");
            }
            "tool" => {
                let tools = self.request("tools/list", json!({})).await["result"]["tools"].clone();
                let listed = tools.as_array().unwrap().iter().any(|tool| tool["name"] == first);
                assert_eq!(listed, tail == "listed", "{tools}");
            }
            "call" => {
                let result = self.call(first).await["result"].to_string();
                assert!(result.contains(tail), "{result}");
            }
            "denied" => {
                let data = self.call(first).await["error"]["data"].clone();
                assert_eq!(data["reason"], tail);
                let id = data["refusal"].as_str().unwrap();
                self.explanation = Some(mcpm::explain(id, &self.environment).unwrap());
            }
            "explained" => {
                let explanation = self.explanation.as_ref().unwrap();
                let found = match first {
                    "reason" => &explanation.reason,
                    "layer" => &explanation.layer,
                    _ => &explanation.refusal.as_ref().unwrap().server,
                };
                assert_eq!(found, tail);
            }
            "disconnect" => self.connection.as_mut().unwrap().0.get_mut().shutdown().await.unwrap(),
            "check" => _ = expect(self.proxy.as_ref().unwrap().check().await, rest),
            "prompted" => {
                let prompted = self.prompt.as_ref().unwrap().prompted.load(Ordering::Relaxed);
                assert_eq!(prompted.to_string(), rest);
            }
            "listed" => {
                let all = Workloads::new(self.environment.clone()).list().await.unwrap();
                let found = all.iter().find(|workload| workload.name == first);
                assert_eq!(found.map_or("missing", |workload| workload.status.as_str()), tail);
            }
            "stop" => {
                match (self.workload.take(), &self.proxy) {
                    (Some(workload), _) => workload.stop(Duration::from_secs(5)).await.unwrap(),
                    (None, proxy) => proxy.as_ref().unwrap().stop().await,
                }
                self.stopped = true;
            }
            "remove" => {
                let workloads = Workloads::new(self.environment.clone());
                _ = expect(workloads.remove(first, Duration::from_secs(5)).await, tail);
            }
            "write" => std::fs::write(first, tail).unwrap(),
            "accept-ignore-files" => {
                let accepted = Workloads::new(self.environment.clone()).accept_ignore_files(Path::new(first));
                let rest = if tail.starts_with("fails ") { tail } else { "" };
                if let Some(changed) = expect(accepted, rest) {
                    let names: Vec<_> =
                        changed.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
                    assert_eq!(names, if tail == "none" { vec![] } else { vec![tail] });
                }
            }
            _ => panic!("unknown verb `{verb}`"),
        }
    }

    fn environment(&self) -> Environment {
        let mut environment = self.environment.clone();
        environment.user_prompt = self.prompt.clone().map(|prompt| prompt as Arc<dyn UserPrompt>);
        environment
    }

    async fn start_workload(&mut self) -> Result<RunningWorkload> {
        let mut builder = WorkloadBuilder::default().environment(self.environment());
        for (name, value) in std::mem::take(&mut self.options) {
            builder = match name.as_str() {
                "in_process_only" => builder.in_process_only(),
                _ => builder.set(&name, &value)?,
            };
        }
        let workload = builder.build()?;
        self.events = Some(workload.events());
        Box::pin(workload.start()).await
    }

    async fn start_recorded(&mut self, name: &str) -> Result<RunningWorkload> {
        let launch = Box::pin(Workloads::new(self.environment()).launch(name)).await?;
        let events = launch.events();
        let running = Box::pin(launch.start()).await?;
        self.events = Some(events);
        Ok(running)
    }

    async fn start_proxy(&mut self) -> Result<RunningProxy> {
        let mut builder = ProxyBuilder::default().environment(self.environment());
        for (name, value) in std::mem::take(&mut self.options) {
            builder = builder.set(&name, &value)?;
        }
        builder.build()?.start().await
    }

    async fn start_and_cancel(&mut self) {
        let mut builder = WorkloadBuilder::default().environment(self.environment());
        for (name, value) in std::mem::take(&mut self.options) {
            builder = builder.set(&name, &value).unwrap();
        }
        let workload = builder.build().unwrap();
        let mut events = workload.events();
        let starting = tokio::spawn(workload.start());
        while !matches!(events.next().await, Some(WorkloadEvent::Starting { .. })) {}
        starting.abort();
        assert!(starting.await.unwrap_err().is_cancelled());
        while events.next().await.is_some() {}
    }

    async fn next_event(&mut self) -> Value {
        serde_json::to_value(self.events.as_mut().unwrap().next().await.unwrap()).unwrap()
    }

    fn phase(&self) -> &'static str {
        match (&self.workload, &self.proxy) {
            (Some(workload), _) => workload.status().phase.as_str(),
            (None, Some(proxy)) => proxy.status().as_str(),
            // The handle ends with the workload.
            (None, None) => {
                if self.stopped {
                    "stopped"
                } else {
                    "failed"
                }
            }
        }
    }

    /// Connects as the caller with this token.
    fn connect(&self, token: Option<&str>) -> Result<Connection> {
        let options = ConnectOptions { bearer_token: token.map(Secret::from), ..ConnectOptions::default() };
        match (&self.workload, &self.proxy) {
            (Some(workload), _) => workload.connect_with(options),
            (None, Some(proxy)) => proxy.connect_with(options),
            (None, None) => Err(stopped("it")),
        }
    }

    async fn initialize(&mut self) -> Value {
        let client = json!({ "name": "case", "version": "1" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        self.request("initialize", params).await
    }

    async fn shake_hands(&mut self) {
        assert!(self.initialize().await["result"]["protocolVersion"].is_string());
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    async fn call(&mut self, tool: &str) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": {} })).await
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = &mut self.connection.as_mut().unwrap().1;
        *id += 1;
        let id = *id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let mut line = String::new();
            self.connection.as_mut().unwrap().0.read_line(&mut line).await.unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    async fn send(&mut self, message: &Value) {
        let connection = self.connection.as_mut().unwrap().0.get_mut();
        connection.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
}
