//! Tells of refused connections: of each in the audit log, and people without letting a server that tries for ever
//! drown everything else.
//!
//! Refusals are bounded by kind: by rule, and names that were looked up apart from connections. So a server that looks up
//! a thousand names a second hides neither that it was kept from the machine nor what it tried to connect to. What is
//! not told one by one is counted, and told as a number.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Map, Value};

use super::{WorkloadEvent, events::Events};
use crate::{
    audit::{Audit, put},
    explain::Recent,
    isolation::{Decision, Denial, Rule},
};

/// Refusals are told anew after this.
const AGAIN: Duration = Duration::from_secs(60);
/// Most refusals of a kind that are told one by one until then.
const ONE_BY_ONE: usize = 64;

/// The rule, and whether it was a look-up.
type Kind = (Rule, bool);

/// Tells listeners and the log.
#[derive(Debug)]
pub(super) struct Refusals {
    events: Events,
    recent: Arc<Recent>,
    audit: Option<Arc<Audit>>,
    told: Mutex<Told>,
}

/// What was told, by kind.
#[derive(Debug, Default)]
struct Told(HashMap<Kind, Since>);

/// What was told of a kind since a moment.
#[derive(Debug)]
struct Since {
    since: Instant,
    /// By host and port, and under which id.
    told: HashMap<(String, Option<u16>), String>,
    /// How many came that were new and not told.
    more: u64,
}

/// What to say about a refusal.
#[derive(Debug, Default, PartialEq, Eq)]
struct News {
    /// How many of the kind were not told before, once that is over.
    untold: u64,
    /// Whether it is told.
    tell: bool,
    /// Whether it is the first one too many.
    full: bool,
    /// The id under which it is kept, or one like it.
    refusal: Option<String>,
}

impl Told {
    fn hear(&mut self, denial: &Denial, now: Instant) -> News {
        let kind = (denial.rule, denial.port.is_none());
        let begin = || Since { since: now, told: HashMap::new(), more: 0 };
        let recent = self.0.entry(kind).or_insert_with(begin);
        let mut news = News::default();
        if now.duration_since(recent.since) >= AGAIN {
            news.untold = recent.more;
            *recent = begin();
        }
        let place = (denial.host.to_string(), denial.port);
        news.refusal = recent.told.get(&place).cloned();
        if news.refusal.is_some() {
            return news;
        }
        if recent.told.len() < ONE_BY_ONE {
            recent.told.insert(place, denial.refusal.clone());
            (news.tell, news.refusal) = (true, Some(denial.refusal.clone()));
        } else {
            news.full = recent.more == 0;
            recent.more += 1;
        }
        news
    }
}

impl Refusals {
    pub(super) fn new(events: Events, recent: Arc<Recent>, audit: Option<Arc<Audit>>) -> Self {
        Self { events, recent, audit, told: Mutex::default() }
    }

    pub(super) fn hear(&self, decision: &Decision) {
        match decision {
            Decision::Allowed { host, port, address } => {
                tracing::debug!(%host, port, %address, "a connection was opened");
            }
            Decision::LookedUp { host } => tracing::debug!(%host, "a name was looked up"),
            Decision::Denied(denial) => {
                // No code panics while it holds the lock.
                let news =
                    self.told.lock().unwrap_or_else(PoisonError::into_inner).hear(denial, Instant::now());
                if news.untold > 0 {
                    self.count(denial, &format!("{} more {}", news.untold, what(denial, news.untold)));
                }
                if news.full {
                    self.count(denial, &format!("more {} than are told one by one", what(denial, 2)));
                }
                if news.tell {
                    self.tell(denial)
                } else {
                    tracing::debug!("{denial}")
                }
                // Each one: what people are spared is what an audit log is for, which limits them itself. It names an id
                // only that leads somewhere.
                if let Some(audit) = &self.audit {
                    let (target, extra) = recorded(denial, news.refusal);
                    audit.refused_connection(target, extra);
                }
            }
        }
    }

    fn count(&self, denial: &Denial, what: &str) {
        let message = format!("the rule `{}` refused {what}", denial.rule);
        tracing::warn!("{message}");
        self.events.tell(WorkloadEvent::Warning { message });
    }

    fn tell(&self, denial: &Denial) {
        tracing::warn!(refusal = denial.refusal, "{denial}");
        if let Some(refused) = denial.refused(&self.recent) {
            self.recent.keep(refused);
        }
        self.events.tell(WorkloadEvent::ConnectionRefused {
            host: denial.host.to_string(),
            port: denial.port,
            address: denial.address.map(|address| address.to_string()),
            rule: denial.rule.to_string(),
            fix: denial.fix.clone(),
            refusal: denial.refusal.clone(),
        });
    }
}

/// What the audit log says of a refused connection.
fn recorded(denial: &Denial, refusal: Option<String>) -> (Map<String, Value>, Map<String, Value>) {
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

fn what(denial: &Denial, count: u64) -> &'static str {
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
    use crate::audit::{AuditSpec, tests::opened};

    fn denial(host: &str, port: Option<u16>, rule: Rule) -> Denial {
        let (fix, refusal) = (String::new(), crate::explain::RefusalId::new().to_string());
        Denial { host: host.parse().unwrap(), port, address: None, rule, fix, refusal }
    }

    #[test]
    fn noise_hides_no_other_kind_of_refusal_and_is_counted() {
        let mut told = Told::default();
        let begin = Instant::now();
        let mut heard: Vec<News> = (0..5000)
            .map(|number| denial(&format!("n{number}.example"), None, Rule::HostNotAllowed))
            .map(|denial| told.hear(&denial, begin))
            .collect();
        assert!(heard[..ONE_BY_ONE].iter().all(|news| news.tell && news.refusal.is_some() && !news.full));
        heard.drain(..ONE_BY_ONE);
        assert_eq!(heard[0], News { full: true, ..News::default() });
        assert!(heard[1..].iter().all(|news| *news == News::default()));
        // What went to the same place before is remembered, and nothing beyond.
        let size: usize = told.0.values().map(|recent| recent.told.len()).sum();
        assert_eq!(size, ONE_BY_ONE);
        for other in [
            denial("n9999.example", Some(443), Rule::HostNotAllowed),
            denial("n9999.example", Some(443), Rule::PortNotAllowed),
            denial("169.254.169.254", Some(80), Rule::MetadataAddress),
        ] {
            assert!(told.hear(&other, begin).tell, "{other}");
            assert!(!told.hear(&other, begin).tell, "{other}");
        }
        let later = begin + AGAIN;
        let one = denial("n9999.example", None, Rule::HostNotAllowed);
        let all = 5000 - ONE_BY_ONE as u64;
        let refusal = Some(one.refusal.clone());
        let news = News { untold: all, tell: true, full: false, refusal: refusal.clone() };
        assert_eq!(told.hear(&one, later), news);
        assert_eq!(told.hear(&one, later), News { refusal, ..News::default() });
    }

    #[tokio::test]
    async fn the_audit_log_has_each_one_and_no_id_that_leads_nowhere() {
        let (audit, memory) = opened(&AuditSpec::default());
        let recent = Arc::new(Recent::new("server", None));
        let refusals = Refusals::new(Events::new(), Arc::clone(&recent), Some(Arc::clone(&audit)));
        for number in 0..2 * ONE_BY_ONE {
            for host in ["evil.example".to_owned(), format!("n{number}.example")] {
                refusals.hear(&Decision::Denied(denial(&host, Some(443), Rule::NoNetwork)));
            }
        }
        audit.flush().await;
        let text = memory.text();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(events.len(), 4 * ONE_BY_ONE, "{text}");
        for (place, event) in events.iter().enumerate() {
            let (name, extra) =
                (event["target"]["name"].as_str().expect("a name"), &event["metadata"]["extra"]);
            let Some(id) = extra["refusal"].as_str() else {
                assert!(name != "evil.example" && place >= 2 * (ONE_BY_ONE - 1), "{event}");
                continue;
            };
            let refusal = crate::explain::explain_recent(id, &recent).expect("it is kept").refusal;
            assert_eq!(refusal.expect("one").inputs["host"], name);
        }
    }

    #[tokio::test]
    async fn listeners_hear_of_the_noise_and_of_what_is_in_it() {
        let recent = Arc::new(Recent::new("server", None));
        let refusals = Refusals::new(Events::new(), Arc::clone(&recent), None);
        let mut events = refusals.events.listen();
        let hear = |denial: Denial| refusals.hear(&Decision::Denied(denial));
        (0..=ONE_BY_ONE).for_each(|n| hear(denial(&format!("n{n}.example"), None, Rule::NoNetwork)));
        hear(denial("evil.example", Some(443), Rule::NoNetwork));
        for _ in 0..ONE_BY_ONE {
            assert!(matches!(events.next().await, Some(WorkloadEvent::ConnectionRefused { .. })));
        }
        let Some(WorkloadEvent::Warning { message }) = events.next().await else { panic!("no warning") };
        assert_eq!(message, "the rule `no-network` refused more look-ups than are told one by one");
        let last = events.next().await;
        let Some(WorkloadEvent::ConnectionRefused { port: Some(443), refusal, .. }) = last else {
            panic!("{last:?}")
        };
        let explained = crate::explain::explain_recent(&refusal.to_uppercase(), &recent).expect("it is kept");
        assert_eq!((explained.reason.as_str(), explained.layer.as_str()), ("egress.no_network", "isolation"));
    }
}
