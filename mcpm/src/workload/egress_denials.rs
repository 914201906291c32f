//! Reports denied connections and name lookups as events, in the workload's log and in the audit log.
//!
//! The audit log gets each denial, and has limits of its own. The number of events and of lines in the workload's log
//! is limited, so that a server that retries for ever does not flood them. The limit applies to each rule, and
//! separately to name lookups and to connections. So a server that looks up a thousand names a second cannot hide other
//! denials. A destination is reported once in each interval; denials beyond the limit are counted, and the number is
//! reported.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Map, Value};

use super::{WorkloadEvent, events::WorkloadEvents};
use crate::{
    audit::{Audit, put},
    explain::DenialLog,
    isolation::{EgressDecision, EgressDenial, Rule},
};

/// Interval after which denials are reported again.
const THROTTLE_PERIOD: Duration = Duration::from_secs(60);
/// Denials of a kind that are reported in each interval.
const MAX_REPORTED_PER_KIND: usize = 64;

/// The rule, and whether it was a name lookup.
type DenialKind = (Rule, bool);

/// Reports denials as events and in logs.
#[derive(Debug)]
pub(super) struct EgressDenialReporter {
    events: WorkloadEvents,
    recent: Arc<DenialLog>,
    audit: Option<Arc<Audit>>,
    throttle: Mutex<DenialThrottle>,
}

/// The reports, by kind.
#[derive(Debug, Default)]
struct DenialThrottle(HashMap<DenialKind, ThrottleWindow>);

/// The reports of one kind in the current interval.
#[derive(Debug)]
struct ThrottleWindow {
    since: Instant,
    /// The ids of reported denials, by host and port.
    reported: HashMap<(String, Option<u16>), String>,
    /// The number of new denials that were not reported.
    suppressed: u64,
}

/// The decision on how to report a denial.
#[derive(Debug, Default, PartialEq, Eq)]
struct ThrottleDecision {
    /// The number of unreported denials of the last interval.
    suppressed: u64,
    /// Whether the denial is reported.
    report: bool,
    /// Whether the denial is the first one beyond the limit.
    limit_reached: bool,
    /// The id of its record, or of the record of an equal denial.
    denial_id: Option<String>,
}

impl DenialThrottle {
    fn record(&mut self, denial: &EgressDenial, now: Instant) -> ThrottleDecision {
        let kind = (denial.rule, denial.port.is_none());
        let new_window = || ThrottleWindow { since: now, reported: HashMap::new(), suppressed: 0 };
        let window = self.0.entry(kind).or_insert_with(new_window);
        let mut decision = ThrottleDecision::default();
        if now.duration_since(window.since) >= THROTTLE_PERIOD {
            decision.suppressed = window.suppressed;
            *window = new_window();
        }
        let place = (denial.host.to_string(), denial.port);
        decision.denial_id = window.reported.get(&place).cloned();
        if decision.denial_id.is_some() {
            return decision;
        }
        if window.reported.len() < MAX_REPORTED_PER_KIND {
            window.reported.insert(place, denial.id.clone());
            (decision.report, decision.denial_id) = (true, Some(denial.id.clone()));
        } else {
            decision.limit_reached = window.suppressed == 0;
            window.suppressed += 1;
        }
        decision
    }
}

impl EgressDenialReporter {
    pub(super) fn new(events: WorkloadEvents, recent: Arc<DenialLog>, audit: Option<Arc<Audit>>) -> Self {
        Self { events, recent, audit, throttle: Mutex::default() }
    }

    pub(super) fn on_decision(&self, decision: &EgressDecision) {
        match decision {
            EgressDecision::Allowed { host, port, address } => {
                tracing::debug!(%host, port, %address, "a connection was opened");
            }
            EgressDecision::LookedUp { host } => tracing::debug!(%host, "a name was looked up"),
            EgressDecision::Denied(denial) => {
                // No code panics while it holds the lock.
                let decision = self
                    .throttle
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .record(denial, Instant::now());
                if decision.suppressed > 0 {
                    self.report_suppressed(
                        denial,
                        &format!("{} more {}", decision.suppressed, noun(denial, decision.suppressed)),
                    );
                }
                if decision.limit_reached {
                    self.report_suppressed(
                        denial,
                        &format!("more {} than are reported one by one", noun(denial, 2)),
                    );
                }
                if decision.report {
                    self.report(denial)
                } else {
                    tracing::debug!("{denial}")
                }
                // The audit log gets every denial, and has a limit of its own. An audit event contains the id of the
                // denial only if the denial is on record.
                if let Some(audit) = &self.audit {
                    let (target, extra) = audit_fields(denial, decision.denial_id);
                    audit.connection_denied(target, extra);
                }
            }
        }
    }

    fn report_suppressed(&self, denial: &EgressDenial, what: &str) {
        let message = format!("the rule `{}` denied {what}", denial.rule);
        tracing::warn!("{message}");
        self.events.emit(WorkloadEvent::Warning { message });
    }

    fn report(&self, denial: &EgressDenial) {
        tracing::warn!(refusal = denial.id, "{denial}");
        if let Some(record) = denial.to_record(&self.recent) {
            self.recent.push(record);
        }
        self.events.emit(WorkloadEvent::ConnectionRefused {
            host: denial.host.to_string(),
            port: denial.port,
            address: denial.address.map(|address| address.to_string()),
            rule: denial.rule.to_string(),
            fix: denial.fix.clone(),
            refusal: denial.id.clone(),
        });
    }
}

/// Returns the audit event of a denied connection.
fn audit_fields(denial: &EgressDenial, refusal: Option<String>) -> (Map<String, Value>, Map<String, Value>) {
    let (mut target, mut extra) = (Map::new(), Map::new());
    put(&mut target, "type", Some(if denial.port.is_some() { "connection" } else { "look-up" }));
    put(&mut target, "name", Some(denial.host.to_string()));
    put(&mut target, "port", denial.port);
    put(&mut target, "address", denial.address.map(|address| address.to_string()));
    put(&mut extra, "reason", Some(denial.rule.reason().id()));
    put(&mut extra, "refusal", refusal);
    put(&mut extra, "rule", Some(denial.rule.as_str()));
    put(&mut extra, "fix", Some(denial.fix.clone()));
    (target, extra)
}

fn noun(denial: &EgressDenial, count: u64) -> &'static str {
    match (denial.port, count) {
        (None, 1) => "look-up",
        (None, _) => "look-ups",
        (Some(_), 1) => "connection",
        (Some(_), _) => "connections",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AuditSpec, tests::open_in_memory};

    fn denial(host: &str, port: Option<u16>, rule: Rule) -> EgressDenial {
        let (fix, refusal) = (String::new(), crate::explain::DenialId::new().to_string());
        EgressDenial { host: host.parse().unwrap(), port, address: None, rule, fix, id: refusal }
    }

    #[test]
    fn throttling_is_per_kind_and_counts_suppressed_denials() {
        let mut throttle = DenialThrottle::default();
        let start = Instant::now();
        let mut decisions: Vec<ThrottleDecision> = (0..5000)
            .map(|number| denial(&format!("n{number}.example"), None, Rule::HostNotAllowed))
            .map(|denial| throttle.record(&denial, start))
            .collect();
        assert!(
            decisions[..MAX_REPORTED_PER_KIND]
                .iter()
                .all(|decision| decision.report && decision.denial_id.is_some() && !decision.limit_reached)
        );
        decisions.drain(..MAX_REPORTED_PER_KIND);
        assert_eq!(decisions[0], ThrottleDecision { limit_reached: true, ..ThrottleDecision::default() });
        assert!(decisions[1..].iter().all(|decision| *decision == ThrottleDecision::default()));
        // Only denials that were reported are remembered, so the memory is bounded.
        let size: usize = throttle.0.values().map(|recent| recent.reported.len()).sum();
        assert_eq!(size, MAX_REPORTED_PER_KIND);
        for other in [
            denial("n9999.example", Some(443), Rule::HostNotAllowed),
            denial("n9999.example", Some(443), Rule::PortNotAllowed),
            denial("169.254.169.254", Some(80), Rule::MetadataAddress),
        ] {
            assert!(throttle.record(&other, start).report, "{other}");
            assert!(!throttle.record(&other, start).report, "{other}");
        }
        let later = start + THROTTLE_PERIOD;
        let one = denial("n9999.example", None, Rule::HostNotAllowed);
        let all = 5000 - MAX_REPORTED_PER_KIND as u64;
        let refusal = Some(one.id.clone());
        let decision = ThrottleDecision {
            suppressed: all,
            report: true,
            limit_reached: false,
            denial_id: refusal.clone(),
        };
        assert_eq!(throttle.record(&one, later), decision);
        assert_eq!(
            throttle.record(&one, later),
            ThrottleDecision { denial_id: refusal, ..ThrottleDecision::default() }
        );
    }

    #[tokio::test]
    async fn the_audit_log_has_every_denial_and_only_resolvable_ids() {
        let (audit, memory) = open_in_memory(&AuditSpec::default());
        let recent = Arc::new(DenialLog::new("server", None));
        let refusals =
            EgressDenialReporter::new(WorkloadEvents::new(), Arc::clone(&recent), Some(Arc::clone(&audit)));
        for number in 0..2 * MAX_REPORTED_PER_KIND {
            for host in ["evil.example".to_owned(), format!("n{number}.example")] {
                refusals.on_decision(&EgressDecision::Denied(denial(&host, Some(443), Rule::NoNetwork)));
            }
        }
        audit.flush().await;
        let text = memory.text();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(events.len(), 4 * MAX_REPORTED_PER_KIND, "{text}");
        for (place, event) in events.iter().enumerate() {
            let (name, extra) =
                (event["target"]["name"].as_str().expect("a name"), &event["metadata"]["extra"]);
            let Some(id) = extra["refusal"].as_str() else {
                assert!(name != "evil.example" && place >= 2 * (MAX_REPORTED_PER_KIND - 1), "{event}");
                continue;
            };
            let refusal = crate::explain::explain_in(id, &recent).expect("it is kept").refusal;
            assert_eq!(refusal.expect("one").inputs["host"], name);
        }
    }

    #[tokio::test]
    async fn listeners_get_denials_and_suppressed_counts() {
        let recent = Arc::new(DenialLog::new("server", None));
        let refusals = EgressDenialReporter::new(WorkloadEvents::new(), Arc::clone(&recent), None);
        let mut events = refusals.events.subscribe();
        let hear = |denial: EgressDenial| refusals.on_decision(&EgressDecision::Denied(denial));
        (0..=MAX_REPORTED_PER_KIND)
            .for_each(|n| hear(denial(&format!("n{n}.example"), None, Rule::NoNetwork)));
        hear(denial("evil.example", Some(443), Rule::NoNetwork));
        for _ in 0..MAX_REPORTED_PER_KIND {
            assert!(matches!(events.next().await, Some(WorkloadEvent::ConnectionRefused { .. })));
        }
        let Some(WorkloadEvent::Warning { message }) = events.next().await else { panic!("no warning") };
        assert_eq!(message, "the rule `no-network` denied more look-ups than are reported one by one");
        let last = events.next().await;
        let Some(WorkloadEvent::ConnectionRefused { port: Some(443), refusal, .. }) = last else {
            panic!("{last:?}")
        };
        let explained = crate::explain::explain_in(&refusal.to_uppercase(), &recent).expect("it is kept");
        assert_eq!((explained.reason.as_str(), explained.layer.as_str()), ("egress.no_network", "isolation"));
    }
}
