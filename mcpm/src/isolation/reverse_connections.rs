//! Connects to a server in an isolated container.
//!
//! The container opens the connections, a few in advance. mcpm never connects to a socket in the container, since the
//! server could have replaced it.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::{Mutex, mpsc},
};

use crate::{platform::LocalStream, transport::http::Dial};

/// Most connections that wait to be used.
const MAX_WAITING_CONNECTIONS: usize = 64;
/// Timeout of waiting for a connection, including the shim's connection to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Receives the connections that the container opens.
#[derive(Debug, Clone)]
pub(crate) struct ReverseDialer(Arc<Mutex<mpsc::Receiver<LocalStream>>>);

/// Sends the connections that the container opens.
pub(super) type ReverseConnectionSender = mpsc::Sender<LocalStream>;

impl ReverseDialer {
    pub(super) fn new() -> (Self, ReverseConnectionSender) {
        let (offers, taken) = mpsc::channel(MAX_WAITING_CONNECTIONS);
        (Self(Arc::new(Mutex::new(taken))), offers)
    }
}

#[async_trait]
impl Dial for ReverseDialer {
    async fn dial(&self) -> io::Result<LocalStream> {
        let connecting = async {
            loop {
                let offer = self.0.lock().await.recv().await;
                let mut connection = offer.ok_or(io::ErrorKind::ConnectionRefused)?;
                match claim(&mut connection).await {
                    Ok(b'+') => return Ok(connection),
                    Ok(_) => return Err(io::ErrorKind::ConnectionRefused.into()),
                    // The container of this connection has ended.
                    Err(_) => {}
                }
            }
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Requests a connection to the server, and returns the shim's response.
async fn claim(connection: &mut LocalStream) -> io::Result<u8> {
    connection.write_all(b"!").await?;
    connection.read_u8().await
}
