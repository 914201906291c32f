//! Explains denials: a [`Reason`] by its id, or one denial by the id that the client received.
//!
//! Each denial by a layer or an endpoint of a proxy, and each denied connection of an isolated server, has a reason and
//! its own id. Recent denials are stored in the memory of the proxy and, for workloads and for proxies with an
//! environment, in small files that other processes read.

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

use crate::{
    Environment, Error, ErrorKind, Result, line_writer::rotated_path, redact::redact_credentials,
    state::Store,
};

/// The explanation of a denial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The id of the reason.
    pub reason: String,
    /// The layer that denies for this reason.
    pub layer: String,
    /// What the reason means.
    pub meaning: String,
    /// The usual fix.
    pub usual_fix: String,
    /// The denial, if the id was that of a denial and not of a reason. It contains the inputs of the decision and the
    /// smallest change that would have allowed the request.
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

    /// The explanation of a denial, whose reason may exist only in another version of mcpm.
    fn of_denial(refusal: DenialRecord) -> Self {
        let known = Reason::of_id(&refusal.reason).map(Self::of_reason);
        let explained = known.unwrap_or_else(|| Self {
            reason: refusal.reason.clone(),
            layer: String::new(),
            meaning: "The reason is from another version of mcpm.".to_owned(),
            usual_fix: refusal.fix.clone(),
            refusal: None,
        });
        Self { refusal: Some(refusal), ..explained }
    }
}

/// Explains a reason, such as `tools.not_listed`, or a denial, by its id.
///
/// Denials are searched in the records of workloads, and of proxies that have an environment
/// ([`ProxyBuilder::environment`](crate::ProxyBuilder::environment)).
///
/// # Errors
/// `NotFound` for an unknown id.
pub fn explain(id: &str, environment: &Environment) -> Result<Explanation> {
    if let Some(reason) = Reason::of_id(id) {
        return Ok(Explanation::of_reason(reason));
    }
    let refusal = DenialId::parse(id).and_then(|id| find(&id, environment));
    refusal.map(Explanation::of_denial).ok_or_else(|| unknown(id))
}

/// Explains a reason, or a denial in the memory of one proxy.
pub(crate) fn explain_in(id: &str, recent: &DenialLog) -> Result<Explanation> {
    if let Some(reason) = Reason::of_id(id) {
        return Ok(Explanation::of_reason(reason));
    }
    let refusal = DenialId::parse(id).and_then(|id| recent.find(&id));
    refusal.map(Explanation::of_denial).ok_or_else(|| unknown(id))
}

fn unknown(id: &str) -> Error {
    let message =
        format!("no denial or reason `{}`; denials are kept for a limited time", redact_credentials(id));
    Error::new(ErrorKind::NotFound, message)
        .hint("look for `refusal` or `reason` in the error's `data`, or for the header `Mcpm-Refusal`")
}

/// The denial log of a workload.
pub(crate) fn workload_log_path(folder: &Path) -> PathBuf {
    folder.join("refusals.jsonl")
}

/// The files with the denials of a workload; each of them is rotated.
pub(crate) fn workload_log_files(folder: &Path) -> [PathBuf; 2] {
    let path = workload_log_path(folder);
    [denial_log::unauthenticated_path(&path), path]
}

/// The folder of the denial logs of proxies without a workload.
pub(crate) fn proxy_log_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("refusals")
}

/// The denial log of workloads that did not start, and so have no folder.
pub(crate) fn failed_start_log_path(state_dir: &Path) -> PathBuf {
    // No log of a proxy has this file name.
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
        let older = rotated_path(&path, 1);
        [path, older].iter().find_map(|path| find_in(id, path))
    })
}

/// Searches a file for a denial. Lines may be damaged or of another version.
fn find_in(id: &DenialId, path: &Path) -> Option<DenialRecord> {
    // The lines are read as bytes, because a damaged line may not be UTF-8.
    let lines = BufReader::new(fs::File::open(path).ok()?).split(b'\n');
    let lines = lines.map_while(std::result::Result::ok);
    let with_id = lines.filter(|line| memchr::memmem::find(line, id.as_str().as_bytes()).is_some());
    let mut refusals = with_id.filter_map(|line| serde_json::from_slice::<DenialRecord>(&line).ok());
    refusals.find(|refusal| refusal.id == id.as_str())
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
