//! Writes lines on a background thread, so that a slow disk blocks no other task.
//!
//! Lines wait in a bounded queue. [`write_and_wait`](BackgroundLineWriter::write_and_wait) waits until a line is
//! written; [`post`](BackgroundLineWriter::post) does not. If the queue is full, or the sink fails, lines are dropped
//! and counted, and a notice with their number is written as soon as that is possible.

mod file;
mod sink;

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

pub(crate) use {
    file::{RotatingFile, Rotation, rotated_path},
    sink::LineSink,
};

/// Timeout of writing a line that a caller waits for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes in the queue.
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// Why a line is dropped that cannot be queued.
const QUEUE_FULL_MESSAGE: &str = "the queue is full";

/// Creates the line that states how many were dropped.
pub(crate) type LossNotice = Box<dyn Fn(u64) -> Vec<u8> + Send>;

/// Writes lines on a background thread. Dropping it lets the queue be written.
#[derive(Debug)]
pub(crate) struct BackgroundLineWriter {
    sender: mpsc::Sender<QueuedLine>,
    losses: Arc<LossCounter>,
    /// Number of bytes in the queue.
    queued_bytes: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct QueuedLine {
    line: Vec<u8>,
    /// Receives whether the line was written.
    done: Option<oneshot::Sender<Result<(), WriteError>>>,
}

/// The error of a line that was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteError(String);

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WriteError {}

/// Counts dropped lines.
#[derive(Debug, Default)]
struct LossCounter {
    count: AtomicU64,
    /// Whether the loss was logged since the last successful write.
    is_reported: AtomicBool,
}

impl LossCounter {
    fn add(&self, lines: u64, why: &str) {
        self.count.fetch_add(lines, Ordering::Relaxed);
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::error!(why, "lines were dropped");
        }
    }
}

impl BackgroundLineWriter {
    /// Starts the thread. Without a `loss_notice`, no notice about dropped lines is written.
    pub(crate) fn start(
        sink: Box<dyn LineSink>,
        queue: usize,
        loss_notice: Option<LossNotice>,
    ) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(queue);
        let lost = Arc::new(LossCounter::default());
        let waiting = Arc::new(AtomicUsize::new(0));
        let writer = WriterThread {
            sink,
            receiver,
            loss_notice,
            lost: Arc::clone(&lost),
            waiting: Arc::clone(&waiting),
        };
        thread::Builder::new().name("mcpm-lines".to_owned()).spawn(move || writer.run())?;
        Ok(Self { sender, losses: lost, queued_bytes: waiting })
    }

    /// Queues a line. If the queue is full, the line is dropped and counted.
    pub(crate) fn post(&self, line: Vec<u8>) {
        let size = line.len();
        let queued = self.try_reserve(size) && {
            let queued = self.sender.try_send(QueuedLine { line, done: None }).is_ok();
            if !queued {
                self.queued_bytes.fetch_sub(size, Ordering::Relaxed);
            }
            queued
        };
        if !queued {
            self.losses.add(1, QUEUE_FULL_MESSAGE);
        }
    }

    /// Whether less than half of the queue is used. Lines that unauthenticated callers can cause in any number leave
    /// the other half to the rest.
    pub(crate) fn is_below_half_full(&self) -> bool {
        self.sender.capacity() > self.sender.max_capacity() / 2
            && self.queued_bytes.load(Ordering::Relaxed) < MAX_QUEUED_BYTES / 2
    }

    /// Reserves bytes of the queue, if there are enough left.
    fn try_reserve(&self, size: usize) -> bool {
        let before = self.queued_bytes.fetch_add(size, Ordering::Relaxed);
        let fits = before.saturating_add(size) <= MAX_QUEUED_BYTES;
        if !fits {
            self.queued_bytes.fetch_sub(size, Ordering::Relaxed);
        }
        fits
    }

    /// Waits until a line is written.
    ///
    /// # Errors
    /// If it cannot be written, or not in time.
    pub(crate) async fn write_and_wait(&self, line: Vec<u8>) -> Result<(), WriteError> {
        // The waiting caller holds the line anyway, so it is counted and never rejected.
        let size = line.len();
        let (written, outcome) = oneshot::channel();
        let gone = || WriteError("the line writer has stopped".to_owned());
        let writing = async {
            let place = self.sender.reserve().await.map_err(|_| gone())?;
            self.queued_bytes.fetch_add(size, Ordering::Relaxed);
            place.send(QueuedLine { line, done: Some(written) });
            outcome.await.map_err(|_| gone())?
        };
        let late = |_| WriteError("writing takes too long".to_owned());
        tokio::time::timeout(WRITE_TIMEOUT, writing).await.map_err(late)?
    }

    /// Waits until all lines that were posted before are written or dropped.
    pub(crate) async fn flush(&self) {
        // An error is reported where it matters.
        let _ = self.write_and_wait(Vec::new()).await;
    }
}

/// The state of the thread.
struct WriterThread {
    sink: Box<dyn LineSink>,
    receiver: mpsc::Receiver<QueuedLine>,
    loss_notice: Option<LossNotice>,
    lost: Arc<LossCounter>,
    waiting: Arc<AtomicUsize>,
}

impl WriterThread {
    fn run(mut self) {
        let (most, mut next) = (self.sink.max_batch_bytes(), None);
        while let Some(first) = next.take().or_else(|| self.receiver.blocking_recv()) {
            let mut size = first.line.len();
            let mut batch = vec![first];
            while let Ok(more) = self.receiver.try_recv() {
                if size + more.line.len() > most {
                    next = Some(more);
                    break;
                }
                size += more.line.len();
                batch.push(more);
            }
            self.write(batch);
            self.waiting.fetch_sub(size, Ordering::Relaxed);
        }
    }

    fn write(&mut self, batch: Vec<QueuedLine>) {
        let mut lines = Vec::new();
        let lost = self.lost.count.swap(0, Ordering::Relaxed);
        if let (1.., Some(loss_notice)) = (lost, &self.loss_notice) {
            lines.extend_from_slice(&loss_notice(lost));
        }
        batch.iter().for_each(|entry| lines.extend_from_slice(&entry.line));
        let outcome = if lines.is_empty() { Ok(()) } else { self.sink.write(&lines) };
        let outcome = outcome.map_err(|error| WriteError(error.to_string()));
        match &outcome {
            Ok(()) => self.lost.is_reported.store(false, Ordering::Relaxed),
            Err(error) => {
                // Callers that wait get the error; their lines count as dropped all the same.
                let own = batch.iter().filter(|entry| !entry.line.is_empty()).count() as u64;
                self.lost.add(lost + own, &error.0);
            }
        }
        for written in batch.into_iter().filter_map(|entry| entry.done) {
            // The caller may be gone.
            let _ = written.send(outcome.clone());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Keeps lines in memory, and fails while it is full.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct MemorySink {
        lines: Arc<Mutex<Vec<u8>>>,
        pub(crate) full: Arc<AtomicBool>,
    }

    impl MemorySink {
        pub(crate) fn text(&self) -> String {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&lines).into_owned()
        }
    }

    impl LineSink for MemorySink {
        fn write(&mut self, lines: &[u8]) -> io::Result<()> {
            if self.full.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(lines);
            Ok(())
        }
    }

    #[tokio::test]
    async fn lost_lines_are_counted_and_reported() {
        let memory = MemorySink::default();
        let loss_notice: LossNotice = Box::new(|lost| format!("lost {lost}\n").into_bytes());
        let writer =
            BackgroundLineWriter::start(Box::new(memory.clone()), 8, Some(loss_notice)).expect("a thread");
        writer.write_and_wait(b"a\n".to_vec()).await.expect("room");
        memory.full.store(true, Ordering::Relaxed);
        writer.write_and_wait(b"b\n".to_vec()).await.expect_err("no room");
        writer.post(b"c\n".to_vec());
        writer.flush().await;
        memory.full.store(false, Ordering::Relaxed);
        writer.write_and_wait(b"d\n".to_vec()).await.expect("room");
        writer.post(b"e\n".to_vec());
        writer.flush().await;
        assert_eq!(memory.text(), "a\nlost 2\nd\ne\n");
    }

    /// Blocks until the test lets it write.
    #[derive(Debug)]
    pub(crate) struct BlockingSink(pub(crate) std::sync::mpsc::Receiver<()>, pub(crate) MemorySink);

    impl LineSink for BlockingSink {
        fn write(&mut self, lines: &[u8]) -> io::Result<()> {
            // The test drops the other end when it is done.
            let _ = self.0.recv();
            self.1.write(lines)
        }
    }

    #[tokio::test]
    async fn a_full_queue_does_not_block_post() {
        let (go, wait) = std::sync::mpsc::channel();
        let memory = MemorySink::default();
        let loss_notice: LossNotice = Box::new(|lost| format!("lost {lost}\n").into_bytes());
        let sink = BlockingSink(wait, memory.clone());
        let writer = BackgroundLineWriter::start(Box::new(sink), 2, Some(loss_notice)).expect("a thread");
        for number in 0..1000 {
            writer.post(format!("{number}\n").into_bytes());
        }
        drop(go);
        writer.flush().await;
        writer.flush().await;
        let text = memory.text();
        let lost: u64 = text.lines().filter_map(|line| line.strip_prefix("lost ")?.parse::<u64>().ok()).sum();
        let written = text.lines().filter(|line| !line.starts_with("lost")).count() as u64;
        assert!(lost >= 990, "{text}");
        assert_eq!(written + lost, 1000, "{text}");
        assert!(text.lines().any(|line| line == "0"), "{text}");
    }

    #[tokio::test]
    async fn queued_bytes_are_bounded() {
        let (go, wait) = std::sync::mpsc::channel();
        let memory = MemorySink::default();
        let loss_notice: LossNotice = Box::new(|lost| format!("lost {lost}\n").into_bytes());
        let writer =
            BackgroundLineWriter::start(Box::new(BlockingSink(wait, memory.clone())), 100, Some(loss_notice))
                .expect("a thread");
        for _ in 0..6 {
            writer.post(vec![b'a'; MAX_QUEUED_BYTES / 4]);
        }
        drop(go);
        writer.flush().await;
        writer.flush().await;
        assert!(memory.text().contains("lost 2"), "too many bytes wait");
        // Written lines make room.
        writer.post(b"b\n".to_vec());
        writer.flush().await;
        assert!(memory.text().ends_with("b\n"));
    }
}
