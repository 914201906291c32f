//! Detects that a server which does not respond on stdio listens on a port, and so probably speaks HTTP.

use std::time::Duration;

use super::{container::Containers, listening_ports};
use crate::{Error, ErrorKind};

/// How often to check for a listening port. A stdio server may listen on a port for other reasons; only a server that
/// also stays silent is reported.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// Completes with an error once the server listens on a port; called as long as the server is silent.
pub(super) async fn detect_http_server(containers: &Containers) -> Error {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Ok(Some(info)) = containers.first().await else { continue };
        if let Some(found) = listening_ports::listening_ports(containers, &info.id).await.first() {
            let message = format!("no response on stdio, but the server listens on port {}", found.port);
            return Error::new(ErrorKind::StartFailed, message).hint(format!(
                "set `transport` to `streamable-http` or `sse`, and set `target_port` to `{}`",
                found.port
            ));
        }
    }
}
