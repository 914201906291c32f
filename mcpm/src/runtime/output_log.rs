//! A log of the output of a server: frames in a file, bounded and rotated.
//!
//! A frame is the stream (one byte), the time (milliseconds since 1970, eight bytes), the length (four bytes), and that
//! many bytes. The process that runs the server writes the log; any process of the user may read it.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::time::Instant;

use crate::{
    Result,
    blocking::run_blocking,
    line_writer::rotated_path,
    platform::{is_same_file, with_mode},
    runtime::{LogChunk, LogOptions, LogStream},
    state::{ProcessId, file::file_error, folder_watch::FolderWatch, rotated_file::RotatedFile},
};

/// Size at which a log file is rotated.
const MAX_FILE_BYTES: u64 = 10 << 20;
/// Longest frame; longer output is split.
const MAX_FRAME_BYTES: usize = 64 << 10;
const HEADER_BYTES: usize = 13;
/// Valid times of a frame, in milliseconds since 1970. They also help to distinguish a header from other data.
const VALID_TIMES: std::ops::Range<u64> = 1 << 40..1 << 44;
/// How long the process that ran a container may take to write the output that it has already read.
const WRITER_TIMEOUT: Duration = Duration::from_secs(2);
const WRITER_POLL: Duration = Duration::from_millis(5);

/// The files of a log.
#[derive(Debug, Clone)]
pub(crate) struct LogFile {
    folder: PathBuf,
    name: &'static str,
}

impl LogFile {
    pub(crate) fn new(folder: PathBuf, name: &'static str) -> Self {
        Self { folder, name }
    }

    fn current(&self) -> PathBuf {
        self.folder.join(self.name)
    }

    fn previous(&self) -> PathBuf {
        rotated_path(&self.current(), 1)
    }

    /// Removes the files.
    pub(crate) fn remove(&self) {
        // If a file cannot be removed, the next writer appends to it.
        let _ = fs::remove_file(self.current());
        let _ = fs::remove_file(self.previous());
    }

    /// Waits until the process that ran a server has written all output that it has read, or has ended.
    pub(crate) async fn wait_for_writer(&self) {
        let is_written = || {
            let file = File::open(self.current()).ok()?;
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
}

/// Appends to a log. Until the writer is dropped, it holds a lock on the log, which tells readers that more data may
/// follow.
#[derive(Debug)]
pub(crate) struct LogWriter {
    log: LogFile,
    file: File,
    size: u64,
    /// Whether a failure was reported.
    failed: bool,
}

impl LogWriter {
    pub(crate) fn open(log: LogFile) -> Result<Self> {
        let path = log.current();
        let (file, size) = append_to(&path).map_err(|error| file_error("open", &path, error))?;
        Ok(Self { log, file, size, failed: false })
    }

    /// Writes a chunk. An error in writing the log does not stop the server.
    pub(crate) fn write(&mut self, chunk: &LogChunk) {
        for bytes in chunk.bytes.chunks(MAX_FRAME_BYTES) {
            if let Err(error) = self.write_frame(chunk.stream, bytes)
                && !std::mem::replace(&mut self.failed, true)
            {
                tracing::warn!(%error, path = %self.log.current().display(), "cannot write the log of a server");
            }
        }
    }

    fn write_frame(&mut self, stream: LogStream, bytes: &[u8]) -> io::Result<()> {
        let path = self.log.current();
        // The file is missing if a user has removed it, or if the last rotation failed halfway.
        let is_there = is_same_file(&path, &self.file)?;
        if is_there && self.size >= MAX_FILE_BYTES {
            fs::rename(&path, self.log.previous())?;
        }
        if !is_there || self.size >= MAX_FILE_BYTES {
            (self.file, self.size) = append_to(&path)?;
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
        // A frame is written at once, so that readers see whole frames.
        if let Err(error) = self.file.write_all(&frame) {
            // If the disk is full, a part of the frame may have been written.
            self.file.set_len(self.size)?;
            return Err(error);
        }
        self.size += frame.len() as u64;
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    let file = with_mode(OpenOptions::new().append(true).create(true), 0o600).open(path)?;
    // Other processes hold this lock only for the moment in which they examine it.
    file.lock_shared()?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

/// Reads the frames of a log, from where the last reading ended.
#[derive(Debug)]
struct LogReader {
    file: RotatedFile,
    /// The beginning of a frame that was not complete.
    rest: Vec<u8>,
}

impl LogReader {
    fn new(log: &LogFile) -> Self {
        Self { file: RotatedFile::new(log.current()), rest: Vec::new() }
    }

    /// Returns the chunks that were written since the last reading.
    fn read(&mut self) -> Result<Vec<LogChunk>> {
        let added = self.file.read()?;
        let mut chunks = Vec::new();
        self.rest.extend_from_slice(&added.continued);
        self.take_frames(&mut chunks);
        for data in added.files {
            // A frame does not continue in another file.
            self.rest = data;
            self.take_frames(&mut chunks);
        }
        Ok(chunks)
    }

    /// Takes the complete frames.
    fn take_frames(&mut self, chunks: &mut Vec<LogChunk>) {
        let mut data = self.rest.as_slice();
        while let Some(header) = data.first_chunk::<HEADER_BYTES>() {
            let Some(length) = frame_length(header) else {
                data = &data[bytes_before_frame(data)..];
                continue;
            };
            let Some(bytes) = data.get(HEADER_BYTES..HEADER_BYTES + length) else { break };
            let stream = if header[0] == 1 { LogStream::Stdout } else { LogStream::Stderr };
            let bytes = Bytes::copy_from_slice(bytes);
            chunks.push(LogChunk { stream, bytes, time: Some(frame_time(header)) });
            data = &data[HEADER_BYTES + length..];
        }
        self.rest = data.to_vec();
    }
}

/// Returns how many bytes precede the next header, or as many as certainly begin no header.
fn bytes_before_frame(data: &[u8]) -> usize {
    let mut headers = data.windows(HEADER_BYTES).skip(1);
    let begin = headers.position(|window| window.first_chunk().and_then(frame_length).is_some());
    begin.map_or(data.len() + 1 - HEADER_BYTES, |at| at + 1)
}

/// Returns the time of the frame that has this header.
fn frame_time(header: &[u8; HEADER_BYTES]) -> SystemTime {
    let millis = header[1..].first_chunk().map(|time| u64::from_le_bytes(*time));
    UNIX_EPOCH + Duration::from_millis(millis.unwrap_or_default())
}

/// Returns the length of the frame with this header; `None` if the bytes are not a header.
fn frame_length(header: &[u8; HEADER_BYTES]) -> Option<usize> {
    let (stream, rest) = header.split_first()?;
    let (time, length) = rest.split_first_chunk()?;
    let length = u32::from_le_bytes(*length.first_chunk()?) as usize;
    let is_valid = matches!(stream, 1 | 2)
        && VALID_TIMES.contains(&u64::from_le_bytes(*time))
        && (1..=MAX_FRAME_BYTES).contains(&length);
    is_valid.then_some(length)
}

/// Streams a log from `since` on. The log is followed as long as `runner` returns a process: the process that runs the
/// server, or that is about to start it.
pub(crate) async fn read(
    log: LogFile,
    options: LogOptions,
    since: Option<SystemTime>,
    runner: impl Fn() -> Option<ProcessId> + Send + Sync + 'static,
) -> Result<BoxStream<'static, Result<LogChunk>>> {
    // The watch begins before the log is read, so that no change in between is missed.
    let changes = options.follow.then(|| {
        let mut changes = FolderWatch::new();
        changes.add(&log.folder);
        changes
    });
    let (reader, chunks, log) = run_blocking(move || {
        let mut reader = LogReader::new(&log);
        let mut chunks: VecDeque<LogChunk> = reader.read()?.into();
        chunks.retain(|chunk| chunk.time >= since);
        if let Some(lines) = options.tail {
            keep_last_lines(&mut chunks, lines);
        }
        Ok((reader, chunks, log))
    })
    .await?;
    let follower = Follower { log, reader, changes, chunks, runner };
    Ok(Box::pin(futures_util::stream::try_unfold(follower, |mut follower| async move {
        Ok(follower.next().await?.map(|chunk| (chunk, follower)))
    })))
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
struct Follower<R> {
    log: LogFile,
    reader: LogReader,
    /// `None` if the log is not followed.
    changes: Option<FolderWatch>,
    chunks: VecDeque<LogChunk>,
    runner: R,
}

impl<R: Fn() -> Option<ProcessId>> Follower<R> {
    async fn next(&mut self) -> Result<Option<LogChunk>> {
        loop {
            if let Some(chunk) = self.chunks.pop_front() {
                return Ok(Some(chunk));
            }
            let Some(changes) = &self.changes else { return Ok(None) };
            // Called before the log is read, so that everything that is written until the server exits is read
            // afterwards.
            let runner = (self.runner)();
            if runner.is_none() {
                self.log.wait_for_writer().await;
            }
            self.chunks.extend(self.reader.read()?);
            if !self.chunks.is_empty() {
                continue;
            }
            let Some(runner) = runner else { return Ok(None) };
            tokio::select! {
                () = changes.changed() => {}
                () = runner.exited() => {}
            }
        }
    }
}

#[cfg(test)]
#[path = "output_log_tests.rs"]
mod tests;
