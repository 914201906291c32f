//! Tells of refused connections, without letting a server that tries for ever drown everything else.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{WorkloadEvent, events::Events};
use crate::isolation::{Decision, Denial, Rule};

/// The same refusal is told again after this.
const AGAIN: Duration = Duration::from_secs(60);
/// Most refusals that are remembered; beyond that, new ones are told of in the log alone.
const REMEMBERED: usize = 1024;

/// What makes two refusals the same: host, port and rule.
type Kind = (String, Option<u16>, Rule);

/// Tells listeners and the log.
#[derive(Debug)]
pub(super) struct Refusals {
    events: Events,
    told: Mutex<HashMap<Kind, Instant>>,
}

impl Refusals {
    pub(super) fn new(events: Events) -> Self {
        Self { events, told: Mutex::default() }
    }

    pub(super) fn hear(&self, decision: &Decision) {
        match decision {
            Decision::Allowed { host, port, address } => {
                tracing::debug!(%host, port, %address, "a connection was opened");
            }
            Decision::Denied(denial) if self.is_news(denial) => self.tell(denial),
            Decision::Denied(denial) => tracing::debug!("{denial}"),
        }
    }

    fn is_news(&self, denial: &Denial) -> bool {
        let key = (denial.host.to_string(), denial.port, denial.rule);
        // No code panics while it holds the lock.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= REMEMBERED {
            told.retain(|_, since| since.elapsed() < AGAIN);
        }
        if told.len() >= REMEMBERED || told.get(&key).is_some_and(|since| since.elapsed() < AGAIN) {
            return false;
        }
        told.insert(key, Instant::now());
        true
    }

    fn tell(&self, denial: &Denial) {
        tracing::warn!("{denial}");
        self.events.tell(WorkloadEvent::ConnectionRefused {
            host: denial.host.to_string(),
            port: denial.port,
            address: denial.address.map(|address| address.to_string()),
            rule: denial.rule.to_string(),
            fix: denial.fix.clone(),
        });
    }
}
