//! What the tests of a running proxy share: an HTTP client that sends any bytes, MCP on top of it, servers that
//! do as they are told, and the installed programs. Whatever waits here waits for an event, and [`LIMIT`] at most; what no event tells
//! of is polled by [`poll`] alone.

pub mod authority;
pub mod http;
pub mod mcp;
pub mod poll;
pub mod receiver;
pub mod registry;
pub mod script;
pub mod sse;
pub mod testbed;
pub mod tls_front;
pub mod upstream;

use std::{future::Future, time::Duration};

/// How long anything may take on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Waits for an event.
///
/// # Panics
/// When it does not come within [`LIMIT`].
pub async fn within<T>(what: &str, event: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, event).await {
        Ok(value) => value,
        Err(_) => panic!("waited {} s for {what}", LIMIT.as_secs()),
    }
}
