//! Deadlines that are nearly always put off.
//!
//! A timer set for each request costs an entry in the runtime's wheel, and a system call when it is the next
//! one due. A timer that one request is done with serves the next one here: it is only set anew when it rings
//! before the deadline, which happens once in the time it was set for.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tokio::time::{Sleep, sleep_until};

/// Most timers kept for later.
const SPARE: usize = 1024;

/// Makes alarms of about the same length from timers that others are done with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alarms {
    spare: Arc<Mutex<Vec<Pin<Box<Sleep>>>>>,
}

impl Alarms {
    /// Rings at a time.
    pub(crate) fn at(&self, deadline: Instant) -> Alarm {
        Alarm { deadline: deadline.into(), sleep: None, waits: None, alarms: self.clone() }
    }

    /// Waits for a future, but not longer than that.
    pub(crate) async fn within<T>(
        &self,
        patience: Duration,
        mut future: Pin<&mut impl Future<Output = T>>,
    ) -> Option<T> {
        let mut alarm = self.at((tokio::time::Instant::now() + patience).into_std());
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Pin::new(&mut alarm).poll(cx).map(|()| None),
        })
        .await
    }

    fn take(&self) -> Option<Pin<Box<Sleep>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give(&self, sleep: Pin<Box<Sleep>>) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(sleep);
        }
    }
}

impl hyper::rt::Timer for Alarms {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep_until(Instant::now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(self.at(deadline))
    }
}

/// Rings once. Takes no timer before it is polled.
#[derive(Debug)]
pub(crate) struct Alarm {
    deadline: tokio::time::Instant,
    sleep: Option<Pin<Box<Sleep>>>,
    /// Who is woken when the timer rings.
    waits: Option<Waker>,
    alarms: Alarms,
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { deadline, sleep, waits, alarms } = &mut *self;
        let sleep =
            sleep.get_or_insert_with(|| alarms.take().unwrap_or_else(|| Box::pin(sleep_until(*deadline))));
        match waits {
            // Polled for another reason.
            Some(waits) if waits.will_wake(cx.waker()) && !sleep.is_elapsed() => return Poll::Pending,
            Some(_) => {}
            None if sleep.deadline() > *deadline => sleep.as_mut().reset(*deadline),
            None => {}
        }
        while sleep.as_mut().poll(cx).is_ready() {
            if sleep.deadline() >= *deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(*deadline);
        }
        *waits = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl hyper::rt::Sleep for Alarm {}

impl Drop for Alarm {
    fn drop(&mut self) {
        if let Some(sleep) = self.sleep.take() {
            self.alarms.give(sleep);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, pin::pin};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alarm_rings_in_time_whatever_its_timer_was_set_for() {
        let alarms = Alarms::default();
        let millis = Duration::from_millis;
        // The second timer is the first one's and must come earlier, the third one's later.
        for patience in [millis(60_000), millis(20), millis(60)] {
            let begin = tokio::time::Instant::now();
            let mut work = pin!(async {
                tokio::time::sleep(millis(if patience > millis(1000) { 1 } else { 5000 })).await;
            });
            let done = alarms.within(patience, work.as_mut()).await;
            assert_eq!(done.is_some(), patience > millis(1000));
            // The clock stands still but for timers, and its grain is a millisecond.
            let waited = begin.elapsed();
            assert!(done.is_some() || (patience..=patience + millis(2)).contains(&waited), "{waited:?}");
            assert_eq!(alarms.spare.lock().expect("unpoisoned").len(), 1);
        }
        let rang = alarms.within(millis(1), pin!(pending::<()>())).await;
        assert_eq!(rang, None);
    }
}
