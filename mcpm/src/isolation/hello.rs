//! Holds a client's first bytes until it is known which host a TLS handshake, or a plain request, asks for.

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;
/// Methods that plain requests begin with.
const METHODS: [&str; 9] =
    ["GET ", "POST ", "HEAD ", "PUT ", "DELETE ", "OPTIONS ", "PATCH ", "TRACE ", "CONNECT "];
/// Most headers of a plain request.
const HEADERS: usize = 128;
/// Longest handshake, or head of a request, that is waited for.
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
    /// Neither.
    Other,
    /// A plain HTTP request, and the hosts that it asks for.
    Http(Vec<String>),
    /// A handshake, and the name in it.
    Tls(Option<String>),
    /// Something that begins like a handshake or a request and is none.
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
            match plain(&bytes) {
                Some(kind) => return Ok(FirstWords { bytes, kind }),
                None if bytes.len() > LIMIT => return Ok(FirstWords { bytes, kind: Kind::Strange }),
                None => continue,
            }
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

/// What bytes are that begin no handshake; `None` while that is not known.
fn plain(bytes: &[u8]) -> Option<Kind> {
    // Servers pass over empty lines before a request.
    let begin = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let text = &bytes[begin..];
    if !METHODS
        .iter()
        .any(|method| text.starts_with(method.as_bytes()) || method.as_bytes().starts_with(text))
    {
        return Some(Kind::Other);
    }
    let line = text[..text.iter().position(|byte| *byte == b'\n')?].trim_ascii_end();
    if ![b" HTTP/1.0", b" HTTP/1.1"].iter().any(|version| line.ends_with(*version)) {
        return Some(Kind::Other);
    }
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(text) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Kind::Strange),
    }
    let whole = request.path.and_then(|target| target.parse::<http::Uri>().ok());
    let mut asked: Vec<http::uri::Authority> =
        whole.and_then(|target| target.authority().cloned()).into_iter().collect();
    for header in request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host")) {
        match http::uri::Authority::try_from(header.value) {
            Ok(host) => asked.push(host),
            Err(_) => return Some(Kind::Strange),
        }
    }
    Some(Kind::Http(asked.iter().map(|host| host.host().to_owned()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_hosts_of_a_plain_request_are_read_and_nothing_else_is_held() {
        let asks = |hosts: &[&str]| Kind::Http(hosts.iter().map(|&host| host.to_owned()).collect());
        for (said, kind) in [
            ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", asks(&["a.example"])),
            ("\r\nPOST /x HTTP/1.1\nA: b\nhost:\ta.example:80 \n\nbody", asks(&["a.example"])),
            ("GET / HTTP/1.0\r\n\r\n", asks(&[])),
            ("GET http://b.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n", asks(&["b.example", "a.example"])),
            ("GET / HTTP/1.1\r\nHost: a.example\r\nHost: b\r\n\r\n", asks(&["a.example", "b"])),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", Kind::Strange),
            ("GET / HTTP/1.1\r\nHost : a.example\r\n\r\n", Kind::Strange),
            ("GET key\r\n", Kind::Other),
            ("SSH-2.0-x\r\n", Kind::Other),
            ("GETTING", Kind::Other),
            ("\0\0\0\x08", Kind::Other),
        ] {
            // The client goes on waiting for an answer; its words come one by one.
            let (mut client, mut ours) = tokio::io::duplex(1);
            let words = said.to_owned();
            let saying = tokio::spawn(async move {
                let _ = tokio::io::AsyncWriteExt::write_all(&mut client, words.as_bytes()).await;
                client
            });
            let words = first_words(&mut ours).await.unwrap();
            assert_eq!(words.kind, kind, "{said:?}");
            assert!(said.as_bytes().starts_with(&words.bytes));
            drop(ours);
            drop(saying.await.unwrap());
        }
    }
}
