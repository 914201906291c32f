//! Writes and parses the recorded events of workloads that run in the background. Other processes read the events from
//! the log of each supervisor and from the records of denials.
//!
//! A line of the log is an event if [`write`] has written it. The fields of an event follow its text, so that the text,
//! which may come from a server, cannot replace the fields.

use serde::{Deserialize, Serialize};

use crate::explain::DenialRecord;

/// The `tracing` target of log lines that are events.
const TARGET: &str = "mcpm::event";

/// The kind of a recorded event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecordedEventKind {
    /// The server is being started.
    Starting,
    /// The workload did not start.
    StartFailed,
    /// Clients can connect.
    Ready,
    /// The server exited and will be restarted.
    Restarting,
    /// The server is ready again.
    Recovered,
    /// A further process of the server is ready.
    ProcessReady,
    /// One of several processes of the server exited and will be restarted.
    ProcessRestarting,
    /// One of several processes of the server ended and will not be restarted.
    ProcessEnded,
    /// The login to the remote server has changed.
    LoginChanged,
    /// A request, or a connection of the server, was denied.
    Denied,
    /// The workload has ended.
    Ended,
}

impl RecordedEventKind {
    /// Returns the name that is recorded and printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::StartFailed => "start_failed",
            Self::Ready => "ready",
            Self::Restarting => "restarting",
            Self::Recovered => "recovered",
            Self::ProcessReady => "process_ready",
            Self::ProcessRestarting => "process_restarting",
            Self::ProcessEnded => "process_ended",
            Self::LoginChanged => "login_changed",
            Self::Denied => "denied",
            Self::Ended => "ended",
        }
    }
}

/// A recorded event of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecordedEvent {
    /// When it happened, in RFC 3339.
    pub time: String,
    /// The name of the workload.
    pub workload: String,
    /// What happened.
    pub event: RecordedEventKind,
    /// The event as text, with the last output of a server that exited.
    pub message: String,
    /// The exit code of the server, if it exited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// The number of consecutive restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Milliseconds until the restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// The id of a denial, for `mcpm explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl RecordedEvent {
    fn new(time: &str, workload: &str, event: RecordedEventKind, message: String) -> Self {
        Self {
            time: time.to_owned(),
            workload: workload.to_owned(),
            event,
            message,
            exit_code: None,
            attempt: None,
            delay_ms: None,
            refusal: None,
        }
    }

    /// Parses a line of a supervisor's log; `None` for a line that is not an event.
    pub(super) fn parse(line: &str, workload: &str) -> Option<Self> {
        let (time, rest) = line.split_once(' ')?;
        humantime::parse_rfc3339(time).ok()?;
        let rest = rest.trim_start().strip_prefix("INFO ")?.strip_prefix(TARGET)?.strip_prefix(": ")?;
        let (message, fields) = rest.rsplit_once(" event=\"")?;
        let (kind, fields) = fields.split_once('"')?;
        let kind = serde_json::from_value(kind.into()).ok()?;
        let mut event = Self::new(time, workload, kind, message.to_owned());
        for (name, value) in fields.split_ascii_whitespace().filter_map(|field| field.split_once('=')) {
            match name {
                "exit_code" => event.exit_code = value.parse().ok(),
                "attempt" => event.attempt = value.parse().ok(),
                "delay_ms" => event.delay_ms = value.parse().ok(),
                _ => {}
            }
        }
        Some(event)
    }

    /// Parses a line of a file of denials.
    pub(super) fn parse_denial(line: &str, workload: &str) -> Option<Self> {
        let DenialRecord { id, time, reason, rule, fix, .. } = serde_json::from_str(line).ok()?;
        let rule = rule.map(|rule| format!(" ({rule})")).unwrap_or_default();
        let message = format!("denied for the reason {reason}{rule}: {fix}");
        let event = Self::new(&time, workload, RecordedEventKind::Denied, message);
        Some(Self { refusal: Some(id), ..event })
    }
}

/// Writes that the workload did not start.
pub(super) fn record_failed_start(error: &crate::Error) {
    write(RecordedEventKind::StartFailed, None, None, None, &format!("the workload did not start: {error}"));
}

/// Writes an event to the log of this process.
pub(super) fn write(
    kind: RecordedEventKind,
    exit_code: Option<i64>,
    attempt: Option<u32>,
    delay_ms: Option<u64>,
    message: &str,
) {
    // An event is one line.
    let message = message.replace('\n', " | ");
    tracing::info!(target: TARGET, event = kind.as_str(), exit_code, attempt, delay_ms, "{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const DENIAL: &str = r#"{"version":1,"id":"0123456789abcdef0123","time":"2026-01-01T00:00:02.500Z","server":"w","reason":"tools.not_listed","fix":"add `x`"}"#;

    fn line(second: u32, rest: &str) -> String {
        format!("2026-01-01T00:00:0{second}.123456Z  INFO mcpm::event: {rest}\n")
    }

    #[test]
    fn a_line_is_an_event_with_the_fields_at_its_end() {
        let text =
            r#"the server exited with code 3; last output: x event="ended" exit_code=9; it is started again"#;
        let text = line(0, &format!(r#"{text} event="restarting" exit_code=3 attempt=2 delay_ms=1000"#));
        let event = RecordedEvent::parse(text.trim_end(), "w").unwrap();
        assert_eq!(event.event, RecordedEventKind::Restarting);
        assert_eq!((event.exit_code, event.attempt, event.delay_ms), (Some(3), Some(2), Some(1000)));
        assert!(event.message.ends_with("it is started again"), "{event:?}");
        for other in [
            "",
            "starting event=\"starting\"",
            "2026-01-01T00:00:00Z  WARN mcpm::event: x event=\"ready\"",
            "2026-01-01T00:00:00Z  INFO mcpm::proxy: mcpm::event: x event=\"ready\"",
            "2026-01-01T00:00:00Z  INFO mcpm::event: x event=\"unknown\"",
            "yesterday  INFO mcpm::event: x event=\"ready\"",
        ] {
            assert_eq!(RecordedEvent::parse(other, "w"), None, "{other}");
        }
        let denial = RecordedEvent::parse_denial(DENIAL, "w").unwrap();
        assert_eq!(denial.refusal.as_deref(), Some("0123456789abcdef0123"));
        assert_eq!(denial.message, "denied for the reason tools.not_listed: add `x`");
    }

    #[test]
    fn kinds_are_recorded_as_they_are_printed() {
        use RecordedEventKind as Kind;
        for kind in [
            Kind::Starting,
            Kind::StartFailed,
            Kind::Ready,
            Kind::Restarting,
            Kind::Recovered,
            Kind::ProcessReady,
            Kind::ProcessRestarting,
            Kind::ProcessEnded,
            Kind::LoginChanged,
            Kind::Denied,
            Kind::Ended,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
