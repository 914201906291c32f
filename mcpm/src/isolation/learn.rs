//! Writes down what a server reached, as the profile that allows no more than that.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::{Decision, address};
use crate::{
    Error, ErrorKind, Result,
    permission::{Host, HostRule, Profile},
};

/// What was reached so far.
#[derive(Debug)]
pub(crate) struct Learner {
    path: PathBuf,
    /// What the profile says without what was reached since.
    base: Profile,
    reached: Mutex<BTreeSet<(Host, u16)>>,
}

impl Learner {
    /// Begins with `base`, a profile that allows no connection, so that a path that cannot be written shows at once.
    ///
    /// # Errors
    /// `InvalidOption` when there is a file: somebody may have worked on it. `Io` when it cannot be written.
    pub(crate) fn begin(path: &Path, base: Profile) -> Result<Self> {
        let learner = Self { path: path.to_owned(), base, reached: Mutex::default() };
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(learner.cannot_write(error)),
            // A start that failed has learnt nothing, and may be tried again.
            Ok(found) if found == learner.text(&BTreeSet::new())?.as_bytes() => return Ok(learner),
            Ok(_) => {
                let message = format!("`{}` is there already, and would be written anew", path.display());
                return Err(Error::new(ErrorKind::InvalidOption, message)
                    .hint("name another file with `--learn`, or move this one away"));
            }
        }
        learner.write(&BTreeSet::new())?;
        Ok(learner)
    }

    /// Goes on with the profile that an earlier start of the workload wrote; begins when it is gone.
    ///
    /// # Errors
    /// `InvalidOption` when the file is no profile any more, `Io` when it cannot be read or written.
    pub(crate) fn resume(path: &Path, base: Profile) -> Result<Self> {
        let base = match Profile::read(path) {
            Ok(learnt) => learnt,
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::begin(path, base),
            Err(error) => return Err(error),
        };
        let learner = Self { path: path.to_owned(), base, reached: Mutex::default() };
        learner.write(&BTreeSet::new())?;
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
        // Held until it is written, or an older state could be written over a newer one.
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let before = reached.len();
        reached.extend(new);
        if reached.len() > before
            && let Err(error) = self.write(&reached)
        {
            tracing::warn!(%error, "what was learnt could not be written down");
        }
    }

    fn write(&self, reached: &BTreeSet<(Host, u16)>) -> Result<()> {
        let text = self.text(reached)?;
        crate::state::replace_file(&self.path, text.as_bytes()).map_err(|error| self.cannot_write(error))
    }

    fn text(&self, reached: &BTreeSet<(Host, u16)>) -> Result<String> {
        let mut profile = self.base.clone();
        let rules = &mut profile.outbound.allow_host;
        for (host, port) in reached {
            let rule = HostRule::exact(host, *port)?;
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        profile.to_json()
    }

    fn cannot_write(&self, error: io::Error) -> Error {
        Error::new(ErrorKind::Io, format!("cannot write `{}`", self.path.display())).source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(host: &str, port: u16, address: &str) -> Decision {
        Decision::Allowed { host: host.parse().unwrap(), port, address: address.parse().unwrap() }
    }

    fn rules(path: &Path) -> Vec<String> {
        Profile::read(path).unwrap().outbound.allow_host.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_was_reached_is_allowed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = Learner::begin(&path, Profile::default()).unwrap();
        assert!(Profile::read(&path).unwrap().outbound.is_nothing());
        learner.hear(&reached("b.example", 443, "1.1.1.1"));
        learner.hear(&reached("a.example", 5432, "1.1.1.1"));
        learner.hear(&reached("b.example", 443, "1.0.0.1"));
        learner.hear(&reached("host.docker.internal", 80, "172.17.0.1"));
        assert_eq!(
            rules(&path),
            ["a.example:5432", "b.example:443", "host.docker.internal:80", "172.17.0.1:80"]
        );
        assert!(Learner::begin(&folder.path().join("no/folder"), Profile::default()).is_err());
    }

    #[test]
    fn a_later_start_goes_on_with_what_was_learnt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        Learner::resume(&path, Profile::default()).unwrap().hear(&reached("b.example", 443, "1.1.1.1"));
        let again = Learner::resume(&path, Profile::default()).unwrap();
        assert_eq!(rules(&path), ["b.example:443"]);
        again.hear(&reached("b.example", 443, "1.1.1.1"));
        again.hear(&reached("a.example", 443, "1.1.1.1"));
        assert_eq!(rules(&path), ["b.example:443", "a.example:443"]);
        fs::write(&path, "{").unwrap();
        assert_eq!(Learner::resume(&path, Profile::default()).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(fs::read(&path).unwrap(), b"{");
    }

    #[test]
    fn a_new_workload_writes_over_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        Learner::begin(&path, Profile::default()).unwrap();
        let retried = Learner::begin(&path, Profile::default()).unwrap();
        retried.hear(&reached("a.example", 443, "1.1.1.1"));
        assert_eq!(Learner::begin(&path, Profile::default()).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(rules(&path), ["a.example:443"]);
    }

    #[test]
    fn what_is_learnt_at_once_is_all_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = Learner::begin(&path, Profile::default()).unwrap();
        std::thread::scope(|scope| {
            for thread in 1..=8_u16 {
                let learner = &learner;
                scope.spawn(move || {
                    (1..=8)
                        .for_each(|port| learner.hear(&reached("a.example", thread * 100 + port, "1.1.1.1")));
                });
            }
        });
        assert_eq!(rules(&path).len(), 64);
    }
}
