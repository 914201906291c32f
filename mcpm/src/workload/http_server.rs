//! Starts and supervises a container whose server speaks HTTP, and follows changes of its address.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, Instant},
};

use http::HeaderMap;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{TargetSpec, Via, container::Containers, listening_ports};
use crate::{
    Error, ErrorKind, Result,
    options::Transport,
    proxy::{
        check_outcome::{Finding, Passed},
        server_check::{CHECK_TIMEOUT, ExpectedServer},
        target::{Target, TargetInstance},
    },
    runtime::{ContainerId, ContainerInfo, ContainerState, Network},
    stdio::{OnEvent, ProcessExit, RestartPolicy, ServerEvent, restart::Backoff},
    transport::http::{Address, Dial},
};

/// After this time without a response, the ports that the server listens on are examined.
const DIAGNOSE_AFTER: Duration = Duration::from_secs(3);
const INITIAL_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_millis(500);
/// How long a response that is not MCP is tolerated, since the server may still be starting.
const NON_MCP_GRACE: Duration = Duration::from_secs(3);
/// How often to retry an engine that does not respond.
const ENGINE_RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// The server and the task that supervises it.
#[derive(Debug)]
pub(super) struct HttpServer {
    containers: Containers,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// The state that the supervision of a server needs.
#[derive(Clone)]
pub(super) struct HttpServerSupervisor {
    pub(super) containers: Containers,
    pub(super) spec: TargetSpec,
    pub(super) transport: Transport,
    pub(super) target: Arc<Target>,
    pub(super) expected: ExpectedServer,
    pub(super) policy: RestartPolicy,
    pub(super) start_timeout: Duration,
    pub(super) on_event: OnEvent,
}

impl HttpServer {
    /// Starts the container, waits until the server completes an MCP exchange, and returns its outcome.
    pub(super) async fn start(supervisor: HttpServerSupervisor) -> Result<(Self, Passed)> {
        let id = supervisor.containers.prepare(0).await?;
        let passed = match supervisor.start_container(&id).await {
            Ok(passed) => passed,
            Err(error) => {
                if let Err(left) = supervisor.containers.runtime.stop(&id, Duration::ZERO).await {
                    tracing::warn!(error = %left, "a container could not be stopped");
                }
                return Err(error);
            }
        };
        (supervisor.on_event)(ServerEvent::Ready);
        let stop = CancellationToken::new();
        let task = tokio::spawn(supervisor.clone().supervise(id, stop.clone()));
        Ok((Self { containers: supervisor.containers, stop, task }, passed))
    }

    /// Stops the container.
    pub(super) async fn stop(&self, grace: Duration) -> Result<()> {
        self.stop.cancel();
        match self.containers.first().await? {
            Some(container) => self.containers.runtime.stop(&container.id, grace).await,
            None => Ok(()),
        }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HttpServerSupervisor {
    /// Starts the container, waits until the server responds, and sets it as the proxy's target.
    async fn start_container(&self, id: &ContainerId) -> Result<Passed> {
        self.containers.record_output(id).await?;
        self.containers.start(0, id).await?;
        let ready = async {
            let reached = self.target.new_instance(self.address(id).await?, self.dial())?;
            let passed = self.until_ready(id, &reached).await?;
            self.target.set_instance(reached);
            Ok(passed)
        };
        tokio::select! {
            outcome = ready => outcome,
            ended = self.containers.wait_for_end(id) => {
                let port = self.spec.port;
                let message = format!("the server was not listening on port {port} when it {}", ended.reason);
                let error = Error::new(ErrorKind::StartFailed, message);
                // A stdio server exits at once and without an error when its input is closed, so this may be one.
                let clean = ended.exit.is_some_and(|exit| exit.code == 0);
                let stdio = "set `transport` to `stdio` if it speaks over stdio";
                Err(if clean { error.hint(stdio) } else { error })
            }
        }
    }

    /// Returns the address of the server.
    async fn address(&self, id: &ContainerId) -> Result<Address> {
        let port = self.spec.port;
        let at = |host: String, port| Address { host, port, tls: false };
        if let Via::Host(host) = &self.spec.via {
            return Ok(at(host.trim_matches(['[', ']']).to_owned(), port));
        }
        if self.spec.via == Via::Inbound {
            return Ok(at(Ipv4Addr::LOCALHOST.to_string(), port));
        }
        let Some(info) = self.containers.runtime.inspect(&id.0).await?.filter(is_running) else {
            // The container has exited, which the waiting task reports.
            return std::future::pending().await;
        };
        let found = if self.spec.via == Via::PublishedPort {
            let published = info.ports.iter().find(|published| published.container_port == port);
            published.map(|published| at(published.host_ip.to_string(), published.host_port))
        } else {
            address_in_network(&self.containers.spec.network, &info)?
                .map(|address| at(address.to_string(), port))
        };
        match found {
            Some(address) => Ok(address),
            None => {
                // A container that is stopping loses its address first; by then, the waiting task reports its exit.
                tokio::time::sleep(DIAGNOSE_AFTER).await;
                Err(Error::new(ErrorKind::Engine, "the engine does not report the address of the container"))
            }
        }
    }

    /// Returns the connector into an isolated container.
    fn dial(&self) -> Option<Arc<dyn Dial>> {
        let isolation = self.containers.isolation.as_ref().filter(|_| self.spec.via == Via::Inbound)?;
        Some(Arc::new(isolation.reverse_dialer()))
    }

    /// Repeats an MCP exchange until the server completes it.
    async fn until_ready(&self, id: &ContainerId, reached: &TargetInstance) -> Result<Passed> {
        // Headers for a server in a container are sent by its clients.
        let headers = HeaderMap::new();
        let since = Instant::now();
        let (mut pause, mut looked, mut answering) = (INITIAL_BACKOFF, false, None);
        loop {
            let limit = self.start_timeout.saturating_sub(since.elapsed()).clamp(MAX_BACKOFF, CHECK_TIMEOUT);
            let finding = match reached.check(&self.expected, &headers, limit).await {
                Ok(passed) => return Ok(passed),
                Err(finding) => finding,
            };
            let is_late = since.elapsed() > self.start_timeout;
            if matches!(finding, Finding::Unreachable(_)) {
                if since.elapsed() > DIAGNOSE_AFTER && !looked {
                    looked = true;
                    self.diagnose_port(id).await?;
                }
            } else {
                let answering = *answering.get_or_insert_with(Instant::now);
                if is_late || !finding.is_temporary() && answering.elapsed() > NON_MCP_GRACE {
                    return Err(self.not_mcp_error(
                        reached.detect_other_transport(finding, &self.expected, &headers).await,
                    ));
                }
            }
            if is_late {
                let message = format!(
                    "no HTTP response on port {} within {} s{}",
                    self.spec.port,
                    self.start_timeout.as_secs_f32(),
                    self.containers.last_output(id).await
                );
                return Err(Error::new(ErrorKind::StartFailed, message).hint(
                    "set `target_port` to the port that the server listens on, set `transport` to `stdio` if the \
                     server uses stdio, or set `start_timeout` if it needs more time",
                ));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_BACKOFF);
        }
    }

    /// Returns the error for a server that responds without speaking MCP over its transport.
    fn not_mcp_error(&self, finding: Finding) -> Error {
        let (path, port) = (self.expected.path(), self.spec.port);
        let error = finding.error(&format!("`{path}` on port {port}"));
        match finding {
            Finding::Speaks(_) | Finding::NoAnswer(_) => error,
            _ => error.hint(format!(
                "configure the server to serve `{}` at `{path}`, or set `target_port` to the port where it \
                 does so",
                self.transport
            )),
        }
    }

    /// Names the ports that the server listens on, if they are not the expected one.
    async fn diagnose_port(&self, id: &ContainerId) -> Result<()> {
        if matches!(self.spec.via, Via::Host(_)) {
            return Ok(());
        }
        let found = listening_ports::listening_ports(&self.containers, id).await;
        let port = self.spec.port;
        let inside = self.spec.via == Via::Inbound;
        let failed =
            |message: String, hint: String| Err(Error::new(ErrorKind::StartFailed, message).hint(hint));
        match found.iter().find(|listening| listening.port == port) {
            Some(here) if here.loopback_only && !inside => failed(
                format!("the server listens on port {port} of its container's loopback address only"),
                "configure it to listen on 0.0.0.0 (mcpm sets `MCP_HOST` for servers that read it)"
                    .to_owned(),
            ),
            Some(_) => Ok(()),
            None => match found.first() {
                Some(other) => failed(
                    format!("the server listens on port {}, not on {port}", other.port),
                    format!("set `target_port` to `{}`", other.port),
                ),
                None => Ok(()),
            },
        }
    }

    /// Supervises the server until it is stopped or given up.
    async fn supervise(self, mut id: ContainerId, stop: CancellationToken) {
        let mut backoff = Backoff::new(self.policy);
        let mut since = Instant::now();
        loop {
            let ended = tokio::select! {
                ended = self.containers.wait_for_end(&id) => ended,
                () = stop.cancelled() => return,
            };
            if ended.transient {
                // The server may still run, so the proxy continues.
                (self.on_event)(ServerEvent::EngineLost { reason: ended.reason });
                tokio::select! {
                    () = self.engine_back(&id) => {}
                    () = stop.cancelled() => return,
                }
                tracing::info!("the container engine responds again");
                // A server that has exited meanwhile is started again, which records its output.
                if let Err(error) = self.containers.record_output(&id).await {
                    tracing::debug!(%error, "the output of the server is not recorded");
                }
                (self.on_event)(ServerEvent::EngineBack);
                continue;
            }
            self.target.set_unreachable(&format!("the server {}", ended.reason));
            match self.restart(ended, since.elapsed(), &mut backoff, &stop).await {
                Some(started) => id = started,
                None => return,
            }
            since = Instant::now();
        }
    }

    /// Waits until the engine responds.
    async fn engine_back(&self, id: &ContainerId) {
        loop {
            tokio::time::sleep(ENGINE_RETRY_INTERVAL).await;
            match self.containers.runtime.inspect(&id.0).await {
                Err(error) if error.kind() == ErrorKind::EngineUnavailable => {}
                _ => return,
            }
        }
    }

    /// Restarts the server as the policy allows, in a new container if the old one was removed; `None` when it is
    /// stopped or given up.
    async fn restart(
        &self,
        mut ended: ProcessExit,
        mut lived: Duration,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Option<ContainerId> {
        loop {
            let Some((attempt, delay)) = backoff.next(&ended, lived) else {
                (self.on_event)(ServerEvent::Ended(ended));
                return None;
            };
            lived = Duration::ZERO;
            (self.on_event)(ServerEvent::Restarting { ended, attempt, delay });
            let again = async {
                tokio::time::sleep(delay).await;
                let id = self.containers.prepare(0).await?;
                self.start_container(&id).await.map(|_| id)
            };
            let outcome = tokio::select! {
                outcome = again => outcome,
                () = stop.cancelled() => return None,
            };
            match outcome {
                Ok(id) => {
                    (self.on_event)(ServerEvent::Ready);
                    return Some(id);
                }
                Err(error) => {
                    let passing = error.kind() == ErrorKind::EngineUnavailable;
                    ended = ProcessExit { exit: None, reason: error.to_string(), transient: passing };
                }
            }
        }
    }
}

/// Returns the address of a container in its network, if it has one yet.
///
/// # Errors
/// `StartFailed` when the container can never have an address.
fn address_in_network(network: &Network, info: &ContainerInfo) -> Result<Option<IpAddr>> {
    let wanted = match network {
        // These modes only occur for a container that shares the network of another container.
        Network::Custom(_) if info.network_mode == "host" => return Ok(Some(Ipv4Addr::LOCALHOST.into())),
        Network::Custom(name) if info.network_mode == "none" => {
            let message = format!(
                "the server cannot be reached: `network` is `{name}`, and that container has no network"
            );
            return Err(Error::new(ErrorKind::StartFailed, message)
                .hint("set `network` to a network, or to a container that has one"));
        }
        Network::Custom(name) => info.addresses.get(name),
        _ => None,
    };
    let any = || info.addresses.values().find(|address| IpAddr::is_ipv4(address));
    Ok(wanted.or_else(any).or_else(|| info.addresses.values().next()).copied())
}

fn is_running(container: &ContainerInfo) -> bool {
    container.state == ContainerState::Running
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_of_another_container_decides_where_the_server_is() {
        let address = |mode: &str, addresses: &[(&str, &str)]| {
            let info = ContainerInfo {
                id: ContainerId("1".to_owned()),
                name: "x".to_owned(),
                labels: std::collections::BTreeMap::new(),
                state: ContainerState::Running,
                pid: None,
                addresses: addresses
                    .iter()
                    .map(|(name, address)| ((*name).to_owned(), address.parse().unwrap()))
                    .collect(),
                ports: Vec::new(),
                network_mode: mode.to_owned(),
                lacks_control_groups: false,
            };
            address_in_network(&Network::Custom("container:x".to_owned()), &info)
        };
        let of = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        assert_eq!(address("host", &[]).unwrap(), of("127.0.0.1"));
        assert_eq!(address("bridge", &[("bridge", "172.17.0.2")]).unwrap(), of("172.17.0.2"));
        assert_eq!(address("bridge", &[]).unwrap(), None);
        let error = address("none", &[]).unwrap_err();
        assert!(
            error.to_string().contains("`network` is `container:x`, and that container has no network"),
            "{error}"
        );
    }
}
