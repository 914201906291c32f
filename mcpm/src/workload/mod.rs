//! Runs workloads: MCP servers in containers and remote MCP servers, each behind its own proxy.
//!
//! [`Workload::builder`] collects the options, [`Workload::plan`] returns what would be started, and
//! [`Workload::start`] starts it. `resolve` turns options ([`WorkloadOptions`](crate::options::WorkloadOptions)) into a
//! [`WorkloadSpec`], `launch` starts the workload that the spec describes, and [`Workloads`] manages the
//! recorded workloads.

mod builder;
mod ca_certs;
mod container;
mod doctor;
mod egress_denials;
mod engine;
mod event_reader;
mod events;
mod exec_relay;
mod export;
mod export_schema;
mod headers;
mod http_server;
#[cfg_attr(not(feature = "containers"), path = "ignore/off.rs")]
mod ignore;
mod info;
mod launch;
mod launch_remote;
mod listening_ports;
mod manage;
mod plan;
mod proxy_log;
mod record;
mod recorded_events;
mod remote_login;
mod remote_server;
mod resolve;
mod restart;
mod running;
mod secret_delivery;
mod server_output;
mod spec;
mod stop_request;
mod supervision;
mod toolhive;
mod transport_mismatch;
mod watch;

/// Private functions for the fuzz targets.
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing {
    use std::{collections::BTreeMap, path::Path};

    use crate::Result;

    pub(crate) fn env_file(text: &str) -> Result<BTreeMap<String, String>, (usize, &'static str)> {
        super::resolve::env_file::parse(text)
    }

    pub(crate) fn ignores(patterns: &str, folder: &Path, path: &Path) -> Result<bool> {
        super::ignore::ignores(patterns, folder, path)
    }
}

pub use crate::name::WorkloadName;
pub use builder::{Workload, WorkloadBuilder};
pub use doctor::{Finding, Severity, diagnose, repair};
pub use events::{EventStream, WorkloadEvent};
pub use export_schema::export_schema;
pub use info::WorkloadInfo;
pub use launch::Launch;
pub use manage::Workloads;
pub use plan::{Plan, PlannedBuild};
pub use recorded_events::{RecordedEvent, RecordedEventKind};
pub use resolve::verification::PlannedVerification;
pub use running::RunningWorkload;
pub use server_output::{Logs, ServerLogOptions};
pub use spec::{PackageSpec, Placement, RemoteSpec, TargetSpec, ValueOrigin, Via, WorkloadSpec};
