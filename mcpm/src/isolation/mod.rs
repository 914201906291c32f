//! Holds an isolated container: what it may reach, and how it is reached.
//!
//! The container has no network. Its first process is the shim (`mcpm/shim/`), which joins the container's
//! loopback to a socket of this process; whatever comes over that socket is untrusted. [`link`] takes the
//! connections and reads what each is for, [`carried`] has them come over a stream where engines share no sockets, [`proxy`] speaks HTTP with clients that use a proxy, [`policy`] decides
//! about hosts, ports and addresses, [`tunnel`] moves bytes, and [`inbound`] reaches a server that speaks HTTP.

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
mod carried;
mod config;
mod denial;
mod folder;
#[path = "../../shim/frames.rs"]
mod frames;
mod hello;
mod inbound;
mod layout;
mod learn;
mod link;
mod policy;
mod proxy;
#[cfg(test)]
mod shim_tests;
mod tunnel;

pub use denial::{Decision, Denial, Rule};
pub(crate) use folder::{MOUNT_POINT, PROGRAM, program};
pub(crate) use inbound::Inbound;
pub(crate) use layout::Layout;
pub(crate) use learn::Learner;

use policy::Policy;

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
    address::special(address).is_none()
}

/// Hears of every decision.
pub(crate) type Tell = Arc<dyn Fn(Decision) + Send + Sync>;

/// Holds the containers of one workload while it lives. Dropping it ends every connection of theirs.
pub(crate) struct Isolation {
    layout: Layout,
    command: Vec<String>,
    gate: Arc<Gate>,
    inbound: Inbound,
    learner: Option<Arc<Learner>>,
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
pub(crate) struct Gate {
    policy: Policy,
    tell: Tell,
    /// Configurations of containers that are about to start, by slot. Each is given out once.
    armed: Mutex<HashMap<usize, Vec<u8>>>,
    inbound: inbound::Offers,
    bounds: link::Bounds,
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
        tell: Tell,
        learner: Option<Learner>,
    ) -> Result<Self> {
        let learner = learner.map(Arc::new);
        let tell: Tell = match learner.clone() {
            None => tell,
            Some(learner) => Arc::new(move |decision| {
                learner.hear(&decision);
                tell(decision);
            }),
        };
        let prepare = |(folder, architecture)| folder::prepare(folder, program(architecture)?);
        let listener = folder.map(prepare).transpose()?;
        let stop = CancellationToken::new();
        let (inbound, offers) = Inbound::new();
        let gate = Arc::new(Gate {
            policy: Policy::new(spec.outbound.clone(), spec.runtime_gateway, gateways),
            tell,
            armed: Mutex::default(),
            inbound: offers,
            bounds: link::Bounds::default(),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        });
        if let Some(listener) = listener {
            gate.in_background(link::serve(listener, Arc::clone(&gate)));
        }
        let layout = Layout::of(&spec.outbound, target_port);
        Ok(Self {
            layout,
            command: spec.command.clone(),
            gate,
            inbound,
            learner,
            slots: Mutex::default(),
            stop,
        })
    }

    /// Has the next start of a container answered: its server gets these variables, which the engine never sees.
    /// Whoever asks first gets them, so no other container of the workload may be left from before.
    pub(crate) fn arm(&self, slot: usize, env: &BTreeMap<String, String>) -> Result<()> {
        let config = config::encode(&self.layout, &self.command, env, self.learner.is_some())?;
        // No code panics while it holds the lock.
        self.gate.armed.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, config);
        Ok(())
    }

    /// Does something for the container of a slot for as long as the workload is held, and no more for the one that
    /// the slot had before.
    pub(crate) fn for_slot(&self, slot: usize, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.child_token();
        let before = self.slots.lock().unwrap_or_else(PoisonError::into_inner).insert(slot, stop.clone());
        if let Some(before) = before {
            before.cancel();
        }
        self.gate.tasks.spawn(async move { stop.run_until_cancelled(work).await });
    }

    /// Returns what takes the connections of a container over streams.
    pub(crate) fn carrier(&self) -> Carrier {
        Carrier(Arc::clone(&self.gate))
    }

    /// Returns the way to a server that speaks HTTP.
    pub(crate) fn inbound(&self) -> Inbound {
        self.inbound.clone()
    }

    /// Completes the profile that is learnt, and returns what the user should know about it.
    pub(crate) fn finish_learning(&self) -> Option<String> {
        self.learner.as_ref()?.finish()
    }

    /// Tells whether the shim itself listens on a port of the container.
    pub(crate) fn listens_on(&self, port: u16) -> bool {
        self.layout.listens_on(port)
    }
}

/// Takes the connections of a container whose engine shares no sockets.
#[derive(Clone)]
pub(crate) struct Carrier(Arc<Gate>);

impl Carrier {
    /// Takes what comes over the streams of a process that carries, until it is gone.
    pub(crate) async fn serve(
        &self,
        input: impl Stream<Item = Result<Bytes>> + Send,
        output: impl AsyncWrite + Send,
    ) -> std::io::Result<()> {
        carried::serve(&self.0, input, output).await
    }
}

impl Drop for Isolation {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Gate {
    fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move { stop.run_until_cancelled(work).await });
    }

    fn tell_denied(&self, denial: &Denial) {
        (self.tell)(Decision::Denied(denial.clone()));
    }

    /// Gives a configuration out, once.
    fn take_config(&self, slot: usize) -> Option<Vec<u8>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner).remove(&slot)
    }
}

/// A stream from the shim.
type Link = UnixStream;

/// Makes the error for a build, or a machine, that cannot isolate.
pub(crate) fn unsupported(why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this workload cannot be isolated: {why}"))
        .hint("use a build of mcpm for it, or lift the isolation and the limits of the permission profile")
}
