//! Buffers a client's first bytes until the host in its TLS handshake, or in its plain request, is known.

use std::io;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The first byte of a TLS handshake.
const TLS_HANDSHAKE_RECORD: u8 = 0x16;
/// Longest method of a plain request.
const MAX_METHOD_BYTES: usize = 64;
/// Most headers of a plain request.
const MAX_HEADERS: usize = 128;
/// Longest handshake, or head of a request, that is buffered.
const MAX_SNIFFED_BYTES: usize = 64 * 1024;
/// The TLS alert for a denied connection: fatal, access denied.
pub(super) const TLS_ACCESS_DENIED_ALERT: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x31];

/// The first bytes of a client.
#[derive(Debug)]
pub(super) struct Sniffed {
    /// The bytes that were not forwarded yet.
    pub(super) bytes: Vec<u8>,
    /// The protocol.
    pub(super) kind: SniffedProtocol,
}

/// The protocol of a client's first bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SniffedProtocol {
    /// Any other protocol.
    Other,
    /// A plain HTTP request, and the hosts in it.
    Http(Vec<String>),
    /// A TLS handshake, and the server name in it.
    Tls(Option<String>),
    /// An invalid handshake or request.
    Malformed,
}

/// Reads as many bytes as it takes to detect the protocol; the caller limits the time.
///
/// The beginning of a line that may become a request line is forwarded to `server` at once, since the client of another
/// protocol may wait for a response to it. An HTTP server does not act on it before the line ends.
pub(super) async fn sniff(
    client: &mut (impl AsyncRead + Unpin),
    server: &mut (impl AsyncWrite + Unpin),
) -> io::Result<Sniffed> {
    let mut bytes = Vec::new();
    let mut passed = 0;
    let kind = loop {
        let begun = client.read_buf(&mut bytes).await? > 0;
        if bytes.first() == Some(&TLS_HANDSHAKE_RECORD) {
            return read_client_hello(client, bytes).await;
        }
        match sniff_http(&bytes) {
            HttpSniff::Decided(kind) => break kind,
            // A server may respond to a request that is incomplete.
            HttpSniff::PartialHead if !begun => break SniffedProtocol::Malformed,
            HttpSniff::PartialLine if !begun => break SniffedProtocol::Other,
            _ if bytes.len() > MAX_SNIFFED_BYTES => break SniffedProtocol::Malformed,
            HttpSniff::PartialHead => {}
            HttpSniff::PartialLine => {
                server.write_all(&bytes[passed..]).await?;
                passed = bytes.len();
            }
        }
    };
    bytes.drain(..passed);
    Ok(Sniffed { bytes, kind })
}

/// Reads until the server name of a TLS handshake is known.
async fn read_client_hello(client: &mut (impl AsyncRead + Unpin), mut bytes: Vec<u8>) -> io::Result<Sniffed> {
    let mut acceptor = Acceptor::default();
    let mut read = 0;
    let kind = 'read: loop {
        while read < bytes.len() {
            let mut rest = &bytes[read..];
            match acceptor.read_tls(&mut rest) {
                Ok(0) | Err(_) => break 'read SniffedProtocol::Malformed,
                Ok(count) => read += count,
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    break 'read SniffedProtocol::Tls(
                        accepted.client_hello().server_name().map(str::to_owned),
                    );
                }
                Err(_) => break 'read SniffedProtocol::Malformed,
            }
        }
        if bytes.len() > MAX_SNIFFED_BYTES || client.read_buf(&mut bytes).await? == 0 {
            break SniffedProtocol::Malformed;
        }
    };
    Ok(Sniffed { bytes, kind })
}

/// The result of parsing bytes that do not begin a TLS handshake.
#[derive(Debug, PartialEq, Eq)]
enum HttpSniff {
    Decided(SniffedProtocol),
    /// The first line is incomplete, and may become a request line.
    PartialLine,
    /// The first line is a request line; its headers are incomplete.
    PartialHead,
}

/// Parses the head of a plain request, with any method.
fn sniff_http(bytes: &[u8]) -> HttpSniff {
    let other = HttpSniff::Decided(SniffedProtocol::Other);
    // Servers skip empty lines before a request.
    let Some(begin) = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')) else {
        return HttpSniff::PartialLine;
    };
    let text = &bytes[begin..];
    let method = text.iter().position(|byte| !is_token(*byte)).unwrap_or(text.len());
    if method == 0
        || method > MAX_METHOD_BYTES
        || text.get(method).is_some_and(|byte| !matches!(byte, b' ' | b'\t'))
    {
        return other;
    }
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else { return HttpSniff::PartialLine };
    let line = text[method..end].trim_ascii();
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t'));
    let (target, version) = (words.next().unwrap_or_default(), words.next_back());
    match version.and_then(http_version) {
        Some(b"1.0" | b"1.1") => {}
        // The name is in a part that is not parsed, for example in HTTP/2 without TLS.
        Some(_) => return HttpSniff::Decided(SniffedProtocol::Http(Vec::new())),
        // The first version of HTTP had no headers.
        None if version.is_none()
            && (target.first() == Some(&b'/') || target.windows(3).any(|part| part == b"://")) =>
        {
            return HttpSniff::Decided(SniffedProtocol::Http(Vec::new()));
        }
        None => return other,
    }
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(text) {
        Ok(httparse::Status::Partial) => return HttpSniff::PartialHead,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return HttpSniff::Decided(SniffedProtocol::Malformed),
    }
    let whole = request.path.and_then(|target| target.parse::<http::Uri>().ok());
    let mut asked: Vec<http::uri::Authority> =
        whole.and_then(|target| target.authority().cloned()).into_iter().collect();
    for header in request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host")) {
        match http::uri::Authority::try_from(header.value) {
            Ok(host) => asked.push(host),
            Err(_) => return HttpSniff::Decided(SniffedProtocol::Malformed),
        }
    }
    HttpSniff::Decided(SniffedProtocol::Http(asked.iter().map(|host| host.host().to_owned()).collect()))
}

/// Returns the number in an HTTP version. Some servers accept its name in lower case.
fn http_version(version: &[u8]) -> Option<&[u8]> {
    let (name, number) = version.split_at_checked(b"HTTP/".len())?;
    name.eq_ignore_ascii_case(b"HTTP/").then_some(number)
}

/// Whether a byte is valid in a method (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sniffs_http_hosts_without_delaying_other_protocols() {
        let asks =
            |hosts: &[&str]| SniffedProtocol::Http(hosts.iter().map(|&host| host.to_owned()).collect());
        for (said, kind) in [
            ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", asks(&["a.example"])),
            ("\r\nPOST /x HTTP/1.1\nA: b\nhost:\ta.example:80 \n\nbody", asks(&["a.example"])),
            ("GET / HTTP/1.0\r\n\r\n", asks(&[])),
            ("GET http://b.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n", asks(&["b.example", "a.example"])),
            ("GET / HTTP/1.1\r\nHost: a.example\r\nHost: b\r\n\r\n", asks(&["a.example", "b"])),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", SniffedProtocol::Malformed),
            ("GET / HTTP/1.1\r\nHost : a.example\r\n\r\n", SniffedProtocol::Malformed),
            ("PROPFIND /x HTTP/1.1\r\nHost: b.example\r\n\r\n", asks(&["b.example"])),
            ("QUERY /x HTTP/1.1\r\nHost: b.example\r\n\r\n", asks(&["b.example"])),
            ("any-thing /x HTTP/1.1\r\nHost: b.example\r\n\r\n", asks(&["b.example"])),
            ("GET \t /x HTTP/1.1\r\nHost: b.example\r\n\r\n", SniffedProtocol::Malformed),
            // HTTP/2 without TLS, whose names are compressed, and a version of HTTP without names.
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", asks(&[])),
            ("GET / http/2.0\r\n", asks(&[])),
            ("GET / http/1.1\r\nHost: b.example\r\n\r\n", SniffedProtocol::Malformed),
            ("GET /x\r\n", asks(&[])),
            ("GET http://a.example/x\r\n", asks(&[])),
            ("GET key\r\n", SniffedProtocol::Other),
            ("SSH-2.0-x\r\n", SniffedProtocol::Other),
            ("EHLO a.example\r\n", SniffedProtocol::Other),
            ("a1 LOGIN user password\r\n", SniffedProtocol::Other),
            ("DESCRIBE rtsp://a.example/ RTSP/1.0\r\n", SniffedProtocol::Other),
            ("*1\r\n$4\r\nPING\r\n", SniffedProtocol::Other),
            ("\0\0\0\x08", SniffedProtocol::Other),
        ] {
            // The client waits for a response; its words arrive one by one.
            let (mut client, mut ours) = tokio::io::duplex(1);
            let words = said.to_owned();
            let saying = tokio::spawn(async move {
                let _ = tokio::io::AsyncWriteExt::write_all(&mut client, words.as_bytes()).await;
                client
            });
            let mut passed = Vec::new();
            let words = sniff(&mut ours, &mut passed).await.unwrap();
            assert_eq!(words.kind, kind, "{said:?}");
            // No line was forwarded before it was checked.
            assert!(!passed.trim_ascii_start().contains(&b'\n'), "{said:?}");
            passed.extend_from_slice(&words.bytes);
            assert!(said.as_bytes().starts_with(&passed));
            drop(ours);
            drop(saying.await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_request_that_ends_within_its_head_is_none() {
        for (said, kind) in [
            ("GET / HTTP/1.1\r\nHost: b.example\r\n", SniffedProtocol::Malformed),
            ("GET / HTTP/1.0\r\n", SniffedProtocol::Malformed),
            ("PING", SniffedProtocol::Other),
            ("", SniffedProtocol::Other),
        ] {
            let words = sniff(&mut said.as_bytes(), &mut Vec::new()).await.unwrap();
            assert_eq!(words.kind, kind, "{said:?}");
        }
    }

    #[tokio::test]
    async fn a_possible_request_line_is_forwarded_immediately() {
        let (mut client, mut ours) = tokio::io::duplex(64);
        let (mut server, mut theirs) = tokio::io::duplex(64);
        let reading = tokio::spawn(async move { sniff(&mut ours, &mut theirs).await.unwrap() });
        // A protocol without lines, whose server responds to this.
        client.write_all(b"GETTING").await.unwrap();
        let mut heard = [0; 7];
        server.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"GETTING");
        client.write_all(b" on\n").await.unwrap();
        let words = reading.await.unwrap();
        assert_eq!((words.kind, words.bytes), (SniffedProtocol::Other, b" on\n".to_vec()));
    }
}
