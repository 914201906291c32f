//! Waits for changes of files. The kernel reports them on Linux, if it can; otherwise the caller checks the files at
//! intervals.

#[cfg(target_os = "linux")]
use std::{io, os::fd::OwnedFd};
use std::{path::Path, time::Duration};

#[cfg(target_os = "linux")]
use rustix::fs::inotify;
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};

/// How often files are checked where the kernel does not report changes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Watches the files in folders, but not those in their subfolders.
#[derive(Debug)]
pub(crate) struct FolderWatch {
    /// `None` if changes are not reported, for example because the user has too many watches.
    #[cfg(target_os = "linux")]
    changes: Option<AsyncFd<OwnedFd>>,
}

#[cfg(target_os = "linux")]
impl FolderWatch {
    /// Watches no folder yet. Must be called within an async runtime.
    pub(crate) fn new() -> Self {
        let changes = open()
            .inspect_err(|error| tracing::debug!(%error, "cannot watch folders, so mcpm polls for changes"));
        Self { changes: changes.ok() }
    }

    /// Watches a folder. A folder that is already watched, or does not exist, is ignored.
    pub(crate) fn add(&mut self, folder: &Path) {
        let changes = inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::MOVED_FROM
            | inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::MOVE_SELF;
        if let Some(watcher) = &self.changes
            && let Err(error) = inotify::add_watch(watcher, folder, changes)
            && error != rustix::io::Errno::NOENT
        {
            tracing::debug!(%error, "cannot watch folders, so mcpm polls for changes");
            self.changes = None;
        }
    }

    /// Waits for a change since the last call, or since the folder was added.
    pub(crate) async fn changed(&self) {
        let Some(changes) = &self.changes else { return tokio::time::sleep(POLL_INTERVAL).await };
        // The events are discarded: the caller finds what has changed by reading the files.
        let (mut events, mut is_changed) = ([0_u8; 4096], false);
        while !is_changed {
            let Ok(mut ready) = changes.readable().await else {
                return tokio::time::sleep(POLL_INTERVAL).await;
            };
            while rustix::io::read(changes.get_ref(), &mut events).is_ok_and(|count| count > 0) {
                is_changed = true;
            }
            ready.clear_ready();
        }
    }
}

#[cfg(target_os = "linux")]
#[expect(
    deprecated,
    reason = "its replacement is unsafe for the sake of types that, unlike this, can swap their fd"
)]
fn open() -> io::Result<AsyncFd<OwnedFd>> {
    let watcher = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    AsyncFd::with_interest(watcher, Interest::READABLE)
}

#[cfg(not(target_os = "linux"))]
impl FolderWatch {
    /// Watches no folder yet.
    pub(crate) fn new() -> Self {
        Self {}
    }

    /// Watches a folder.
    pub(crate) fn add(&mut self, _folder: &Path) {}

    /// Waits until it is time to check the files again.
    pub(crate) async fn changed(&self) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::poll_immediate;

    use super::*;
    use crate::testing::with_timeout;

    #[tokio::test]
    async fn changes_are_reported_once_and_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = FolderWatch::new();
        watch.add(&folder.path().join("missing"));
        watch.add(folder.path());
        watch.add(folder.path());
        assert!(poll_immediate(watch.changed()).await.is_none());
        for content in ["one", "two"] {
            std::fs::write(folder.path().join("file"), content).unwrap();
            with_timeout(watch.changed()).await;
            assert!(poll_immediate(watch.changed()).await.is_none());
        }
        std::fs::remove_file(folder.path().join("file")).unwrap();
        with_timeout(watch.changed()).await;
    }
}
