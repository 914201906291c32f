//! Reaches a server in an isolated container.
//!
//! The container offers connections, a few ahead of need; mcpm connects to nothing there, so that nothing a
//! container puts in place of a socket is ever connected to.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::{Mutex, mpsc},
};

use crate::transport::http::Dial;

/// Most offers that wait.
const MAX_WAITING_CONNECTIONS: usize = 64;
/// How long an offer may take to come, and the server to be connected to.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes offers.
#[derive(Debug, Clone)]
pub(crate) struct ReverseDialer(Arc<Mutex<mpsc::Receiver<UnixStream>>>);

/// Where offers go.
pub(super) type ReverseConnectionSender = mpsc::Sender<UnixStream>;

impl ReverseDialer {
    pub(super) fn new() -> (Self, ReverseConnectionSender) {
        let (offers, taken) = mpsc::channel(MAX_WAITING_CONNECTIONS);
        (Self(Arc::new(Mutex::new(taken))), offers)
    }
}

#[async_trait]
impl Dial for ReverseDialer {
    async fn dial(&self) -> io::Result<UnixStream> {
        let connecting = async {
            loop {
                let offer = self.0.lock().await.recv().await;
                let mut link = offer.ok_or(io::ErrorKind::ConnectionRefused)?;
                match claim(&mut link).await {
                    Ok(b'+') => return Ok(link),
                    Ok(_) => return Err(io::ErrorKind::ConnectionRefused.into()),
                    // It is of a container that has ended.
                    Err(_) => {}
                }
            }
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Asks for the server, and is told whether it takes the connection.
async fn claim(link: &mut UnixStream) -> io::Result<u8> {
    link.write_all(b"!").await?;
    link.read_u8().await
}
