//! Why something was refused, for people: a [`Reason`] by its id, or one refusal by the id that its asker was told.
//!
//! Each refusal by a layer of a proxy, and each refused connection of an isolated server, has a reason and an id of
//! its own. The last ones are kept: in the memory of the proxy, and in a small file that other processes read.

mod denial_log;
mod reason;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use serde::Serialize;

pub use denial_log::DenialRecord;
pub(crate) use denial_log::{DenialId, DenialLog};
pub use reason::Reason;

use crate::{Environment, Error, ErrorKind, Result, redact::redact_credentials, state::Store};

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// Id of the reason.
    pub reason: String,
    /// The layer that refuses for it.
    pub layer: String,
    /// What it means.
    pub meaning: String,
    /// What usually helps.
    pub usual_fix: String,
    /// The refusal that was asked about, where it was one: what the layer went by, and the smallest change that would
    /// have let it pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<DenialRecord>,
}

impl Explanation {
    fn of_reason(reason: Reason) -> Self {
        Self {
            reason: reason.id().to_owned(),
            layer: reason.layer().to_owned(),
            meaning: reason.meaning().to_owned(),
            usual_fix: reason.fix().to_owned(),
            refusal: None,
        }
    }

    /// The explanation of one refusal. Its reason may be one that only another version knows.
    fn of_denial(refusal: DenialRecord) -> Self {
        let known = Reason::of_id(&refusal.reason).map(Self::of_reason);
        let explained = known.unwrap_or_else(|| Self {
            reason: refusal.reason.clone(),
            layer: String::new(),
            meaning: "Another version of mcpm knows this reason.".to_owned(),
            usual_fix: refusal.fix.clone(),
            refusal: None,
        });
        Self { refusal: Some(refusal), ..explained }
    }
}

/// Explains the id of a reason, such as `tools.not_listed`, or of a refusal.
///
/// Refusals are looked for among those that workloads have on record, and proxies that were given an
/// environment ([`ProxyBuilder::environment`](crate::ProxyBuilder::environment)).
///
/// # Errors
/// `NotFound` for an id that is neither.
pub fn explain(id: &str, environment: &Environment) -> Result<Explanation> {
    if let Some(reason) = Reason::of_id(id) {
        return Ok(Explanation::of_reason(reason));
    }
    let refusal = DenialId::parse(id).and_then(|id| find(&id, environment));
    refusal.map(Explanation::of_denial).ok_or_else(|| unknown(id))
}

/// The same out of what one proxy has in its memory.
pub(crate) fn explain_in(id: &str, recent: &DenialLog) -> Result<Explanation> {
    if let Some(reason) = Reason::of_id(id) {
        return Ok(Explanation::of_reason(reason));
    }
    let refusal = DenialId::parse(id).and_then(|id| recent.find(&id));
    refusal.map(Explanation::of_denial).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Error {
    let message =
        format!("`{}` is the id of no reason, and of no refusal that is still kept", redact_credentials(id));
    Error::new(ErrorKind::NotFound, message)
        .hint("it is `reason` or `refusal` in the `data` of an error, or the header `Mcpm-Refusal`")
}

/// Where a workload keeps its refusals.
pub(crate) fn workload_log_path(folder: &Path) -> PathBuf {
    folder.join("refusals.jsonl")
}

/// Where proxies that are no workloads keep theirs.
pub(crate) fn proxy_log_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("refusals")
}

/// Where the refusals of workloads are that did not start, and so have no folder.
pub(crate) fn failed_start_log_path(state_dir: &Path) -> PathBuf {
    // No proxy has a file with such a name.
    proxy_log_dir(state_dir).join("failed.starts.jsonl")
}

fn find(id: &DenialId, environment: &Environment) -> Option<DenialRecord> {
    let store = Store::new(&environment.state_dir);
    let of_workloads = store.names().unwrap_or_default().into_iter();
    let of_workloads = of_workloads.map(|name| workload_log_path(&store.folder(&name)));
    let of_workloads = of_workloads.flat_map(|path| [denial_log::unauthenticated_path(&path), path]);
    let entries = fs::read_dir(proxy_log_dir(&environment.state_dir)).into_iter().flatten().flatten();
    let of_proxies = entries.map(|entry| entry.path());
    let of_proxies = of_proxies.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    of_workloads.chain(of_proxies).find_map(|path| {
        let older = crate::line_writer::rotated_path(&path, 1);
        [path, older].iter().find_map(|path| find_in(id, path))
    })
}

/// Looks for a refusal in a file, of which a line may be broken or of another version.
fn find_in(id: &DenialId, path: &Path) -> Option<DenialRecord> {
    // By bytes, since a line that is broken may be no text.
    let lines = BufReader::new(fs::File::open(path).ok()?).split(b'\n');
    let lines = lines.map_while(std::result::Result::ok);
    let with_id = lines.filter(|line| memchr::memmem::find(line, id.as_str().as_bytes()).is_some());
    let mut refusals = with_id.filter_map(|line| serde_json::from_slice::<DenialRecord>(&line).ok());
    refusals.find(|refusal| refusal.id == id.as_str())
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
