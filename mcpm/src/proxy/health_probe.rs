//! Probes the server's port for `/health`.
//!
//! Any client may request `/health` without a token and at any rate. So all requests share one probe, and its result is
//! cached for a second: however many requests there are, a running server is probed at most once per second. If the
//! request that started a probe is cancelled, the probe continues.

use std::{
    future::Future,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, task::AbortHandle, time::Instant};

/// Lifetime of a result.
const RESULT_TTL: Duration = Duration::from_secs(1);

/// The result of a probe, and when it completed.
type ProbeResult = (Result<(), String>, Instant);

/// The last probe.
#[derive(Debug, Default)]
pub(crate) struct HealthProbe(Mutex<Option<Probe>>);

#[derive(Debug)]
struct Probe {
    /// The generation of the server that it concerns.
    generation: u64,
    result: watch::Receiver<Option<ProbeResult>>,
    task: AbortHandle,
}

impl Probe {
    fn is_fresh(&self, life: u64) -> bool {
        self.generation == life
            && match &*self.result.borrow() {
                Some((_, at)) => at.elapsed() < RESULT_TTL,
                None => !self.task.is_finished(),
            }
    }
}

impl HealthProbe {
    /// Returns the result of `probe` for this `generation` of the server, or a cached one.
    pub(crate) async fn check<F>(&self, generation: u64, probe: impl FnOnce() -> F) -> Result<(), String>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let mut result = self.subscribe(generation, probe);
        let result = result.wait_for(Option::is_some).await;
        match result.as_deref() {
            Ok(Some((outcome, _))) => outcome.clone(),
            Ok(None) | Err(_) => Err("the proxy is stopping".to_owned()),
        }
    }

    fn subscribe<F>(&self, generation: u64, probe: impl FnOnce() -> F) -> watch::Receiver<Option<ProbeResult>>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.is_fresh(generation)) {
            return last.result.clone();
        }
        let (sender, receiver) = watch::channel(None);
        let probe = probe();
        let task = tokio::spawn(async move {
            let outcome = probe.await;
            sender.send_replace(Some((outcome, Instant::now())));
        });
        let probe = Probe { generation, result: receiver.clone(), task: task.abort_handle() };
        if let Some(before) = last.replace(probe) {
            // A previous probe that is still running concerns a previous generation of the server.
            before.task.abort();
        }
        receiver
    }
}

impl Drop for HealthProbe {
    fn drop(&mut self) {
        if let Some(current) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            current.task.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::future::join_all;
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn strangers_who_ask_at_once_or_soon_make_one_look() {
        let (looks, count, gate) = (HealthProbe::default(), AtomicUsize::new(0), Arc::new(Notify::new()));
        let ask = || {
            looks.check(1, || {
                count.fetch_add(1, Ordering::Relaxed);
                let gate = Arc::clone(&gate);
                async move {
                    gate.notified().await;
                    Ok(())
                }
            })
        };
        // A request that is cancelled does not cause another probe for the next.
        drop(Box::pin(ask()));
        for _ in 0..10 {
            tokio::select! {
                biased;
                _ = ask() => panic!("the gate is closed"),
                () = std::future::ready(()) => {}
            }
        }
        let all = join_all((0..1000).map(|_| ask()));
        let (answers, ()) = tokio::join!(all, async { gate.notify_one() });
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(ask().await, Ok(()));
        assert_eq!(count.load(Ordering::Relaxed), 1);
        // The result expires.
        tokio::time::advance(RESULT_TTL).await;
        gate.notify_one();
        assert_eq!(ask().await, Ok(()));
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_was_started_again_is_looked_at_anew() {
        let looks = HealthProbe::default();
        let down = || async { Err("down".to_owned()) };
        assert_eq!(looks.check(1, down).await, Err("down".to_owned()));
        assert_eq!(looks.check(1, || async { Ok(()) }).await, Err("down".to_owned()));
        assert_eq!(looks.check(2, || async { Ok(()) }).await, Ok(()));
    }
}
