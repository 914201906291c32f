//! Lines that are written one after the other by a thread of their own, so that a slow disk holds up nobody else.
//!
//! What is posted waits in a bounded queue. Whoever needs to know waits until a line [is written](Journal::written);
//! all others [post](Journal::post) it, and when the queue is full, or the sink fails, the line is lost and counted,
//! and the journal says so itself as soon as it can write again.

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

/// How long a line may take to be written for whoever waits for it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Most bytes that wait to be written.
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// Why a line is lost that does not even wait.
const QUEUE_FULL_MESSAGE: &str = "too many wait to be written";

/// A line that says how many were lost.
pub(crate) type LossNotice = Box<dyn Fn(u64) -> Vec<u8> + Send>;

/// Writes lines. Dropping it lets those that wait be written.
#[derive(Debug)]
pub(crate) struct BackgroundLineWriter {
    sender: mpsc::Sender<QueuedLine>,
    losses: Arc<LossCounter>,
    /// Bytes that wait to be written.
    queued_bytes: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct QueuedLine {
    line: Vec<u8>,
    /// Told whether it was written.
    done: Option<oneshot::Sender<Result<(), WriteError>>>,
}

/// A line was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteError(String);

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WriteError {}

/// What got lost.
#[derive(Debug, Default)]
struct LossCounter {
    count: AtomicU64,
    /// Whether that was logged since lines were written last.
    is_reported: AtomicBool,
}

impl LossCounter {
    fn add(&self, lines: u64, why: &str) {
        self.count.fetch_add(lines, Ordering::Relaxed);
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::error!(why, "lines of a journal are lost");
        }
    }
}

impl BackgroundLineWriter {
    /// Starts the thread. Without a `gap` nothing is written about lines that were lost.
    pub(crate) fn start(sink: Box<dyn LineSink>, queue: usize, gap: Option<LossNotice>) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(queue);
        let lost = Arc::new(LossCounter::default());
        let waiting = Arc::new(AtomicUsize::new(0));
        let writer = WriterThread {
            sink,
            receiver,
            loss_notice: gap,
            lost: Arc::clone(&lost),
            waiting: Arc::clone(&waiting),
        };
        thread::Builder::new().name("mcpm-journal".to_owned()).spawn(move || writer.run())?;
        Ok(Self { sender, losses: lost, queued_bytes: waiting })
    }

    /// Has a line written some time soon. When too many wait already it is lost, and counted.
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

    /// Whether less than half of what may wait does. Lines of which anybody can cause any number leave the other half to
    /// the rest.
    pub(crate) fn is_below_half_full(&self) -> bool {
        self.sender.capacity() > self.sender.max_capacity() / 2
            && self.queued_bytes.load(Ordering::Relaxed) < MAX_QUEUED_BYTES / 2
    }

    /// Counts so many bytes among those that wait, unless they are too many.
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
    /// When it cannot be, or not in time.
    pub(crate) async fn write_and_wait(&self, line: Vec<u8>) -> Result<(), WriteError> {
        // Whoever waits holds the line anyway, so that it is counted and not turned away.
        let size = line.len();
        let (written, told) = oneshot::channel();
        let gone = || WriteError("the journal is gone".to_owned());
        let writing = async {
            let place = self.sender.reserve().await.map_err(|_| gone())?;
            self.queued_bytes.fetch_add(size, Ordering::Relaxed);
            place.send(QueuedLine { line, done: Some(written) });
            told.await.map_err(|_| gone())?
        };
        let late = |_| WriteError("writing takes too long".to_owned());
        tokio::time::timeout(WRITE_TIMEOUT, writing).await.map_err(late)?
    }

    /// Waits until all lines that were posted before are written or lost.
    pub(crate) async fn flush(&self) {
        // A failure is told where it matters.
        let _ = self.write_and_wait(Vec::new()).await;
    }
}

/// The thread's own.
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
        if let (1.., Some(gap)) = (lost, &self.loss_notice) {
            lines.extend_from_slice(&gap(lost));
        }
        batch.iter().for_each(|entry| lines.extend_from_slice(&entry.line));
        let outcome = if lines.is_empty() { Ok(()) } else { self.sink.write(&lines) };
        let outcome = outcome.map_err(|error| WriteError(error.to_string()));
        match &outcome {
            Ok(()) => self.lost.is_reported.store(false, Ordering::Relaxed),
            Err(error) => {
                // Lines that somebody waits for are not lost in silence; they are counted all the same.
                let own = batch.iter().filter(|entry| !entry.line.is_empty()).count() as u64;
                self.lost.add(lost + own, &error.0);
            }
        }
        for written in batch.into_iter().filter_map(|entry| entry.done) {
            // Whoever asked may have gone.
            let _ = written.send(outcome.clone());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Keeps lines, and fails while it is full.
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
        let gap: LossNotice = Box::new(|lost| format!("lost {lost}\n").into_bytes());
        let journal = BackgroundLineWriter::start(Box::new(memory.clone()), 8, Some(gap)).expect("a thread");
        journal.write_and_wait(b"a\n".to_vec()).await.expect("room");
        memory.full.store(true, Ordering::Relaxed);
        journal.write_and_wait(b"b\n".to_vec()).await.expect_err("no room");
        journal.post(b"c\n".to_vec());
        journal.flush().await;
        memory.full.store(false, Ordering::Relaxed);
        journal.write_and_wait(b"d\n".to_vec()).await.expect("room");
        journal.post(b"e\n".to_vec());
        journal.flush().await;
        assert_eq!(memory.text(), "a\nlost 2\nd\ne\n");
    }

    /// Writes nothing before it is let.
    #[derive(Debug)]
    pub(crate) struct BlockingSink(pub(crate) std::sync::mpsc::Receiver<()>, pub(crate) MemorySink);

    impl LineSink for BlockingSink {
        fn write(&mut self, lines: &[u8]) -> io::Result<()> {
            // The test lets go of the other end when it is through.
            let _ = self.0.recv();
            self.1.write(lines)
        }
    }

    #[tokio::test]
    async fn a_full_queue_does_not_block_post() {
        let (go, wait) = std::sync::mpsc::channel();
        let memory = MemorySink::default();
        let gap: LossNotice = Box::new(|lost| format!("lost {lost}\n").into_bytes());
        let sink = BlockingSink(wait, memory.clone());
        let journal = BackgroundLineWriter::start(Box::new(sink), 2, Some(gap)).expect("a thread");
        for number in 0..1000 {
            journal.post(format!("{number}\n").into_bytes());
        }
        drop(go);
        journal.flush().await;
        journal.flush().await;
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
        let gap: LossNotice = Box::new(|lost| format!("lost {lost}\n").into_bytes());
        let journal =
            BackgroundLineWriter::start(Box::new(BlockingSink(wait, memory.clone())), 100, Some(gap))
                .expect("a thread");
        for _ in 0..6 {
            journal.post(vec![b'a'; MAX_QUEUED_BYTES / 4]);
        }
        drop(go);
        journal.flush().await;
        journal.flush().await;
        assert!(memory.text().contains("lost 2"), "too many bytes wait");
        // What was written makes room.
        journal.post(b"b\n".to_vec());
        journal.flush().await;
        assert!(memory.text().ends_with("b\n"));
    }
}
