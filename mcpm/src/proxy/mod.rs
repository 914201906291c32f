//! One HTTP proxy in front of one MCP server.
//!
//! A [`ProxySpec`] says what stands in front of the server; [`service`] makes it, for a workload as for [`Proxy`], the
//! proxy alone, and [`StdioProxy`]. [`listener`] takes connections, [`stack`] runs each request through the [`layers`],
//! and at the end stands [`forward`] for a server that speaks HTTP or [`bridge`] for one that speaks over stdio.

mod admission;
pub(crate) mod bridge;
mod builder;
pub(crate) mod denial;
mod endpoint_event;
mod expiring;
pub(crate) mod forward;
mod hop_by_hop;
mod last_seen;
mod layer;
pub(crate) mod layers;
pub(crate) mod listener;
mod looks;
pub(crate) mod messages;
mod mirror;
mod owners;
mod port_holder;
pub(crate) mod public;
mod read_by_client;
mod refusal;
mod reopen;
pub(crate) mod resource;
pub(crate) mod respond;
mod running;
pub(crate) mod server_check;
pub(crate) mod service;
mod sessions;
mod spec;
pub(crate) mod stack;
pub(crate) mod stdio;
pub(crate) mod target;
mod trail;
mod trail_call;
mod untaken;
pub(crate) mod without_effect;

pub use builder::{Proxy, ProxyBuilder};
pub(crate) use last_seen::LastExchange;
pub(crate) use layer::{Answer, Endpoint};
pub use running::RunningProxy;
pub use spec::{ProxySecrets, ProxySpec};
pub use stdio::{RunningStdioProxy, StdioProxy};
