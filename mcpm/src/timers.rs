//! Coarse shared timers for timeouts that rarely fire.
//!
//! A tokio timer for each request would cost an entry in tokio's timer wheel, and a system call if the timer is the
//! next one due. Timers of the same length are due in about the order in which they are set, and nearly all of them are
//! dropped before they fire. So one tokio timer serves all timers of one length, and rarely has to be set again before
//! it fires.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use slab::Slab;
use tokio::{task::AbortHandle, time::Instant};

/// Creates timers of about the same length, which one task serves.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoarseTimers {
    set: Arc<TimerSet>,
}

/// The timers that are being polled.
#[derive(Debug, Default)]
struct TimerSet {
    waiting: Mutex<TimerSetState>,
}

#[derive(Debug, Default)]
struct TimerSetState {
    entries: Slab<TimerEntry>,
    /// The task that serves the timers, and the time until which it sleeps; `None` while there are no timers.
    driver: Option<(AbortHandle, Instant)>,
}

#[derive(Debug)]
struct TimerEntry {
    deadline: Instant,
    waker: Waker,
    fired: bool,
}

impl CoarseTimers {
    /// Returns a timer that fires after that time.
    pub(crate) fn timer(&self, patience: Duration) -> CoarseTimer {
        CoarseTimer { deadline: Instant::now() + patience, key: None, set: Arc::clone(&self.set) }
    }

    /// Waits for a future, with a timeout.
    pub(crate) async fn timeout<T>(
        &self,
        patience: Duration,
        mut future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let mut timer = self.timer(patience);
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Pin::new(&mut timer).poll(cx).map(|()| None),
        })
        .await
    }
}

impl hyper::rt::Timer for CoarseTimers {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(self.timer(duration))
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(CoarseTimer { deadline: deadline.into(), key: None, set: Arc::clone(&self.set) })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }
}

impl TimerSet {
    fn lock(&self) -> MutexGuard<'_, TimerSetState> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the task check the timers at that time.
    fn schedule_driver(self: &Arc<Self>, waiting: &mut TimerSetState, time: Instant) {
        let task = tokio::spawn(drive(Arc::downgrade(self), time)).abort_handle();
        if let Some((replaced, _)) = waiting.driver.replace((task, time)) {
            replaced.abort();
        }
    }
}

impl Drop for TimerSet {
    fn drop(&mut self) {
        if let Some((task, _)) = self.lock().driver.take() {
            task.abort();
        }
    }
}

/// Fires the timers that are due, then sleeps until the first of the remaining timers is due, and so on.
async fn drive(set: Weak<TimerSet>, mut time: Instant) {
    loop {
        tokio::time::sleep_until(time).await;
        let Some(set) = set.upgrade() else { return };
        let now = Instant::now();
        let (mut due, mut next) = (Vec::new(), None);
        let mut waiting = set.lock();
        if waiting.driver.as_ref().map(|(task, _)| task.id()) != tokio::task::try_id() {
            // Another task has taken over.
            return;
        }
        for (_, waits) in waiting.entries.iter_mut().filter(|(_, waits)| !waits.fired) {
            if waits.deadline <= now {
                waits.fired = true;
                due.push(waits.waker.clone());
            } else if next.is_none_or(|next| waits.deadline < next) {
                next = Some(waits.deadline);
            }
        }
        match (&mut waiting.driver, next) {
            (Some((_, looks)), Some(next)) => (time, *looks) = (next, next),
            _ => waiting.driver = None,
        }
        let ends = waiting.driver.is_none();
        drop(waiting);
        due.into_iter().for_each(Waker::wake);
        if ends {
            return;
        }
    }
}

/// A timer that fires once. The task serves it from its first poll on.
#[derive(Debug)]
pub(crate) struct CoarseTimer {
    deadline: Instant,
    key: Option<usize>,
    set: Arc<TimerSet>,
}

impl Future for CoarseTimer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { deadline, key: place, set } = &mut *self;
        let mut waiting = set.lock();
        match place.and_then(|place| waiting.entries.get_mut(place)) {
            Some(waits) if waits.fired => return Poll::Ready(()),
            Some(waits) => waits.waker.clone_from(cx.waker()),
            None => {
                let waits = TimerEntry { deadline: *deadline, waker: cx.waker().clone(), fired: false };
                *place = Some(waiting.entries.insert(waits));
                if waiting.driver.as_ref().is_none_or(|(_, looks)| *looks > *deadline) {
                    set.schedule_driver(&mut waiting, *deadline);
                }
            }
        }
        Poll::Pending
    }
}

impl hyper::rt::Sleep for CoarseTimer {}

impl Drop for CoarseTimer {
    fn drop(&mut self) {
        if let Some(place) = self.key {
            let waits = self.set.lock().entries.try_remove(place);
            // Waking tasks may drop large values, so it happens after the lock is released.
            drop(waits);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, pin::pin};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_fires_on_time_whenever_the_driver_was_due() {
        let timers = CoarseTimers::default();
        let millis = Duration::from_millis;
        // The first timer is dropped long before its time, for which the task still sleeps: the second one is due
        // earlier than that, the third one later.
        for patience in [millis(60_000), millis(20), millis(60)] {
            let begin = Instant::now();
            let mut work = pin!(async {
                tokio::time::sleep(millis(if patience > millis(1000) { 1 } else { 5000 })).await;
            });
            let done = timers.timeout(patience, work.as_mut()).await;
            assert_eq!(done.is_some(), patience > millis(1000));
            // The paused clock only advances to timers, in milliseconds.
            let waited = begin.elapsed();
            assert!(done.is_some() || (patience..=patience + millis(2)).contains(&waited), "{waited:?}");
            assert!(timers.set.lock().entries.is_empty(), "nothing waits any more");
        }
        let rang = timers.timeout(millis(1), pin!(pending::<()>())).await;
        assert_eq!(rang, None);
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_many_timers_fires_on_time() {
        let timers = CoarseTimers::default();
        let begin = Instant::now();
        let waits = [50, 10, 30, 10, 40].map(|millis| {
            let timer = timers.timer(Duration::from_millis(millis));
            async move {
                timer.await;
                begin.elapsed().as_millis().abs_diff(millis.into())
            }
        });
        let late = futures_util::future::join_all(waits).await;
        assert!(late.iter().all(|late| *late <= 2), "{late:?}");
        assert!(timers.set.lock().driver.is_none(), "nobody is looked after");
    }

    #[tokio::test]
    async fn the_driver_ends_with_its_timers() {
        let timers = CoarseTimers::default();
        let mut timer = timers.timer(Duration::from_secs(3600));
        assert!(Pin::new(&mut timer).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let task = timers.set.lock().driver.as_ref().map(|(task, _)| task.clone()).expect("a task");
        drop((timer, timers));
        while !task.is_finished() {
            tokio::task::yield_now().await;
        }
    }
}
