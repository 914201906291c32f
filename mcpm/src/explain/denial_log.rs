//! Stores the recent denials of one server in memory and, if a path is given, in two files for other processes. One of
//! the files has the denials that unauthenticated callers can cause.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

use super::Reason;
use crate::{
    line_writer::{BackgroundLineWriter, LineSink as _, RotatingFile, Rotation},
    redact::{Redactor, truncate},
};

/// Maximum number of denials in each memory buffer.
const MAX_IN_MEMORY: usize = 256;
/// Size in bytes at which the file is rotated, and the number of rotated files.
const ROTATION: Rotation = Rotation { size: 256 << 10, count: 1 };
/// Capacity of the queue of lines.
const QUEUE: usize = 256;
/// Maximum length of an input or a rule in bytes.
const MAX_TEXT_BYTES: usize = 512;
/// How long a response waits until the denial is recorded.
const WRITE_TIMEOUT: Duration = Duration::from_millis(250);
/// The version of the format.
const FORMAT_VERSION: u32 = 1;
/// Number of random bytes in an id.
const ID_BYTES: usize = 10;

/// The id of a denial: 20 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DenialId(String);

impl DenialId {
    /// Creates a random id, which cannot be guessed, because it leads to the details of the denial.
    pub(crate) fn new() -> Self {
        let mut bytes = [0; ID_BYTES];
        if getrandom::fill(&mut bytes).is_err() {
            // Without an id the denial cannot be looked up, but still applies.
            tracing::error!("the operating system provides no random numbers");
        }
        Self(crate::redact::hex(&bytes))
    }

    /// Parses an id.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let sound = text.len() == 2 * ID_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        sound.then_some(Self(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DenialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A recorded denial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenialRecord {
    /// The version of the format.
    pub version: u32,
    /// The id of the denial.
    pub id: String,
    /// When the request was denied, in RFC 3339.
    pub time: String,
    /// The server that the request was for.
    pub server: String,
    /// The id of the reason.
    pub reason: String,
    /// The rule that applied, if the layer has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What the decision was based on, redacted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// The smallest change that would have allowed the request.
    pub fix: String,
}

impl DenialRecord {
    /// Creates a record with the current time.
    fn now(server: &str, id: &DenialId, reason: Reason) -> Self {
        Self {
            version: FORMAT_VERSION,
            id: id.as_str().to_owned(),
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            server: server.to_owned(),
            reason: reason.id().to_owned(),
            rule: None,
            inputs: BTreeMap::new(),
            fix: reason.fix().to_owned(),
        }
    }
}

/// Builds the record of a denial.
#[derive(Debug)]
pub(crate) struct DenialRecordBuilder<'a> {
    record: DenialRecord,
    masks: &'a Redactor,
}

impl DenialRecordBuilder<'_> {
    /// Sets the rule that applied.
    pub(crate) fn rule(mut self, rule: Option<&str>) -> Self {
        self.record.rule = rule.map(|rule| self.sanitized(rule));
        self
    }

    /// Adds an input of the decision.
    pub(crate) fn input(mut self, name: &str, value: &str) -> Self {
        let value = self.sanitized(value);
        self.record.inputs.insert(name.to_owned(), value);
        self
    }

    /// Sets the change that would have allowed the request, if there is a more specific change than that of the reason.
    pub(crate) fn fix(mut self, fix: Option<&str>) -> Self {
        if let Some(fix) = fix {
            self.record.fix = self.sanitized(fix);
        }
        self
    }

    /// Returns the record.
    pub(crate) fn build(self) -> DenialRecord {
        self.record
    }

    /// Redacts and truncates untrusted text.
    fn sanitized(&self, text: &str) -> String {
        truncate(&self.masks.redact(text), MAX_TEXT_BYTES).into_owned()
    }
}

/// The recent denials of one server.
///
/// Denials that unauthenticated callers can cause have a separate buffer, so that any number of them does not
/// evict others.
#[derive(Debug)]
pub(crate) struct DenialLog {
    server: String,
    masks: Redactor,
    authenticated: DenialBuffer,
    unauthenticated: DenialBuffer,
}

/// A bounded number of denials in memory and in a file.
#[derive(Debug, Default)]
struct DenialBuffer {
    records: Mutex<VecDeque<DenialRecord>>,
    path: Option<PathBuf>,
    /// Opened at the first denial; `None` if that failed.
    file: OnceLock<Option<BackgroundLineWriter>>,
}

/// The file for denials of unauthenticated callers, in the same folder as the file for other denials.
pub(super) fn unauthenticated_path(path: &Path) -> PathBuf {
    path.with_extension("strangers.jsonl")
}

impl DenialLog {
    /// Creates the log of `server`, with a file if there is a path.
    pub(crate) fn new(server: impl Into<String>, path: Option<PathBuf>) -> Self {
        let unauthenticated =
            DenialBuffer { path: path.as_deref().map(unauthenticated_path), ..DenialBuffer::default() };
        let authenticated = DenialBuffer { path, ..DenialBuffer::default() };
        Self { server: server.into(), masks: Redactor::default(), authenticated, unauthenticated }
    }

    /// Uses this writer for the lines.
    #[cfg(test)]
    pub(crate) fn with_journal(self, journal: BackgroundLineWriter) -> Self {
        let authenticated = DenialBuffer {
            path: Some(PathBuf::new()),
            file: OnceLock::from(Some(journal)),
            ..DenialBuffer::default()
        };
        Self { authenticated, ..self }
    }

    /// Redacts known secrets.
    #[must_use]
    pub(crate) fn masks(self, masks: Redactor) -> Self {
        Self { masks, ..self }
    }

    /// Starts the record of a denial.
    pub(crate) fn record(&self, id: &DenialId, reason: Reason) -> DenialRecordBuilder<'_> {
        DenialRecordBuilder { record: DenialRecord::now(&self.server, id, reason), masks: &self.masks }
    }

    /// The server's name.
    #[cfg(test)]
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The buffer that a denial belongs to.
    fn buffer_for(&self, denial: &DenialRecord) -> &DenialBuffer {
        let is_unauthenticated = Reason::of_id(&denial.reason).is_some_and(Reason::is_for_unauthenticated);
        if is_unauthenticated { &self.unauthenticated } else { &self.authenticated }
    }

    /// Adds a denial, which can be explained in this process from then on.
    pub(crate) fn push(&self, denial: DenialRecord) {
        let buffer = self.buffer_for(&denial);
        if let Some(journal) = buffer.journal() {
            journal.post(&line(&denial));
        }
        buffer.remember(denial);
    }

    /// Adds a denial and waits until other processes can read it. The wait is short, so that a slow disk does not delay
    /// the response much.
    pub(crate) async fn push_and_wait(&self, denial: DenialRecord) {
        let buffer = self.buffer_for(&denial);
        let line = buffer.journal().map(|journal| (journal, line(&denial)));
        buffer.remember(denial);
        if let Some((journal, line)) = line {
            match tokio::time::timeout(WRITE_TIMEOUT, journal.write_and_wait(line)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a denial was not recorded"),
                Err(_) => tracing::debug!("a response was sent before its denial was recorded"),
            }
        }
    }

    /// Waits until other processes can read all denials.
    pub(crate) async fn flush(&self) {
        for buffer in [&self.authenticated, &self.unauthenticated] {
            if let Some(Some(journal)) = buffer.file.get() {
                journal.flush().await;
            }
        }
    }

    pub(crate) fn find(&self, id: &DenialId) -> Option<DenialRecord> {
        [&self.authenticated, &self.unauthenticated].iter().find_map(|buffer| {
            let records = buffer.records.lock().unwrap_or_else(PoisonError::into_inner);
            records.iter().find(|denial| denial.id == id.as_str()).cloned()
        })
    }

    /// Returns the last denial of an authenticated caller.
    pub(crate) fn last(&self) -> Option<DenialRecord> {
        self.authenticated.records.lock().unwrap_or_else(PoisonError::into_inner).back().cloned()
    }

    /// Copies the denials of authenticated callers in memory to another file.
    pub(crate) fn copy_to(&self, path: &Path) {
        let records = self.authenticated.records.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<u8> = records.iter().flat_map(line).collect();
        drop(records);
        if !lines.is_empty()
            && let Err(error) = open(path).and_then(|mut file| file.write(&lines))
        {
            tracing::warn!(%error, path = %path.display(), "denials are not recorded");
        }
    }
}

impl DenialBuffer {
    fn remember(&self, denial: DenialRecord) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() == MAX_IN_MEMORY {
            records.pop_front();
        }
        records.push_back(denial);
    }

    fn journal(&self) -> Option<&BackgroundLineWriter> {
        let path = self.path.as_ref()?;
        let open =
            || match open(path).and_then(|file| BackgroundLineWriter::start(Box::new(file), QUEUE, None)) {
                Ok(journal) => Some(journal),
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "denials are not recorded");
                    None
                }
            };
        self.file.get_or_init(open).as_ref()
    }
}

/// Opens a file for denials, creating its folder if necessary.
fn open(path: &Path) -> std::io::Result<RotatingFile> {
    path.parent().map_or(Ok(()), crate::state::file::create_folders)?;
    RotatingFile::open(path.to_owned(), ROTATION)
}

fn line(denial: &DenialRecord) -> Vec<u8> {
    let mut line = serde_json::to_vec(denial).unwrap_or_default();
    line.push(b'\n');
    line
}
