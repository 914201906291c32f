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
    journal::{Journal, RotatingFile, Rotation, Sink as _},
    redact::{Masks, cut},
};

/// Refusals on each shelf in memory.
const KEPT: usize = 256;
/// Size at which the file is put aside, and how many are kept beside it.
const ROTATION: Rotation = Rotation { size: 256 << 10, count: 1 };
/// Lines that wait to be written.
const QUEUE: usize = 256;
/// Longest text of an input or a rule.
const LONGEST: usize = 512;
/// How long a client waits for its refusal to be on record.
const MOMENT: Duration = Duration::from_millis(250);
/// The version of the format.
const VERSION: u32 = 1;
/// Random bytes of an id.
const RANDOM: usize = 10;

/// The id of one refusal: 20 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusalId(String);

impl RefusalId {
    /// A new one, which nobody can guess: it leads to what somebody was refused.
    pub(crate) fn new() -> Self {
        let mut bytes = [0; RANDOM];
        if getrandom::fill(&mut bytes).is_err() {
            // Without it nothing can be looked up, and the refusal stands all the same.
            tracing::error!("this machine gives no random numbers");
        }
        Self(crate::redact::hex(&bytes))
    }

    /// Reads one, as far as it can be one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let sound = text.len() == 2 * RANDOM && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        sound.then_some(Self(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RefusalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refused {
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

impl Refused {
    /// Puts down a refusal of now.
    fn now(server: &str, id: &RefusalId, reason: Reason) -> Self {
        Self {
            version: VERSION,
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
pub(crate) struct Refusing<'a> {
    refused: Refused,
    masks: &'a Masks,
}

impl Refusing<'_> {
    /// Says which rule was gone by.
    pub(crate) fn rule(mut self, rule: Option<&str>) -> Self {
        self.refused.rule = rule.map(|rule| self.plain(rule));
        self
    }

    /// Says what was looked at.
    pub(crate) fn input(mut self, name: &str, value: &str) -> Self {
        let value = self.plain(value);
        self.refused.inputs.insert(name.to_owned(), value);
        self
    }

    /// Says what would have let it pass, where more can be said than of the reason.
    pub(crate) fn fix(mut self, fix: Option<&str>) -> Self {
        if let Some(fix) = fix {
            self.refused.fix = self.plain(fix);
        }
        self
    }

    /// The refusal.
    pub(crate) fn done(self) -> Refused {
        self.refused
    }

    /// A text of others without what may be secret in it, and not longer than it may be.
    fn plain(&self, text: &str) -> String {
        cut(&self.masks.text(text), LONGEST).into_owned()
    }
}

/// The last refusals of one server.
///
/// Those that anybody can have, without saying who they are, are on a shelf of their own: however many there are, they
/// push nobody else's out.
#[derive(Debug)]
pub(crate) struct Recent {
    server: String,
    masks: Masks,
    known: Shelf,
    strangers: Shelf,
}

/// So many refusals in memory, and so many in a file.
#[derive(Debug, Default)]
struct Shelf {
    kept: Mutex<VecDeque<Refused>>,
    path: Option<PathBuf>,
    /// Opened at the first refusal; `None` when that failed.
    file: OnceLock<Option<Journal>>,
}

/// Where strangers' refusals are, beside the others in that file.
pub(super) fn strangers(path: &Path) -> PathBuf {
    path.with_extension("strangers.jsonl")
}

impl Recent {
    /// Keeps those of `server`, and in a file if there is a path for one.
    pub(crate) fn new(server: impl Into<String>, path: Option<PathBuf>) -> Self {
        let strangers = Shelf { path: path.as_deref().map(strangers), ..Shelf::default() };
        let known = Shelf { path, ..Shelf::default() };
        Self { server: server.into(), masks: Masks::default(), known, strangers }
    }

    /// Has lines written by this journal.
    #[cfg(test)]
    pub(crate) fn written_by(self, journal: Journal) -> Self {
        let known =
            Shelf { path: Some(PathBuf::new()), file: OnceLock::from(Some(journal)), ..Shelf::default() };
        Self { known, ..self }
    }

    /// Keeps nothing of what is known to be secret.
    #[must_use]
    pub(crate) fn masks(self, masks: Masks) -> Self {
        Self { masks, ..self }
    }

    /// Begins to put down a refusal of now.
    pub(crate) fn refused(&self, id: &RefusalId, reason: Reason) -> Refusing<'_> {
        Refusing { refused: Refused::now(&self.server, id, reason), masks: &self.masks }
    }

    /// The server's name.
    #[cfg(test)]
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The shelf that a refusal belongs on.
    fn shelf(&self, refused: &Refused) -> &Shelf {
        let is_for_strangers = Reason::of_id(&refused.reason).is_some_and(Reason::is_for_strangers);
        if is_for_strangers { &self.strangers } else { &self.known }
    }

    /// Keeps a refusal. It can be explained from then on, in this process.
    pub(crate) fn keep(&self, refused: Refused) {
        let shelf = self.shelf(&refused);
        if let Some(journal) = shelf.journal() {
            journal.post(line(&refused));
        }
        shelf.remember(refused);
    }

    /// Keeps a refusal, and waits until other processes can read of it, or a moment: no slow disk holds up a client.
    pub(crate) async fn keep_and_wait(&self, refused: Refused) {
        let shelf = self.shelf(&refused);
        let line = shelf.journal().map(|journal| (journal, line(&refused)));
        shelf.remember(refused);
        if let Some((journal, line)) = line {
            match tokio::time::timeout(MOMENT, journal.written(line)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a refusal was not put on record"),
                Err(_) => tracing::debug!("a client is told before its refusal is on record"),
            }
        }
    }

    /// Waits until everything that was kept can be read by other processes.
    pub(crate) async fn flush(&self) {
        for shelf in [&self.known, &self.strangers] {
            if let Some(Some(journal)) = shelf.file.get() {
                journal.flush().await;
            }
        }
    }

    pub(crate) fn find(&self, id: &RefusalId) -> Option<Refused> {
        [&self.known, &self.strangers].iter().find_map(|shelf| {
            let kept = shelf.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.iter().find(|refused| refused.id == id.as_str()).cloned()
        })
    }

    /// Returns the last refusal that was not a stranger's.
    pub(crate) fn last(&self) -> Option<Refused> {
        self.known.kept.lock().unwrap_or_else(PoisonError::into_inner).back().cloned()
    }

    /// Puts those in memory that are not strangers' into another file as well.
    pub(crate) fn copy_to(&self, path: &Path) {
        let kept = self.known.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let lines: Vec<u8> = kept.iter().flat_map(line).collect();
        drop(kept);
        if !lines.is_empty()
            && let Err(error) = open(path).and_then(|mut file| file.write(&lines))
        {
            tracing::warn!(%error, path = %path.display(), "refusals are not put on record");
        }
    }
}

impl Shelf {
    fn remember(&self, refused: Refused) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(refused);
    }

    fn journal(&self) -> Option<&Journal> {
        let path = self.path.as_ref()?;
        let open = || match open(path).and_then(|file| Journal::start(Box::new(file), QUEUE, None)) {
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

fn line(refused: &Refused) -> Vec<u8> {
    let mut line = serde_json::to_vec(refused).unwrap_or_default();
    line.push(b'\n');
    line
}
