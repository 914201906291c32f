//! Compares this client with hyper's on the same response bytes.
//!
//! Both must accept a response with the same status, reason, body and headers (without those of the framing), or both
//! must reject it, except for the deliberate differences in [`is_deliberately_stricter`] and
//! [`is_deliberately_more_lenient`].

use std::{
    error::Error as StdError,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::{client::conn::http1, ext::ReasonPhrase};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use super::{Address, Dial, Http1Client, head::MAX_HEADERS};

/// A response as a client received it. Headers that describe the framing are omitted: they belong to the connection,
/// and this client removes some of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) status: u16,
    reason: Option<Vec<u8>>,
    headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

/// The outcome of one client for a response. An error is represented by its text, including the texts of its causes.
pub(super) type Outcome = Result<Received, String>;

/// Returns the outcomes of this client and of hyper's client for `response`. The server closes the connection after the
/// response.
pub(super) fn outcomes(method: &Method, response: &[u8]) -> io::Result<(Outcome, Outcome)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let (client, server) = UnixStream::pair()?;
        let (ours, _) = tokio::join!(receive(client, method), serve(server, response));
        let (client, server) = UnixStream::pair()?;
        let (hypers, _) = tokio::join!(receive_with_hyper(client, method), serve(server, response));
        Ok((ours, hypers))
    })
}

/// Describes the difference of the outcomes; `None` if they are the same or the difference is deliberate.
pub(crate) fn disagreement(method: &Method, response: &[u8]) -> Option<String> {
    let difference = match outcomes(method, response) {
        Ok((Ok(ours), Ok(hypers))) => (ours != hypers).then(|| format!("{ours:?}, but hyper: {hypers:?}")),
        Ok((Err(_), Err(_))) => None,
        Ok((Err(error), Ok(hypers))) => (!is_deliberately_stricter(&error, response))
            .then(|| format!("rejected: {error}, but hyper: {hypers:?}")),
        Ok((Ok(ours), Err(error))) => (!is_deliberately_more_lenient(&error))
            .then(|| format!("{ours:?}, but rejected by hyper: {error}")),
        Err(error) => Some(error.to_string()),
    };
    difference.map(|difference| format!("{method} {:?}: {difference}", String::from_utf8_lossy(response)))
}

/// Whether this client deliberately rejects a response that hyper accepts.
fn is_deliberately_stricter(error: &str, response: &[u8]) -> bool {
    // The body of a response with another coding would end with the connection, but other parsers could find another
    // end.
    error.contains("the transfer coding is not `chunked`")
        // No request asks to switch to another protocol.
        || error.contains("the server switches the protocol without a request")
        || error.contains("invalid chunk")
            // hyper accepts trailer lines that end in a line feed alone, and skips any number of leading zeros.
            && (has_bare_line_feed(response)
                || has_long_number(response)
                // hyper's limit for chunk extensions and trailers is 16 KiB, that of this client is 8 KiB.
                || response.len() > 8 << 10)
}

/// Whether this client deliberately accepts a response that hyper rejects: it drops trailers, so it does not parse
/// their fields.
fn is_deliberately_more_lenient(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    let reasons = ["invalid header name", "invalid header value", "invalid new line", "partial header"];
    error.contains("error reading a body") && reasons.iter().any(|reason| error.contains(reason))
}

fn has_bare_line_feed(response: &[u8]) -> bool {
    response.windows(2).any(|pair| pair[1] == b'\n' && pair[0] != b'\r')
}

/// Whether there are more hexadecimal digits in a row than a 64-bit number has.
fn has_long_number(response: &[u8]) -> bool {
    response.split(|byte| !byte.is_ascii_hexdigit()).any(|digits| digits.len() > 16)
}

/// Sends the response when the head of the request has arrived, and closes the connection.
async fn serve(mut stream: UnixStream, response: &[u8]) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(response).await?;
    stream.shutdown().await
}

fn request<B>(method: &Method, body: B) -> Request<B> {
    let mut request = Request::new(body);
    *request.method_mut() = method.clone();
    *request.uri_mut() = http::Uri::from_static("/mcp");
    request.headers_mut().insert(header::HOST, header::HeaderValue::from_static("server"));
    request
}

/// Returns one connection.
#[derive(Debug)]
struct OneConnection(Mutex<Option<UnixStream>>);

#[async_trait]
impl Dial for OneConnection {
    async fn dial(&self) -> io::Result<UnixStream> {
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stream.take().ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

async fn receive(stream: UnixStream, method: &Method) -> Outcome {
    let dial = Arc::new(OneConnection(Mutex::new(Some(stream))));
    let address = Address { host: "server".to_owned(), port: 80, tls: false };
    let client = Http1Client::with_dialer(dial, address);
    let response = client.send(request(method, Bytes::new())).await.map_err(|error| with_causes(&error))?;
    received(response).await
}

async fn receive_with_hyper(stream: UnixStream, method: &Method) -> Outcome {
    let handshake = http1::Builder::new().max_headers(MAX_HEADERS).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| with_causes(&error))?;
    let exchange = async move {
        let response = sender.send_request(request(method, Empty::<Bytes>::new())).await;
        received(response.map_err(|error| with_causes(&error))?).await
    };
    // An error of the connection that concerns the response is also an error of the exchange.
    let (received, _) = tokio::join!(exchange, connection);
    received
}

async fn received<B>(response: Response<B>) -> Outcome
where
    B: http_body::Body<Error: StdError + 'static>,
{
    let (parts, body) = response.into_parts();
    let body = body.collect().await.map_err(|error| with_causes(&error))?.to_bytes();
    Ok(Received {
        status: parts.status.as_u16(),
        reason: parts.extensions.get::<ReasonPhrase>().map(|reason| reason.as_bytes().to_vec()),
        headers: without_framing(&parts.headers),
        body: body.to_vec(),
    })
}

fn without_framing(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let kept = headers
        .iter()
        .filter(|(name, _)| ![header::CONTENT_LENGTH, header::TRANSFER_ENCODING].contains(name));
    let mut kept: Vec<_> = kept.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    // Removing a header changes the order of the names, but not of the values of one name.
    kept.sort_by(|one, other| one.0.cmp(&other.0));
    kept
}

fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
#[path = "differential_tests.rs"]
mod tests;
