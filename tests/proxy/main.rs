//! Tests the proxy through its public API, with real sockets and real processes; one file per subject.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails its test")]

mod audit;
mod cancel;
mod content;
mod crash;
mod forward;
mod header_check;
mod ids;
mod in_process;
mod limits;
mod listen;
mod listener;
mod logs;
mod messages;
mod origin;
mod policy;
mod progress;
mod resume;
mod server_check;
mod server_requests;
mod sessions;
mod sse_mode;
mod start;
mod stdio_bridge;
mod stop;
mod subscriptions;
mod tool_visibility;

use mcpm_tests::harness::scripted_server::{ScriptedProxy, ScriptedServer};

/// A scripted server that is not started.
async fn script() -> ScriptedServer {
    ScriptedServer::new(env!("CARGO_BIN_EXE_scripted-server")).await
}

/// A scripted server of the era with sessions behind a proxy.
async fn legacy() -> ScriptedProxy {
    script().await.start(&[]).await
}

/// A scripted server that serves both eras behind a proxy.
async fn modern() -> ScriptedProxy {
    script().await.start(&["--modern"]).await
}
