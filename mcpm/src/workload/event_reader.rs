//! Reads the recorded events of workloads: from the log of each supervisor, and from the records of denials.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
};

use futures_util::stream::{self, BoxStream};

use super::{RecordedEvent, WorkloadName, Workloads};
use crate::{
    Result, explain,
    state::{Store, file::create_folders, folder_watch::FolderWatch, rotated_file::RotatedFile},
};

/// Longest line that is read; supervisors do not write longer lines.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Reads the lines of a log.
#[derive(Debug)]
struct LineReader {
    file: RotatedFile,
    /// The beginning of a line that is not complete.
    rest: Vec<u8>,
    parse: fn(&str, &str) -> Option<RecordedEvent>,
}

impl LineReader {
    fn new(path: PathBuf, parse: fn(&str, &str) -> Option<RecordedEvent>) -> Self {
        Self { file: RotatedFile::new(path), rest: Vec::new(), parse }
    }

    fn read(&mut self, workload: &str, events: &mut Vec<RecordedEvent>) -> Result<()> {
        self.rest.extend(self.file.read()?.into_bytes());
        let complete = memchr::memrchr(b'\n', &self.rest).map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..complete).collect();
        let lines = lines.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        events.extend(lines.filter_map(|line| (self.parse)(line, workload)));
        if self.rest.len() > MAX_LINE_BYTES {
            self.rest.clear();
        }
        Ok(())
    }
}

/// The events of one workload.
#[derive(Debug)]
struct EventReader {
    workload: String,
    files: Vec<LineReader>,
}

impl EventReader {
    fn new(store: &Store, name: &WorkloadName) -> Self {
        let denials = explain::workload_log_files(&store.folder(name));
        let denials = denials.map(|path| LineReader::new(path, RecordedEvent::parse_denial));
        let log = LineReader::new(store.log_path(name), RecordedEvent::parse);
        Self { workload: name.to_string(), files: denials.into_iter().chain([log]).collect() }
    }

    fn read(&mut self, events: &mut Vec<RecordedEvent>) -> Result<()> {
        self.files.iter_mut().try_for_each(|file| file.read(&self.workload, events))
    }
}

/// The events of several workloads.
#[derive(Debug)]
struct EventsReader {
    store: Store,
    /// `None` for all workloads.
    selected: Option<Vec<WorkloadName>>,
    readers: BTreeMap<WorkloadName, EventReader>,
    /// `None` if events are not followed.
    changes: Option<FolderWatch>,
    events: VecDeque<RecordedEvent>,
}

impl EventsReader {
    /// Reads the events that were added, in the order of time.
    fn read(&mut self) -> Result<()> {
        let names = self.selected.clone().map_or_else(|| self.store.names(), Ok)?;
        let mut added = Vec::new();
        // A name may be given to another workload.
        self.readers.retain(|name, _| names.contains(name));
        for name in names {
            if let Some(changes) = &mut self.changes {
                changes.add(&self.store.folder(&name));
            }
            let new = || EventReader::new(&self.store, &name);
            self.readers.entry(name.clone()).or_insert_with(new).read(&mut added)?;
        }
        added.sort_by(|a, b| a.time.cmp(&b.time));
        self.events.extend(added);
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<RecordedEvent>> {
        while self.events.is_empty() {
            let Some(changes) = &self.changes else { return Ok(None) };
            changes.changed().await;
            self.read()?;
        }
        Ok(self.events.pop_front())
    }
}

impl Workloads {
    /// Returns the recorded events of these workloads, or of all workloads if `names` is empty, oldest first. With
    /// `follow`, the stream also returns future events and never ends. Events of workloads that run in the foreground
    /// or in an embedding program are not recorded.
    ///
    /// # Errors
    /// `NotFound`; `Io` when a record cannot be read.
    ///
    /// # Panics
    /// With `follow` outside of a tokio runtime.
    pub fn events(
        &self,
        names: &[impl AsRef<str>],
        follow: bool,
    ) -> Result<BoxStream<'static, Result<RecordedEvent>>> {
        let selected: Vec<WorkloadName> =
            names.iter().map(|name| self.find(name.as_ref())).collect::<Result<_>>()?;
        let changes = follow.then(|| {
            let mut changes = FolderWatch::new();
            // A folder that does not exist cannot be watched.
            let _ = create_folders(self.store.root());
            changes.add(self.store.root());
            changes
        });
        let mut reader = EventsReader {
            store: self.store.clone(),
            selected: (!selected.is_empty()).then_some(selected),
            readers: BTreeMap::new(),
            changes,
            events: VecDeque::new(),
        };
        reader.read()?;
        Ok(Box::pin(stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|event| (event, reader)))
        })))
    }
}

#[cfg(test)]
#[path = "event_reader_tests.rs"]
mod tests;
