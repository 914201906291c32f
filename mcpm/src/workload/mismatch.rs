//! Notices a server that speaks HTTP while it is spoken to over its pipe.

use std::{sync::Arc, time::Duration};

use super::{WorkloadSpec, listening};
use crate::{Error, ErrorKind, runtime::Runtime};

/// A stdio server that listens on a port may do so for other reasons; one that is silent too is no stdio server.
const LOOK_EVERY: Duration = Duration::from_secs(3);

/// Completes with an explanation once the silent server is seen to listen on a port.
pub(super) async fn of_stdio(runtime: Arc<dyn Runtime>, spec: &WorkloadSpec) -> Error {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Ok(Some(info)) = runtime.inspect(&spec.container.name).await else { continue };
        if let Some(found) = listening::of(runtime.as_ref(), &info.id).await.first() {
            let message = format!("the server says nothing over stdio and listens on port {}", found.port);
            return Error::new(ErrorKind::StartFailed, message).hint(format!(
                "use `--transport streamable-http --target-port {}`, or `--transport sse`",
                found.port
            ));
        }
    }
}
