//! A client of an MCP server, to look at what a server offers and to call its tools.
//!
//! It speaks over a [`Connection`](crate::stdio_bridge::Connection), so its requests pass the proxy like those of any other client. rmcp implements the
//! protocol, in both eras. [`arguments`] reads arguments that a user types, and [`handler`] answers the server's questions.

pub mod arguments;
mod handler;
mod options;

use std::time::{Duration, Instant};

use rmcp::{
    model::{CallToolRequestParams, ErrorData, PaginatedRequestParams, ProtocolVersion},
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RunningService, ServiceError,
    },
};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    Error, ErrorKind, Result,
    mcp::{era::FIRST_MODERN_VERSION, param_headers::MAX_LIST_PAGES},
};

pub use options::{ClientOptions, JsonObject, OnProgress, Progress};

use handler::Handler;
use options::object;

/// Most items of a list.
const MAX_ITEMS: usize = 10_000;
/// Most characters of a server's message in an error.
const MAX_MESSAGE_CHARS: usize = 2000;
/// Longest id of a denial in bytes.
const MAX_ID_BYTES: usize = 64;

/// A client of one server. Dropping it closes its session.
#[derive(Debug)]
pub struct McpClient {
    service: RunningService<rmcp::RoleClient, Handler>,
    handshake: Duration,
}

/// What a server says of itself.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerSummary {
    /// The name of the program, if it says one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version of the protocol that client and server agreed on.
    pub protocol_version: String,
    /// Whether requests need no session, as since version 2026-07-28 of the protocol.
    pub is_stateless: bool,
    /// The capabilities of the server, as it sends them.
    pub capabilities: JsonObject,
    /// How the server wants to be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// How long the handshake took, in milliseconds.
    pub handshake_ms: u64,
}

impl McpClient {
    /// Connects and makes the handshake, in the newest version of the protocol that both sides know. `connect` opens a stream
    /// with one JSON-RPC message a line; it is called again if the server only knows versions with a session.
    ///
    /// ```no_run
    /// # async fn run(workload: &mcpm::RunningWorkload) -> mcpm::Result<()> {
    /// use mcpm::mcp_client::{ClientOptions, McpClient};
    ///
    /// let client = McpClient::connect(async || workload.connect(), ClientOptions::default()).await?;
    /// for tool in client.tools().await? {
    ///     println!("{}", tool["name"]);
    /// }
    /// client.close().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `connect`; `Upstream` if the server rejects the handshake, or the stream ends before.
    pub async fn connect<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        connect: impl AsyncFn() -> Result<S>,
        options: ClientOptions,
    ) -> Result<Self> {
        let begin = Instant::now();
        let either = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let handler = || Handler::new(options.clone());
        let made = match Box::pin(handler().serve_with_lifecycle(connect().await?, either)).await {
            Err(ClientInitializeError::NoCompatibleProtocolVersion { .. }) => {
                let with_session = ClientLifecycleMode::Initialize;
                Box::pin(handler().serve_with_lifecycle(connect().await?, with_session)).await
            }
            made => made,
        };
        Ok(Self { service: made.map_err(handshake_error)?, handshake: begin.elapsed() })
    }

    /// Returns what the server said of itself in the handshake.
    pub fn server(&self) -> ServerSummary {
        let info = self.service.peer().peer_info();
        let program = info.as_ref().and_then(|info| info.server_info.clone());
        let version = info.as_ref().map(|info| info.protocol_version.to_string()).unwrap_or_default();
        let capabilities = info.as_ref().and_then(|info| object(&info.capabilities).ok());
        ServerSummary {
            name: program.as_ref().map(|program| program.name.clone()),
            version: program.map(|program| program.version),
            is_stateless: version.as_str() >= FIRST_MODERN_VERSION,
            protocol_version: version,
            capabilities: capabilities.unwrap_or_default(),
            instructions: info.and_then(|info| info.instructions.clone()),
            handshake_ms: u64::try_from(self.handshake.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Returns the tools that the caller may see, as the server describes them (MCP 2025-11-25, `Tool`). A server without
    /// tools has none.
    ///
    /// # Errors
    /// `Upstream` if the server rejects the request, or lists more than 100 pages or 10 000 items.
    pub async fn tools(&self) -> Result<Vec<JsonObject>> {
        let peer = self.service.peer();
        self.list("tools", async |cursor| {
            peer.list_tools(cursor).await.map(|page| (objects(page.tools), page.next_cursor))
        })
        .await
    }

    /// Returns the prompts, as the server describes them (MCP 2025-11-25, `Prompt`).
    ///
    /// # Errors
    /// As [`tools`](Self::tools).
    pub async fn prompts(&self) -> Result<Vec<JsonObject>> {
        let peer = self.service.peer();
        self.list("prompts", async |cursor| {
            peer.list_prompts(cursor).await.map(|page| (objects(page.prompts), page.next_cursor))
        })
        .await
    }

    /// Returns the resources, as the server describes them (MCP 2025-11-25, `Resource`).
    ///
    /// # Errors
    /// As [`tools`](Self::tools).
    pub async fn resources(&self) -> Result<Vec<JsonObject>> {
        let peer = self.service.peer();
        self.list("resources", async |cursor| {
            peer.list_resources(cursor).await.map(|page| (objects(page.resources), page.next_cursor))
        })
        .await
    }

    /// Reads all pages of a list. A server whose capabilities lack it has an empty one.
    async fn list(
        &self,
        capability: &str,
        read: impl AsyncFn(
            Option<PaginatedRequestParams>,
        )
            -> std::result::Result<(Result<Vec<JsonObject>>, Option<String>), ServiceError>,
    ) -> Result<Vec<JsonObject>> {
        if !self.server().capabilities.contains_key(capability) {
            return Ok(Vec::new());
        }
        let (mut all, mut cursor, mut seen) = (Vec::new(), None, Vec::new());
        for _ in 0..MAX_LIST_PAGES {
            let request = cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            let (page, next) = read(request).await.map_err(request_error)?;
            all.extend(page?);
            let Some(next) = next else { return Ok(all) };
            if all.len() > MAX_ITEMS || seen.contains(&next) {
                break;
            }
            seen.push(next.clone());
            cursor = Some(next);
        }
        let message = format!("the server's list of {capability} does not end, or is too long");
        Err(Error::new(ErrorKind::Upstream, message))
    }

    /// Calls a tool, and returns the result as the server sends it (MCP 2025-11-25, `CallToolResult`). A result whose
    /// `isError` is true is no error of the call.
    ///
    /// # Errors
    /// `Upstream` if the server or the proxy rejects the call; the hint says how a denial is explained.
    pub async fn call(&self, tool: &str, arguments: JsonObject) -> Result<JsonObject> {
        let mut request = CallToolRequestParams::new(tool.to_owned());
        request.arguments = Some(arguments);
        object(&self.service.call_tool(request).await.map_err(request_error)?)
    }

    /// Closes the connection, which ends the session.
    pub async fn close(self) {
        // A task that panicked has ended, too.
        let _ = self.service.cancel().await;
    }
}

fn objects(values: Vec<impl Serialize>) -> Result<Vec<JsonObject>> {
    values.iter().map(object).collect()
}

fn handshake_error(error: ClientInitializeError) -> Error {
    match error {
        ClientInitializeError::JsonRpcError(rejection) => rejection_error(&rejection),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => handshake_error(*fallback),
        other => Error::new(ErrorKind::Upstream, "the handshake with the server failed").source(other),
    }
}

fn request_error(error: ServiceError) -> Error {
    match error {
        ServiceError::McpError(rejection) => rejection_error(&rejection),
        ServiceError::InputRequiredRoundsExceeded { max_rounds } => {
            let message = format!("the server still asked for input after {max_rounds} rounds");
            Error::new(ErrorKind::Upstream, message)
        }
        other => Error::new(ErrorKind::Upstream, "the request failed").source(other),
    }
}

/// The error for a JSON-RPC error; its message is the server's or the proxy's.
fn rejection_error(rejection: &ErrorData) -> Error {
    let message: String = rejection.message.chars().take(MAX_MESSAGE_CHARS).collect();
    let error = Error::new(ErrorKind::Upstream, message);
    // A server could give a text for the shell.
    let is_id = |id: &&str| id.len() <= MAX_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match rejection.data.as_ref().and_then(|data| data["refusal"].as_str()).filter(is_id) {
        Some(id) => error.hint(format!("`mcpm explain {id}` shows why")),
        None => error,
    }
}
