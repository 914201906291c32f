//! State that all connections of a workload share.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::BoxFuture;
use tokio::net::TcpStream;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connection_limits::ConnectionLimits,
    denial::{EgressDecision, EgressDenial},
    policy::EgressPolicy,
    reverse_connections::ReverseConnectionSender,
};
use crate::permission::Host;

/// A callback for each decision about a connection.
pub(crate) type OnDecision = Arc<dyn Fn(EgressDecision) + Send + Sync>;

/// Connects to a host and a port through a proxy; returns `None` if the connection should be direct.
pub(crate) type Upstream =
    Arc<dyn Fn(&Host, u16) -> Option<BoxFuture<'static, io::Result<TcpStream>>> + Send + Sync>;

/// State that all connections of a workload share.
pub(super) struct IsolationState {
    pub(super) policy: EgressPolicy,
    pub(super) on_decision: OnDecision,
    pub(super) upstream: Option<Upstream>,
    /// Configurations of containers that are about to start, by slot. Each is delivered once.
    pub(super) pending_configs: Mutex<HashMap<usize, Vec<u8>>>,
    pub(super) reverse_connections: ReverseConnectionSender,
    pub(super) limits: ConnectionLimits,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl IsolationState {
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move { stop.run_until_cancelled(work).await });
    }

    pub(super) fn notify_denied(&self, denial: &EgressDenial) {
        (self.on_decision)(EgressDecision::Denied(denial.clone()));
    }

    /// Removes and returns the configuration of a slot.
    pub(super) fn take_config(&self, slot: usize) -> Option<Vec<u8>> {
        self.pending_configs.lock().unwrap_or_else(PoisonError::into_inner).remove(&slot)
    }
}
