//! What the tests of a running proxy share: an HTTP client that sends any bytes, MCP on top of it, servers that do as
//! they are told, and the installed programs. Whatever waits here waits for an event, and [`TEST_TIMEOUT`] at most;
//! what no event tells of is polled by [`poll`] alone.

pub mod certificate_authority;
pub mod http;
pub mod mcp;
pub mod otlp_receiver;
pub mod poll;
pub mod registry;
#[cfg(unix)]
pub mod runtimes;
pub mod scripted_server;
pub mod sse;
pub mod terminal;
pub mod testbed;
pub mod tls_terminator;
pub mod upstream;

use std::{future::Future, time::Duration};

/// How long anything may take on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for an event.
///
/// # Panics
/// When it does not come within [`TEST_TIMEOUT`].
pub async fn with_timeout<T>(what: &str, event: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, event).await {
        Ok(value) => value,
        Err(_) => panic!("waited {} s for {what}", TEST_TIMEOUT.as_secs()),
    }
}
