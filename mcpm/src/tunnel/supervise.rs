//! Keeps a tunnel up: connects, and connects again when it ends.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    provider::{TunnelConnection, TunnelProvider},
    target::TunnelTarget,
};
use crate::{Result, environment::Variables};

/// Delay before a tunnel is connected again, which doubles up to the second one.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);
/// Uptime after which the delay starts anew.
const STABLE_UPTIME: Duration = Duration::from_secs(60);
/// How long a tunnel may take to end.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A change of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelEvent {
    /// The tunnel is up.
    Up {
        /// The URL for clients, if the provider knows it.
        url: Option<String>,
    },
    /// The tunnel is down, and is connected again.
    Down {
        /// Why: a sentence fragment.
        reason: String,
        /// After what time.
        delay: Duration,
    },
}

/// A tunnel to an MCP endpoint of this machine.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use mcpm::{
///     environment::Variables,
///     tunnel::{SshTunnel, Tunnel, TunnelTarget},
/// };
///
/// # async fn run() -> mcpm::Result<()> {
/// let target = TunnelTarget::url("http://127.0.0.1:8080/mcp")?;
/// let tunnel = Tunnel::new(target, Arc::new(SshTunnel::new("gate.example.com")))
///     .variables(Variables::from_process());
/// tunnel.run_until(|event| println!("{event:?}"), std::future::pending()).await
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing happens until it runs"]
pub struct Tunnel {
    target: TunnelTarget,
    provider: Arc<dyn TunnelProvider>,
    allow_unauthenticated: bool,
    variables: Variables,
}

impl Tunnel {
    /// Creates a tunnel to a target.
    pub fn new(target: TunnelTarget, provider: Arc<dyn TunnelProvider>) -> Self {
        Self { target, provider, allow_unauthenticated: false, variables: Variables::default() }
    }

    /// Sets the environment of the provider's process; empty by default.
    pub fn variables(mut self, variables: Variables) -> Self {
        self.variables = variables;
        self
    }

    /// Sets whether the target may serve anyone without authentication; not by default.
    pub fn allow_unauthenticated(mut self, allow: bool) -> Self {
        self.allow_unauthenticated = allow;
        self
    }

    /// Checks the target, and keeps the tunnel up until `stop` is ready. Dropping the future ends the tunnel.
    ///
    /// # Errors
    /// `InvalidOption` for a target that does not require authentication; what prevents the first connection. Later
    /// failures are events.
    pub async fn run_until(
        self,
        mut on_event: impl FnMut(TunnelEvent),
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        let mut up = None;
        let kept = async {
            if !self.allow_unauthenticated {
                self.target.check_authentication().await?;
            }
            up = Some(self.provider.connect(&self.target, &self.variables).await?);
            self.keep_up(&mut up, &mut on_event).await;
            Ok(())
        };
        let outcome = tokio::select! {
            outcome = kept => outcome,
            () = stop => Ok(()),
        };
        if let Some(mut connection) = up {
            connection.stop(STOP_GRACE).await;
        }
        outcome
    }

    async fn keep_up(
        &self,
        up: &mut Option<Box<dyn TunnelConnection>>,
        on_event: &mut impl FnMut(TunnelEvent),
    ) {
        let mut delay = FIRST_DELAY;
        loop {
            let reason = match up.as_mut() {
                Some(connection) => {
                    let since = Instant::now();
                    on_event(TunnelEvent::Up { url: connection.public_url().map(str::to_owned) });
                    let reason = connection.wait().await;
                    if since.elapsed() >= STABLE_UPTIME {
                        delay = FIRST_DELAY;
                    }
                    reason
                }
                None => match self.provider.connect(&self.target, &self.variables).await {
                    Ok(connection) => {
                        *up = Some(connection);
                        continue;
                    }
                    Err(error) => error.to_string(),
                },
            };
            *up = None;
            on_event(TunnelEvent::Down { reason, delay });
            sleep(delay).await;
            delay = (delay * 2).min(MAX_DELAY);
        }
    }
}
