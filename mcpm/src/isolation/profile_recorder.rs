//! Records the connections and name lookups of a server in a permission profile that allows them.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{EgressDecision, address};
use crate::{
    Error, ErrorKind, Result,
    permission::{Host, HostRule, Profile},
};

/// Most hosts with ports, and most names looked up, that are recorded.
const MAX_RULES: usize = 1024;
/// Most names in the message for the user.
const MAX_NAMES_IN_MESSAGE: usize = 8;

/// Records the connections of a server.
#[derive(Debug)]
pub(crate) struct ProfileRecorder(Arc<ProfileFile>);

/// The file of the profile.
#[derive(Debug)]
struct ProfileFile {
    path: PathBuf,
    /// The profile without the recorded connections.
    base: Profile,
    recorded: Mutex<RecordedAccess>,
    /// Held while the file is written, so that an older state does not replace a newer one.
    write_lock: Mutex<()>,
}

/// The connections recorded so far.
#[derive(Debug, Default)]
struct RecordedAccess {
    reached: BTreeSet<(Host, u16)>,
    looked_up: BTreeSet<Host>,
    /// Whether there are changes that are not in the file.
    dirty: bool,
    /// Whether the file could not be written; it is written again with the next host, and at the end.
    unwritten: bool,
    /// Whether a thread is about to write the file.
    scheduled: bool,
    /// Whether the limit was exceeded.
    limit_reached: bool,
}

impl ProfileRecorder {
    /// Creates the file with `base`, a profile that allows no connections, so that an error in writing it is found at
    /// once.
    ///
    /// # Errors
    /// `InvalidOption` if the file exists, because somebody may have edited it. `Io` if it cannot be written.
    pub(crate) fn create(path: &Path, base: Profile) -> Result<Self> {
        let file = ProfileFile::new(path, base);
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(file.cannot_write(error)),
            // An unchanged file is that of a failed start, which may be repeated.
            Ok(found) if found == file.text(&RecordedAccess::default())?.as_bytes() => {
                return Ok(Self(Arc::new(file)));
            }
            Ok(_) => {
                let message = format!("`{}` already exists and would be overwritten", path.display());
                return Err(Error::new(ErrorKind::InvalidOption, message)
                    .hint("name another file with `learn`, or move this one away"));
            }
        }
        file.write()?;
        Ok(Self(Arc::new(file)))
    }

    /// Continues the profile of an earlier start of the workload; begins a new one if the file is gone.
    ///
    /// # Errors
    /// `InvalidOption` if the file is not a valid profile, `Io` if it cannot be read or written.
    pub(crate) fn resume(path: &Path, base: Profile) -> Result<Self> {
        let base = match Profile::read(path) {
            Ok(learnt) => learnt,
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::create(path, base),
            Err(error) => return Err(error),
        };
        let file = ProfileFile::new(path, base);
        file.write()?;
        Ok(Self(Arc::new(file)))
    }

    /// Records a decision. The file is written on another thread, with all changes made until then, because a server
    /// can use hosts faster than a disk can write. Must be called within a runtime.
    pub(crate) fn record(&self, decision: &EgressDecision) {
        let mut learnt = self.0.recorded();
        match decision {
            EgressDecision::Allowed { host, port, address } => {
                learnt.record_connection(host, *port);
                if address::special_purpose_network(*address).is_some() {
                    learnt.record_connection(&Host::Address(*address), *port);
                }
            }
            EgressDecision::LookedUp { host } => learnt.record_lookup(host),
            EgressDecision::Denied(_) => {}
        }
        if !learnt.dirty || learnt.scheduled {
            return;
        }
        learnt.scheduled = true;
        drop(learnt);
        let file = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || file.write_all());
    }

    /// Writes the remaining changes, and returns a message for the user.
    pub(crate) fn finish(&self) -> Option<String> {
        self.0.write_or_warn();
        let learnt = self.0.recorded();
        let path = self.0.path.display();
        let unused: Vec<_> = learnt.unused().collect();
        if unused.is_empty() {
            let nothing = learnt.reached.is_empty() && self.0.base.outbound.is_nothing();
            return nothing.then(|| {
                format!(
                    "the server looked up no host name and opened no connection, so `{path}` allows no connections"
                )
            });
        }
        let named = unused
            .iter()
            .take(MAX_NAMES_IN_MESSAGE)
            .map(|host| format!("`{host}`"))
            .collect::<Vec<_>>()
            .join(", ");
        let more = match unused.len().saturating_sub(MAX_NAMES_IN_MESSAGE) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "the server looked up {named}{more} and connected to none of them: `{path}` allows these hosts \
             on every port; add the ports that the server needs, or remove the hosts"
        ))
    }
}

impl Drop for ProfileRecorder {
    fn drop(&mut self) {
        self.0.write_or_warn();
    }
}

impl RecordedAccess {
    fn record_connection(&mut self, host: &Host, port: u16) {
        let known = self.reached.contains(&(host.clone(), port));
        if !known && self.has_room(self.reached.len()) {
            self.dirty |= self.reached.insert((host.clone(), port));
        }
    }

    fn record_lookup(&mut self, host: &Host) {
        let known = self.looked_up.contains(host);
        if !known && self.has_room(self.looked_up.len()) {
            self.dirty |= self.looked_up.insert(host.clone());
        }
    }

    fn has_room(&mut self, count: usize) -> bool {
        if count < MAX_RULES {
            return true;
        }
        if !std::mem::replace(&mut self.limit_reached, true) {
            tracing::warn!("the server uses more than {MAX_RULES} hosts: the others are not recorded");
        }
        false
    }

    /// Names that were looked up, without a connection.
    fn unused(&self) -> impl Iterator<Item = &Host> {
        let reached: BTreeSet<&Host> = self.reached.iter().map(|(host, _)| host).collect();
        self.looked_up.iter().filter(move |host| !reached.contains(host))
    }
}

impl ProfileFile {
    fn new(path: &Path, base: Profile) -> Self {
        Self { path: path.to_owned(), base, recorded: Mutex::default(), write_lock: Mutex::default() }
    }

    fn recorded(&self) -> MutexGuard<'_, RecordedAccess> {
        // No code panics while it holds the lock.
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until there are no changes.
    fn write_all(&self) {
        loop {
            self.write_or_warn();
            let mut learnt = self.recorded();
            if !learnt.dirty {
                learnt.scheduled = false;
                return;
            }
        }
    }

    /// Writes the changes. Returns when they are written, even if by another thread.
    fn write_or_warn(&self) {
        let _writing = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let learnt = self.recorded();
            if !learnt.dirty && !learnt.unwritten {
                return;
            }
        }
        let outcome = self.write();
        self.recorded().unwritten = outcome.is_err();
        if let Err(error) = outcome {
            tracing::warn!(%error, "cannot write the recorded profile");
        }
    }

    fn write(&self) -> Result<()> {
        let text = {
            let mut learnt = self.recorded();
            learnt.dirty = false;
            self.text(&learnt)?
        };
        crate::state::replace_file(&self.path, text.as_bytes()).map_err(|error| self.cannot_write(error))
    }

    fn text(&self, learnt: &RecordedAccess) -> Result<String> {
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

    fn reached(host: &str, port: u16, address: &str) -> EgressDecision {
        EgressDecision::Allowed { host: host.parse().unwrap(), port, address: address.parse().unwrap() }
    }

    fn looked_up(host: &str) -> EgressDecision {
        EgressDecision::LookedUp { host: host.parse().unwrap() }
    }

    fn rules(path: &Path) -> Vec<String> {
        Profile::read(path).unwrap().outbound.allow_host.iter().map(ToString::to_string).collect()
    }

    #[tokio::test]
    async fn the_profile_allows_only_recorded_connections() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = ProfileRecorder::create(&path, Profile::default()).unwrap();
        assert!(Profile::read(&path).unwrap().outbound.is_nothing());
        learner.record(&reached("b.example", 443, "1.1.1.1"));
        learner.record(&reached("a.example", 5432, "1.1.1.1"));
        learner.record(&reached("b.example", 443, "1.0.0.1"));
        learner.record(&reached("host.docker.internal", 80, "172.17.0.1"));
        learner.finish();
        assert_eq!(
            rules(&path),
            ["a.example:5432", "b.example:443", "host.docker.internal:80", "172.17.0.1:80"]
        );
        assert!(ProfileRecorder::create(&folder.path().join("no/folder"), Profile::default()).is_err());
    }

    #[tokio::test]
    async fn resume_extends_the_recorded_profile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        ProfileRecorder::resume(&path, Profile::default()).unwrap().record(&reached(
            "b.example",
            443,
            "1.1.1.1",
        ));
        let again = ProfileRecorder::resume(&path, Profile::default()).unwrap();
        assert_eq!(rules(&path), ["b.example:443"]);
        again.record(&reached("b.example", 443, "1.1.1.1"));
        again.record(&reached("a.example", 443, "1.1.1.1"));
        drop(again);
        assert_eq!(rules(&path), ["b.example:443", "a.example:443"]);
        fs::write(&path, "{").unwrap();
        assert_eq!(
            ProfileRecorder::resume(&path, Profile::default()).unwrap_err().kind(),
            ErrorKind::InvalidOption
        );
        assert_eq!(fs::read(&path).unwrap(), b"{");
    }

    #[tokio::test]
    async fn a_new_workload_does_not_overwrite_a_profile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        ProfileRecorder::create(&path, Profile::default()).unwrap();
        let retried = ProfileRecorder::create(&path, Profile::default()).unwrap();
        retried.record(&reached("a.example", 443, "1.1.1.1"));
        retried.finish();
        assert_eq!(
            ProfileRecorder::create(&path, Profile::default()).unwrap_err().kind(),
            ErrorKind::InvalidOption
        );
        assert_eq!(rules(&path), ["a.example:443"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_decisions_are_all_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = Arc::new(ProfileRecorder::create(&path, Profile::default()).unwrap());
        let mut tasks = tokio::task::JoinSet::new();
        for task in 1..=8_u16 {
            let learner = Arc::clone(&learner);
            tasks.spawn(async move {
                (1..=8).for_each(|port| learner.record(&reached("a.example", task * 100 + port, "1.1.1.1")));
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
        let learner = ProfileRecorder::create(&path, Profile::default()).unwrap();
        let nothing = learner.finish().unwrap();
        assert!(nothing.contains("looked up no host name and opened no connection"), "{nothing}");
        learner.record(&looked_up("a.example"));
        learner.record(&looked_up("b.example"));
        let message = learner.finish().unwrap();
        assert!(message.contains("looked up `a.example`, `b.example` and connected to none"), "{message}");
        assert_eq!(rules(&path), ["a.example", "b.example"]);
        // A connection makes the port known.
        learner.record(&reached("a.example", 443, "1.1.1.1"));
        assert!(learner.finish().unwrap().contains("looked up `b.example` and"));
        assert_eq!(rules(&path), ["a.example:443", "b.example"]);
        learner.record(&reached("b.example", 80, "1.1.1.1"));
        assert_eq!(learner.finish(), None);
    }

    #[tokio::test]
    async fn a_profile_that_could_not_be_written_is_written_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (there, away) = (folder.path().join("there"), folder.path().join("away"));
        fs::create_dir(&there).unwrap();
        let path = there.join("profile.json");
        let learner = ProfileRecorder::create(&path, Profile::default()).unwrap();
        fs::rename(&there, &away).unwrap();
        learner.0.recorded().record_connection(&"a.example".parse().unwrap(), 443);
        learner.0.write_or_warn();
        fs::rename(&away, &there).unwrap();
        assert_eq!(rules(&path), [""; 0]);
        drop(learner);
        assert_eq!(rules(&path), ["a.example:443"]);
    }

    #[tokio::test]
    async fn the_number_of_recorded_hosts_is_limited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        let learner = ProfileRecorder::create(&path, Profile::default()).unwrap();
        for number in 0..2 * MAX_RULES {
            learner.record(&looked_up(&format!("n{number}.example")));
            learner.record(&reached(&format!("r{number}.example"), 443, "1.1.1.1"));
        }
        let message = learner.finish().unwrap();
        assert!(message.contains(&format!("and {} more", MAX_RULES - MAX_NAMES_IN_MESSAGE)), "{message}");
        assert_eq!(rules(&path).len(), 2 * MAX_RULES);
    }
}
