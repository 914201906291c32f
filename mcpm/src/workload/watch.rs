//! Watches the status of all workloads.

use std::time::Duration;

use futures_util::stream::{self, BoxStream};

use super::{WorkloadInfo, Workloads};
use crate::{
    Result,
    state::{file::create_folders, folder_watch::FolderWatch},
};

/// Shortest time between two checks, since the files of a workload change with each line that its server writes.
const MIN_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time between two checks. Engines are queried at this interval, since no file shows that a container has
/// exited.
const MAX_INTERVAL: Duration = Duration::from_secs(2);

impl Workloads {
    /// Returns a stream of the status of all workloads, now and after each change, which does not end.
    ///
    /// # Errors
    /// The errors of [`list`](Self::list); the stream ends after an error.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn watch(&self) -> BoxStream<'static, Result<Vec<WorkloadInfo>>> {
        let mut changes = FolderWatch::new();
        // A folder that does not exist cannot be watched.
        let _ = create_folders(self.store.root());
        changes.add(self.store.root());
        let seen = (self.clone(), changes, None);
        Box::pin(stream::try_unfold(seen, |(workloads, mut changes, mut last)| async move {
            loop {
                if last.is_some() {
                    tokio::time::sleep(MIN_INTERVAL).await;
                    let _ = tokio::time::timeout(MAX_INTERVAL - MIN_INTERVAL, changes.changed()).await;
                }
                for name in workloads.names()? {
                    changes.add(&workloads.store.folder(&name));
                }
                let now = workloads.list().await?;
                if last.as_ref() != Some(&now) {
                    last = Some(now.clone());
                    return Ok(Some((now, (workloads, changes, last))));
                }
            }
        }))
    }
}
