//! Writes lines on a background thread, so that a slow disk blocks no other task.
//!
//! Lines wait in a bounded queue, and lines that are queued at the same time are written together.
//! [`write_and_wait`](BackgroundLineWriter::write_and_wait) waits until a line is queued and written.
//! [`post`](BackgroundLineWriter::post) does not wait, and drops the line if the queue is full. If the sink fails, the
//! lines that it should write are dropped. Dropped lines are counted, and a notice with their number, if the caller
//! defines one, is written as soon as that is possible.

mod file;
mod sink;

use std::{
    fmt, io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, oneshot};

use sink::MAX_BATCH_BYTES;

pub(crate) use {
    file::{RotatingFile, Rotation, rotated_path},
    sink::LineSink,
};

/// Timeout of writing a line that a caller waits for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a line is delayed so that further lines can be written together with it, unless a caller waits for the
/// line. Waking the thread for each line would take longer than writing the line.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(10);
/// Maximum number of bytes in the queue.
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// The error of a line that is dropped because it cannot be queued.
const QUEUE_FULL_MESSAGE: &str = "the queue is full";

/// Creates the notice with the number of dropped lines.
pub(crate) type LossNotice = Box<dyn Fn(u64) -> Vec<u8> + Send>;

/// Writes lines on a background thread. After it is dropped, the thread still writes the queued lines.
#[derive(Debug)]
pub(crate) struct BackgroundLineWriter {
    queue: Arc<LineQueue>,
    losses: Arc<LossCounter>,
}

/// The lines that are to be written.
#[derive(Debug)]
struct LineQueue {
    lines: Mutex<QueuedLines>,
    /// Wakes the thread.
    wake: Condvar,
    /// How many more lines may be queued.
    room: Semaphore,
    capacity: usize,
    /// Bytes that are queued or being written.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct QueuedLines {
    text: Vec<u8>,
    /// The position in the text where each line ends.
    ends: Vec<usize>,
    /// The lines, by number, whose callers wait until they are written.
    waiting: Vec<(usize, oneshot::Sender<Result<(), WriteError>>)>,
    /// Whether the thread waits for a line.
    is_idle: bool,
    is_closed: bool,
}

impl QueuedLines {
    /// Whether lines should be written without waiting for more.
    fn is_due(&self) -> bool {
        self.is_closed || !self.waiting.is_empty() || self.text.len() >= MAX_BATCH_BYTES
    }

    fn clear(&mut self) {
        self.text.clear();
        // Releases memory that only an unusually large batch needed.
        self.text.shrink_to(2 * MAX_BATCH_BYTES);
        self.ends.clear();
        self.waiting.clear();
    }
}

impl LineQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedLines> {
        // No code panics while it holds the lock.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, and wakes the thread if it waits for a first line, or if the batch is due.
    fn push(&self, line: &[u8], written: Option<oneshot::Sender<Result<(), WriteError>>>) {
        let mut lines = self.lock();
        let number = lines.ends.len();
        lines.waiting.extend(written.map(|written| (number, written)));
        lines.text.extend_from_slice(line);
        let end = lines.text.len();
        lines.ends.push(end);
        let wakes = std::mem::take(&mut lines.is_idle) || lines.is_due();
        drop(lines);
        if wakes {
            self.wake.notify_one();
        }
    }

    /// Waits for a line, and then briefly for further lines. Returns `false` if the queue is empty and closed.
    fn take(&self, batch: &mut QueuedLines) -> bool {
        batch.clear();
        let mut lines = self.lock();
        while lines.ends.is_empty() {
            if lines.is_closed {
                return false;
            }
            lines.is_idle = true;
            lines = self.wake.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
        let deadline = Instant::now() + MAX_WRITE_DELAY;
        while !lines.is_due()
            && let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
        {
            lines = self.wake.wait_timeout(lines, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut lines.text, &mut batch.text);
        std::mem::swap(&mut lines.ends, &mut batch.ends);
        std::mem::swap(&mut lines.waiting, &mut batch.waiting);
        drop(lines);
        self.room.add_permits(batch.ends.len());
        true
    }
}

impl Drop for BackgroundLineWriter {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.wake.notify_one();
    }
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
        capacity: usize,
        loss_notice: Option<LossNotice>,
    ) -> io::Result<Self> {
        let queue = Arc::new(LineQueue {
            lines: Mutex::default(),
            wake: Condvar::new(),
            room: Semaphore::new(capacity),
            capacity,
            bytes: AtomicUsize::new(0),
        });
        let losses = Arc::new(LossCounter::default());
        let writer =
            WriterThread { sink, queue: Arc::clone(&queue), loss_notice, losses: Arc::clone(&losses) };
        thread::Builder::new().name("mcpm-lines".to_owned()).spawn(move || writer.run())?;
        Ok(Self { queue, losses })
    }

    /// Queues a line. If the queue is full, the line is dropped and counted.
    pub(crate) fn post(&self, line: &[u8]) {
        let Some(room) = self.queue.room.try_acquire().ok().filter(|_| self.try_reserve(line.len())) else {
            self.losses.add(1, QUEUE_FULL_MESSAGE);
            return;
        };
        room.forget();
        self.queue.push(line, None);
    }

    /// Whether less than half of the queue is used. Lines that unauthenticated callers can cause in any number are
    /// queued only then, so that the other half is left for other lines.
    pub(crate) fn is_below_half_full(&self) -> bool {
        self.queue.room.available_permits() > self.queue.capacity / 2
            && self.queue.bytes.load(Ordering::Relaxed) < MAX_QUEUED_BYTES / 2
    }

    /// Reserves bytes of the queue, if there are enough left.
    fn try_reserve(&self, size: usize) -> bool {
        let before = self.queue.bytes.fetch_add(size, Ordering::Relaxed);
        let fits = before.saturating_add(size) <= MAX_QUEUED_BYTES;
        if !fits {
            self.queue.bytes.fetch_sub(size, Ordering::Relaxed);
        }
        fits
    }

    /// Waits until a line is written.
    ///
    /// # Errors
    /// If it cannot be written, or not in time.
    pub(crate) async fn write_and_wait(&self, line: Vec<u8>) -> Result<(), WriteError> {
        // The waiting caller keeps the line in memory anyway, so the line is counted, but never rejected.
        let (written, outcome) = oneshot::channel();
        let gone = || WriteError("the line writer has stopped".to_owned());
        let writing = async {
            self.queue.room.acquire().await.map_err(|_| gone())?.forget();
            self.queue.bytes.fetch_add(line.len(), Ordering::Relaxed);
            self.queue.push(&line, Some(written));
            outcome.await.map_err(|_| gone())?
        };
        let late = |_| WriteError("the line was not written in time".to_owned());
        tokio::time::timeout(WRITE_TIMEOUT, writing).await.map_err(late)?
    }

    /// Waits until all lines that were posted before are written or dropped.
    pub(crate) async fn flush(&self) {
        // An error was already logged.
        let _ = self.write_and_wait(Vec::new()).await;
    }
}

/// The state of the thread.
struct WriterThread {
    sink: Box<dyn LineSink>,
    queue: Arc<LineQueue>,
    loss_notice: Option<LossNotice>,
    losses: Arc<LossCounter>,
}

impl WriterThread {
    fn run(mut self) {
        let mut batch = QueuedLines::default();
        while self.queue.take(&mut batch) {
            let mut waiting = std::mem::take(&mut batch.waiting).into_iter().peekable();
            let (mut first, mut begin) = (0, 0);
            while first < batch.ends.len() {
                // The number of lines that fit into one write; at least one line.
                let most = self.sink.max_batch_bytes();
                let fits = batch.ends[first..].partition_point(|end| end - begin <= most).max(1);
                let (next, end) = (first + fits, batch.ends[first + fits - 1]);
                let outcome = self.write(&batch.text[begin..end], begin, &batch.ends[first..next]);
                self.queue.bytes.fetch_sub(end - begin, Ordering::Relaxed);
                while let Some((_, written)) = waiting.next_if(|(number, _)| *number < next) {
                    // The caller may be gone.
                    let _ = written.send(outcome.clone());
                }
                (first, begin) = (next, end);
            }
        }
    }

    /// Writes lines; the first line begins at `begin`, and the lines end at `ends`.
    fn write(&mut self, lines: &[u8], begin: usize, ends: &[usize]) -> Result<(), WriteError> {
        let lost = self.losses.count.swap(0, Ordering::Relaxed);
        let outcome = match (lost, &self.loss_notice) {
            (1.., Some(loss_notice)) => self.sink.write(&[&loss_notice(lost), lines].concat()),
            _ if lines.is_empty() => Ok(()),
            _ => self.sink.write(lines),
        };
        let outcome = outcome.map_err(|error| WriteError(error.to_string()));
        match &outcome {
            Ok(()) => self.losses.is_reported.store(false, Ordering::Relaxed),
            Err(error) => {
                // Waiting callers get the error, but their lines are counted as dropped too.
                let begins = std::iter::once(&begin).chain(ends);
                let own = ends.iter().zip(begins).filter(|(end, begin)| end > begin).count() as u64;
                self.losses.add(lost + own, &error.0);
            }
        }
        outcome
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// A sink that keeps lines in memory, and fails while it is full.
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
        writer.post(b"c\n");
        writer.flush().await;
        memory.full.store(false, Ordering::Relaxed);
        writer.write_and_wait(b"d\n".to_vec()).await.expect("room");
        writer.post(b"e\n");
        writer.flush().await;
        assert_eq!(memory.text(), "a\nlost 2\nd\ne\n");
    }

    /// A sink that blocks until the test lets it write.
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
            writer.post(format!("{number}\n").as_bytes());
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
            writer.post(&vec![b'a'; MAX_QUEUED_BYTES / 4]);
        }
        drop(go);
        writer.flush().await;
        writer.flush().await;
        assert!(memory.text().contains("lost 2"), "too many bytes wait");
        // Written lines free room in the queue.
        writer.post(b"b\n");
        writer.flush().await;
        assert!(memory.text().ends_with("b\n"));
    }
}
