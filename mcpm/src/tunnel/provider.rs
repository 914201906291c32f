//! Defines the trait that tunnel providers implement.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use super::target::TunnelTarget;
use crate::{Result, environment::Variables};

/// Connects tunnels to an endpoint of this machine.
#[async_trait]
pub trait TunnelProvider: Send + Sync + fmt::Debug {
    /// Connects a tunnel, and waits until it is up. A child process gets `variables` as its environment.
    async fn connect(
        &self,
        target: &TunnelTarget,
        variables: &Variables,
    ) -> Result<Box<dyn TunnelConnection>>;

    /// Returns the command line that [`connect`](Self::connect) runs, for display; `None` if it runs no command.
    fn command_line(&self, target: &TunnelTarget) -> Option<Vec<String>> {
        let _ = target;
        None
    }
}

/// A tunnel that is up. Dropping it ends the tunnel.
#[async_trait]
pub trait TunnelConnection: Send {
    /// Returns the URL for clients, if the provider knows it.
    fn public_url(&self) -> Option<&str>;

    /// Waits until the tunnel has ended, and returns the reason, as a clause: ``` `ssh` ended (exit status: 255) ```.
    async fn wait(&mut self) -> String;

    /// Ends the tunnel; kills its processes if they remain after `grace`.
    async fn stop(&mut self, grace: Duration);
}
