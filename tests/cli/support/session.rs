//! Sends exactly the messages of a test to a server, with `curl`.

use std::process::Command;

use serde_json::{Value, json};

/// A session of the legacy era.
pub(crate) struct Session {
    url: String,
    id: Option<String>,
    token: Option<String>,
}

impl Session {
    /// Creates a client without a session.
    pub(crate) fn without_session(url: &str) -> Self {
        Self { url: url.to_owned(), id: None, token: None }
    }

    /// Adds a token.
    pub(crate) fn with_token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// Uses the session of another client, with this client's token.
    pub(crate) fn in_session_of(self, other: &Self) -> Self {
        Self { id: other.id.clone(), ..self }
    }

    /// Opens a session.
    #[track_caller]
    pub(crate) fn open(url: &str) -> Self {
        Self::without_session(url).initialize()
    }

    /// Opens a session with a token.
    #[track_caller]
    pub(crate) fn open_as(url: &str, token: &str) -> Self {
        Self::without_session(url).with_token(token).initialize()
    }

    #[track_caller]
    fn initialize(self) -> Self {
        let mut session = self;
        let (id, answer) = session.post(&json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        }));
        assert!(answer["result"]["serverInfo"].is_object(), "{answer}");
        session.id = id;
        session.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    /// Returns whether the server sent a session id.
    pub(crate) fn has_id(&self) -> bool {
        self.id.is_some()
    }

    /// Returns the names of the server's tools.
    #[track_caller]
    pub(crate) fn tools(&self) -> Vec<String> {
        let answer = self.list_tools();
        let tools = answer["result"]["tools"].as_array();
        let tools = tools.unwrap_or_else(|| panic!("no tools: {answer}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns whether the server responds to a handshake now.
    pub(crate) fn is_answered(&self) -> bool {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
        }});
        self.post(&ping).1["result"]["serverInfo"].is_object()
    }

    /// Returns the response to `tools/list`.
    pub(crate) fn list_tools(&self) -> Value {
        self.post(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).1
    }

    /// Returns the text of a tool's result.
    #[track_caller]
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> String {
        let answer = self.call_raw(tool, arguments);
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("no text: {answer}")).to_owned()
    }

    /// Returns the response to a call of a tool.
    pub(crate) fn call_raw(&self, tool: &str, arguments: &Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        self.post(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params})).1
    }

    /// Sends a message, and returns the session of the response, and the response, or null.
    fn post(&self, message: &Value) -> (Option<String>, Value) {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--noproxy",
            "*",
            "--globoff",
            "--include",
            "--max-time",
            "30",
        ])
        .args(["--header", "Content-Type: application/json", "--data", &message.to_string()])
        .args(["--header", "Accept: application/json, text/event-stream"])
        .args(["--header", "MCP-Protocol-Version: 2025-11-25"]);
        if let Some(id) = &self.id {
            curl.args(["--header", &format!("Mcp-Session-Id: {id}")]);
        }
        if let Some(token) = &self.token {
            curl.args(["--header", &format!("Authorization: Bearer {token}")]);
        }
        let output = curl.arg(&self.url).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        let id = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("mcp-session-id:").map(|_| line[15..].trim().to_owned())
        });
        let line = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let answer = line
            .filter_map(|line| serde_json::from_str(line).ok())
            // A request that is denied before it is parsed has no id.
            .find(|value: &Value| {
                value["id"] == message["id"] || (value["id"].is_null() && value["error"].is_object())
            });
        (id, answer.unwrap_or(Value::Null))
    }
}
