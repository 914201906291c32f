//! The HTTP proxy in front of one MCP server.
//!
//! A [`ProxySpec`] configures the protection of the server; [`service`] builds the proxy from it, for workloads, for
//! [`Proxy`] and for [`StdioProxy`]. [`listener`] accepts connections, and [`stack`] runs each request through the
//! [`layers`], which report to [`observe`]. The endpoint is [`forward`] for a server that speaks HTTP, and [`bridge`]
//! for a stdio server.

pub(crate) mod added_headers;
mod admission;
pub(crate) mod body;
mod body_errors;
pub(crate) mod bridge;
mod builder;
pub(crate) mod check_outcome;
pub(crate) mod denial;
mod endpoint_event;
mod expiring_stream;
pub(crate) mod external_url;
pub(crate) mod forward;
mod header_check;
mod health_probe;
mod hop_by_hop;
pub(crate) mod in_process;
pub(crate) mod ineffective_options;
mod last_seen;
mod layer;
pub(crate) mod layers;
pub(crate) mod listener;
mod message_errors;
pub(crate) mod messages;
pub(crate) mod observe;
mod port_holder;
pub(crate) mod protected_resource;
mod recoverable_sessions;
pub(crate) mod remote;
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
mod write_timeout;

pub use builder::{Proxy, ProxyBuilder};
pub(crate) use last_seen::LastExchange;
pub(crate) use layer::{Endpoint, ResponseFuture};
pub use running::RunningProxy;
pub use spec::{ProxySecrets, ProxySpec};
pub use stdio::{RunningStdioProxy, StdioProxy};
