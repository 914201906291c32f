//! Keeps a tunnel up. Closes it if the target does not require authentication, unless unauthenticated access is
//! allowed.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    provider::{TunnelConnection, TunnelProvider},
    target::TunnelTarget,
};
use crate::{Error, ErrorKind, Result, environment::Variables};

/// Delay before the first reconnection; doubles after each failed one.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum delay before a reconnection.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// Time between checks that the target still requires authentication.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Uptime after which the delay begins again at the initial value.
const STABLE_UPTIME: Duration = Duration::from_secs(60);
/// Grace period for a tunnel to end.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// A change of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TunnelEvent {
    /// The tunnel is up.
    Up {
        /// The URL for clients, if the provider knows it.
        url: Option<String>,
    },
    /// The tunnel is down, and will be connected again.
    Down {
        /// The reason, as a clause.
        reason: String,
        /// The time until the reconnection.
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

    /// Sets whether the target may serve callers without authentication; by default, it may not.
    pub fn allow_unauthenticated(mut self, allow: bool) -> Self {
        self.allow_unauthenticated = allow;
        self
    }

    /// Keeps the tunnel up until `stop` completes. Dropping the future ends the tunnel.
    ///
    /// It checks before each connection, and every minute while the tunnel is up, that the target requires
    /// authentication.
    ///
    /// # Errors
    /// `InvalidOption` as soon as the target does not require authentication; the error that prevents the first
    /// connection. Later failures are reported as events.
    pub async fn run_until(
        self,
        mut on_event: impl FnMut(TunnelEvent),
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        let mut up = None;
        let outcome = tokio::select! {
            outcome = self.keep_up(&mut up, &mut on_event) => outcome,
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
    ) -> Result<()> {
        *up = Some(self.connect().await?);
        let mut backoff = INITIAL_BACKOFF;
        loop {
            let reason = match up.as_mut() {
                Some(connection) => {
                    let since = Instant::now();
                    on_event(TunnelEvent::Up { url: connection.public_url().map(str::to_owned) });
                    let reason = tokio::select! {
                        reason = connection.wait() => Ok(reason),
                        error = self.failed_check() => Err(error),
                    };
                    if since.elapsed() >= STABLE_UPTIME {
                        backoff = INITIAL_BACKOFF;
                    }
                    // After a failed check, the tunnel is still open, and processes may outlive the program that
                    // started them.
                    connection.stop(STOP_GRACE).await;
                    *up = None;
                    reason
                }
                None => match self.connect().await {
                    Ok(connection) => {
                        *up = Some(connection);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            let reason = match reason {
                Ok(reason) => reason,
                Err(error) if error.kind() == ErrorKind::InvalidOption => {
                    tracing::warn!("the tunnel is closed: {}", error.message());
                    return Err(error);
                }
                Err(error) => error.to_string(),
            };
            on_event(TunnelEvent::Down { reason, delay: backoff });
            sleep(backoff).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    async fn connect(&self) -> Result<Box<dyn TunnelConnection>> {
        self.check().await?;
        self.provider.connect(&self.target, &self.variables).await
    }

    async fn check(&self) -> Result<()> {
        if self.allow_unauthenticated { Ok(()) } else { self.target.check_authentication().await }
    }

    /// Checks the target at intervals, until a check fails.
    async fn failed_check(&self) -> Error {
        loop {
            sleep(CHECK_INTERVAL).await;
            if let Err(error) = self.check().await {
                return error;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::atomic::{AtomicU16, Ordering},
    };

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        sync::mpsc,
        time::{advance, pause, resume},
    };

    use super::*;
    use crate::tunnel::CommandTunnel;

    /// Starts a server that responds with the current value of `status`, and returns its URL.
    async fn server(status: Arc<AtomicU16>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
                let (status, length) = (status.load(Ordering::Relaxed), body.len());
                let head = "Content-Type: application/json\r\nLocation: /other\r\nConnection: close";
                let response =
                    format!("HTTP/1.1 {status} -\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}");
                let _ = stream.write_all(response.as_bytes()).await;
            }
        });
        format!("http://{address}/mcp")
    }

    /// Advances the paused clock, and then resumes it, so that requests are not affected.
    async fn pass(time: Duration) {
        pause();
        advance(time).await;
        resume();
    }

    #[tokio::test]
    async fn the_target_is_checked_again_while_the_tunnel_is_up_and_before_it_reconnects() {
        let status = Arc::new(AtomicU16::new(401));
        let target = TunnelTarget::url(&server(Arc::clone(&status)).await).expect("a target");
        let script = "echo https://t.example/mcp; exec sleep 1000";
        let provider = CommandTunnel::new(["sh", "-c", script, "sh", "{port}"]);
        let tunnel = Tunnel::new(target, Arc::new(provider)).variables(Variables::from_process());
        let (sender, mut events) = mpsc::unbounded_channel();
        let on_event = move |event| sender.send(event).expect("a receiver");
        let running = tokio::spawn(tunnel.run_until(on_event, pending()));
        let up = TunnelEvent::Up { url: Some("https://t.example/mcp".to_owned()) };
        assert_eq!(events.recv().await, Some(up.clone()));

        status.store(503, Ordering::Relaxed);
        pass(CHECK_INTERVAL).await;
        let down = events.recv().await;
        let Some(TunnelEvent::Down { reason, delay: INITIAL_BACKOFF }) = &down else { panic!("{down:?}") };
        assert!(reason.contains("the target responds with an error (503)"), "{reason}");

        status.store(401, Ordering::Relaxed);
        pass(INITIAL_BACKOFF).await;
        assert_eq!(events.recv().await, Some(up));

        status.store(200, Ordering::Relaxed);
        pass(CHECK_INTERVAL).await;
        let error = running.await.expect("no panic").expect_err("the target is open");
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        assert!(error.to_string().contains("does not require authentication"), "{error}");
        assert_eq!(events.recv().await, None);
    }
}
