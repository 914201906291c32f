//! Reads the log of a workload's supervisor from any process.

use futures_util::stream::{self, BoxStream};

use super::{Workloads, stop_request::supervisor};
use crate::{
    Result,
    state::{
        folder_watch::FolderWatch,
        rotated_file::{AddedData, RotatedFile},
    },
};

impl Workloads {
    /// Returns the log of a workload's supervisor. With `follow`, the stream continues until the workload has ended; a
    /// restart does not end it.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn proxy_log(&self, name: &str, follow: bool) -> Result<BoxStream<'static, Result<Vec<u8>>>> {
        let (name, store) = (self.find(name)?, self.store.clone());
        let mut log = RotatedFile::new(store.log_path(&name));
        let changes = follow.then(|| {
            let mut changes = FolderWatch::new();
            changes.add(&store.folder(&name));
            changes
        });
        if changes.is_none() {
            let text = log.read().map(AddedData::into_bytes);
            return Ok(Box::pin(stream::once(std::future::ready(text))));
        }
        Ok(Box::pin(stream::try_unfold((log, changes), move |(mut log, changes)| {
            let (store, name) = (store.clone(), name.clone());
            async move {
                let Some(watch) = changes else { return Ok(None) };
                loop {
                    // The supervisor is determined before the log is read, so that its last lines are not missed.
                    let supervisor = supervisor(&store, &name);
                    let added = log.read()?.into_bytes();
                    let Some(process) = supervisor else { return Ok(Some((added, (log, None)))) };
                    if !added.is_empty() {
                        return Ok(Some((added, (log, Some(watch)))));
                    }
                    tokio::select! {
                        () = watch.changed() => {}
                        () = process.exited() => {}
                    }
                }
            }
        })))
    }
}
