//! Provides MCP clients of both eras.

use serde_json::{Value, json};

use super::http::{Http, Request, Response};

/// The newest version with a handshake.
pub const LEGACY: &str = "2025-11-25";
/// The first version without a handshake.
pub const MODERN: &str = "2026-07-28";

/// A request message.
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params })
}

/// A notification.
pub fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// The params of a tool call.
pub fn tool(name: &str, arguments: Value) -> Value {
    json!({ "name": name, "arguments": arguments })
}

/// An `initialize` request.
pub fn initialize(version: &str, capabilities: Value) -> Value {
    let info = json!({ "name": "test", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": info });
    request(0, "initialize", params)
}

/// A client with a session, as before 2026-07-28.
#[derive(Debug, Clone)]
pub struct Session {
    /// The address of the server.
    pub http: Http,
    /// The session's id.
    pub id: String,
    /// The negotiated version.
    pub version: String,
}

impl Session {
    /// Opens a session of the newest version, without client capabilities.
    pub async fn open(http: Http) -> Self {
        Self::with(http, LEGACY, json!({})).await
    }

    /// Opens a session with a version and capabilities.
    pub async fn with(http: Http, version: &str, capabilities: Value) -> Self {
        let response = http.post("/mcp", initialize(version, capabilities).to_string()).send().await;
        let id = response.headers.get("mcp-session-id").unwrap_or_default().to_owned();
        let status = response.status;
        let answer = response.answer().await;
        assert_eq!(status, 200, "{answer}");
        let version = answer["result"]["protocolVersion"].as_str().unwrap_or_default().to_owned();
        let session = Self { http, id, version };
        assert_eq!(session.notify("notifications/initialized", json!({})).await, 202);
        session
    }

    /// Returns a request of the session, which can be changed before it is sent.
    pub fn with_session_headers(&self, request: Request) -> Request {
        request.header("Mcp-Session-Id", &self.id).header("MCP-Protocol-Version", &self.version)
    }

    /// Posts a body.
    pub async fn post(&self, body: impl Into<Vec<u8>>) -> Response {
        self.with_session_headers(self.http.post("/mcp", body)).send().await
    }

    /// Sends a request and waits for the head of the response.
    pub async fn request(&self, id: impl Into<Value>, method: &str, params: Value) -> Response {
        self.post(request(id, method, params).to_string()).await
    }

    /// Sends a request and waits for the response.
    pub async fn ask(&self, id: impl Into<Value>, method: &str, params: Value) -> Value {
        self.request(id, method, params).await.answer().await
    }

    /// Calls a tool and waits for the response.
    pub async fn call(&self, id: impl Into<Value>, name: &str, arguments: Value) -> Value {
        self.ask(id, "tools/call", tool(name, arguments)).await
    }

    /// Sends a notification and returns the status.
    pub async fn notify(&self, method: &str, params: Value) -> u16 {
        self.post(notification(method, params).to_string()).await.status
    }

    /// Sends a response to a request of the server, and returns the status.
    pub async fn respond(&self, id: &Value, result: Value) -> u16 {
        self.post(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await.status
    }

    /// Opens the stream for messages that belong to no call.
    pub async fn listen(&self) -> Response {
        self.with_session_headers(self.http.get("/mcp")).send().await
    }

    /// Resumes a stream after an event.
    pub async fn resume(&self, event: &str) -> Response {
        self.with_session_headers(self.http.get("/mcp")).header("Last-Event-ID", event).send().await
    }

    /// Ends the session and returns the status.
    pub async fn close(&self) -> u16 {
        self.with_session_headers(self.http.request("DELETE", "/mcp")).send().await.status
    }
}

/// A client of 2026-07-28.
#[derive(Debug, Clone, Copy)]
pub struct Modern(pub Http);

impl Modern {
    /// The params, with the metadata that every stateless request has.
    pub fn params(mut params: Value) -> Value {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        params
    }

    /// Returns a request with all its headers, which can be changed before it is sent.
    pub fn prepare(&self, id: impl Into<Value>, method: &str, params: Value) -> Request {
        let params = Self::params(params);
        let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
        let request = self
            .0
            .post("/mcp", request(id, method, params).to_string())
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", method);
        match name {
            Some(name) => request.header("Mcp-Name", &name),
            None => request,
        }
    }

    /// Sends a request and waits for the head of the response.
    pub async fn request(&self, id: impl Into<Value>, method: &str, params: Value) -> Response {
        self.prepare(id, method, params).send().await
    }

    /// Calls a tool and waits for the response.
    pub async fn call(&self, id: impl Into<Value>, name: &str, arguments: Value) -> Value {
        self.request(id, "tools/call", tool(name, arguments)).await.answer().await
    }
}
