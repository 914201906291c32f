//! Provides the shared parts of tests with real processes, among others an HTTP client that sends any bytes, MCP
//! clients based on it, servers that a test controls, and the installed programs.
//!
//! Tests wait for events, for [`TEST_TIMEOUT`] at most. Only [`poll`] polls, for states that emit no event.

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

/// Time limit for any operation on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for an event.
///
/// # Panics
/// If it does not happen within [`TEST_TIMEOUT`].
pub async fn with_timeout<T>(what: &str, event: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, event).await {
        Ok(value) => value,
        Err(_) => panic!("waited {} s for {what}", TEST_TIMEOUT.as_secs()),
    }
}
