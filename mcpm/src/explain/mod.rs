//! Why something was refused, for people: a [`Reason`] by its id, or one refusal by the id that its asker was told.
//!
//! Each refusal by a layer of a proxy, and each refused connection of an isolated server, has a reason and an id of
//! its own. The last ones are kept: in the memory of the proxy, and in a small file that other processes read.

mod reason;
mod recent;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use serde::Serialize;

pub use reason::Reason;
pub use recent::Refused;
pub(crate) use recent::{Recent, RefusalId};

use crate::{Environment, Error, ErrorKind, Result, redact::redacted, state::Store};

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
    pub refusal: Option<Refused>,
}

impl Explanation {
    fn of(reason: Reason) -> Self {
        Self {
            reason: reason.id().to_owned(),
            layer: reason.layer().to_owned(),
            meaning: reason.meaning().to_owned(),
            usual_fix: reason.fix().to_owned(),
            refusal: None,
        }
    }

    /// The explanation of one refusal. Its reason may be one that only another version knows.
    fn of_refusal(refusal: Refused) -> Self {
        let known = Reason::of_id(&refusal.reason).map(Self::of);
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
        return Ok(Explanation::of(reason));
    }
    let refusal = RefusalId::parse(id).and_then(|id| find(&id, environment));
    refusal.map(Explanation::of_refusal).ok_or_else(|| unknown(id))
}

/// The same out of what one proxy has in its memory.
pub(crate) fn explain_recent(id: &str, recent: &Recent) -> Result<Explanation> {
    if let Some(reason) = Reason::of_id(id) {
        return Ok(Explanation::of(reason));
    }
    let refusal = RefusalId::parse(id).and_then(|id| recent.find(&id));
    refusal.map(Explanation::of_refusal).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Error {
    let message = format!("`{}` is the id of no reason, and of no refusal that is still kept", redacted(id));
    Error::new(ErrorKind::NotFound, message)
        .hint("it is `reason` or `refusal` in the `data` of an error, or the header `Mcpm-Refusal`")
}

/// Where a workload keeps its refusals.
pub(crate) fn file_of_workload(folder: &Path) -> PathBuf {
    folder.join("refusals.jsonl")
}

/// Where proxies that are no workloads keep theirs.
pub(crate) fn folder_of_proxies(state_dir: &Path) -> PathBuf {
    state_dir.join("refusals")
}

/// Where the refusals of workloads are that did not start, and so have no folder.
pub(crate) fn file_of_failed_starts(state_dir: &Path) -> PathBuf {
    // No proxy has a file with such a name.
    folder_of_proxies(state_dir).join("failed.starts.jsonl")
}

fn find(id: &RefusalId, environment: &Environment) -> Option<Refused> {
    let store = Store::new(&environment.state_dir);
    let of_workloads = store.names().unwrap_or_default().into_iter();
    let of_workloads = of_workloads.map(|name| file_of_workload(&store.folder(&name)));
    let of_workloads = of_workloads.flat_map(|path| [recent::strangers(&path), path]);
    let entries = fs::read_dir(folder_of_proxies(&environment.state_dir)).into_iter().flatten().flatten();
    let of_proxies = entries.map(|entry| entry.path());
    let of_proxies = of_proxies.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    of_workloads.chain(of_proxies).find_map(|path| {
        let older = crate::journal::older(&path, 1);
        [path, older].iter().find_map(|path| find_in(id, path))
    })
}

/// Looks for a refusal in a file, of which a line may be broken or of another version.
fn find_in(id: &RefusalId, path: &Path) -> Option<Refused> {
    // By bytes, since a line that is broken may be no text.
    let lines = BufReader::new(fs::File::open(path).ok()?).split(b'\n');
    let lines = lines.map_while(std::result::Result::ok);
    let with_id = lines.filter(|line| memchr::memmem::find(line, id.as_str().as_bytes()).is_some());
    let mut refusals = with_id.filter_map(|line| serde_json::from_slice::<Refused>(&line).ok());
    refusals.find(|refusal| refusal.id == id.as_str())
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
