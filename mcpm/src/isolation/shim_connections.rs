//! Accepts the connections of containers, and reads the purpose of each.

use std::{io, sync::Arc, time::Duration};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    EgressDecision, EgressDenial, Rule, denial_response::http_denial_response, policy::EgressError, proxy,
    sniff, state::IsolationState, tunnel,
};
use crate::{
    permission::Host,
    platform::{LocalListener, LocalStream},
};

/// Longest first line, which states the purpose of a connection.
const MAX_LINE_BYTES: usize = 512;
/// Timeout of the first line.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay after a connection could not be accepted, for lack of file descriptors for instance.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Accepts connections until it is dropped.
pub(super) async fn serve(listener: LocalListener, state: Arc<IsolationState>) {
    loop {
        let Ok(permit) = Arc::clone(&state.limits.any_connections).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((connection, _)) => spawn_connection(connection, permit, &state),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of a container");
                tokio::time::sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

/// Serves one connection while the isolation lasts; `permit` limits their number.
pub(super) fn spawn_connection(
    connection: LocalStream,
    permit: impl Send + 'static,
    state: &Arc<IsolationState>,
) {
    let stop = state.stop.clone();
    let tasks = state.tasks.clone();
    let state = Arc::clone(state);
    tasks.spawn(stop.run_until_cancelled_owned(async move {
        if let Err(error) = handle_connection(connection, state).await {
            tracing::debug!(%error, "a connection of a container failed");
        }
        drop(permit);
    }));
}

async fn handle_connection(mut connection: LocalStream, state: Arc<IsolationState>) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let line = tokio::time::timeout(FIRST_LINE_TIMEOUT, read_line(&mut connection)).await.map_err(late)??;
    let mut words = line.split(' ');
    let permit = || Arc::clone(&state.limits.host_connections).try_acquire_owned();
    match (words.next().unwrap_or_default(), words.next(), words.next()) {
        ("start", Some(slot), None) => {
            let config = slot.parse().ok().and_then(|slot| state.take_config(slot));
            connection.write_all(&config.unwrap_or_default()).await?;
            connection.shutdown().await
        }
        ("proxy", None, None) => match permit() {
            Ok(_permit) => proxy::serve(connection, Arc::clone(&state)).await,
            // A client of a proxy understands a closed connection.
            Err(_) => Ok(()),
        },
        ("open", Some(port), Some(name)) => {
            let (Ok(port), Ok(host)) = (port.parse(), name.parse::<Host>()) else { return Ok(()) };
            let Ok(_permit) = permit() else {
                state.notify_denied(&EgressDenial::new(&host, Some(port), Rule::TooManyConnections));
                return Ok(());
            };
            open_to_host(connection, &state, &host, port).await
        }
        // A connection beyond the limit is closed.
        ("inbound", None, None) => {
            let _ = state.reverse_connections.try_send(connection);
            Ok(())
        }
        ("looked-up", Some(name), None) => {
            let host = name.parse::<Host>().ok();
            if let Some(host @ Host::Name(_)) = host.filter(|host| state.policy.allows_lookup(host)) {
                (state.on_decision)(EgressDecision::LookedUp { host });
            }
            Ok(())
        }
        ("refused", Some("dns"), Some(name)) => {
            if let Ok(host) = name.parse::<Host>() {
                state
                    .policy
                    .denial_for_attempt(&host, None)
                    .iter()
                    .for_each(|denial| state.notify_denied(denial));
            }
            Ok(())
        }
        ("refused", Some("connect" | "send"), Some(address)) => {
            let port = words.next().and_then(|port| port.parse::<u16>().ok());
            if let (Ok(address), Some(port)) = (address.parse::<std::net::IpAddr>(), port) {
                let host = Host::Address(address.to_canonical());
                let refusal = state.policy.denial_for_attempt(&host, Some(port));
                let direct = || EgressDenial::new(&host, Some(port), Rule::DirectConnection);
                state.notify_denied(&refusal.unwrap_or_else(direct));
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Reads exactly one line.
async fn read_line(connection: &mut LocalStream) -> io::Result<String> {
    let mut line = Vec::new();
    loop {
        match connection.read_u8().await? {
            b'\n' => break,
            _ if line.len() >= MAX_LINE_BYTES => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
    String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Serves a client that ignores the proxy, and connected to an address that stands for a host.
async fn open_to_host(
    mut connection: LocalStream,
    state: &IsolationState,
    host: &Host,
    port: u16,
) -> io::Result<()> {
    match tunnel::dial(state, host, port).await {
        Ok(server) => tunnel::splice(state, host, port, connection, server).await,
        Err(no) => {
            // The client expects the host's own protocol, so the denial is sent in that protocol where it is known.
            let answer = match (no, port) {
                (EgressError::Denied(denial), 80) => http_denial_response(&denial).into_bytes(),
                (EgressError::Denied(_), 443) => sniff::TLS_ACCESS_DENIED_ALERT.to_vec(),
                (EgressError::Denied(_) | EgressError::Failed(_), _) => Vec::new(),
            };
            connection.write_all(&answer).await?;
            connection.shutdown().await
        }
    }
}
