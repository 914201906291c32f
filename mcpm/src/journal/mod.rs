//! Lines that are written one after the other by a thread of their own, so that a slow disk holds up nobody else.
//!
//! What is posted waits in a bounded queue. Whoever needs to know waits until a line [is written](Journal::written);
//! all others [post](Journal::post) it, and when the queue is full, or the sink fails, the line is lost and counted,
//! and the journal says so itself as soon as it can write again.

mod file;

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

pub(crate) use file::{RotatingFile, Rotation, older};

/// How long a line may take to be written for whoever waits for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes that wait to be written.
const WAITING: usize = 16 << 20;
/// Most bytes that are written at once.
const BATCH: usize = 64 << 10;

/// Why a line is lost that does not even wait.
const TOO_MANY: &str = "too many wait to be written";

/// Where lines go.
pub(crate) trait Sink: Send + fmt::Debug {
    /// Writes whole lines: all of them, or it fails.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;

    /// Most bytes of several lines that it takes at once.
    fn at_once(&self) -> usize {
        BATCH
    }
}

/// A line that says how many were lost.
pub(crate) type Gap = Box<dyn Fn(u64) -> Vec<u8> + Send>;

/// Writes lines. Dropping it lets those that wait be written.
#[derive(Debug)]
pub(crate) struct Journal {
    sender: mpsc::Sender<Entry>,
    lost: Arc<Lost>,
    /// Bytes that wait to be written.
    waiting: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Entry {
    line: Vec<u8>,
    /// Told whether it was written.
    written: Option<oneshot::Sender<Result<(), NotWritten>>>,
}

/// A line was not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotWritten(String);

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotWritten {}

/// What got lost.
#[derive(Debug, Default)]
struct Lost {
    count: AtomicU64,
    /// Whether that was logged since lines were written last.
    told: AtomicBool,
}

impl Lost {
    fn add(&self, lines: u64, why: &str) {
        self.count.fetch_add(lines, Ordering::Relaxed);
        if !self.told.swap(true, Ordering::Relaxed) {
            tracing::error!(why, "lines of a journal are lost");
        }
    }
}

impl Journal {
    /// Starts the thread. Without a `gap` nothing is written about lines that were lost.
    pub(crate) fn start(sink: Box<dyn Sink>, queue: usize, gap: Option<Gap>) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel(queue);
        let lost = Arc::new(Lost::default());
        let waiting = Arc::new(AtomicUsize::new(0));
        let writer = Writer { sink, receiver, gap, lost: Arc::clone(&lost), waiting: Arc::clone(&waiting) };
        thread::Builder::new().name("mcpm-journal".to_owned()).spawn(move || writer.run())?;
        Ok(Self { sender, lost, waiting })
    }

    /// Has a line written some time soon. When too many wait already it is lost, and counted.
    pub(crate) fn post(&self, line: Vec<u8>) {
        let size = line.len();
        let queued = self.waits(size) && {
            let queued = self.sender.try_send(Entry { line, written: None }).is_ok();
            if !queued {
                self.waiting.fetch_sub(size, Ordering::Relaxed);
            }
            queued
        };
        if !queued {
            self.lost.add(1, TOO_MANY);
        }
    }

    /// Whether less than half of what may wait does. Lines of which anybody can cause any number leave the other half to
    /// the rest.
    pub(crate) fn has_room_to_spare(&self) -> bool {
        self.sender.capacity() > self.sender.max_capacity() / 2
            && self.waiting.load(Ordering::Relaxed) < WAITING / 2
    }

    /// Counts so many bytes among those that wait, unless they are too many.
    fn waits(&self, size: usize) -> bool {
        let before = self.waiting.fetch_add(size, Ordering::Relaxed);
        let fits = before.saturating_add(size) <= WAITING;
        if !fits {
            self.waiting.fetch_sub(size, Ordering::Relaxed);
        }
        fits
    }

    /// Waits until a line is written.
    ///
    /// # Errors
    /// When it cannot be, or not in time.
    pub(crate) async fn written(&self, line: Vec<u8>) -> Result<(), NotWritten> {
        // Whoever waits holds the line anyway, so that it is counted and not turned away.
        let size = line.len();
        let (written, told) = oneshot::channel();
        let gone = || NotWritten("the journal is gone".to_owned());
        let writing = async {
            let place = self.sender.reserve().await.map_err(|_| gone())?;
            self.waiting.fetch_add(size, Ordering::Relaxed);
            place.send(Entry { line, written: Some(written) });
            told.await.map_err(|_| gone())?
        };
        let late = |_| NotWritten("writing takes too long".to_owned());
        tokio::time::timeout(PATIENCE, writing).await.map_err(late)?
    }

    /// Waits until all lines that were posted before are written or lost.
    pub(crate) async fn flush(&self) {
        // A failure is told where it matters.
        let _ = self.written(Vec::new()).await;
    }
}

/// The thread's own.
struct Writer {
    sink: Box<dyn Sink>,
    receiver: mpsc::Receiver<Entry>,
    gap: Option<Gap>,
    lost: Arc<Lost>,
    waiting: Arc<AtomicUsize>,
}

impl Writer {
    fn run(mut self) {
        let (most, mut next) = (self.sink.at_once(), None);
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

    fn write(&mut self, batch: Vec<Entry>) {
        let mut lines = Vec::new();
        let lost = self.lost.count.swap(0, Ordering::Relaxed);
        if let (1.., Some(gap)) = (lost, &self.gap) {
            lines.extend_from_slice(&gap(lost));
        }
        batch.iter().for_each(|entry| lines.extend_from_slice(&entry.line));
        let outcome = if lines.is_empty() { Ok(()) } else { self.sink.write(&lines) };
        let outcome = outcome.map_err(|error| NotWritten(error.to_string()));
        match &outcome {
            Ok(()) => self.lost.told.store(false, Ordering::Relaxed),
            Err(error) => {
                // Lines that somebody waits for are not lost in silence; they are counted all the same.
                let own = batch.iter().filter(|entry| !entry.line.is_empty()).count() as u64;
                self.lost.add(lost + own, &error.0);
            }
        }
        for written in batch.into_iter().filter_map(|entry| entry.written) {
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
    pub(crate) struct Memory {
        lines: Arc<Mutex<Vec<u8>>>,
        pub(crate) full: Arc<AtomicBool>,
    }

    impl Memory {
        pub(crate) fn text(&self) -> String {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&lines).into_owned()
        }
    }

    impl Sink for Memory {
        fn write(&mut self, lines: &[u8]) -> io::Result<()> {
            if self.full.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.lines.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(lines);
            Ok(())
        }
    }

    #[tokio::test]
    async fn what_is_lost_is_counted_and_told_in_the_journal() {
        let memory = Memory::default();
        let gap: Gap = Box::new(|lost| format!("lost {lost}\n").into_bytes());
        let journal = Journal::start(Box::new(memory.clone()), 8, Some(gap)).expect("a thread");
        journal.written(b"a\n".to_vec()).await.expect("room");
        memory.full.store(true, Ordering::Relaxed);
        journal.written(b"b\n".to_vec()).await.expect_err("no room");
        journal.post(b"c\n".to_vec());
        journal.flush().await;
        memory.full.store(false, Ordering::Relaxed);
        journal.written(b"d\n".to_vec()).await.expect("room");
        journal.post(b"e\n".to_vec());
        journal.flush().await;
        assert_eq!(memory.text(), "a\nlost 2\nd\ne\n");
    }

    /// Writes nothing before it is let.
    #[derive(Debug)]
    pub(crate) struct Slow(pub(crate) std::sync::mpsc::Receiver<()>, pub(crate) Memory);

    impl Sink for Slow {
        fn write(&mut self, lines: &[u8]) -> io::Result<()> {
            // The test lets go of the other end when it is through.
            let _ = self.0.recv();
            self.1.write(lines)
        }
    }

    #[tokio::test]
    async fn a_full_queue_holds_up_nobody_who_does_not_wait() {
        let (go, wait) = std::sync::mpsc::channel();
        let memory = Memory::default();
        let gap: Gap = Box::new(|lost| format!("lost {lost}\n").into_bytes());
        let sink = Slow(wait, memory.clone());
        let journal = Journal::start(Box::new(sink), 2, Some(gap)).expect("a thread");
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
    async fn what_waits_is_bounded_by_its_size() {
        let (go, wait) = std::sync::mpsc::channel();
        let memory = Memory::default();
        let gap: Gap = Box::new(|lost| format!("lost {lost}\n").into_bytes());
        let journal = Journal::start(Box::new(Slow(wait, memory.clone())), 100, Some(gap)).expect("a thread");
        for _ in 0..6 {
            journal.post(vec![b'a'; WAITING / 4]);
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
