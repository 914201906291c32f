//! Isolated containers and builds: their network policy, and the connections from and to them.
//!
//! The container has no network. Its first process is the shim (`mcpm/shim/`), which relays connections on the
//! container's loopback to a socket of this process; all data from that socket is untrusted. [`shim_connections`]
//! accepts the connections and reads the purpose of each, [`relay`] carries them over one stream where the engine
//! cannot share sockets with this machine, [`proxy`] serves clients that use an HTTP proxy, [`policy`] decides about
//! hosts, ports and addresses, [`tunnel`] copies bytes, and [`reverse_connections`] connects to a server that speaks
//! HTTP.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use futures_util::Stream;
use tokio::io::AsyncWrite;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::Result;

mod address;
mod config;
mod connection_limits;
mod denial;
mod denial_response;
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
#[path = "../../shim/records.rs"]
pub(crate) mod shim_records;
#[cfg(test)]
mod shim_tests;
mod sniff;
mod spec;
mod state;
mod tunnel;

pub(crate) use {
    address::is_public,
    host_map::HostMap,
    profile_recorder::ProfileRecorder,
    reverse_connections::ReverseDialer,
    shim_mount::{MOUNT_POINT, SHIM_FILE_NAME, shim_binary},
};
pub use {
    denial::{EgressDecision, EgressDenial, Rule},
    spec::IsolationSpec,
};

use connection_limits::ConnectionLimits;
use policy::EgressPolicy;
pub(crate) use state::Upstream;
use state::{IsolationState, OnDecision};

/// The isolation of the containers of one workload. Dropping it ends all of their connections.
pub(crate) struct Isolation {
    host_map: HostMap,
    command: Vec<String>,
    state: Arc<IsolationState>,
    inbound: ReverseDialer,
    recorder: Option<Arc<ProfileRecorder>>,
    /// Stops the tasks of the container of each slot.
    slots: Mutex<HashMap<usize, CancellationToken>>,
    stop: CancellationToken,
}

impl std::fmt::Debug for Isolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Isolation(..)")
    }
}

impl Isolation {
    /// Puts the shim for that architecture and the socket into `folder`, and serves its connections. Without a folder,
    /// connections come through an [`ExecRelay`]. Connections to allowed hosts go through `upstream`, where it provides
    /// one.
    pub(crate) fn start(
        folder: Option<(&Path, &str)>,
        spec: &IsolationSpec,
        target_port: Option<u16>,
        gateways: Vec<IpAddr>,
        on_decision: OnDecision,
        recorder: Option<ProfileRecorder>,
        upstream: Option<Upstream>,
    ) -> Result<Self> {
        let recorder = recorder.map(Arc::new);
        let on_decision: OnDecision = match recorder.clone() {
            None => on_decision,
            Some(recorder) => Arc::new(move |decision| {
                recorder.record(&decision);
                on_decision(decision);
            }),
        };
        let prepare = |(folder, architecture)| shim_mount::prepare(folder, shim_binary(architecture)?);
        let listener = folder.map(prepare).transpose()?;
        let stop = CancellationToken::new();
        let (inbound, reverse_connections) = ReverseDialer::new();
        let state = Arc::new(IsolationState {
            policy: EgressPolicy::new(spec.outbound.clone(), spec.runtime_gateway, gateways),
            on_decision,
            upstream,
            pending_configs: Mutex::default(),
            reverse_connections,
            limits: ConnectionLimits::default(),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        });
        if let Some(listener) = listener {
            state.spawn(shim_connections::serve(listener, Arc::clone(&state)));
        }
        let host_map = HostMap::from_outbound(&spec.outbound, target_port);
        Ok(Self {
            host_map,
            command: spec.command.clone(),
            state,
            inbound,
            recorder,
            slots: Mutex::default(),
            stop,
        })
    }

    /// Sets the configuration of the next container of a slot: its server gets these variables, which the engine never
    /// sees. The first container that requests the configuration of the slot gets it, so no older container of the slot
    /// may be left.
    pub(crate) fn set_config(&self, slot: usize, env: &BTreeMap<String, String>) -> Result<()> {
        let config = config::encode(&self.host_map, &self.command, env, self.recorder.is_some())?;
        // No code panics while it holds the lock.
        self.state.pending_configs.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, config);
        Ok(())
    }

    /// Spawns a task for the container of a slot, and cancels that of the container that had the slot before.
    pub(crate) fn spawn_for_slot(&self, slot: usize, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.child_token();
        let before = self.slots.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, stop.clone());
        if let Some(before) = before {
            before.cancel();
        }
        self.state.tasks.spawn(async move { stop.run_until_cancelled(work).await });
    }

    /// Returns the relay for connections of a container over a stream.
    pub(crate) fn exec_relay(&self) -> ExecRelay {
        ExecRelay(Arc::clone(&self.state))
    }

    /// Returns the dialer for a server that speaks HTTP.
    pub(crate) fn reverse_dialer(&self) -> ReverseDialer {
        self.inbound.clone()
    }

    /// Completes the recorded profile, and returns a message for the user.
    pub(crate) fn finish_recording(&self) -> Option<String> {
        self.recorder.as_ref()?.finish()
    }

    /// Whether the shim itself listens on a port of the container.
    pub(crate) fn listens_on(&self, port: u16) -> bool {
        self.host_map.listens_on(port)
    }
}

/// Accepts the connections of a container whose engine cannot share sockets with this machine.
#[derive(Clone)]
pub(crate) struct ExecRelay(Arc<IsolationState>);

impl ExecRelay {
    /// Serves the streams of a relay process in the container, until it ends.
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
