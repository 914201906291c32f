//! Holds an isolated container: what it may reach, and how it is reached.
//!
//! The container has no network. Its first process is the shim (`mcpm/shim/`), which joins the container's
//! loopback to a socket of this process; whatever comes over that socket is untrusted. [`link`] takes the
//! connections and reads what each is for, [`carried`] has them come over a stream where engines share no sockets, [`proxy`] speaks HTTP with clients that use a proxy, [`policy`] decides
//! about hosts, ports and addresses, [`tunnel`] moves bytes, and [`reverse_connections`] reaches a server that speaks HTTP.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_util::Stream;
use serde::{Deserialize, Serialize};
use tokio::{io::AsyncWrite, net::UnixStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{Error, ErrorKind, Result, permission::Outbound};

mod address;
mod config;
mod denial;
#[path = "../../shim/frames.rs"]
mod frames;
mod host_map;
mod policy;
mod profile_recorder;
mod proxy;
mod relay;
mod reverse_connections;
mod shim_connections;
mod shim_mount;
#[cfg(test)]
mod shim_tests;
mod sniff;
mod tunnel;

pub use denial::{EgressDecision, EgressDenial, Rule};
pub(crate) use host_map::HostMap;
pub(crate) use profile_recorder::ProfileRecorder;
pub(crate) use reverse_connections::ReverseDialer;
pub(crate) use shim_mount::{MOUNT_POINT, SHIM_FILE_NAME, shim_binary};

use policy::EgressPolicy;

/// What an isolated container may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsolationSpec {
    /// The server's own program and arguments.
    pub command: Vec<String>,
    /// Connections that it may open.
    pub outbound: Outbound,
    /// Whether it may reach the engine's machine by the engine's gateway.
    pub runtime_gateway: bool,
    /// Where a profile of what it reached is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learn: Option<std::path::PathBuf>,
}

/// Tells whether an address is one of the internet, and not of this machine or of a network around it.
pub(crate) fn is_public(address: IpAddr) -> bool {
    address::special_purpose_network(address).is_none()
}

/// Hears of every decision.
pub(crate) type OnDecision = Arc<dyn Fn(EgressDecision) + Send + Sync>;

/// Holds the containers of one workload while it lives. Dropping it ends every connection of theirs.
pub(crate) struct Isolation {
    layout: HostMap,
    command: Vec<String>,
    state: Arc<IsolationState>,
    inbound: ReverseDialer,
    recorder: Option<Arc<ProfileRecorder>>,
    /// What is done for the container of each slot.
    slots: Mutex<HashMap<usize, CancellationToken>>,
    stop: CancellationToken,
}

impl std::fmt::Debug for Isolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Isolation(..)")
    }
}

/// What every connection is held against.
pub(crate) struct IsolationState {
    policy: EgressPolicy,
    on_decision: OnDecision,
    /// Configurations of containers that are about to start, by slot. Each is given out once.
    pending_configs: Mutex<HashMap<usize, Vec<u8>>>,
    reverse_connections: reverse_connections::ReverseConnectionSender,
    limits: shim_connections::ConnectionLimits,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Isolation {
    /// Puts the shim for that architecture and the socket into `folder` and answers whoever connects. Without a folder,
    /// connections are carried.
    pub(crate) fn start(
        folder: Option<(&Path, &str)>,
        spec: &IsolationSpec,
        target_port: Option<u16>,
        gateways: Vec<IpAddr>,
        tell: OnDecision,
        learner: Option<ProfileRecorder>,
    ) -> Result<Self> {
        let learner = learner.map(Arc::new);
        let tell: OnDecision = match learner.clone() {
            None => tell,
            Some(learner) => Arc::new(move |decision| {
                learner.record(&decision);
                tell(decision);
            }),
        };
        let prepare = |(folder, architecture)| shim_mount::prepare(folder, shim_binary(architecture)?);
        let listener = folder.map(prepare).transpose()?;
        let stop = CancellationToken::new();
        let (inbound, offers) = ReverseDialer::new();
        let gate = Arc::new(IsolationState {
            policy: EgressPolicy::new(spec.outbound.clone(), spec.runtime_gateway, gateways),
            on_decision: tell,
            pending_configs: Mutex::default(),
            reverse_connections: offers,
            limits: shim_connections::ConnectionLimits::default(),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        });
        if let Some(listener) = listener {
            gate.spawn(shim_connections::serve(listener, Arc::clone(&gate)));
        }
        let layout = HostMap::from_outbound(&spec.outbound, target_port);
        Ok(Self {
            layout,
            command: spec.command.clone(),
            state: gate,
            inbound,
            recorder: learner,
            slots: Mutex::default(),
            stop,
        })
    }

    /// Has the next start of a container answered: its server gets these variables, which the engine never sees.
    /// Whoever asks first gets them, so no other container of the workload may be left from before.
    pub(crate) fn set_config(&self, slot: usize, env: &BTreeMap<String, String>) -> Result<()> {
        let config = config::encode(&self.layout, &self.command, env, self.recorder.is_some())?;
        // No code panics while it holds the lock.
        self.state.pending_configs.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, config);
        Ok(())
    }

    /// Does something for the container of a slot for as long as the workload is held, and no more for the one that
    /// the slot had before.
    pub(crate) fn spawn_for_slot(&self, slot: usize, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.child_token();
        let before = self.slots.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, stop.clone());
        if let Some(before) = before {
            before.cancel();
        }
        self.state.tasks.spawn(async move { stop.run_until_cancelled(work).await });
    }

    /// Returns what takes the connections of a container over streams.
    pub(crate) fn exec_relay(&self) -> ExecRelay {
        ExecRelay(Arc::clone(&self.state))
    }

    /// Returns the way to a server that speaks HTTP.
    pub(crate) fn reverse_dialer(&self) -> ReverseDialer {
        self.inbound.clone()
    }

    /// Completes the profile that is learnt, and returns what the user should know about it.
    pub(crate) fn finish_recording(&self) -> Option<String> {
        self.recorder.as_ref()?.finish()
    }

    /// Tells whether the shim itself listens on a port of the container.
    pub(crate) fn listens_on(&self, port: u16) -> bool {
        self.layout.listens_on(port)
    }
}

/// Takes the connections of a container whose engine shares no sockets.
#[derive(Clone)]
pub(crate) struct ExecRelay(Arc<IsolationState>);

impl ExecRelay {
    /// Takes what comes over the streams of a process that carries, until it is gone.
    pub(crate) async fn serve(
        &self,
        input: impl Stream<Item = Result<Bytes>> + Send,
        output: impl AsyncWrite + Send,
    ) -> std::io::Result<()> {
        relay::serve(&self.0, input, output).await
    }
}

impl Drop for Isolation {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl IsolationState {
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move { stop.run_until_cancelled(work).await });
    }

    fn notify_denied(&self, denial: &EgressDenial) {
        (self.on_decision)(EgressDecision::Denied(denial.clone()));
    }

    /// Gives a configuration out, once.
    fn take_config(&self, slot: usize) -> Option<Vec<u8>> {
        self.pending_configs.lock().unwrap_or_else(PoisonError::into_inner).remove(&slot)
    }
}

/// A stream from the shim.
type ShimStream = UnixStream;

/// Makes the error for a build, or a machine, that cannot isolate.
pub(crate) fn unsupported(why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this workload cannot be isolated: {why}"))
        .hint("use a build of mcpm for it, or lift the isolation and the limits of the permission profile")
}
