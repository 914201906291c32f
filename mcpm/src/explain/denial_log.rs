//! The last refusals of one server: in memory, and in a file for other processes.

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

/// Refusals on each shelf in memory.
const MAX_IN_MEMORY: usize = 256;
/// Size at which the file is put aside, and how many are kept beside it.
const ROTATION: Rotation = Rotation { size: 256 << 10, count: 1 };
/// Lines that wait to be written.
const QUEUE: usize = 256;
/// Longest text of an input or a rule.
const MAX_TEXT_BYTES: usize = 512;
/// How long a client waits for its refusal to be on record.
const WRITE_TIMEOUT: Duration = Duration::from_millis(250);
/// The version of the format.
const FORMAT_VERSION: u32 = 1;
/// Random bytes of an id.
const ID_BYTES: usize = 10;

/// The id of one refusal: 20 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DenialId(String);

impl DenialId {
    /// A new one, which nobody can guess: it leads to what somebody was refused.
    pub(crate) fn new() -> Self {
        let mut bytes = [0; ID_BYTES];
        if getrandom::fill(&mut bytes).is_err() {
            // Without it nothing can be looked up, and the refusal stands all the same.
            tracing::error!("this machine gives no random numbers");
        }
        Self(crate::redact::hex(&bytes))
    }

    /// Reads one, as far as it can be one.
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

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenialRecord {
    /// The version of the format.
    pub version: u32,
    /// Its id.
    pub id: String,
    /// When it was refused.
    pub time: String,
    /// The server that it was about.
    pub server: String,
    /// Id of the reason.
    pub reason: String,
    /// The rule that was gone by, where the layer has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What the layer looked at, without secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// The smallest change that would have let it pass.
    pub fix: String,
}

impl DenialRecord {
    /// Puts down a refusal of now.
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

/// One refusal, while it is put down.
#[derive(Debug)]
pub(crate) struct DenialRecordBuilder<'a> {
    record: DenialRecord,
    masks: &'a Redactor,
}

impl DenialRecordBuilder<'_> {
    /// Says which rule was gone by.
    pub(crate) fn rule(mut self, rule: Option<&str>) -> Self {
        self.record.rule = rule.map(|rule| self.sanitized(rule));
        self
    }

    /// Says what was looked at.
    pub(crate) fn input(mut self, name: &str, value: &str) -> Self {
        let value = self.sanitized(value);
        self.record.inputs.insert(name.to_owned(), value);
        self
    }

    /// Says what would have let it pass, where more can be said than of the reason.
    pub(crate) fn fix(mut self, fix: Option<&str>) -> Self {
        if let Some(fix) = fix {
            self.record.fix = self.sanitized(fix);
        }
        self
    }

    /// The refusal.
    pub(crate) fn build(self) -> DenialRecord {
        self.record
    }

    /// A text of others without what may be secret in it, and not longer than it may be.
    fn sanitized(&self, text: &str) -> String {
        truncate(&self.masks.redact(text), MAX_TEXT_BYTES).into_owned()
    }
}

/// The last refusals of one server.
///
/// Those that anybody can have, without saying who they are, are on a shelf of their own: however many there are, they
/// push nobody else's out.
#[derive(Debug)]
pub(crate) struct DenialLog {
    server: String,
    masks: Redactor,
    authenticated: DenialBuffer,
    unauthenticated: DenialBuffer,
}

/// So many refusals in memory, and so many in a file.
#[derive(Debug, Default)]
struct DenialBuffer {
    records: Mutex<VecDeque<DenialRecord>>,
    path: Option<PathBuf>,
    /// Opened at the first refusal; `None` when that failed.
    file: OnceLock<Option<BackgroundLineWriter>>,
}

/// Where strangers' refusals are, beside the others in that file.
pub(super) fn unauthenticated_path(path: &Path) -> PathBuf {
    path.with_extension("strangers.jsonl")
}

impl DenialLog {
    /// Keeps those of `server`, and in a file if there is a path for one.
    pub(crate) fn new(server: impl Into<String>, path: Option<PathBuf>) -> Self {
        let strangers =
            DenialBuffer { path: path.as_deref().map(unauthenticated_path), ..DenialBuffer::default() };
        let known = DenialBuffer { path, ..DenialBuffer::default() };
        Self {
            server: server.into(),
            masks: Redactor::default(),
            authenticated: known,
            unauthenticated: strangers,
        }
    }

    /// Has lines written by this journal.
    #[cfg(test)]
    pub(crate) fn with_journal(self, journal: BackgroundLineWriter) -> Self {
        let known = DenialBuffer {
            path: Some(PathBuf::new()),
            file: OnceLock::from(Some(journal)),
            ..DenialBuffer::default()
        };
        Self { authenticated: known, ..self }
    }

    /// Keeps nothing of what is known to be secret.
    #[must_use]
    pub(crate) fn masks(self, masks: Redactor) -> Self {
        Self { masks, ..self }
    }

    /// Begins to put down a refusal of now.
    pub(crate) fn record(&self, id: &DenialId, reason: Reason) -> DenialRecordBuilder<'_> {
        DenialRecordBuilder { record: DenialRecord::now(&self.server, id, reason), masks: &self.masks }
    }

    /// The server's name.
    #[cfg(test)]
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The shelf that a refusal belongs on.
    fn buffer_for(&self, refused: &DenialRecord) -> &DenialBuffer {
        let is_for_strangers = Reason::of_id(&refused.reason).is_some_and(Reason::is_for_unauthenticated);
        if is_for_strangers { &self.unauthenticated } else { &self.authenticated }
    }

    /// Keeps a refusal. It can be explained from then on, in this process.
    pub(crate) fn push(&self, refused: DenialRecord) {
        let shelf = self.buffer_for(&refused);
        if let Some(journal) = shelf.journal() {
            journal.post(line(&refused));
        }
        shelf.remember(refused);
    }

    /// Keeps a refusal, and waits until other processes can read of it, or a moment: no slow disk holds up a client.
    pub(crate) async fn push_and_wait(&self, refused: DenialRecord) {
        let shelf = self.buffer_for(&refused);
        let line = shelf.journal().map(|journal| (journal, line(&refused)));
        shelf.remember(refused);
        if let Some((journal, line)) = line {
            match tokio::time::timeout(WRITE_TIMEOUT, journal.write_and_wait(line)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a refusal was not put on record"),
                Err(_) => tracing::debug!("a client is told before its refusal is on record"),
            }
        }
    }

    /// Waits until everything that was kept can be read by other processes.
    pub(crate) async fn flush(&self) {
        for shelf in [&self.authenticated, &self.unauthenticated] {
            if let Some(Some(journal)) = shelf.file.get() {
                journal.flush().await;
            }
        }
    }

    pub(crate) fn find(&self, id: &DenialId) -> Option<DenialRecord> {
        [&self.authenticated, &self.unauthenticated].iter().find_map(|shelf| {
            let kept = shelf.records.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|refused| refused.id == id.as_str()).cloned()
        })
    }

    /// Returns the last refusal that was not a stranger's.
    pub(crate) fn last(&self) -> Option<DenialRecord> {
        self.authenticated.records.lock().unwrap_or_else(PoisonError::into_inner).back().cloned()
    }

    /// Puts those in memory that are not strangers' into another file as well.
    pub(crate) fn copy_to(&self, path: &Path) {
        let kept = self.authenticated.records.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<u8> = kept.iter().flat_map(line).collect();
        drop(kept);
        if !lines.is_empty()
            && let Err(error) = open(path).and_then(|mut file| file.write(&lines))
        {
            tracing::warn!(%error, path = %path.display(), "refusals are not put on record");
        }
    }
}

impl DenialBuffer {
    fn remember(&self, refused: DenialRecord) {
        let mut kept = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == MAX_IN_MEMORY {
            kept.pop_front();
        }
        kept.push_back(refused);
    }

    fn journal(&self) -> Option<&BackgroundLineWriter> {
        let path = self.path.as_ref()?;
        let open =
            || match open(path).and_then(|file| BackgroundLineWriter::start(Box::new(file), QUEUE, None)) {
                Ok(journal) => Some(journal),
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "refusals are not put on record");
                    None
                }
            };
        self.file.get_or_init(open).as_ref()
    }
}

/// Opens a file for refusals, below a folder that need not be there yet.
fn open(path: &Path) -> std::io::Result<RotatingFile> {
    path.parent().map_or(Ok(()), crate::state::file::create_folders)?;
    RotatingFile::open(path.to_owned(), ROTATION)
}

fn line(refused: &DenialRecord) -> Vec<u8> {
    let mut line = serde_json::to_vec(refused).unwrap_or_default();
    line.push(b'\n');
    line
}
