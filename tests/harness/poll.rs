//! Polling, for a state of another process or of the engine that no event tells of.

use std::{
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use super::{LIMIT, within};

/// The pause between two looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// Looks until something is there.
///
/// # Panics
/// When it is not there within [`LIMIT`].
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "waited {} s for {what}", LIMIT.as_secs());
        thread::sleep(INTERVAL);
    }
}

/// Does the same in a task.
///
/// # Panics
/// When it is not there within [`LIMIT`].
pub async fn until_async<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    within(what, found).await
}

/// Waits until a server on this machine accepts connections.
///
/// # Panics
/// When it does not within [`LIMIT`].
#[track_caller]
pub fn until_it_listens(what: &str, address: SocketAddr) {
    until(&format!("{what} to listen"), || TcpStream::connect(address).ok());
}
