//! Looks whether a server takes connections, for whoever asks for its health.
//!
//! Anybody may ask, without a token and as often as they like. So there is one look at a time, which all who ask
//! meanwhile wait for, and what it found holds for a moment: a stranger makes no more work for the server than one
//! connection a second. A look does not end with whoever asked first, since it would then begin anew with the next.

use std::{
    future::Future,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, task::AbortHandle, time::Instant};

/// How long what was found holds.
const RESULT_TTL: Duration = Duration::from_secs(1);

/// What was found, and when.
type ProbeResult = (Result<(), String>, Instant);

/// The last look.
#[derive(Debug, Default)]
pub(crate) struct HealthProbe(Mutex<Option<Probe>>);

#[derive(Debug)]
struct Probe {
    /// Which life of the server it concerns.
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
    /// Returns what `look` finds of the present `life` of the server, or has just found.
    pub(crate) async fn check<F>(&self, life: u64, look: impl FnOnce() -> F) -> Result<(), String>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let mut found = self.subscribe(life, look);
        let found = found.wait_for(Option::is_some).await;
        match found.as_deref() {
            Ok(Some((outcome, _))) => outcome.clone(),
            Ok(None) | Err(_) => Err("the proxy stops".to_owned()),
        }
    }

    fn subscribe<F>(&self, life: u64, look: impl FnOnce() -> F) -> watch::Receiver<Option<ProbeResult>>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = last.as_ref().filter(|last| last.is_fresh(life)) {
            return last.result.clone();
        }
        let (tell, found) = watch::channel(None);
        let look = look();
        let task = tokio::spawn(async move {
            let outcome = look.await;
            tell.send_replace(Some((outcome, Instant::now())));
        });
        let look = Probe { generation: life, result: found.clone(), task: task.abort_handle() };
        if let Some(before) = last.replace(look) {
            // Of a server that is no more.
            before.task.abort();
        }
        found
    }
}

impl Drop for HealthProbe {
    fn drop(&mut self) {
        if let Some(look) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            look.task.abort();
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
        // One that goes away before there is an answer begins no look for the next.
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
        // What was found is not told for long.
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
