//! Implements the tools of the scripted server, and defines its constant responses.

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::Server;

#[derive(Deserialize)]
struct Call<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

/// The arguments of the tools; each tool uses some of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments<'a> {
    /// The response waits until this gate is open.
    gate: Option<String>,
    count: usize,
    /// Lines to write before the response.
    #[serde(borrow)]
    lines: Vec<&'a RawValue>,
    /// A request of the server's own.
    id: Option<&'a RawValue>,
    method: String,
    params: Option<&'a RawValue>,
    code: i32,
}

/// Runs a tool; a returned number ends the process with that code.
pub(crate) fn call(server: &mut Server, id: &str, params: &str) -> Option<i32> {
    let Ok(call) = serde_json::from_str::<Call<'_>>(params) else {
        server.error(id, -32602, "no such call");
        return None;
    };
    let raw = call.arguments.map_or("{}", |arguments| arguments.get());
    let arguments: Arguments<'_> = serde_json::from_str(raw).unwrap_or_default();
    let gate = arguments.gate.as_deref();
    let done = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"echo":{raw}}}}}"#);
    match call.name.as_str() {
        // Return their arguments.
        "echo" | "regional" => server.write_line_after(gate, done),
        // Opens a gate for waiting calls.
        "open" => {
            server.open(gate.unwrap_or_default());
            server.write_line(&done);
        }
        // Writes messages unchanged, and then the response.
        "say" => {
            arguments.lines.iter().for_each(|line| server.write_line(line.get()));
            server.write_line_after(gate, done);
        }
        "notify" => {
            for data in 0..arguments.count {
                let params = json!({ "level": "info", "data": data });
                server.write_line(&notification("notifications/message", &params));
            }
            server.write_line(&done);
        }
        "progress" => {
            if let Some(token) = call.meta.and_then(|meta| meta.progress_token) {
                for step in 1..=arguments.count {
                    server.write_line(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{step}}}}}"#
                    ));
                }
            }
            server.write_line_after(gate, done);
        }
        // Sends a request to the client; the result of the call contains the client's response unchanged.
        "ask" => {
            let own = arguments.id.map_or(r#""own""#, |id| id.get());
            let params = arguments.params.map_or("{}", |params| params.get());
            server.pending_calls.insert(own.to_owned(), id.to_owned());
            server.write_line(&format!(
                r#"{{"jsonrpc":"2.0","id":{own},"method":"{}","params":{params}}}"#,
                arguments.method
            ));
        }
        // Notifies listeners of the stateless era.
        "changed" => {
            if let Some(listening) = &server.listening {
                let mut params: Value = arguments
                    .params
                    .and_then(|params| serde_json::from_str(params.get()).ok())
                    .unwrap_or(json!({}));
                let subscription: Value = serde_json::from_str(listening).unwrap_or_default();
                params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": subscription });
                server.write_line(&notification(&arguments.method, &params));
            }
            server.write_line(&done);
        }
        // Ends all subscriptions.
        "unlisten" => {
            if let Some(listening) = server.listening.take() {
                let subscription: Value = serde_json::from_str(&listening).unwrap_or_default();
                let meta = json!({ "io.modelcontextprotocol/subscriptionId": subscription });
                server.result(&listening, &json!({ "resultType": "complete", "_meta": meta }).to_string());
            }
            server.write_line(&done);
        }
        "garbage" => {
            server.write_line("listening on port 8000");
            server.write_line("{\"jsonrpc\":\"2.0\"");
            server.write_line("");
            server.write_line(&done);
        }
        "big" => {
            let text = "x".repeat(arguments.count);
            server.result(id, &json!({ "content": [{ "type": "text", "text": text }] }).to_string());
        }
        "error" => server.error(id, arguments.code.into(), "as asked"),
        "silent" => {}
        "crash" => return Some(arguments.code),
        // Does nothing any more, and stops reading after the current line.
        "hang" => {
            super::STDIN_PAUSED.store(true, std::sync::atomic::Ordering::Relaxed);
            loop {
                std::thread::park();
            }
        }
        _ => server.error(id, -32602, "no such tool"),
    }
    None
}

pub(crate) fn notification(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()
}

/// The client's version if it is supported, otherwise the newest version with a handshake.
pub(crate) fn initialize_result(params: &str) -> Value {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let known = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    let version = known.into_iter().find(|known| *known == asked).unwrap_or("2025-11-25");
    json!({
        "protocolVersion": version,
        "capabilities": capabilities(),
        "serverInfo": { "name": "scripted-server", "version": "1" },
    })
}

pub(crate) fn discover_result() -> Value {
    json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities(),
        "serverInfo": { "name": "scripted-server", "version": "1" },
        "ttlMs": 0,
        "cacheScope": "public",
    })
}

fn capabilities() -> Value {
    json!({ "tools": { "listChanged": true }, "resources": { "subscribe": true }, "logging": {} })
}

/// The first message to a listener: the granted subscriptions, which are those that it requested.
pub(crate) fn acknowledged(id: &str, params: &str) -> String {
    let params: Value = serde_json::from_str(params).unwrap_or_default();
    let subscription: Value = serde_json::from_str(id).unwrap_or_default();
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": subscription });
    let told = json!({ "_meta": meta, "notifications": params["notifications"] });
    notification("notifications/subscriptions/acknowledged", &told)
}

/// The tools that tests expect in the list; `regional` mirrors an argument in a header.
pub(crate) fn list() -> Value {
    let region = json!({ "type": "string", "x-mcp-header": "Region" });
    json!({
        "resultType": "complete",
        "tools": [
            { "name": "echo", "inputSchema": { "type": "object" } },
            { "name": "regional", "inputSchema": { "type": "object", "properties": { "region": region } } },
        ],
    })
}
