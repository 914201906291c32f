//! Makes an MCP endpoint that this machine can reach accessible to others, through a program that keeps a tunnel open.
//!
//! [`Tunnel`] checks that the endpoint requires authentication (unless unauthenticated access is allowed), connects
//! with a [`TunnelProvider`], and connects again when the tunnel ends. The providers are [`ssh`] (OpenSSH), [`ngrok`],
//! and [`command`] (any program); all of them run a child process ([`child`]).

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
