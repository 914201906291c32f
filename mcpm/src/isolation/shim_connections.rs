//! Takes the connections of containers and reads what each is for.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
};

use super::{
    EgressDecision, EgressDenial, Rule, denial_response::http_denial_response, policy::EgressError, proxy,
    sniff, state::IsolationState, tunnel,
};
use crate::permission::Host;

/// Longest line that says what a connection is for.
const MAX_LINE_BYTES: usize = 512;
/// How long that line may take.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a connection could not be taken, for lack of files say.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Takes connections until it is dropped.
pub(super) async fn serve(listener: UnixListener, gate: Arc<IsolationState>) {
    loop {
        let Ok(permit) = Arc::clone(&gate.limits.any_connections).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((link, _)) => spawn_connection(link, permit, &gate),
            Err(error) => {
                tracing::warn!(%error, "a connection of a container could not be taken");
                tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

/// Serves one connection for as long as the workload is held; `permit` is one of its bounds.
pub(super) fn spawn_connection(link: UnixStream, permit: impl Send + 'static, gate: &Arc<IsolationState>) {
    let stop = gate.stop.clone();
    let tasks = gate.tasks.clone();
    let gate = Arc::clone(gate);
    tasks.spawn(stop.run_until_cancelled_owned(async move {
        if let Err(error) = handle_connection(link, gate).await {
            tracing::debug!(%error, "a connection of a container broke off");
        }
        drop(permit);
    }));
}

async fn handle_connection(mut link: UnixStream, gate: Arc<IsolationState>) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let line = tokio::time::timeout(FIRST_LINE_TIMEOUT, read_line(&mut link)).await.map_err(late)??;
    let mut words = line.split(' ');
    let permit = || Arc::clone(&gate.limits.host_connections).try_acquire_owned();
    match (words.next().unwrap_or_default(), words.next(), words.next()) {
        ("start", Some(slot), None) => {
            let config = slot.parse().ok().and_then(|slot| gate.take_config(slot));
            link.write_all(&config.unwrap_or_default()).await?;
            link.shutdown().await
        }
        ("proxy", None, None) => match permit() {
            Ok(_permit) => proxy::serve(link, Arc::clone(&gate)).await,
            // Closing says enough to a client of a proxy.
            Err(_) => Ok(()),
        },
        ("open", Some(port), Some(name)) => {
            let (Ok(port), Ok(host)) = (port.parse(), name.parse::<Host>()) else { return Ok(()) };
            let Ok(_permit) = permit() else {
                gate.notify_denied(&EgressDenial::new(&host, Some(port), Rule::TooManyConnections));
                return Ok(());
            };
            open_to_host(link, &gate, &host, port).await
        }
        // Those that are too many find no room, and are closed.
        ("inbound", None, None) => {
            let _ = gate.reverse_connections.try_send(link);
            Ok(())
        }
        ("looked-up", Some(name), None) => {
            let host = name.parse::<Host>().ok();
            if let Some(host @ Host::Name(_)) = host.filter(|host| gate.policy.allows_lookup(host)) {
                (gate.on_decision)(EgressDecision::LookedUp { host });
            }
            Ok(())
        }
        ("refused", Some("dns"), Some(name)) => {
            if let Ok(host) = name.parse::<Host>() {
                gate.policy
                    .denial_for_attempt(&host, None)
                    .iter()
                    .for_each(|denial| gate.notify_denied(denial));
            }
            Ok(())
        }
        ("refused", Some("connect" | "send"), Some(address)) => {
            let port = words.next().and_then(|port| port.parse::<u16>().ok());
            if let (Ok(address), Some(port)) = (address.parse::<std::net::IpAddr>(), port) {
                let host = Host::Address(address.to_canonical());
                let refusal = gate.policy.denial_for_attempt(&host, Some(port));
                let direct = || EgressDenial::new(&host, Some(port), Rule::DirectConnection);
                gate.notify_denied(&refusal.unwrap_or_else(direct));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Reads a line, and not a byte more.
async fn read_line(link: &mut UnixStream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match link.read_u8().await? {
            b'\n' => break,
            _ if line.len() >= MAX_LINE_BYTES => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
    String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A client that ignores proxies and took an address of the shim's for that of a host.
async fn open_to_host(mut link: UnixStream, gate: &IsolationState, host: &Host, port: u16) -> io::Result<()> {
    match tunnel::dial(gate, host, port).await {
        Ok(server) => tunnel::splice(gate, host, port, link, server).await,
        Err(no) => {
            // It speaks to a host for all it knows, so it is told in that host's language where that is known.
            let answer = match (no, port) {
                (EgressError::Denied(denial), 80) => http_denial_response(&denial).into_bytes(),
                (EgressError::Denied(_), 443) => sniff::TLS_ACCESS_DENIED_ALERT.to_vec(),
                (EgressError::Denied(_) | EgressError::Failed(_), _) => Vec::new(),
            };
            link.write_all(&answer).await?;
            link.shutdown().await
        }
    }
}
