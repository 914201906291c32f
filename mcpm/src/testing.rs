//! Helpers for unit tests.

use std::{fs, future::Future, path::Path, time::Duration};

/// How long anything may take on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for an event, and fails the test when it does not come.
#[track_caller]
pub(crate) fn with_timeout<T>(event: impl Future<Output = T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    async move {
        let waited = tokio::time::timeout(TEST_TIMEOUT, event).await;
        waited.unwrap_or_else(|_| panic!("waited {} s at {caller}", TEST_TIMEOUT.as_secs()))
    }
}

/// Creates a named pipe.
pub(crate) fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().expect("the command");
    assert!(made.success(), "mkfifo {}", path.display());
}

/// Hands on each Rust file at or below a path, without its unit tests.
pub(crate) fn each_source(path: &Path, take: &mut impl FnMut(&Path, &str)) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            each_source(&entry.expect("an entry").path(), take);
        }
    } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") {
        let text = fs::read_to_string(path).expect("a source");
        take(path, text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default());
    }
}
