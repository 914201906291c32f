//! Polls for a state of another process, or of the engine, that emits no event.

use std::{
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::{TEST_TIMEOUT, with_timeout};

/// The interval between two checks.
const INTERVAL: Duration = Duration::from_millis(20);

/// Polls until a value exists.
///
/// # Panics
/// If it does not exist within 60 seconds.
#[track_caller]
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < TEST_TIMEOUT, "waited {} s for {what}", TEST_TIMEOUT.as_secs());
        thread::sleep(INTERVAL);
    }
}

/// Polls in an asynchronous task.
///
/// # Panics
/// If it does not exist within 60 seconds.
pub async fn wait_for_async<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    with_timeout(what, found).await
}

/// Waits until a server on this machine accepts connections.
///
/// # Panics
/// If it does not within 60 seconds.
#[track_caller]
pub fn wait_until_listening(what: &str, address: SocketAddr) {
    wait_for(&format!("{what} to listen"), || TcpStream::connect(address).ok());
}
