//! Reaches a server in an isolated container.
//!
//! The container offers connections, a few ahead of need; mcpm connects to nothing there, so that nothing a
//! container puts in place of a socket is ever connected to.

use std::{io, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::{Mutex, mpsc},
};

use super::Link;
use crate::transport::http::Dial;

/// Most offers that wait.
const WAITING: usize = 64;
/// How long an offer may take to come, and the server to be connected to.
const LIMIT: Duration = Duration::from_secs(10);

/// Takes offers.
#[derive(Debug, Clone)]
pub(crate) struct Inbound(Arc<Mutex<mpsc::Receiver<Link>>>);

/// Where offers go.
pub(super) type Offers = mpsc::Sender<Link>;

impl Inbound {
    pub(super) fn new() -> (Self, Offers) {
        let (offers, taken) = mpsc::channel(WAITING);
        (Self(Arc::new(Mutex::new(taken))), offers)
    }
}

#[async_trait]
impl Dial for Inbound {
    async fn dial(&self) -> io::Result<Link> {
        let connecting = async {
            loop {
                let offer = self.0.lock().await.recv().await;
                let mut link = offer.ok_or(io::ErrorKind::ConnectionRefused)?;
                match take_up(&mut link).await {
                    Ok(b'+') => return Ok(link),
                    Ok(_) => return Err(io::ErrorKind::ConnectionRefused.into()),
                    // It is of a container that has ended.
                    Err(_) => {}
                }
            }
        };
        tokio::time::timeout(LIMIT, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Asks for the server, and is told whether it takes the connection.
async fn take_up(link: &mut Link) -> io::Result<u8> {
    link.write_all(b"!").await?;
    link.read_u8().await
}
