//! Implements an MCP client that lists the tools, prompts and resources of a server, and calls its tools.
//!
//! The client works over a byte stream. Over a [`Connection`](crate::stdio_bridge::Connection), its requests pass
//! through the proxy like those of any other client. The crate `rmcp` implements the protocol, in both eras.
//! [`arguments`] converts arguments that a user types, and [`handler`] responds to requests of the server.

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

/// Maximum number of items of a list.
const MAX_ITEMS: usize = 10_000;
/// Maximum length of a server's message in an error, in characters.
const MAX_MESSAGE_CHARS: usize = 2000;
/// Maximum length of the id of a denial in bytes.
const MAX_ID_BYTES: usize = 64;

/// A client of one server. Dropping it closes its session.
#[derive(Debug)]
pub struct McpClient {
    service: RunningService<rmcp::RoleClient, Handler>,
    handshake: Duration,
}

/// The information that a server sends about itself.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerSummary {
    /// The name of the server program, if the server sends one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version of the server program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version of the protocol that client and server agreed on.
    pub protocol_version: String,
    /// Whether requests need no session, which is the case since protocol version 2026-07-28.
    pub is_stateless: bool,
    /// The capabilities of the server, as it sends them.
    pub capabilities: JsonObject,
    /// The server's instructions for its use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// How long the handshake took, in milliseconds.
    pub handshake_ms: u64,
}

impl McpClient {
    /// Connects to a server and performs the handshake, in the newest protocol version that both sides support.
    /// `connect` opens a stream with one JSON-RPC message per line. It is called again if the server supports only
    /// versions with a session.
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
    /// The errors of `connect`; `Upstream` if the server rejects the handshake, or the stream ends before the handshake
    /// is complete.
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

    /// Returns the information that the server sent about itself in the handshake.
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

    /// Returns the tools that the caller may see, as the server describes them (MCP 2025-11-25, `Tool`). A server
    /// without tools has none.
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
    /// As for [`tools`](Self::tools).
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
    /// As for [`tools`](Self::tools).
    pub async fn resources(&self) -> Result<Vec<JsonObject>> {
        let peer = self.service.peer();
        self.list("resources", async |cursor| {
            peer.list_resources(cursor).await.map(|page| (objects(page.resources), page.next_cursor))
        })
        .await
    }

    /// Reads all pages of a list. The list is empty if the server's capabilities do not include it.
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
        let message = format!("the server's list of {capability} is too long, or its pages repeat");
        Err(Error::new(ErrorKind::Upstream, message))
    }

    /// Calls a tool, and returns the result as the server sends it (MCP 2025-11-25, `CallToolResult`). A result whose
    /// `isError` is true is returned as a result, and not as an error.
    ///
    /// # Errors
    /// `Upstream` if the server or the proxy rejects the call; the hint of a denial contains the command that explains
    /// it.
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

/// Converts a JSON-RPC error of the server or the proxy, with its message.
fn rejection_error(rejection: &ErrorData) -> Error {
    let message: String = rejection.message.chars().take(MAX_MESSAGE_CHARS).collect();
    let error = Error::new(ErrorKind::Upstream, message);
    // The user may paste the hint into a shell, and a server could send a text that is dangerous there.
    let is_id = |id: &&str| id.len() <= MAX_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match rejection.data.as_ref().and_then(|data| data["refusal"].as_str()).filter(is_id) {
        Some(id) => error.hint(format!("`mcpm explain {id}` shows why")),
        None => error,
    }
}
