//! Exports the events of a workload to C.

use std::{ffi::c_void, sync::Arc};

use mcpm::workload::{EventStream, WorkloadEvent};

use super::{
    callback::{CFreeUserData, UserData},
    record::CRecord,
};

/// The kind of an event. The numbers never change.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CEventKind {
    /// An image is being pulled: `image`, `current` and `total` bytes.
    Pulling = 0,
    /// A step of a package's image build starts: `package`, `step`, `steps`, `instruction`.
    Building = 1,
    /// The image build wrote a line: `line`.
    BuildOutput = 2,
    /// A warning: `message`.
    Warning = 3,
    /// The container is being started: `name`.
    Starting = 4,
    /// Clients can connect: `name`, `url`.
    Ready = 5,
    /// The server exited and will be restarted: `reason`, `attempt`, `delay_ms`.
    Restarting = 6,
    /// One of several processes of the server exited and will be restarted: `process`, `reason`, `attempt`, `delay_ms`.
    ProcessRestarting = 7,
    /// One of several processes of the server is ready: `process`.
    ProcessReady = 8,
    /// One of several processes of the server exited and is not restarted: `process`, `reason`.
    ProcessEnded = 9,
    /// The server responds again.
    Recovered = 10,
    /// A connection of an isolated server was denied: `host`, `port`, `address`, `rule`, `fix`, `refusal`.
    ConnectionRefused = 11,
    /// The login to the remote server has changed: `state`.
    LoginChanged = 12,
    /// The workload has ended: `reason`, `exit_code`.
    Ended = 13,
}

impl From<&WorkloadEvent> for CEventKind {
    fn from(event: &WorkloadEvent) -> Self {
        match event {
            WorkloadEvent::Pulling { .. } => Self::Pulling,
            WorkloadEvent::Building { .. } => Self::Building,
            WorkloadEvent::BuildOutput { .. } => Self::BuildOutput,
            WorkloadEvent::Warning { .. } => Self::Warning,
            WorkloadEvent::Starting { .. } => Self::Starting,
            WorkloadEvent::Ready { .. } => Self::Ready,
            WorkloadEvent::Restarting { .. } => Self::Restarting,
            WorkloadEvent::ProcessRestarting { .. } => Self::ProcessRestarting,
            WorkloadEvent::ProcessReady { .. } => Self::ProcessReady,
            WorkloadEvent::ProcessEnded { .. } => Self::ProcessEnded,
            WorkloadEvent::Recovered { .. } => Self::Recovered,
            WorkloadEvent::ConnectionRefused { .. } => Self::ConnectionRefused,
            WorkloadEvent::LoginChanged { .. } => Self::LoginChanged,
            WorkloadEvent::Ended { .. } => Self::Ended,
        }
    }
}

/// Receives an event. `event` is valid only during the call. `mcpm_record_get` reads its values; the documentation of
/// the kind lists their names.
///
/// mcpm calls the callback on threads of its own, for one event of a workload at a time. The callback may block; a
/// receiver that is more than 256 events behind loses the oldest events. It must not call functions of mcpm that block.
pub type COnEvent =
    Option<unsafe extern "C" fn(user_data: *mut c_void, kind: CEventKind, event: *const CRecord)>;

/// A callback for events, and its user data.
#[derive(Debug, Clone)]
pub(super) struct EventCallback {
    on_event: COnEvent,
    user_data: Arc<UserData>,
}

impl EventCallback {
    pub(super) fn new(on_event: COnEvent, user_data: *mut c_void, free_user_data: CFreeUserData) -> Self {
        Self { on_event, user_data: Arc::new(UserData::new(user_data, free_user_data)) }
    }

    /// Calls the callback for each event until the workload ends. Must be called on the executor. The calls also end
    /// with the executor: a shutdown does not wait for them.
    pub(super) fn receive(self, mut events: EventStream) {
        let Some(on_event) = self.on_event else { return };
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let user_data = Arc::clone(&self.user_data);
                let called = tokio::task::spawn_blocking(move || {
                    let (kind, record) = (CEventKind::from(&event), CRecord::new(&event));
                    // SAFETY: the program guarantees the callback and its user data; the record lives during the call.
                    unsafe { on_event(user_data.pointer(), kind, &raw const record) };
                });
                if called.await.is_err() {
                    return;
                }
            }
        });
    }
}
