//! The configuration of an audit log, and the file of `--audit-config`: which events are recorded, and where.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::event::EventType;
use crate::{
    Result,
    config_file::{self, invalid},
    line_writer::Rotation,
};

/// Default and maximum size of recorded message data in bytes.
const DEFAULT_DATA_BYTES: usize = 1024;
const MAX_DATA_BYTES: usize = 1 << 20;
/// Default and maximum number of recorded actors of a delegation.
const DEFAULT_DELEGATION_DEPTH: usize = 10;
const MAX_DELEGATION_DEPTH: usize = 100;
/// Default and minimum size at which a file is rotated, in bytes.
const DEFAULT_ROTATE_SIZE: u64 = 100 << 20;
const MIN_ROTATE_SIZE: u64 = 4096;
/// Default and maximum number of rotated files.
const DEFAULT_ROTATE_COUNT: u32 = 5;
const MAX_ROTATE_COUNT: u32 = 1000;

/// The resolved configuration of an audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditSpec {
    /// The component that events name, instead of the server's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// Types that are recorded; empty records all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub event_types: Vec<EventType>,
    /// Types that are not recorded; takes precedence over `event_types`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude_event_types: Vec<EventType>,
    /// Whether the parameters of requests are recorded.
    pub include_request_data: bool,
    /// Whether results and errors are recorded.
    pub include_response_data: bool,
    /// Whether a JSON-RPC error or a tool error makes the outcome an error even if the HTTP status is a success.
    pub detect_application_errors: bool,
    /// Maximum recorded size of request data, and of response data, in bytes; longer data is truncated and marked.
    pub max_data_size: usize,
    /// Maximum number of actors of a delegation (claim `act`) that are recorded.
    pub max_delegation_depth: usize,
    /// Where events are written.
    pub sink: AuditSink,
    /// File size in bytes at which a file is rotated.
    pub rotate_size: u64,
    /// Number of rotated files to keep.
    pub rotate_count: u32,
    /// Whether a request is denied if it cannot be recorded.
    pub fail_closed: bool,
    /// Names of fields whose values are redacted, in addition to known secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<String>,
}

/// The kind of component that a log belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditOwner {
    /// A workload; by default its log is a file in its folder.
    Workload,
    /// A proxy; by default its log is standard output.
    Proxy,
}

/// Where events are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditSink {
    /// The default: a file in the workload's folder; for a proxy without a workload, the standard output of its
    /// process.
    Usual,
    /// This file.
    File(PathBuf),
    /// The standard output of the process.
    Stdout,
    /// The standard error of the process.
    Stderr,
    /// The log of the library: `tracing` events with the target `mcpm::audit`.
    Log,
}

impl Default for AuditSpec {
    fn default() -> Self {
        Self {
            component: None,
            event_types: Vec::new(),
            exclude_event_types: Vec::new(),
            include_request_data: false,
            include_response_data: false,
            detect_application_errors: true,
            max_data_size: DEFAULT_DATA_BYTES,
            max_delegation_depth: DEFAULT_DELEGATION_DEPTH,
            sink: AuditSink::Usual,
            rotate_size: DEFAULT_ROTATE_SIZE,
            rotate_count: DEFAULT_ROTATE_COUNT,
            fail_closed: false,
            redact: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AuditDocument {
    enabled: Option<bool>,
    component: Option<String>,
    event_types: Option<Vec<String>>,
    exclude_event_types: Option<Vec<String>>,
    include_request_data: Option<bool>,
    include_response_data: Option<bool>,
    detect_application_errors: Option<bool>,
    max_data_size: Option<usize>,
    max_delegation_depth: Option<usize>,
    log_file: Option<String>,
    sink: Option<SinkName>,
    rotate_size: Option<u64>,
    rotate_count: Option<u32>,
    fail_closed: Option<bool>,
    redact: Option<Vec<String>>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum SinkName {
    File,
    Stdout,
    Stderr,
    Log,
}

impl AuditSpec {
    /// Resolves `--audit-config`, with relative paths below `folder`, and `--enable-audit`. `None` if nothing is
    /// to be recorded.
    ///
    /// # Errors
    /// `InvalidOption` for invalid content; `NotFound` or `Io` if the file cannot be read.
    pub(crate) fn read(
        enable: Option<bool>,
        config: Option<&PathBuf>,
        folder: &Path,
        of: AuditOwner,
    ) -> Result<Option<Self>> {
        let Some(path) = config else { return Ok((enable == Some(true)).then(Self::default)) };
        if enable == Some(false) {
            let message =
                "`audit_config` turns audit logging on, and `enable_audit` set to `false` turns it off";
            return Err(invalid(message.to_owned()).hint("omit one of them"));
        }
        let path = folder.join(path);
        let document: AuditDocument = config_file::json_or_yaml(&path, "audit configuration")?;
        if document.enabled == Some(false) {
            if enable == Some(true) {
                let message =
                    "`enable_audit` turns audit logging on, and `enabled` in the configuration turns it off";
                return Err(invalid(message.to_owned()).with("file", path.display()));
            }
            // A disabled configuration is validated as well.
            Self::from_document(document, folder, of).map_err(|error| error.with("file", path.display()))?;
            return Ok(None);
        }
        Self::from_document(document, folder, of)
            .map(Some)
            .map_err(|error| error.with("file", path.display()))
    }

    fn from_document(document: AuditDocument, folder: &Path, of: AuditOwner) -> Result<Self> {
        let usual = Self::default();
        let named = document.log_file.filter(|path| !path.is_empty()).map(|path| folder.join(path));
        let sink = match (document.sink, named) {
            (None, None) => AuditSink::Usual,
            (None | Some(SinkName::File), Some(path)) => AuditSink::File(path),
            (Some(SinkName::File), None) => {
                return Err(invalid("`sink` is `file`, but `logFile` is missing".to_owned()));
            }
            (Some(_), Some(_)) => {
                return Err(invalid("`logFile` is set, but `sink` is not a file".to_owned()));
            }
            (Some(SinkName::Stdout), None) => AuditSink::Stdout,
            (Some(SinkName::Stderr), None) => AuditSink::Stderr,
            (Some(SinkName::Log), None) => AuditSink::Log,
        };
        let is_fail_closed = document.fail_closed == Some(true);
        let instead = match (of, is_fail_closed) {
            (AuditOwner::Workload, true) => "set `logFile`",
            (AuditOwner::Workload, false) => "set `logFile`, or use the sink `log`",
            (AuditOwner::Proxy, _) => "set `logFile`, or use the sink `stdout`",
        };
        if is_fail_closed && sink == AuditSink::Log {
            let message = "`failClosed` cannot be used with `sink: log`, which does not confirm that events are written";
            return Err(invalid(message.to_owned()).hint(instead));
        }
        if of == AuditOwner::Workload && matches!(sink, AuditSink::Stdout | AuditSink::Stderr) {
            // The process of a workload may have no standard streams.
            let message = "the audit log of a workload cannot be written to standard output or error";
            return Err(invalid(message.to_owned()).hint(instead));
        }
        let rotates = document.rotate_size.is_some() || document.rotate_count.is_some();
        let is_file = match sink {
            AuditSink::Usual => of == AuditOwner::Workload,
            AuditSink::File(_) => true,
            AuditSink::Stdout | AuditSink::Stderr | AuditSink::Log => false,
        };
        if rotates && !is_file {
            let message = "`rotateSize` and `rotateCount` apply to files, but the sink is not a file";
            return Err(invalid(message.to_owned()).hint("omit them, or set `logFile`"));
        }
        let (event_types, exclude_event_types) =
            select_types(document.event_types, document.exclude_event_types)?;
        Ok(Self {
            component: document.component.filter(|text| !text.is_empty()),
            event_types,
            exclude_event_types,
            include_request_data: document.include_request_data.unwrap_or(false),
            include_response_data: document.include_response_data.unwrap_or(false),
            detect_application_errors: document.detect_application_errors.unwrap_or(true),
            max_data_size: check_range(
                "maxDataSize",
                document.max_data_size.unwrap_or(DEFAULT_DATA_BYTES),
                1,
                MAX_DATA_BYTES,
            )?,
            max_delegation_depth: check_range(
                "maxDelegationDepth",
                document.max_delegation_depth.unwrap_or(DEFAULT_DELEGATION_DEPTH),
                0,
                MAX_DELEGATION_DEPTH,
            )?,
            sink,
            rotate_size: check_range(
                "rotateSize",
                document.rotate_size.unwrap_or(DEFAULT_ROTATE_SIZE),
                MIN_ROTATE_SIZE,
                u64::MAX,
            )?,
            rotate_count: check_range(
                "rotateCount",
                document.rotate_count.unwrap_or(DEFAULT_ROTATE_COUNT),
                0,
                MAX_ROTATE_COUNT,
            )?,
            fail_closed: document.fail_closed.unwrap_or(usual.fail_closed),
            redact: document.redact.unwrap_or_default(),
        })
    }

    pub(super) fn rotation(&self) -> Rotation {
        Rotation { size: self.rotate_size, count: self.rotate_count }
    }
}

/// Resolves which event types are recorded. At least one type must remain, in addition to those that report gaps in the
/// log, which are always recorded.
fn select_types(
    names: Option<Vec<String>>,
    excluded: Option<Vec<String>>,
) -> Result<(Vec<EventType>, Vec<EventType>)> {
    let (included, excluded) = (types(names)?, types(excluded)?);
    if let Some(always) = EventType::ALWAYS.iter().find(|kind| excluded.contains(kind)) {
        let message = format!("`{}` cannot be excluded: gaps in the log are always recorded", always.name());
        return Err(invalid(message));
    }
    let is_left = |kind: &EventType| {
        !EventType::ALWAYS.contains(kind)
            && (included.is_empty() || included.contains(kind))
            && !excluded.contains(kind)
    };
    if !EventType::ALL.iter().any(is_left) {
        let message = "`eventTypes` and `excludeEventTypes` leave nothing to record".to_owned();
        return Err(invalid(message).hint("omit one of them, or set `enabled` to false"));
    }
    Ok((included, excluded))
}

fn types(names: Option<Vec<String>>) -> Result<Vec<EventType>> {
    let of = |name: String| {
        EventType::of_name(&name).ok_or_else(|| {
            let known: Vec<&str> = EventType::ALL.iter().map(|kind| kind.name()).collect();
            invalid(format!("the event type `{name}` is unknown"))
                .hint(format!("known types: {}", known.join(", ")))
        })
    };
    names.unwrap_or_default().into_iter().map(of).collect()
}

fn check_range<N: PartialOrd + std::fmt::Display + Copy>(
    name: &str,
    value: N,
    minimum: N,
    maximum: N,
) -> Result<N> {
    if value < minimum || value > maximum {
        return Err(invalid(format!("`{name}` is {value}; it must be from {minimum} to {maximum}")));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn read(text: &str, enable: Option<bool>) -> Result<Option<AuditSpec>> {
        read_of(AuditOwner::Proxy, text, enable)
    }

    fn read_of(of: AuditOwner, text: &str, enable: Option<bool>) -> Result<Option<AuditSpec>> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("audit.json"), text).expect("a file");
        AuditSpec::read(enable, Some(&PathBuf::from("audit.json")), folder.path(), of)
    }

    #[test]
    fn a_file_is_read_in_json_and_in_yaml_and_its_defaults_are_those_without_one() {
        let all = r#"{"enabled": true, "component": "c", "eventTypes": ["mcp_tool_call", "sse_connection"],
            "excludeEventTypes": ["mcp_ping"], "includeRequestData": true, "includeResponseData": true,
            "detectApplicationErrors": false, "maxDataSize": 5, "maxDelegationDepth": 0, "logFile": "/var/log/a",
            "rotateSize": 4096, "rotateCount": 0, "failClosed": true, "redact": ["ssn"]}"#;
        let spec = read(all, None).expect("a configuration").expect("on");
        assert_eq!(spec.event_types, [EventType::ToolCall, EventType::SseConnection]);
        assert_eq!((spec.sink.clone(), spec.max_data_size), (AuditSink::File("/var/log/a".into()), 5));
        assert!(spec.fail_closed && !spec.detect_application_errors);
        let kept = serde_json::to_string(&spec).expect("JSON");
        assert_eq!(serde_json::from_str::<AuditSpec>(&kept).expect("JSON"), spec);
        let usual = Some(AuditSpec::default());
        assert_eq!(read("{}", None).expect("a configuration"), usual);
        assert_eq!(read("logFile: ''\nenabled: true\n", Some(true)).expect("a configuration"), usual);
        let closed = read(r#"{"sink": "stdout", "failClosed": true}"#, None).expect("a configuration");
        assert!(closed.is_some_and(|spec| spec.fail_closed));
        let log = read("sink: log\n", None).expect("a configuration").expect("on");
        assert_eq!(log.sink, AuditSink::Log);
        assert_eq!(read(r#"{"enabled": false}"#, None).expect("a configuration"), None);
        let without =
            |enable| AuditSpec::read(enable, None, Path::new(""), AuditOwner::Proxy).expect("no file");
        assert_eq!((without(Some(true)), without(None)), (usual, None));
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        for (text, enable, says) in [
            (r#"{"logfile": "x"}"#, None, "unknown field `logfile`"),
            (r#"{"maxDataSize": 0}"#, None, "`maxDataSize` is 0; it must be from 1 to 1048576"),
            (r#"{"maxDataSize": -1}"#, None, "invalid value: integer `-1`"),
            (r#"{"maxDataSize": "1k"}"#, None, "invalid type: string \"1k\""),
            (r#"{"logFile": "x", "rotateSize": 100}"#, None, "`rotateSize` is 100; it must be from 4096"),
            (r#"{"logFile": "x", "rotateCount": 1001}"#, None, "`rotateCount` is 1001"),
            (r#"{"maxDelegationDepth": 101}"#, None, "`maxDelegationDepth` is 101"),
            (r#"{"eventTypes": ["mcp_toolcall"]}"#, None, "the event type `mcp_toolcall` is unknown"),
            (r#"{"excludeEventTypes": ["x"]}"#, None, "the event type `x` is unknown"),
            (r#"{"sink": "file"}"#, None, "`logFile` is missing"),
            (r#"{"sink": "stdout", "logFile": "x"}"#, None, "`sink` is not a file"),
            (r#"{"sink": "syslog"}"#, None, "unknown variant `syslog`"),
            (r#"{"sink": "log", "failClosed": true}"#, None, "`failClosed` cannot be used with `sink: log`"),
            (r#"{"sink": "log", "rotateSize": 4096}"#, None, "apply to files, but the sink is not a file"),
            (r#"{"sink": "stderr", "rotateCount": 2}"#, None, "apply to files, but the sink is not a file"),
            (r#"{"rotateCount": 2}"#, None, "apply to files, but the sink is not a file"),
            (r#"{"excludeEventTypes": ["events_lost"]}"#, None, "`events_lost` cannot be excluded"),
            (
                r#"{"excludeEventTypes": ["events_suppressed"]}"#,
                None,
                "`events_suppressed` cannot be excluded",
            ),
            (r#"{"eventTypes": ["events_lost"]}"#, None, "leave nothing to record"),
            (
                r#"{"eventTypes": ["mcp_ping"], "excludeEventTypes": ["mcp_ping", "mcp_logging"]}"#,
                None,
                "leave nothing to record",
            ),
            (r#"{"enabled": false, "maxDataSize": 0}"#, None, "`maxDataSize` is 0"),
            (r#"{"enabled": false}"#, Some(true), "`enabled` in the configuration turns it off"),
            (r#"{"enabled": true}"#, Some(false), "`enable_audit` set to `false` turns it off"),
            ("- a", None, "is not a valid audit configuration"),
        ] {
            let error = read(text, enable).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{text}");
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
        let nowhere = PathBuf::from("/nowhere/audit.json");
        let missing = AuditSpec::read(None, Some(&nowhere), Path::new(""), AuditOwner::Proxy);
        assert_eq!(missing.expect_err("no file").kind(), ErrorKind::NotFound);
        for sink in ["stdout", "stderr"] {
            let text = format!("sink: {sink}\n");
            read(&text, None).expect("a proxy has one");
            read_of(AuditOwner::Workload, &text, None).expect_err("a workload has none");
        }
        let rotated =
            read_of(AuditOwner::Workload, "rotateCount: 2\n", None).expect("it is a file").expect("on");
        assert_eq!((rotated.sink, rotated.rotate_count), (AuditSink::Usual, 2));
    }
}
