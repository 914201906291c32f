//! Stores the state of workloads and groups on disk.
//!
//! ```text
//! STATE/workloads/NAME/spec.json        the resolved configuration; written once per start
//! STATE/workloads/NAME/status.json      the last status of the workload
//! STATE/workloads/NAME/stop.json        how the supervisor should stop at the next signal
//! STATE/workloads/NAME/tools.json       the names of the server's tools, written by commands that list them
//! STATE/workloads/NAME/lock             held by the process that runs the workload
//! STATE/workloads/NAME/supervisor.log   the supervisor's log
//! STATE/groups/NAME.json                a group; its members name it in their specs
//! ```
//!
//! Any process can be killed at any time. A name is therefore claimed by creating a folder, and files are replaced
//! atomically. A recorded status may be outdated: the kernel releases the lock of a dead supervisor, and
//! [`reconcile`](reconcile()) combines the recorded status with the state of the lock and of the container.
//!
//! While a process holds the lock, only that process writes the status. Folders have mode 0700, and files 0600, apart
//! from those that are mounted into containers. Other modules store further files in these folders (see
//! `docs/reference/state.md`).

pub(crate) mod document;
pub(crate) mod file;
pub(crate) mod file_lock;
pub(crate) mod folder_watch;
mod groups;
mod lock;
mod process;
mod reconcile;
#[cfg(all(feature = "builtin", target_os = "linux"))]
pub(crate) mod remove_tree;
pub(crate) mod rotated_file;
mod status;
mod store;

pub(crate) use file::replace as replace_file;

pub use document::{Document, FORMAT_VERSION, SPEC_VERSION};
pub(crate) use file::replace;
pub use groups::{DEFAULT_GROUP, Groups};
pub use lock::{Holder, Lock};
pub use process::ProcessId;
pub use reconcile::{ContainerView, Reconciled, WorkloadState, reconcile};
pub use status::{LoginState, Phase, Status};
pub use store::{Claim, Store};
