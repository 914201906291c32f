//! The log of a container: its output in frames, bounded and rotated.
//!
//! A frame is the stream (one byte), the time (milliseconds since 1970, eight bytes), the length (four bytes), and that
//! many bytes. The process that runs the container writes it; any process of the user may read it.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use rustix::fs::inotify;
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::Instant,
};

use super::container::ContainerFolder;
use crate::{
    Result,
    blocking::run_blocking,
    platform::with_mode,
    runtime::{LogChunk, LogOptions, LogStream},
    state::file::file_error,
};

/// Size at which a log file is rotated.
const MAX_FILE_BYTES: u64 = 10 << 20;
/// Longest frame; longer output is split.
const MAX_FRAME_BYTES: usize = 64 << 10;
const HEADER_BYTES: usize = 13;
/// Times that a frame may have, in milliseconds since 1970: a header is told from other data by them, too.
const VALID_TIMES: std::ops::Range<u64> = 1 << 40..1 << 44;
/// How long the process that ran a container may take to write what it has read of its output.
const WRITER_TIMEOUT: Duration = Duration::from_secs(2);
const WRITER_POLL: Duration = Duration::from_millis(5);

const CURRENT: &str = "log";
const PREVIOUS: &str = "log.1";

/// Appends to the log of a container. Until it is dropped, it has a lock on the log, which tells readers that there may be
/// more.
#[derive(Debug)]
pub(super) struct LogWriter {
    folder: PathBuf,
    file: File,
    size: u64,
    /// Whether a failure was reported.
    failed: bool,
}

impl LogWriter {
    pub(super) fn open(folder: &ContainerFolder) -> Result<Self> {
        let folder = folder.path().to_owned();
        let path = folder.join(CURRENT);
        let (file, size) = append_to(&path).map_err(|error| file_error("open", &path, error))?;
        Ok(Self { folder, file, size, failed: false })
    }

    /// Writes a chunk. A log that cannot be written does not stop the server.
    pub(super) fn write(&mut self, chunk: &LogChunk) {
        for bytes in chunk.bytes.chunks(MAX_FRAME_BYTES) {
            if let Err(error) = self.write_frame(chunk.stream, bytes)
                && !std::mem::replace(&mut self.failed, true)
            {
                tracing::warn!(%error, folder = %self.folder.display(), "the log of a container cannot be written");
            }
        }
    }

    fn write_frame(&mut self, stream: LogStream, bytes: &[u8]) -> io::Result<()> {
        if self.size >= MAX_FILE_BYTES {
            fs::rename(self.folder.join(CURRENT), self.folder.join(PREVIOUS))?;
            (self.file, self.size) = append_to(&self.folder.join(CURRENT))?;
        }
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let mut frame = Vec::with_capacity(HEADER_BYTES + bytes.len());
        frame.push(match stream {
            LogStream::Stdout => 1,
            LogStream::Stderr => 2,
        });
        frame.extend_from_slice(&u64::try_from(millis).unwrap_or_default().to_le_bytes());
        frame.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or_default().to_le_bytes());
        frame.extend_from_slice(bytes);
        // One write, so that a reader sees whole frames.
        if let Err(error) = self.file.write_all(&frame) {
            // A full disk may have taken a part of it.
            self.file.set_len(self.size)?;
            return Err(error);
        }
        self.size += frame.len() as u64;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    let file = with_mode(OpenOptions::new().append(true).create(true), 0o600).open(path)?;
    // Others have it only for as long as it takes to look.
    file.lock_shared()?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Reads the frames of one log file, from where the last reading ended.
#[derive(Debug)]
struct LogReader {
    file: File,
    /// The beginning of a frame that was not complete.
    rest: Vec<u8>,
}

impl LogReader {
    fn open(path: &Path) -> io::Result<Option<Self>> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self { file, rest: Vec::new() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the next chunk, or `None` at the end of what was written so far.
    fn next(&mut self) -> io::Result<Option<LogChunk>> {
        loop {
            if let Some(header) = self.rest.first_chunk::<HEADER_BYTES>() {
                let Some(length) = frame_length(header) else {
                    self.skip_to_frame();
                    continue;
                };
                if let Some(bytes) = self.rest.get(HEADER_BYTES..HEADER_BYTES + length) {
                    let stream = if header[0] == 1 { LogStream::Stdout } else { LogStream::Stderr };
                    let chunk = LogChunk { stream, bytes: Bytes::copy_from_slice(bytes) };
                    self.rest.drain(..HEADER_BYTES + length);
                    return Ok(Some(chunk));
                }
            }
            let mut more = [0; 8192];
            match self.file.read(&mut more)? {
                0 => return Ok(None),
                count => self.rest.extend_from_slice(&more[..count]),
            }
        }
    }

    /// Drops what follows a frame of which only a part was written, up to the next frame or as far as none can begin.
    fn skip_to_frame(&mut self) {
        let headers = self.rest.windows(HEADER_BYTES).skip(1);
        let begin =
            headers.map(|window| window.first_chunk().and_then(frame_length)).position(|it| it.is_some());
        let skipped = begin.map_or(self.rest.len() + 1 - HEADER_BYTES, |at| at + 1);
        self.rest.drain(..skipped);
    }

    /// Whether the file has been rotated since it was opened.
    fn is_rotated(&mut self, path: &Path) -> bool {
        !crate::platform::is_same_file(path, &self.file).unwrap_or(false)
    }
}

/// Returns the length of the frame that has this header; `None` if it is none.
fn frame_length(header: &[u8; HEADER_BYTES]) -> Option<usize> {
    let (stream, rest) = header.split_first()?;
    let (time, length) = rest.split_first_chunk()?;
    let length = u32::from_le_bytes(*length.first_chunk()?) as usize;
    let is_valid = matches!(stream, 1 | 2)
        && VALID_TIMES.contains(&u64::from_le_bytes(*time))
        && (1..=MAX_FRAME_BYTES).contains(&length);
    is_valid.then_some(length)
}

/// Streams the log of a container. That of a container that has exited is complete.
pub(super) async fn read(
    folder: ContainerFolder,
    options: LogOptions,
) -> Result<BoxStream<'static, Result<LogChunk>>> {
    if folder.has_exited() {
        wait_for_writer(&folder).await;
    }
    // Watched before it is read, so that nothing is missed in between.
    let failed = |error| file_error("read", folder.path(), error);
    let changes = if options.follow { Some(watch(folder.path()).map_err(failed)?) } else { None };
    let (reader, chunks, folder) = run_blocking(move || {
        let (reader, chunks) = read_all(&folder, options.tail)?;
        Ok((reader, chunks, folder))
    })
    .await?;
    let follower = Follower { folder, reader, changes, chunks };
    Ok(Box::pin(futures_util::stream::try_unfold(follower, |mut follower| async move {
        Ok(follower.next().await?.map(|chunk| (chunk, follower)))
    })))
}

/// Waits until the process that ran a container has written all that it has read of its output, or is gone.
async fn wait_for_writer(folder: &ContainerFolder) {
    let is_written = || {
        let file = File::open(folder.file(CURRENT)).ok()?;
        let outcome = file.try_lock();
        // Closing the file is not enough, because a child between fork and exec has it open, too.
        let _ = file.unlock();
        Some(matches!(outcome, Err(TryLockError::WouldBlock)))
    };
    let start = Instant::now();
    while is_written().unwrap_or(false) && start.elapsed() < WRITER_TIMEOUT {
        tokio::time::sleep(WRITER_POLL).await;
    }
}

/// Reads what was written so far; returns the reader of the current file, and the chunks of the last lines.
fn read_all(
    folder: &ContainerFolder,
    tail: Option<usize>,
) -> Result<(Option<LogReader>, VecDeque<LogChunk>)> {
    let path = folder.file(CURRENT);
    let failed = |error| file_error("read", &path, error);
    let mut chunks = VecDeque::new();
    if let Some(mut previous) = LogReader::open(&folder.file(PREVIOUS)).map_err(failed)? {
        while let Some(chunk) = previous.next().map_err(failed)? {
            chunks.push_back(chunk);
        }
    }
    let mut reader = LogReader::open(&path).map_err(failed)?;
    while let Some(chunk) = reader.as_mut().map_or(Ok(None), LogReader::next).map_err(failed)? {
        chunks.push_back(chunk);
    }
    if let Some(lines) = tail {
        keep_last_lines(&mut chunks, lines);
    }
    Ok((reader, chunks))
}

/// Keeps the last lines of both streams together.
fn keep_last_lines(chunks: &mut VecDeque<LogChunk>, lines: usize) {
    if lines == 0 {
        return chunks.clear();
    }
    let mut wanted = lines;
    let mut kept = VecDeque::new();
    let mut is_last = true;
    while let Some(mut chunk) = chunks.pop_back() {
        let end = chunk.bytes.len();
        // The line feed at the very end begins no line.
        let searched = if is_last && chunk.bytes.ends_with(b"\n") { end - 1 } else { end };
        is_last = false;
        let mut from = None;
        for at in memchr::memrchr_iter(b'\n', &chunk.bytes[..searched]) {
            if wanted <= 1 {
                from = Some(at + 1);
                break;
            }
            wanted -= 1;
        }
        if let Some(from) = from {
            chunk.bytes = chunk.bytes.slice(from..);
            kept.push_front(chunk);
            break;
        }
        kept.push_front(chunk);
    }
    *chunks = kept;
}

/// The rest of a log.
struct Follower {
    folder: ContainerFolder,
    reader: Option<LogReader>,
    /// Reports changes of the folder; `None` if the log is not followed.
    changes: Option<AsyncFd<OwnedFd>>,
    chunks: VecDeque<LogChunk>,
}

impl Follower {
    async fn next(&mut self) -> Result<Option<LogChunk>> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                return Ok(Some(chunk));
            }
            let Some(changes) = &self.changes else { return Ok(None) };
            // Before the log is read: what is written until the container exits is read afterwards.
            let running = self.folder.running_process();
            if running.is_none() {
                wait_for_writer(&self.folder).await;
            }
            let path = self.folder.file(CURRENT);
            let found =
                read_more(&mut self.reader, &path).map_err(|error| file_error("read", &path, error))?;
            self.chunks.extend(found);
            if !self.chunks.is_empty() {
                continue;
            }
            let Some(process) = running else { return Ok(None) };
            tokio::select! {
                () = wait_for_change(changes) => {}
                () = process.monitor.exited() => {}
            }
        }
    }
}

/// Reads what was written since, also across a rotation.
fn read_more(reader: &mut Option<LogReader>, path: &Path) -> io::Result<Vec<LogChunk>> {
    let mut chunks = Vec::new();
    loop {
        if reader.is_none() {
            *reader = LogReader::open(path)?;
        }
        let Some(current) = reader else { return Ok(chunks) };
        let is_rotated = current.is_rotated(path);
        while let Some(chunk) = current.next()? {
            chunks.push(chunk);
        }
        if !is_rotated || !path.exists() {
            return Ok(chunks);
        }
        *reader = None;
    }
}

#[expect(
    deprecated,
    reason = "its replacement is unsafe for the sake of types that, unlike this, can swap their fd"
)]
fn watch(folder: &Path) -> io::Result<AsyncFd<OwnedFd>> {
    let watcher = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let changes = inotify::WatchFlags::MODIFY | inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watcher, folder, changes)?;
    AsyncFd::with_interest(watcher, Interest::READABLE)
}

/// Waits for a change, and forgets all that were reported so far.
async fn wait_for_change(changes: &AsyncFd<OwnedFd>) {
    let Ok(mut ready) = changes.readable().await else { return };
    let mut events = [0_u8; 4096];
    loop {
        match rustix::io::read(changes.get_ref(), &mut events) {
            Ok(count) if count > 0 => {}
            _ => break,
        }
    }
    ready.clear_ready();
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
