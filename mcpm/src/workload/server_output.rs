//! Records and reads the output of a workload's server.
//!
//! The process that runs the server records the output, across restarts of the server and its containers. Any process
//! of the user can read it. The MCP messages that a stdio server sends may contain data of its users, so they are
//! written to a separate file, and only while a process follows that file.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use futures_util::{StreamExt as _, stream::BoxStream};
use tokio::task::JoinHandle;

use super::{WorkloadName, stop_request::runner};
use crate::{
    Result,
    blocking::run_blocking,
    runtime::{
        Attachment, LogChunk, LogOptions, LogStream,
        output_log::{self, LogFile, LogWriter},
    },
    state::{Store, file_lock::FileLock},
};

const OUTPUT: &str = "output";
const PROTOCOL: &str = "protocol";
/// The file that readers of the messages lock.
const PROTOCOL_LOCK: &str = "protocol.lock";
/// How long another process may hold the lock to examine it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the engine may take to pass on the last output of a server that has exited.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);

/// The output of a server in chunks, oldest first.
pub type Logs = BoxStream<'static, Result<LogChunk>>;

/// Options for reading the output of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerLogOptions {
    /// Whether to go on until the workload has ended; a restart does not end it.
    pub follow: bool,
    /// Number of last lines; all if `None`.
    pub tail: Option<usize>,
    /// Leaves out output that was written before this time.
    pub since: Option<SystemTime>,
    /// Reads the messages that a stdio server sends from now on, instead of its log. They are not kept, so this has an
    /// effect only with `follow`.
    pub protocol: bool,
}

/// Records the output of a server.
pub(super) struct ServerOutput {
    log: Mutex<LogWriter>,
    /// The messages; `None` for a server that speaks HTTP.
    protocol: Option<Mutex<ProtocolWriter>>,
    /// The task that writes what a container passes on.
    recording: Mutex<Option<JoinHandle<()>>>,
}

impl ServerOutput {
    pub(super) fn open(folder: &Path, is_stdio: bool) -> Result<Self> {
        let log = LogWriter::open(LogFile::new(folder.to_owned(), OUTPUT))?;
        let protocol =
            is_stdio.then(|| Mutex::new(ProtocolWriter { folder: folder.to_owned(), writer: None }));
        Ok(Self { log: Mutex::new(log), protocol, recording: Mutex::default() })
    }

    /// Writes a part of the output.
    pub(super) fn write(&self, chunk: &LogChunk) {
        match &self.protocol {
            Some(protocol) if chunk.stream == LogStream::Stdout => {
                lock(protocol).write(chunk);
            }
            _ => lock(&self.log).write(chunk),
        }
    }

    /// Writes all output of a container until it ends.
    pub(super) fn record(self: &Arc<Self>, mut attached: Attachment) {
        let output = Arc::clone(self);
        let task = tokio::spawn(async move {
            while let Some(Ok(chunk)) = attached.output.next().await {
                output.write(&chunk);
            }
        });
        *lock(&self.recording) = Some(task);
    }

    /// Waits until all output of a container that has exited is written.
    pub(super) async fn is_complete(&self) {
        let task = lock(&self.recording).take();
        if let Some(task) = task {
            // The wait is limited, since another process may still hold the streams of the server.
            let _ = tokio::time::timeout(LAST_OUTPUT_TIMEOUT, task).await;
        }
    }
}

impl fmt::Debug for ServerOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerOutput(..)")
    }
}

/// Writes the messages of a server while somebody reads them.
struct ProtocolWriter {
    folder: PathBuf,
    writer: Option<LogWriter>,
}

impl ProtocolWriter {
    fn write(&mut self, chunk: &LogChunk) {
        let lock = self.folder.join(PROTOCOL_LOCK);
        if !lock.exists() {
            self.writer = None;
            return;
        }
        match FileLock::exclusive(&lock, Duration::ZERO) {
            // The last reader was killed.
            Ok(Some(lock)) => {
                self.writer = None;
                forget_protocol(&self.folder, &lock);
            }
            Ok(None) => {
                // The file is removed between two readers.
                if self.writer.is_none() || !self.folder.join(PROTOCOL).exists() {
                    let log = LogFile::new(self.folder.clone(), PROTOCOL);
                    self.writer = LogWriter::open(log).ok();
                }
                if let Some(writer) = &mut self.writer {
                    writer.write(chunk);
                }
                // The last reader may have removed the file just before the message was written.
                if !self.folder.join(PROTOCOL_LOCK).exists() {
                    self.writer = None;
                    LogFile::new(self.folder.clone(), PROTOCOL).remove();
                }
            }
            Err(error) => tracing::debug!(%error, "cannot write a message for readers of the protocol log"),
        }
    }
}

/// Removes messages that nobody reads, which the lock shows.
fn forget_protocol(folder: &Path, _nobody_reads: &FileLock) {
    LogFile::new(folder.to_owned(), PROTOCOL).remove();
    let _ = std::fs::remove_file(folder.join(PROTOCOL_LOCK));
}

/// A reader of messages. As long as it exists, the messages are written.
struct ProtocolReader {
    folder: PathBuf,
    lock: Option<FileLock>,
}

impl ProtocolReader {
    fn open(folder: PathBuf) -> Result<Self> {
        let lock = FileLock::shared(&folder.join(PROTOCOL_LOCK), LOCK_TIMEOUT)?;
        Ok(Self { folder, lock })
    }
}

impl Drop for ProtocolReader {
    fn drop(&mut self) {
        self.lock = None;
        // The folder of a removed workload is gone.
        if self.folder.exists()
            && let Ok(Some(lock)) = FileLock::exclusive(&self.folder.join(PROTOCOL_LOCK), Duration::ZERO)
        {
            forget_protocol(&self.folder, &lock);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the output of a workload's server.
pub(super) async fn read(store: &Store, name: &WorkloadName, options: ServerLogOptions) -> Result<Logs> {
    let folder = store.folder(name);
    let runner = {
        let (store, name) = (store.clone(), name.clone());
        move || runner(&store, &name)
    };
    let ServerLogOptions { follow, tail, since, protocol } = options;
    if !protocol {
        let log = LogFile::new(folder, OUTPUT);
        return output_log::read(log, LogOptions { follow, tail }, since, runner).await;
    }
    let log = LogFile::new(folder.clone(), PROTOCOL);
    let reader = run_blocking(move || ProtocolReader::open(folder)).await?;
    // The file may contain earlier messages that were written for another reader.
    let from_now_on = LogOptions { follow, tail: Some(0) };
    let messages = output_log::read(log, from_now_on, None, runner).await?;
    Ok(messages
        .map(move |message| {
            let _reader = &reader;
            message
        })
        .boxed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::with_timeout;

    fn chunk(stream: LogStream, text: &'static str) -> LogChunk {
        LogChunk { stream, bytes: text.into(), time: None }
    }

    fn workload() -> (tempfile::TempDir, Store, WorkloadName) {
        let root = tempfile::tempdir().unwrap();
        let (store, name) = (Store::new(root.path()), "one".parse().unwrap());
        store.create(&name).unwrap().commit();
        (root, store, name)
    }

    async fn text(logs: Logs) -> String {
        let chunks: Vec<_> = with_timeout(logs.collect()).await;
        chunks.into_iter().map(|chunk| String::from_utf8(chunk.unwrap().bytes.to_vec()).unwrap()).collect()
    }

    #[tokio::test]
    async fn messages_are_written_only_while_they_are_read() {
        let (_root, store, name) = workload();
        let folder = store.folder(&name);
        let output = ServerOutput::open(&folder, true).unwrap();
        let lock = crate::state::Lock::acquire(&store.lock_path(&name)).unwrap();
        output.write(&chunk(LogStream::Stderr, "words\n"));
        output.write(&chunk(LogStream::Stdout, "unread\n"));
        let read = async |options| read(&store, &name, options).await.unwrap();
        assert_eq!(text(read(ServerLogOptions::default()).await).await, "words\n");
        let follow = ServerLogOptions { follow: true, protocol: true, ..ServerLogOptions::default() };
        let mut readers = [read(follow).await, read(follow).await];
        output.write(&chunk(LogStream::Stdout, "message\n"));
        for reader in &mut readers {
            let message = with_timeout(reader.next()).await.unwrap().unwrap();
            assert_eq!((message.stream, &message.bytes[..]), (LogStream::Stdout, &b"message\n"[..]));
        }
        let [first, second] = readers;
        drop(first);
        assert!(folder.join(PROTOCOL).exists());
        drop(second);
        output.write(&chunk(LogStream::Stdout, "unread\n"));
        for name in [PROTOCOL, PROTOCOL_LOCK] {
            assert!(!folder.join(name).exists(), "{name}");
        }
        // A reader that was killed leaves the files behind.
        drop(lock);
        for name in [PROTOCOL, PROTOCOL_LOCK] {
            std::fs::write(folder.join(name), "left").unwrap();
        }
        output.write(&chunk(LogStream::Stdout, "unread\n"));
        assert!(!folder.join(PROTOCOL).exists() && !folder.join(PROTOCOL_LOCK).exists());
    }

    #[tokio::test]
    async fn both_streams_of_an_http_server_are_its_log() {
        let (_root, store, name) = workload();
        let output = ServerOutput::open(&store.folder(&name), false).unwrap();
        output.write(&chunk(LogStream::Stdout, "out\n"));
        output.write(&chunk(LogStream::Stderr, "err\n"));
        let tail = ServerLogOptions { tail: Some(2), ..ServerLogOptions::default() };
        assert_eq!(text(read(&store, &name, tail).await.unwrap()).await, "out\nerr\n");
    }
}
