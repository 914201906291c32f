//! Queues log lines for a thread that writes them. If the queue is full, lines are lost; the log then states how many.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The interval at which a full queue is checked for room.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Writes lines on a thread that ends with the process.
#[derive(Debug)]
pub(super) struct Queue {
    sender: SyncSender<Entry>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Entry {
    Line(Box<[u8]>),
    /// Signals that all previous lines are written.
    Flush(SyncSender<()>),
}

impl Queue {
    /// Starts the thread with a queue of `capacity` lines.
    pub(super) fn start(capacity: usize, write: impl Fn(&[u8]) + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(capacity);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        thread::Builder::new().name("mcpm-log".to_owned()).spawn(move || run(&receiver, &counted, write))?;
        Ok(Self { sender, lost })
    }

    /// Queues a line without blocking: if the queue is full, the line is lost.
    pub(super) fn post(&self, line: &[u8]) {
        if self.sender.try_send(Entry::Line(line.into())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all queued lines are written; `false` after the timeout.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let (written, flushed) = sync_channel(1);
        while self.sender.try_send(Entry::Flush(written.clone())).is_err() {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
        flushed.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
    }
}

fn run(receiver: &Receiver<Entry>, lost: &AtomicU64, write: impl Fn(&[u8])) {
    while let Ok(entry) = receiver.recv() {
        let gap = lost.swap(0, Ordering::Relaxed);
        if gap > 0 {
            write(
                format!("{gap} lines of the log were lost, because they could not be written in time\n")
                    .as_bytes(),
            );
        }
        match entry {
            Entry::Line(line) => write(&line),
            // The caller may have stopped waiting.
            Entry::Flush(written) => drop(written.try_send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc::channel};

    use super::*;

    #[test]
    fn unwritable_lines_block_nobody_and_are_counted() {
        let (go, wait) = channel::<()>();
        let text = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&text);
        let queue = Queue::start(4, move |line| {
            // The test closes the other end when it is done.
            let _ = wait.recv();
            written.lock().expect("sound").push_str(std::str::from_utf8(line).expect("text"));
        })
        .expect("a thread");
        for number in 0..1000 {
            queue.post(format!("line {number}\n").as_bytes());
        }
        assert!(!queue.flush(Duration::ZERO), "nothing is written yet");
        drop(go);
        while !queue.flush(Duration::from_secs(60)) {
            thread::yield_now();
        }
        let text = text.lock().expect("sound").clone();
        let lines = text.lines().filter(|line| line.starts_with("line ")).count();
        let gaps = text.lines().filter(|line| !line.starts_with("line "));
        let lost: usize = gaps.filter_map(|gap| gap.split(' ').next()?.parse::<usize>().ok()).sum();
        assert!(text.contains("line 0\n") && lines >= 4, "{text}");
        assert_eq!(lines + lost, 1000, "{text}");
    }
}
