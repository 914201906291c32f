//! Writes down what a server reached, as the profile that allows no more than that.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::{Decision, address};
use crate::{
    Error, ErrorKind, Result,
    permission::{Host, HostRule, MountRule, Outbound, Profile},
};

/// What was reached so far.
#[derive(Debug)]
pub(crate) struct Learner {
    path: PathBuf,
    mounts: Vec<MountRule>,
    reached: Mutex<BTreeSet<(Host, u16)>>,
}

impl Learner {
    /// Begins with a profile that allows no connection, so that a path that cannot be written shows at once.
    pub(crate) fn begin(path: &Path, mounts: Vec<MountRule>) -> Result<Self> {
        let learner = Self { path: path.to_owned(), mounts, reached: Mutex::default() };
        learner.write()?;
        Ok(learner)
    }

    /// Takes a decision; what is new is written down at once, so that nothing is lost with the process.
    pub(crate) fn hear(&self, decision: &Decision) {
        let mut new = Vec::new();
        match decision {
            Decision::Allowed { host, port, address } => {
                new.push((host.clone(), *port));
                if address::special(*address).is_some() {
                    new.push((Host::Address(*address), *port));
                }
            }
            Decision::Denied(_) => {}
        }
        let added = {
            let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
            let before = reached.len();
            reached.extend(new);
            reached.len() > before
        };
        if added && let Err(error) = self.write() {
            tracing::warn!(%error, "what was learnt could not be written down");
        }
    }

    fn write(&self) -> Result<()> {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rules = reached.iter().map(|(host, port)| HostRule::exact(host, *port));
        let outbound = Outbound { allow_host: rules.collect::<Result<_>>()?, ..Outbound::default() };
        let profile = Profile { outbound, mounts: self.mounts.clone(), ..Profile::default() };
        let text = profile.to_json()?;
        let cannot = |error: io::Error| {
            Error::new(ErrorKind::Io, format!("cannot write `{}`", self.path.display())).source(error)
        };
        crate::state::replace_file(&self.path, text.as_bytes()).map_err(cannot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_reached_is_allowed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = Learner::begin(&path, Vec::new()).unwrap();
        assert!(Profile::read(&path).unwrap().outbound.is_nothing());
        let reached = |host: &str, port, address: &str| Decision::Allowed {
            host: host.parse().unwrap(),
            port,
            address: address.parse().unwrap(),
        };
        learner.hear(&reached("b.example", 443, "1.1.1.1"));
        learner.hear(&reached("a.example", 5432, "1.1.1.1"));
        learner.hear(&reached("b.example", 443, "1.0.0.1"));
        learner.hear(&reached("host.docker.internal", 80, "172.17.0.1"));
        let rules: Vec<String> =
            Profile::read(&path).unwrap().outbound.allow_host.iter().map(ToString::to_string).collect();
        assert_eq!(rules, ["a.example:5432", "b.example:443", "host.docker.internal:80", "172.17.0.1:80"]);
        assert!(Learner::begin(&folder.path().join("no/folder"), Vec::new()).is_err());
    }
}
