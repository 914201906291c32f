//! Holds a client's first bytes until it is known which host a TLS handshake asks for.

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;
/// Longest handshake that is waited for.
const LIMIT: usize = 64 * 1024;
/// What TLS says when something is not allowed: a fatal alert, access denied.
pub(super) const ACCESS_DENIED: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x31];

/// What a client said first.
#[derive(Debug)]
pub(super) struct FirstWords {
    /// All of it.
    pub(super) bytes: Vec<u8>,
    /// What it is.
    pub(super) kind: Kind,
}

/// What a client's first words are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No TLS.
    Other,
    /// A handshake, and the name in it.
    Tls(Option<String>),
    /// Something that begins like a handshake and is none.
    Strange,
}

/// Reads as much as is needed, and waits for as long as the client says nothing.
pub(super) async fn first_words(client: &mut (impl AsyncRead + Unpin)) -> io::Result<FirstWords> {
    let mut bytes = Vec::new();
    let mut acceptor = Acceptor::default();
    let mut read = 0;
    loop {
        if client.read_buf(&mut bytes).await? == 0 {
            let kind = if bytes.first() == Some(&HANDSHAKE) { Kind::Strange } else { Kind::Other };
            return Ok(FirstWords { bytes, kind });
        }
        if bytes.first() != Some(&HANDSHAKE) {
            return Ok(FirstWords { bytes, kind: Kind::Other });
        }
        while read < bytes.len() {
            let mut rest = &bytes[read..];
            match acceptor.read_tls(&mut rest) {
                Ok(0) | Err(_) => return Ok(FirstWords { bytes, kind: Kind::Strange }),
                Ok(count) => read += count,
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let name = accepted.client_hello().server_name().map(str::to_owned);
                    return Ok(FirstWords { bytes, kind: Kind::Tls(name) });
                }
                Err(_) => return Ok(FirstWords { bytes, kind: Kind::Strange }),
            }
        }
        if bytes.len() > LIMIT {
            return Ok(FirstWords { bytes, kind: Kind::Strange });
        }
    }
}
