//! Defines the recorded status of a workload.
//!
//! The recorded status may be outdated: [`reconcile`](super::reconcile()) determines the current state.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{document::FORMAT_VERSION, process::ProcessId};

/// The last second that RFC 3339 can represent, at the end of the year 9999.
const MAX_RFC3339_TIME: Duration = Duration::from_secs(253_402_300_799);

/// The phase of a workload's life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Starting; not ready yet.
    Starting,
    /// Ready for requests.
    Running,
    /// The server exited and is being restarted.
    Restarting,
    /// Stopping on request.
    Stopping,
    /// Stopped on request.
    Stopped,
    /// Ended without a request to stop.
    Failed,
}

impl Phase {
    /// Returns the name that is stored and printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// The state of the login to a remote server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginState {
    /// Requests have a valid token.
    Authenticated,
    /// The token is being renewed, or the authorization server cannot be reached for that.
    Refreshing,
    /// The login has ended or lacks scopes, so that the user has to log in.
    NeedsLogin,
}

impl LoginState {
    /// Returns the name that is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Authenticated => "authenticated",
            Self::Refreshing => "refreshing",
            Self::NeedsLogin => "needs login",
        }
    }
}

/// The recorded status of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The version of the format, [`FORMAT_VERSION`].
    pub version: u32,
    /// The phase of the life cycle.
    pub phase: Phase,
    /// The reason for the phase, if it is not obvious.
    pub reason: Option<String>,
    /// The URL for clients.
    pub url: Option<String>,
    /// The port that the proxy listens on.
    pub port: Option<u16>,
    /// The container id; `None` for a remote server.
    pub container: Option<String>,
    /// The supervisor, or the process that starts the workload until the supervisor takes over.
    pub supervisor: Option<ProcessId>,
    /// How often the server was restarted.
    pub restarts: u32,
    /// The exit code of the server's last run.
    pub exit_code: Option<i64>,
    /// The state of the login to the remote server; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginState>,
    /// Whether something other than mcpm ended the supervisor, such as a shutdown of the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// When the workload was created, in RFC 3339.
    pub created_at: String,
    /// When the status was written, in RFC 3339.
    pub updated_at: String,
}

impl Status {
    /// Creates the status of a workload that this process is starting.
    pub fn starting(now: SystemTime) -> Self {
        Self {
            version: FORMAT_VERSION,
            phase: Phase::Starting,
            reason: None,
            url: None,
            port: None,
            container: None,
            supervisor: Some(ProcessId::current()),
            restarts: 0,
            exit_code: None,
            login: None,
            interrupted: false,
            created_at: rfc3339(now),
            updated_at: rfc3339(now),
        }
    }

    /// Enters a phase and replaces the reason.
    pub fn enter(&mut self, phase: Phase, reason: Option<String>, now: SystemTime) {
        self.phase = phase;
        self.reason = reason;
        self.updated_at = rfc3339(now);
    }
}

fn rfc3339(time: SystemTime) -> String {
    // Outside of these bounds the clock is wrong, and the formatter would panic.
    let time = time.clamp(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + MAX_RFC3339_TIME);
    humantime::format_rfc3339_seconds(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_sample_of_version_1_is_read_and_written_back() {
        let sample = include_str!("samples/status.v1.json");
        let status: Status = serde_json::from_str(sample).unwrap();
        assert_eq!(status.supervisor, Some(ProcessId { pid: 4242, start_time: Some(1_234_567) }));
        assert_eq!(status.exit_code, Some(137));
        assert_eq!(serde_json::to_string_pretty(&status).unwrap() + "\n", sample);
    }

    #[test]
    fn phases_are_stored_as_they_are_printed() {
        for phase in [
            Phase::Starting,
            Phase::Running,
            Phase::Restarting,
            Phase::Stopping,
            Phase::Stopped,
            Phase::Failed,
        ] {
            assert_eq!(serde_json::to_value(phase).unwrap(), phase.as_str());
        }
    }

    #[test]
    fn a_phase_brings_its_own_reason_and_time() {
        let mut status = Status::starting(SystemTime::UNIX_EPOCH);
        status.enter(Phase::Failed, Some("no image".to_owned()), SystemTime::UNIX_EPOCH);
        status.enter(Phase::Running, None, SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_900));
        assert_eq!((status.phase, &status.reason), (Phase::Running, &None));
        assert_eq!(status.created_at, "1970-01-01T00:00:00Z");
        assert_eq!(status.updated_at, "2023-11-14T22:13:20Z");
    }

    #[test]
    fn a_wrong_clock_is_written_without_panic() {
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH - Duration::from_secs(9)), "1970-01-01T00:00:00Z");
        let late = SystemTime::UNIX_EPOCH + MAX_RFC3339_TIME + Duration::from_secs(9);
        assert_eq!(rfc3339(late), "9999-12-31T23:59:59Z");
    }
}
