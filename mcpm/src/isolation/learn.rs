//! Records what a server used, as the permission profile that allows no more than that.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{Decision, address};
use crate::{
    Error, ErrorKind, Result,
    permission::{Host, HostRule, Profile},
};

/// Most hosts with ports, and most names that were looked up, that are recorded.
const MAX_RULES: usize = 1024;
/// Most names in a message.
const MAX_NAMES: usize = 8;

/// Records what a server used.
#[derive(Debug)]
pub(crate) struct Learner(Arc<File>);

/// The profile's file.
#[derive(Debug)]
struct File {
    path: PathBuf,
    /// What the profile says without what was learnt since.
    base: Profile,
    learnt: Mutex<Learnt>,
    /// Held while the file is written, or an older state could be written over a newer one.
    writing: Mutex<()>,
}

/// What was used so far.
#[derive(Debug, Default)]
struct Learnt {
    reached: BTreeSet<(Host, u16)>,
    looked_up: BTreeSet<Host>,
    /// Whether there is something that is not in the file.
    stale: bool,
    /// Whether the file could not be written; it is written again with the next host, and at the end.
    unwritten: bool,
    /// Whether a thread is about to write it.
    scheduled: bool,
    /// Whether there was more than is recorded.
    full: bool,
}

impl Learner {
    /// Begins with `base`, a profile that allows no connection, so that a path that cannot be written shows at once.
    ///
    /// # Errors
    /// `InvalidOption` when there is a file: somebody may have worked on it. `Io` when it cannot be written.
    pub(crate) fn begin(path: &Path, base: Profile) -> Result<Self> {
        let file = File::new(path, base);
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(file.cannot_write(error)),
            // A start that failed has learnt nothing, and may be tried again.
            Ok(found) if found == file.text(&Learnt::default())?.as_bytes() => {
                return Ok(Self(Arc::new(file)));
            }
            Ok(_) => {
                let message = format!("`{}` is there already, and would be written anew", path.display());
                return Err(Error::new(ErrorKind::InvalidOption, message)
                    .hint("name another file with `learn`, or move this one away"));
            }
        }
        file.write()?;
        Ok(Self(Arc::new(file)))
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
        let file = File::new(path, base);
        file.write()?;
        Ok(Self(Arc::new(file)))
    }

    /// Records a decision. The file is written on another thread, which takes all that came meanwhile at once: a
    /// server can use hosts faster than a disk takes files. Must be called within a runtime.
    pub(crate) fn hear(&self, decision: &Decision) {
        let mut learnt = self.0.learnt();
        match decision {
            Decision::Allowed { host, port, address } => {
                learnt.reach(host, *port);
                if address::special(*address).is_some() {
                    learnt.reach(&Host::Address(*address), *port);
                }
            }
            Decision::LookedUp { host } => learnt.look_up(host),
            Decision::Denied(_) => {}
        }
        if !learnt.stale || learnt.scheduled {
            return;
        }
        learnt.scheduled = true;
        drop(learnt);
        let file = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || file.write_all());
    }

    /// Writes what is not in the file yet, and returns what the user should know about the profile.
    pub(crate) fn finish(&self) -> Option<String> {
        self.0.write_or_warn();
        let learnt = self.0.learnt();
        let path = self.0.path.display();
        let unused: Vec<_> = learnt.unused().collect();
        if unused.is_empty() {
            let nothing = learnt.reached.is_empty() && self.0.base.outbound.is_nothing();
            return nothing.then(|| {
                format!(
                    "the server looked up no name and connected to nothing: `{path}` allows no connection"
                )
            });
        }
        let named =
            unused.iter().take(MAX_NAMES).map(|host| format!("`{host}`")).collect::<Vec<_>>().join(", ");
        let more = match unused.len().saturating_sub(MAX_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "the server looked up {named}{more} and connected to none of them: `{path}` allows every port there; add \
             the ports that it needs, or remove them"
        ))
    }
}

impl Drop for Learner {
    fn drop(&mut self) {
        self.0.write_or_warn();
    }
}

impl Learnt {
    fn reach(&mut self, host: &Host, port: u16) {
        let known = self.reached.contains(&(host.clone(), port));
        if !known && self.has_room(self.reached.len()) {
            self.stale |= self.reached.insert((host.clone(), port));
        }
    }

    fn look_up(&mut self, host: &Host) {
        let known = self.looked_up.contains(host);
        if !known && self.has_room(self.looked_up.len()) {
            self.stale |= self.looked_up.insert(host.clone());
        }
    }

    fn has_room(&mut self, count: usize) -> bool {
        if count < MAX_RULES {
            return true;
        }
        if !std::mem::replace(&mut self.full, true) {
            tracing::warn!("the server uses more than {MAX_RULES} hosts: the others are not recorded");
        }
        false
    }

    /// Names that were looked up and not connected to.
    fn unused(&self) -> impl Iterator<Item = &Host> {
        let reached: BTreeSet<&Host> = self.reached.iter().map(|(host, _)| host).collect();
        self.looked_up.iter().filter(move |host| !reached.contains(host))
    }
}

impl File {
    fn new(path: &Path, base: Profile) -> Self {
        Self { path: path.to_owned(), base, learnt: Mutex::default(), writing: Mutex::default() }
    }

    fn learnt(&self) -> MutexGuard<'_, Learnt> {
        // No code panics while it holds the lock.
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until nothing new has come.
    fn write_all(&self) {
        loop {
            self.write_or_warn();
            let mut learnt = self.learnt();
            if !learnt.stale {
                learnt.scheduled = false;
                return;
            }
        }
    }

    /// Writes what is not in the file. Returns once it is, also when another thread is at it.
    fn write_or_warn(&self) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let learnt = self.learnt();
            if !learnt.stale && !learnt.unwritten {
                return;
            }
        }
        let outcome = self.write();
        self.learnt().unwritten = outcome.is_err();
        if let Err(error) = outcome {
            tracing::warn!(%error, "cannot write the recorded profile");
        }
    }

    fn write(&self) -> Result<()> {
        let text = {
            let mut learnt = self.learnt();
            learnt.stale = false;
            self.text(&learnt)?
        };
        crate::state::replace_file(&self.path, text.as_bytes()).map_err(|error| self.cannot_write(error))
    }

    fn text(&self, learnt: &Learnt) -> Result<String> {
        let mut profile = self.base.clone();
        let rules = &mut profile.outbound.allow_host;
        let reached = learnt.reached.iter().map(|(host, port)| HostRule::exact(host, *port));
        for rule in reached.chain(learnt.unused().map(|host| Ok(HostRule::any_port(host)))) {
            let rule = rule?;
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

    fn looked_up(host: &str) -> Decision {
        Decision::LookedUp { host: host.parse().unwrap() }
    }

    fn rules(path: &Path) -> Vec<String> {
        Profile::read(path).unwrap().outbound.allow_host.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn what_was_reached_is_allowed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = Learner::begin(&path, Profile::default()).unwrap();
        assert!(Profile::read(&path).unwrap().outbound.is_nothing());
        learner.hear(&reached("b.example", 443, "1.1.1.1"));
        learner.hear(&reached("a.example", 5432, "1.1.1.1"));
        learner.hear(&reached("b.example", 443, "1.0.0.1"));
        learner.hear(&reached("host.docker.internal", 80, "172.17.0.1"));
        learner.finish();
        assert_eq!(
            rules(&path),
            ["a.example:5432", "b.example:443", "host.docker.internal:80", "172.17.0.1:80"]
        );
        assert!(Learner::begin(&folder.path().join("no/folder"), Profile::default()).is_err());
    }

    #[tokio::test]
    async fn a_later_start_goes_on_with_what_was_learnt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        Learner::resume(&path, Profile::default()).unwrap().hear(&reached("b.example", 443, "1.1.1.1"));
        let again = Learner::resume(&path, Profile::default()).unwrap();
        assert_eq!(rules(&path), ["b.example:443"]);
        again.hear(&reached("b.example", 443, "1.1.1.1"));
        again.hear(&reached("a.example", 443, "1.1.1.1"));
        drop(again);
        assert_eq!(rules(&path), ["b.example:443", "a.example:443"]);
        fs::write(&path, "{").unwrap();
        assert_eq!(Learner::resume(&path, Profile::default()).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(fs::read(&path).unwrap(), b"{");
    }

    #[tokio::test]
    async fn a_new_workload_writes_over_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        Learner::begin(&path, Profile::default()).unwrap();
        let retried = Learner::begin(&path, Profile::default()).unwrap();
        retried.hear(&reached("a.example", 443, "1.1.1.1"));
        retried.finish();
        assert_eq!(Learner::begin(&path, Profile::default()).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(rules(&path), ["a.example:443"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_learnt_at_once_is_all_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = Arc::new(Learner::begin(&path, Profile::default()).unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        for task in 1..=8_u16 {
            let learner = Arc::clone(&learner);
            tasks.spawn(async move {
                (1..=8).for_each(|port| learner.hear(&reached("a.example", task * 100 + port, "1.1.1.1")));
            });
        }
        tasks.join_all().await;
        learner.finish();
        assert_eq!(rules(&path).len(), 64);
    }

    #[tokio::test]
    async fn a_name_that_was_only_looked_up_is_recorded_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = Learner::begin(&path, Profile::default()).unwrap();
        let nothing = learner.finish().unwrap();
        assert!(nothing.contains("looked up no name and connected to nothing"), "{nothing}");
        learner.hear(&looked_up("a.example"));
        learner.hear(&looked_up("b.example"));
        let message = learner.finish().unwrap();
        assert!(message.contains("looked up `a.example`, `b.example` and connected to none"), "{message}");
        assert_eq!(rules(&path), ["a.example", "b.example"]);
        // Once it is connected to, the port is known.
        learner.hear(&reached("a.example", 443, "1.1.1.1"));
        assert!(learner.finish().unwrap().contains("looked up `b.example` and"));
        assert_eq!(rules(&path), ["a.example:443", "b.example"]);
        learner.hear(&reached("b.example", 80, "1.1.1.1"));
        assert_eq!(learner.finish(), None);
    }

    #[tokio::test]
    async fn a_profile_that_could_not_be_written_is_written_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (there, away) = (folder.path().join("there"), folder.path().join("away"));
        fs::create_dir(&there).unwrap();
        let path = there.join("profile.json");
        let learner = Learner::begin(&path, Profile::default()).unwrap();
        fs::rename(&there, &away).unwrap();
        learner.0.learnt().reach(&"a.example".parse().unwrap(), 443);
        learner.0.write_or_warn();
        fs::rename(&away, &there).unwrap();
        assert_eq!(rules(&path), [""; 0]);
        drop(learner);
        assert_eq!(rules(&path), ["a.example:443"]);
    }

    #[tokio::test]
    async fn what_is_recorded_has_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = Learner::begin(&path, Profile::default()).unwrap();
        for number in 0..2 * MAX_RULES {
            learner.hear(&looked_up(&format!("n{number}.example")));
            learner.hear(&reached(&format!("r{number}.example"), 443, "1.1.1.1"));
        }
        let message = learner.finish().unwrap();
        assert!(message.contains(&format!("and {} more", MAX_RULES - MAX_NAMES)), "{message}");
        assert_eq!(rules(&path).len(), 2 * MAX_RULES);
    }
}
