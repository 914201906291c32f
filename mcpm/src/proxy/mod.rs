//! One HTTP proxy in front of one MCP server.
//!
//! A [`ProxySpec`] says what stands in front of the server; [`service`] makes it, for a workload as for [`Proxy`], the
//! proxy alone, and [`StdioProxy`]. [`listener`] takes connections, [`stack`] runs each request through the [`layers`],
//! and at the end stands [`forward`] for a server that speaks HTTP or [`bridge`] for one that speaks over stdio.

mod admission;
mod audited_message;
mod audited_request;
pub(crate) mod body;
mod body_errors;
pub(crate) mod bridge;
mod builder;
pub(crate) mod denial;
mod endpoint_event;
mod expiring_stream;
pub(crate) mod external_url;
pub(crate) mod forward;
mod header_check;
mod health_probe;
mod hop_by_hop;
pub(crate) mod ineffective_options;
mod last_seen;
mod layer;
pub(crate) mod layers;
pub(crate) mod listener;
mod message_errors;
pub(crate) mod messages;
mod port_holder;
pub(crate) mod protected_resource;
mod read_by_client;
mod recoverable_sessions;
pub(crate) mod respond;
mod running;
pub(crate) mod server_check;
pub(crate) mod service;
mod session_owners;
mod session_recovery;
mod spec;
pub(crate) mod stack;
pub(crate) mod stdio;
pub(crate) mod target;

pub use builder::{Proxy, ProxyBuilder};
pub(crate) use last_seen::LastExchange;
pub(crate) use layer::{Endpoint, ResponseFuture};
pub use running::RunningProxy;
pub use spec::{ProxySecrets, ProxySpec};
pub use stdio::{RunningStdioProxy, StdioProxy};
