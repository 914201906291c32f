//! What is kept on disk of workloads and groups, so that `list` can tell the truth later.
//!
//! ```text
//! STATE/workloads/NAME/spec.json        what the workload is; written once per start
//! STATE/workloads/NAME/status.json      what its supervisor last said of it
//! STATE/workloads/NAME/lock             held by the supervisor for as long as it lives
//! STATE/workloads/NAME/supervisor.log   what the supervisor logs
//! STATE/groups/NAME.json                a group; its members name it in their specs
//! ```
//!
//! Any process can be killed at any time. A folder is therefore claimed by making it, files are replaced whole,
//! and nothing recorded is believed without a look at who still lives: the kernel drops the lock of a dead
//! supervisor, and [`truth()`] weighs the last words of the supervisor against the lock and the container.
//!
//! Only the holder of the lock writes the status. Folders are for their owner alone (0700), and so are files (0600).

pub(crate) mod document;
pub(crate) mod file;
mod groups;
mod lock;
mod process;
mod reconcile;
mod status;
mod store;

pub(crate) use file::replace as replace_file;

pub use document::{Document, FORMAT_VERSION, SPEC_VERSION};
pub(crate) use file::replace;
pub use groups::{DEFAULT_GROUP, Groups};
pub use lock::{Holder, Lock};
pub use process::ProcessId;
pub use reconcile::{ContainerView, Reconciled, WorkloadState, reconcile};
pub use status::{Phase, Status};
pub use store::{Claim, Store};
