//! Runs a stdio server that a test controls, by flags, by calls of its tools, and by commands over a connection.
//!
//!     scripted-server [--control ADDRESS] [FLAGS...]
//!
//! The server connects to ADDRESS, where the test listens (`mcpm_tests::harness::scripted_server`). Over this
//! connection it reports each line of its standard input, as `< LINE`, and other events, as `! EVENT`, so tests wait
//! for events instead of sleeping. Messages are read as raw JSON, so the server echoes exactly the text that it
//! received. The test sends these commands over the connection:
//!
//! - `open GATE`: writes the lines that wait for this gate; later lines do not wait for it
//! - `say LINE`: writes the line to standard output
//! - `mark TEXT`: reports `! TEXT` to the test
//! - `exit CODE`: ends the server without output

mod tools;

use std::{
    collections::{HashMap, HashSet},
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};

use serde::Deserialize;
use serde_json::{json, value::RawValue};

/// The parts of a message, as they were written.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

enum Input {
    Line(Vec<u8>),
    Control(String),
    /// Standard input ended.
    End,
}

/// The behavior before and at `initialize`.
#[derive(Default)]
struct Flags {
    /// Responds to `server/discover`, and supports the stateless era as well as the other one.
    modern: bool,
    /// Rejects `initialize`, and names the supported versions.
    modern_only: bool,
    /// Exits if the first message is not `initialize`, as old rmcp servers do.
    exit_before_initialize: bool,
    /// Ignores all messages before `initialize`.
    ignore_before_initialize: bool,
    /// Never responds.
    silent: bool,
    /// Responds to `initialize` once the gate `initialize` is open.
    hold_initialize: bool,
    /// Responds to `tools/list` once the gate `tools` is open.
    hold_tools: bool,
    /// Keeps running when its input ends.
    outlive_input: bool,
}

struct Server {
    flags: Flags,
    control: Option<TcpStream>,
    initialized: bool,
    open: HashSet<String>,
    /// Lines that wait for a gate.
    waiting: Vec<(String, String)>,
    /// The calls that wait for a client's response, by the id of the server's own request.
    pending_calls: HashMap<String, String>,
    /// The id of the open `subscriptions/listen`, as it was written.
    listening: Option<String>,
}

impl Server {
    fn write_line(&self, line: &str) {
        let mut out = io::stdout().lock();
        // A proxy that has exited reads nothing.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    }

    fn result(&self, id: &str, result: &str) {
        self.write_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    fn error(&self, id: &str, code: i64, message: &str) {
        let error = json!({ "code": code, "message": message, "data": { "by": "scripted-server" } });
        self.write_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    fn report(&mut self, event: &[u8]) {
        if let Some(control) = &mut self.control {
            // The test may have ended.
            let _ = control.write_all(event).and_then(|()| control.write_all(b"\n"));
        }
    }

    /// Writes a line once a gate is open.
    fn write_line_after(&mut self, gate: Option<&str>, line: String) {
        match gate.filter(|gate| !self.open.contains(*gate)) {
            Some(gate) => self.waiting.push((gate.to_owned(), line)),
            None => self.write_line(&line),
        }
    }

    fn open(&mut self, gate: &str) {
        self.open.insert(gate.to_owned());
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(waits_for, _)| waits_for == gate);
        self.waiting = waiting;
        let ready: Vec<_> = ready;
        ready.iter().for_each(|(_, line)| self.write_line(line));
    }

    /// Executes a command of the test; `false` ends the process.
    fn run_command(&mut self, order: &str) -> Option<i32> {
        match order.split_once(' ') {
            Some(("open", gate)) => self.open(gate),
            Some(("say", line)) => self.write_line(line),
            Some(("mark", mark)) => self.report(format!("! {mark}").as_bytes()),
            Some(("exit", code)) => return code.parse().ok(),
            _ => self.report(b"! no such order"),
        }
        None
    }

    fn receive(&mut self, line: &[u8]) -> Option<i32> {
        self.report(&[b"< ", line].concat());
        let Ok(line) = std::str::from_utf8(line) else {
            self.report(b"! not UTF-8");
            return Some(9);
        };
        let Ok(message) = serde_json::from_str::<Message<'_>>(line) else {
            self.report(b"! not a message");
            return Some(10);
        };
        let id = message.id.map_or("", |id| id.get());
        let Some(method) = message.method.as_deref() else {
            if let Some(call) = self.pending_calls.remove(id) {
                self.result(&call, &format!(r#"{{"content":[],"answer":{line}}}"#));
            }
            return None;
        };
        if self.flags.silent {
            return None;
        }
        if !self.initialized && method != "initialize" {
            if self.flags.exit_before_initialize {
                return Some(1);
            }
            if self.flags.ignore_before_initialize {
                return None;
            }
        }
        let params = message.params.map_or("{}", |params| params.get());
        if id.is_empty() {
            self.handle_notification(method, params);
            return None;
        }
        self.handle_request(id, method, params)
    }

    fn handle_notification(&mut self, method: &str, params: &str) {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Cancelled<'a> {
            #[serde(borrow)]
            request_id: &'a RawValue,
        }
        if method == "notifications/cancelled"
            && let Ok(cancelled) = serde_json::from_str::<Cancelled<'_>>(params)
            && self.listening.as_deref() == Some(cancelled.request_id.get())
        {
            self.listening = None;
        }
    }

    fn handle_request(&mut self, id: &str, method: &str, params: &str) -> Option<i32> {
        match method {
            "initialize" if self.flags.modern_only => {
                let data = json!({ "supported": ["2026-07-28"] });
                self.write_line(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32022,"message":"unsupported","data":{data}}}}}"#
                ));
            }
            // As published servers do.
            "initialize" if self.initialized => {
                self.write_line(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32600,"message":"duplicate \"initialize\""}}}}"#
                ));
            }
            "initialize" => {
                self.initialized = true;
                let gate = self.flags.hold_initialize.then_some("initialize");
                let line =
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, tools::initialize_result(params));
                self.write_line_after(gate, line);
            }
            "server/discover" if self.flags.modern || self.flags.modern_only => {
                self.result(id, &tools::discover_result().to_string());
            }
            "ping" | "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => {
                self.result(id, "{}");
            }
            "tools/list" => {
                let gate = self.flags.hold_tools.then_some("tools");
                let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, tools::list());
                self.write_line_after(gate, line);
            }
            "subscriptions/listen" => {
                self.listening = Some(id.to_owned());
                let acknowledged = tools::acknowledged(id, params);
                self.write_line(&acknowledged);
            }
            "tools/call" => return tools::call(self, id, params),
            // Other messages are echoed, so that tests see what arrived.
            method if method.starts_with("test/") => self.result(id, &format!(r#"{{"echo":{params}}}"#)),
            _ => self.error(id, -32601, "no such method"),
        }
        None
    }
}

/// Whether standard input is not read any more.
static STDIN_PAUSED: AtomicBool = AtomicBool::new(false);

fn read(input: impl Read + Send + 'static, send: impl Fn(Option<Vec<u8>>) + Send + 'static) {
    thread::spawn(move || {
        let mut input = BufReader::new(input);
        loop {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break send(None),
                Ok(_) => {
                    line.truncate(line.len() - usize::from(line.ends_with(b"\n")));
                    send(Some(line));
                }
            }
        }
    });
}

fn main() -> std::process::ExitCode {
    let mut server = Server {
        flags: Flags::default(),
        control: None,
        initialized: false,
        open: HashSet::new(),
        waiting: Vec::new(),
        pending_calls: HashMap::new(),
        listening: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--control" => server.control = args.next().and_then(|at| TcpStream::connect(at).ok()),
            "--modern" => server.flags.modern = true,
            "--modern-only" => server.flags.modern_only = true,
            "--exit-before-initialize" => server.flags.exit_before_initialize = true,
            "--ignore-before-initialize" => server.flags.ignore_before_initialize = true,
            "--silent" => server.flags.silent = true,
            "--hold-initialize" => server.flags.hold_initialize = true,
            "--hold-tools" => server.flags.hold_tools = true,
            "--outlive-input" => server.flags.outlive_input = true,
            "exit" => return args.next().and_then(|code| code.parse::<u8>().ok()).unwrap_or(0).into(),
            _ => return 2.into(),
        }
    }
    let (inputs, inbox) = mpsc::channel();
    if let Some(control) = server.control.as_ref().and_then(|control| control.try_clone().ok()) {
        let inputs = inputs.clone();
        read(control, move |line| {
            // The end of the control connection has no meaning: the test may not need it any more.
            if let Some(line) = line {
                let _ = inputs.send(Input::Control(String::from_utf8_lossy(&line).into_owned()));
            }
        });
    }
    read(io::stdin(), move |line| {
        while STDIN_PAUSED.load(Ordering::Relaxed) {
            thread::park();
        }
        let _ = inputs.send(line.map_or(Input::End, Input::Line));
    });
    for input in inbox {
        let exit = match input {
            Input::Line(line) => server.receive(&line),
            Input::Control(order) => server.run_command(&order),
            Input::End => {
                server.report(b"! end of input");
                (!server.flags.outlive_input).then_some(0)
            }
        };
        if let Some(code) = exit {
            return u8::try_from(code).unwrap_or(u8::MAX).into();
        }
    }
    // Only if a test keeps the server running without input.
    loop {
        thread::park();
    }
}
