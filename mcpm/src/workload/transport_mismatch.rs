//! Notices a server that speaks HTTP while it is spoken to over its pipe.

use std::time::Duration;

use super::{container::Containers, listening_ports};
use crate::{Error, ErrorKind};

/// A stdio server that listens on a port may do so for other reasons; one that is silent too is no stdio server.
const CHECK_INTERVAL: Duration = Duration::from_secs(3);

/// Completes with an explanation once the silent server is seen to listen on a port.
pub(super) async fn detect_http_server(containers: &Containers) -> Error {
    if containers.spec.network.is_of_container() {
        // The ports of another container's network are not this server's.
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let Ok(Some(info)) = containers.first().await else { continue };
        if let Some(found) = listening_ports::listening_ports(containers, &info.id).await.first() {
            let message = format!("the server says nothing over stdio and listens on port {}", found.port);
            return Error::new(ErrorKind::StartFailed, message).hint(format!(
                "set `transport` to `streamable-http` or `sse`, and set `target_port` to `{}`",
                found.port
            ));
        }
    }
}
