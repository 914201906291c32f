//! Whose tasks are whose, where callers are asked who they are (MCP 2025-11-25, "Tasks"; its extension of 2026-07-28).
//!
//! A server on a pipe sees one client, and so lets anybody at any task. Whoever asked for what became a task is its
//! owner here: to all others it is unknown, as one that never was. What is no longer noted is unknown to everybody.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{InFlight, State, error_answer};
use crate::mcp::{
    error_code,
    fields::Fields,
    message::{Message, each_element, splice},
    owner::Owner,
    session::SessionId,
};

/// Most tasks that are noted of one process.
const MOST: usize = 10_000;
/// Most of one owner's, whatever clients they come with.
const OF_ONE: usize = 1000;
/// Longest id in bytes that is noted.
const LONGEST: usize = 1024;
/// Most tasks of one process whose progress is passed on, and most of one session.
const MOST_PROGRESS: usize = 1000;
const MOST_PROGRESS_OF_SESSION: usize = 100;

/// The tasks of one process.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    owners: HashMap<Arc<str>, Owner>,
    /// Whose tasks are noted, the oldest first.
    by_person: HashMap<Arc<str>, VecDeque<Arc<str>>>,
    /// Calls that became tasks: progress is told under their tokens as long as the task runs.
    progress: VecDeque<TaskProgress>,
}

/// Where the progress of a call goes that became a task.
#[derive(Debug)]
struct TaskProgress {
    /// The number that the server knows for its token.
    number: u64,
    task: String,
    session: SessionId,
    token: Bytes,
    since: Instant,
}

impl Tasks {
    /// Notes a task of an owner. One that is noted already stays whose it is.
    fn note(&mut self, id: String, owner: &Owner) {
        if id.len() > LONGEST || self.owners.contains_key(&*id) {
            return;
        }
        if self.by_person.get(owner.person()).is_some_and(|own| own.len() >= OF_ONE) {
            self.forget_oldest(&Arc::clone(owner.person()));
        }
        if self.owners.len() >= MOST
            && let Some(person) = self.by_person.iter().max_by_key(|(_, own)| own.len())
        {
            let person = Arc::clone(person.0);
            self.forget_oldest(&person);
        }
        let id: Arc<str> = id.into();
        self.by_person.entry(Arc::clone(owner.person())).or_default().push_back(Arc::clone(&id));
        self.owners.insert(id, owner.clone());
    }

    fn forget_oldest(&mut self, person: &Arc<str>) {
        let Some(own) = self.by_person.get_mut(person) else { return };
        if let Some(oldest) = own.pop_front() {
            self.owners.remove(&oldest);
        }
        if own.is_empty() {
            self.by_person.remove(person);
        }
    }

    /// Whose the progress is that is told under this number, and what they call it.
    pub(super) fn progress(&self, number: u64) -> Option<(&SessionId, &Bytes)> {
        let found = self.progress.iter().find(|progress| progress.number == number);
        found.map(|progress| (&progress.session, &progress.token))
    }

    /// Notes where the progress of a task goes. When there are too many, the oldest of the same session is forgotten, or
    /// of the session that has most.
    fn note_progress(&mut self, progress: TaskProgress) {
        if progress.task.len() > LONGEST {
            return;
        }
        let mut counts: HashMap<&SessionId, usize> = HashMap::new();
        for noted in &self.progress {
            *counts.entry(&noted.session).or_default() += 1;
        }
        let crowded = if counts.get(&progress.session).is_some_and(|own| *own >= MOST_PROGRESS_OF_SESSION) {
            Some(progress.session.clone())
        } else if self.progress.len() >= MOST_PROGRESS {
            counts.into_iter().max_by_key(|(_, count)| *count).map(|(session, _)| session.clone())
        } else {
            None
        };
        let oldest = self.progress.iter().position(|noted| Some(&noted.session) == crowded.as_ref());
        oldest.and_then(|oldest| self.progress.remove(oldest));
        self.progress.push_back(progress);
    }

    /// Forgets the progress of a task that is over.
    pub(super) fn end_progress(&mut self, task: &str) {
        self.progress.retain(|progress| progress.task != task);
    }

    /// Forgets the progress of a session that has ended.
    pub(super) fn end_session(&mut self, session: &SessionId) {
        self.progress.retain(|progress| progress.session != *session);
    }

    /// Forgets the progress of calls that became tasks too long ago.
    pub(super) fn sweep(&mut self, now: Instant, longest: Duration) {
        self.progress.retain(|progress| now.saturating_duration_since(progress.since) <= longest);
    }

    fn is_of(&self, id: &str, owner: &Owner) -> bool {
        self.owners.get(id) == Some(owner)
    }
}

impl State {
    /// The answer to a request about a task that is not its sender's.
    pub(super) fn refuse_task(&self, message: &Message, owner: Option<&Owner>) -> Option<Bytes> {
        let owner = owner.filter(|_| message.method().starts_with("tasks/"))?;
        // One that can be read in different ways is none.
        let id = Fields::read(message.params()).map(|fields| fields.string("taskId"));
        match id {
            Some(Ok(Some(id))) if self.tasks.is_of(&id, owner) => None,
            None | Some(Ok(None)) if message.method() == "tasks/list" => None,
            _ => Some(error_answer(&message.id(), error_code::INVALID_PARAMS, "task not found").freeze()),
        }
    }

    /// Keeps the progress token of a call that became a task (MCP 2025-11-25, "Task Progress").
    pub(super) fn keep_progress(&mut self, number: u64, call: &InFlight, answer: &Message) {
        let (Some(session), Some(token)) = (&call.session, &call.token) else { return };
        let Some(task) = created(answer.result()) else { return };
        let (session, token) = (session.clone(), token.clone());
        self.tasks.note_progress(TaskProgress { number, task, session, token, since: Instant::now() });
    }

    /// Notes the task that an answer tells of. Returns the answer, with the caller's id, if it is another for them: of
    /// a list of tasks they get their own.
    pub(super) fn task_answer(&mut self, call: &InFlight, answer: &Message) -> Option<Bytes> {
        let owner = call.owner.as_ref()?;
        if call.lists_tasks {
            let unread = "the server's list of tasks cannot be read";
            let list = self.own_tasks(owner, &call.id, answer);
            return list.unwrap_or_else(|| {
                Some(error_answer(&call.id, error_code::INTERNAL_ERROR, unread).freeze())
            });
        }
        if let Some(id) = created(answer.result()) {
            self.tasks.note(id, owner);
        }
        None
    }

    /// An owner's part of a list of tasks: `Some(None)` when the answer stays as it is, `None` when it cannot be read.
    fn own_tasks(&self, owner: &Owner, id: &Bytes, answer: &Message) -> Option<Option<Bytes>> {
        #[derive(Deserialize)]
        struct Listed<'a> {
            #[serde(borrow, default)]
            tasks: Option<&'a RawValue>,
        }
        if answer.result().is_empty() {
            return Some(None);
        }
        let Some(list) = serde_json::from_str::<Listed<'_>>(answer.result()).ok()?.tasks else {
            return Some(None);
        };
        let (mut own, mut all) = (Vec::new(), 0);
        let read = each_element(list.get(), |task| {
            let is_own = |task: Task| self.tasks.is_of(&task.id, owner);
            own.extend(serde_json::from_str(task.get()).is_ok_and(is_own).then_some(task.get()));
            all += 1;
            Ok(())
        });
        read.ok()?;
        if own.len() == all {
            return Some(None);
        }
        let own = format!("[{}]", own.join(","));
        let mut edits = [(answer.id_span(), &id[..]), (answer.span_of(list), own.as_bytes())];
        Some(Some(splice(answer.bytes(), &mut edits).freeze()))
    }
}

#[derive(Deserialize)]
struct Task {
    #[serde(rename = "taskId")]
    id: String,
}

/// The id of the task that a request became, if its result says so: in an object of its own, or, where the kind of a
/// result is said, in the result itself.
fn created(result: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Created {
        #[serde(default)]
        task: Option<Task>,
        #[serde(default, rename = "resultType")]
        kind: Option<String>,
        #[serde(default, rename = "taskId")]
        id: Option<String>,
    }
    // Few have one, and large results are searched much faster than parsed.
    memchr::memmem::find(result.as_bytes(), b"\"taskId\"")?;
    let created: Created = serde_json::from_str(result).ok()?;
    let flat = created.id.filter(|_| created.kind.as_deref() == Some("task"));
    created.task.map(|task| task.id).or(flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str, client: &str) -> Owner {
        Owner::new("", name, client)
    }

    #[test]
    fn a_task_is_found_in_both_forms_of_results() {
        for (result, id) in [
            (r#"{"task":{"taskId":"1","status":"working"}}"#, Some("1")),
            (r#"{"resultType":"task","taskId":"2"}"#, Some("2")),
            (r#"{"resultType":"task","task":{"taskId":"3"}}"#, Some("3")),
            (r#"{"resultType":"complete","taskId":"4","status":"working"}"#, None),
            (r#"{"taskId":"5"}"#, None),
            (r#"{"content":[{"text":"{\"taskId\":\"6\"}"}]}"#, None),
            (r#"{"structuredContent":{"task":{"taskId":"7"}}}"#, None),
        ] {
            assert_eq!(created(result).as_deref(), id, "{result}");
        }
    }

    #[test]
    fn nobody_has_the_progress_of_others_forgotten() {
        let mut tasks = Tasks::default();
        let note = |tasks: &mut Tasks, session: &str, number: u64| {
            let session = SessionId::presented(session);
            let (task, token) = (format!("task-{number}"), Bytes::from_static(b"1"));
            tasks.note_progress(TaskProgress { number, task, session, token, since: Instant::now() });
        };
        note(&mut tasks, "other", 0);
        for number in 1..=MOST_PROGRESS as u64 {
            note(&mut tasks, "a", number);
        }
        assert_eq!(tasks.progress.len(), 1 + MOST_PROGRESS_OF_SESSION);
        for number in 2_000..4_000 {
            note(&mut tasks, &format!("s{}", number / 100), number);
        }
        assert!(tasks.progress(0).is_some() && tasks.progress.len() <= MOST_PROGRESS);
        tasks.end_progress("task-0");
        assert!(tasks.progress(0).is_none());
    }

    #[test]
    fn nobody_has_the_tasks_of_others_forgotten() {
        let mut tasks = Tasks::default();
        let other = owner("b", "");
        tasks.note("b".to_owned(), &other);
        tasks.note("b".to_owned(), &owner("a", ""));
        for number in 0..2 * OF_ONE {
            tasks.note(number.to_string(), &owner("a", &number.to_string()));
        }
        for number in 0..2 * MOST {
            tasks.note(format!("many-{number}"), &owner(&format!("c{}", number / OF_ONE), ""));
        }
        assert!(tasks.is_of("b", &other) && tasks.owners.len() <= MOST);
        assert_eq!(tasks.by_person.values().map(VecDeque::len).sum::<usize>(), tasks.owners.len());
        assert!(tasks.by_person.values().all(|own| own.len() <= OF_ONE));
    }
}
