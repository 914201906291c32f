//! What unit tests share.

use std::{future::Future, time::Duration};

/// How long anything may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Waits for an event, and fails the test when it does not come.
#[track_caller]
pub(crate) fn within<T>(event: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let waited = tokio::time::timeout(LIMIT, event).await;
        waited.unwrap_or_else(|_| panic!("waited {} s at {caller}", LIMIT.as_secs()))
    }
}
