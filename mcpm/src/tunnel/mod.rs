//! Makes an MCP endpoint of this machine reachable from elsewhere, through a program that holds a tunnel.
//!
//! [`Tunnel`] checks that the endpoint requires authentication, has a [`TunnelProvider`] connect, and connects again
//! when the tunnel ends. The providers are [`ssh`] (OpenSSH), [`ngrok`], and [`command`] (any program); all of them run
//! a child process ([`child`]).

mod arg_check;
mod args;
mod child;
mod command;
mod ngrok;
mod provider;
mod ssh;
mod supervise;
mod target;

pub use args::{PROVIDERS, ProviderConfig};
pub use command::CommandTunnel;
pub use ngrok::NgrokTunnel;
pub use provider::{TunnelConnection, TunnelProvider};
pub use ssh::SshTunnel;
pub use supervise::{Tunnel, TunnelEvent};
pub use target::TunnelTarget;
