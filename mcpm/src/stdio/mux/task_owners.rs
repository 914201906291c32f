//! Restricts each task to its owner, if callers are authenticated (MCP 2025-11-25, "Tasks"; the tasks extension of MCP
//! 2026-07-28).
//!
//! A stdio server sees a single client, so it would give every caller access to every task. The multiplexer assigns a
//! task to the owner whose request created it, and treats it as unknown in requests of all other owners. A task
//! that is no longer recorded is unknown to everyone.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{InFlightCall, MuxState, error_response};
use crate::{
    mcp::{
        error_code,
        message::{Message, each_element, splice},
    },
    stdio::{owner::Owner, session::SessionId},
};

/// Maximum number of recorded tasks of one process.
const MAX_TASKS: usize = 10_000;
/// Maximum number of recorded tasks of one caller, across all of its clients.
const MAX_TASKS_PER_CALLER: usize = 1000;
/// Maximum length of a recorded id in bytes.
const MAX_TASK_ID_BYTES: usize = 1024;
/// Maximum number of tasks whose progress is forwarded, for one process and for one session.
const MAX_TRACKED_PROGRESS: usize = 1000;
const MOST_PROGRESS_OF_SESSION: usize = 100;

/// The tasks of one process.
#[derive(Debug, Default)]
pub(super) struct TaskRegistry {
    owners: HashMap<Arc<str>, Owner>,
    /// The recorded owners of tasks, the oldest first.
    by_caller: HashMap<Arc<str>, VecDeque<Arc<str>>>,
    /// Calls that became tasks: their progress tokens stay in use while the task runs.
    progress: VecDeque<TaskProgress>,
}

/// The recipient of the progress of a call that became a task.
#[derive(Debug)]
struct TaskProgress {
    /// The number that was sent to the server as the progress token.
    server_token: u64,
    task: String,
    session: SessionId,
    token: Bytes,
    since: Instant,
}

impl TaskRegistry {
    /// Records the owner of a task, unless one is recorded already.
    fn insert(&mut self, id: String, owner: &Owner) {
        if id.len() > MAX_TASK_ID_BYTES || self.owners.contains_key(&*id) {
            return;
        }
        if self.by_caller.get(owner.caller_key()).is_some_and(|own| own.len() >= MAX_TASKS_PER_CALLER) {
            self.evict_oldest(&Arc::clone(owner.caller_key()));
        }
        if self.owners.len() >= MAX_TASKS
            && let Some(person) = self.by_caller.iter().max_by_key(|(_, own)| own.len())
        {
            let person = Arc::clone(person.0);
            self.evict_oldest(&person);
        }
        let id: Arc<str> = id.into();
        self.by_caller.entry(Arc::clone(owner.caller_key())).or_default().push_back(Arc::clone(&id));
        self.owners.insert(id, owner.clone());
    }

    fn evict_oldest(&mut self, person: &Arc<str>) {
        let Some(own) = self.by_caller.get_mut(person) else { return };
        if let Some(oldest) = own.pop_front() {
            self.owners.remove(&oldest);
        }
        if own.is_empty() {
            self.by_caller.remove(person);
        }
    }

    /// Returns the recipient of progress with this number as its token, and the recipient's own token.
    pub(super) fn progress(&self, number: u64) -> Option<(&SessionId, &Bytes)> {
        let found = self.progress.iter().find(|progress| progress.server_token == number);
        found.map(|progress| (&progress.session, &progress.token))
    }

    /// Records the recipient of a task's progress. If a session has too many, its oldest recipient is removed; if the
    /// process has too many, the oldest one of the session with the most is removed.
    fn note_progress(&mut self, progress: TaskProgress) {
        if progress.task.len() > MAX_TASK_ID_BYTES {
            return;
        }
        let mut counts: HashMap<&SessionId, usize> = HashMap::new();
        for noted in &self.progress {
            *counts.entry(&noted.session).or_default() += 1;
        }
        let crowded = if counts.get(&progress.session).is_some_and(|own| *own >= MOST_PROGRESS_OF_SESSION) {
            Some(progress.session.clone())
        } else if self.progress.len() >= MAX_TRACKED_PROGRESS {
            counts.into_iter().max_by_key(|(_, count)| *count).map(|(session, _)| session.clone())
        } else {
            None
        };
        let oldest = self.progress.iter().position(|noted| Some(&noted.session) == crowded.as_ref());
        oldest.and_then(|oldest| self.progress.remove(oldest));
        self.progress.push_back(progress);
    }

    /// Removes the progress token of a task that has ended.
    pub(super) fn end_progress(&mut self, task: &str) {
        self.progress.retain(|progress| progress.task != task);
    }

    /// Removes the progress tokens of a session that has ended.
    pub(super) fn end_session(&mut self, session: &SessionId) {
        self.progress.retain(|progress| progress.session != *session);
    }

    /// Removes the progress tokens of calls that became tasks longer ago than `longest`.
    pub(super) fn sweep(&mut self, now: Instant, longest: Duration) {
        self.progress.retain(|progress| now.saturating_duration_since(progress.since) <= longest);
    }

    fn is_owned_by(&self, id: &str, owner: &Owner) -> bool {
        self.owners.get(id) == Some(owner)
    }
}

impl MuxState {
    /// Returns the response to a request about a task that its sender does not own.
    pub(super) fn reject_foreign_task(&self, message: &Message, owner: Option<&Owner>) -> Option<Bytes> {
        let owner = owner.filter(|_| message.method().starts_with("tasks/"))?;
        // Ambiguous params do not name a task.
        let id = message.params_fields().map(|fields| fields.get_unique_string("taskId"));
        match id {
            Some(Ok(Some(id))) if self.tasks.is_owned_by(&id, owner) => None,
            None | Some(Ok(None)) if message.method() == "tasks/list" => None,
            _ => Some(error_response(&message.id(), error_code::INVALID_PARAMS, "task not found").freeze()),
        }
    }

    /// Keeps the progress token of a call that became a task in use (MCP 2025-11-25, "Task Progress").
    pub(super) fn track_task_progress(&mut self, number: u64, call: &InFlightCall, answer: &Message) {
        let (Some(session), Some(token)) = (&call.session, &call.token) else { return };
        let Some(task) = created_task_id(answer.result()) else { return };
        let (session, token) = (session.clone(), token.clone());
        self.tasks.note_progress(TaskProgress {
            server_token: number,
            task,
            session,
            token,
            since: Instant::now(),
        });
    }

    /// Records the task that a response announces. Returns the response, with the caller's id, if it has to be
    /// changed: a list of tasks is filtered for its owner.
    pub(super) fn rewrite_task_response(&mut self, call: &InFlightCall, answer: &Message) -> Option<Bytes> {
        let owner = call.owner.as_ref()?;
        if call.lists_tasks {
            let unread = "the server's list of tasks cannot be read";
            let list = self.filter_task_list(owner, &call.id, answer);
            return list.unwrap_or_else(|| {
                Some(error_response(&call.id, error_code::INTERNAL_ERROR, unread).freeze())
            });
        }
        if let Some(id) = created_task_id(answer.result()) {
            self.tasks.insert(id, owner);
        }
        None
    }

    /// Filters a list of tasks for an owner: `Some(None)` if it stays the same, `None` if it is invalid.
    fn filter_task_list(&self, owner: &Owner, id: &Bytes, answer: &Message) -> Option<Option<Bytes>> {
        #[derive(Deserialize)]
        struct TaskListResult<'a> {
            #[serde(borrow, default)]
            tasks: Option<&'a RawValue>,
        }
        if answer.result().is_empty() {
            return Some(None);
        }
        let Some(list) = serde_json::from_str::<TaskListResult<'_>>(answer.result()).ok()?.tasks else {
            return Some(None);
        };
        let (mut own, mut all) = (Vec::new(), 0);
        let read = each_element(list.get(), |task| {
            let is_own = |task: TaskRef| self.tasks.is_owned_by(&task.id, owner);
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
struct TaskRef {
    #[serde(rename = "taskId")]
    id: String,
}

/// Returns the id of the task that a request became. The id is in a separate object of the result or, in versions whose
/// results name their type, in the result itself.
fn created_task_id(result: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Created {
        #[serde(default)]
        task: Option<TaskRef>,
        #[serde(default, rename = "resultType")]
        kind: Option<String>,
        #[serde(default, rename = "taskId")]
        id: Option<String>,
    }
    // Few results contain a task id, and searching a large result is much faster than parsing it.
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
            assert_eq!(created_task_id(result).as_deref(), id, "{result}");
        }
    }

    #[test]
    fn nobody_has_the_progress_of_others_forgotten() {
        let mut tasks = TaskRegistry::default();
        let note = |tasks: &mut TaskRegistry, session: &str, number: u64| {
            let session = SessionId::from_client(session);
            let (task, token) = (format!("task-{number}"), Bytes::from_static(b"1"));
            tasks.note_progress(TaskProgress {
                server_token: number,
                task,
                session,
                token,
                since: Instant::now(),
            });
        };
        note(&mut tasks, "other", 0);
        for number in 1..=MAX_TRACKED_PROGRESS as u64 {
            note(&mut tasks, "a", number);
        }
        assert_eq!(tasks.progress.len(), 1 + MOST_PROGRESS_OF_SESSION);
        for number in 2_000..4_000 {
            note(&mut tasks, &format!("s{}", number / 100), number);
        }
        assert!(tasks.progress(0).is_some() && tasks.progress.len() <= MAX_TRACKED_PROGRESS);
        tasks.end_progress("task-0");
        assert!(tasks.progress(0).is_none());
    }

    #[test]
    fn a_caller_cannot_evict_tasks_of_others() {
        let mut tasks = TaskRegistry::default();
        let other = owner("b", "");
        tasks.insert("b".to_owned(), &other);
        tasks.insert("b".to_owned(), &owner("a", ""));
        for number in 0..2 * MAX_TASKS_PER_CALLER {
            tasks.insert(number.to_string(), &owner("a", &number.to_string()));
        }
        for number in 0..2 * MAX_TASKS {
            tasks
                .insert(format!("many-{number}"), &owner(&format!("c{}", number / MAX_TASKS_PER_CALLER), ""));
        }
        assert!(tasks.is_owned_by("b", &other) && tasks.owners.len() <= MAX_TASKS);
        assert_eq!(tasks.by_caller.values().map(VecDeque::len).sum::<usize>(), tasks.owners.len());
        assert!(tasks.by_caller.values().all(|own| own.len() <= MAX_TASKS_PER_CALLER));
    }
}
