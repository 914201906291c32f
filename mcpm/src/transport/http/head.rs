//! Serializes the heads of requests, and parses the heads of responses (RFC 9112).

use std::mem::MaybeUninit;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header, request, response};
use hyper::ext::ReasonPhrase;

use super::{error::ConnectionError, framing::Framing};

/// Maximum number of headers of a response.
pub(super) const MAX_HEADERS: usize = 128;
/// Maximum size of the head of a response in bytes.
pub(super) const MAX_HEAD_BYTES: usize = 64 << 10;
const VERSION: &str = " HTTP/1.1\r\n";
const LINE: &str = "\r\n";
const CHUNKED: &str = "transfer-encoding: chunked\r\n";

/// The serialized head of a request.
#[derive(Clone)]
pub(crate) struct RequestHead {
    method: Method,
    text: Bytes,
    /// Whether the body of the request is chunked.
    chunked: bool,
}

impl RequestHead {
    /// Serializes the head of a request whose body has this size, or is chunked if `size` is `None`. Other framing
    /// headers of the request are omitted.
    pub(crate) fn new(parts: &request::Parts, size: Option<u64>) -> Self {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let length =
            size.filter(|size| *size > 0 || needs_content_length(parts)).map(|size| size.to_string());
        let framing = match (&length, size) {
            (Some(length), _) => [header::CONTENT_LENGTH.as_str(), ": ", length, LINE],
            (None, Some(_)) => [""; 4],
            (None, None) => [CHUNKED, "", "", ""],
        };
        let first = [parts.method.as_str(), " ", path, VERSION];
        let size_of = |words: [&str; 4]| words.iter().map(|word| word.len()).sum::<usize>();
        let headers = || parts.headers.iter().filter(|(name, _)| !is_framing(name));
        let lines: usize = headers().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        // The capacity is the exact size, so that the text needs no second allocation.
        let mut text = Vec::with_capacity(size_of(first) + lines + size_of(framing) + LINE.len());
        let mut put = |words: &[&[u8]]| words.iter().for_each(|word| text.extend_from_slice(word));
        put(&first.map(str::as_bytes));
        for (name, value) in headers() {
            put(&[name.as_str().as_bytes(), b": ", value.as_bytes(), LINE.as_bytes()]);
        }
        put(&framing.map(str::as_bytes));
        put(&[LINE.as_bytes()]);
        Self { method: parts.method.clone(), text: text.into(), chunked: size.is_none() }
    }

    /// The request's method.
    pub(crate) fn method(&self) -> &Method {
        &self.method
    }

    /// Parses the head; `None` for a head that this crate would not have serialized.
    pub(crate) fn parts(&self) -> Option<request::Parts> {
        let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
        let mut read = httparse::Request::new(&mut []);
        let parsed = read.parse_with_uninit_headers(&self.text, &mut headers).ok()?;
        if parsed.is_partial() {
            return None;
        }
        let (mut parts, ()) = http::Request::new(()).into_parts();
        parts.method = self.method.clone();
        parts.uri = read.path?.parse::<Uri>().ok()?;
        parts.headers = self::headers(&self.text, read.headers, HeaderMap::new()).ok()?;
        Some(parts)
    }

    pub(super) fn text(&self) -> &Bytes {
        &self.text
    }

    pub(super) fn is_chunked(&self) -> bool {
        self.chunked
    }
}

/// The head may contain credentials.
impl std::fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Head({} ..)", self.method)
    }
}

/// Whether an empty body needs the header `Content-Length: 0` (RFC 9110 section 8.6).
fn needs_content_length(parts: &request::Parts) -> bool {
    matches!(parts.method, Method::POST | Method::PUT | Method::PATCH)
        || parts.headers.contains_key(header::CONTENT_LENGTH)
}

/// Whether a header describes the framing, which belongs to one connection.
fn is_framing(name: &HeaderName) -> bool {
    *name == header::CONTENT_LENGTH || *name == header::TRANSFER_ENCODING
}

/// The head of a response, and the bytes received after it.
#[derive(Debug)]
pub(super) struct ResponseHead {
    pub(super) parts: response::Parts,
    pub(super) framing: Framing,
    /// Whether the connection can be reused.
    pub(super) keep_alive: bool,
    pub(super) rest: Bytes,
}

impl ResponseHead {
    /// Parses a head; `None` if it is incomplete. Informational responses are skipped. The headers are stored in
    /// `spare`, an empty map, so that its memory is reused.
    pub(super) fn read(
        text: &mut Bytes,
        method: &Method,
        spare: &mut HeaderMap,
    ) -> Result<Option<Self>, ConnectionError> {
        loop {
            let mut room = [const { MaybeUninit::uninit() }; MAX_HEADERS];
            let mut read = httparse::Response::new(&mut []);
            let config = httparse::ParserConfig::default();
            let parsed = config
                .parse_response_with_uninit_headers(&mut read, text, &mut room)
                .map_err(|error| ConnectionError::Malformed(parse_error_message(error)))?;
            let httparse::Status::Complete(used) = parsed else {
                let larger = text.len() > MAX_HEAD_BYTES;
                return if larger {
                    Err(ConnectionError::Malformed("the head is too large"))
                } else {
                    Ok(None)
                };
            };
            let status = read.code.and_then(|code| StatusCode::from_u16(code).ok());
            let status = status.ok_or(ConnectionError::Malformed("invalid status"))?;
            if status.is_informational() {
                if status == StatusCode::SWITCHING_PROTOCOLS {
                    return Err(ConnectionError::Malformed(
                        "the server switches the protocol without a request",
                    ));
                }
                *text = text.slice(used..);
                continue;
            }
            let mut headers = headers(text, read.headers, std::mem::take(spare))?;
            let is_old = read.version == Some(0);
            let mut keep_alive = if is_old {
                connection_has_token(&headers, "keep-alive")
            } else {
                !connection_has_token(&headers, "close")
            };
            let mut framing = framing(&mut headers, is_old, &mut keep_alive);
            let bodiless = matches!(*method, Method::HEAD | Method::CONNECT)
                || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
            if bodiless {
                // Such a response ends with its head, regardless of its headers (RFC 9112 section 6.3). If the headers
                // announce a body, the connection cannot be reused, because the server may send that body.
                keep_alive &= framing.as_ref().is_ok_and(|framing| {
                    framing.is_done() || *framing == Framing::UntilClosed && *method != Method::CONNECT
                });
                if framing.is_err() {
                    headers.remove(header::CONTENT_LENGTH);
                    headers.remove(header::TRANSFER_ENCODING);
                }
                framing = Ok(Framing::Sized(0));
            }
            let framing = framing?;
            let (mut parts, ()) = http::Response::new(()).into_parts();
            (parts.status, parts.headers) = (status, headers);
            let reason = read.reason.filter(|reason| status.canonical_reason() != Some(reason));
            if let Some(reason) = reason.and_then(|reason| ReasonPhrase::try_from(reason.as_bytes()).ok()) {
                parts.extensions.insert(reason);
            }
            return Ok(Some(Self { parts, framing, keep_alive, rest: text.slice(used..) }));
        }
    }
}

fn parse_error_message(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::TooManyHeaders => "too many headers",
        _ => "not HTTP/1.1",
    }
}

/// Adds headers to an empty map. The values are slices of `text`, and are not copied.
fn headers(
    text: &Bytes,
    read: &[httparse::Header<'_>],
    mut headers: HeaderMap,
) -> Result<HeaderMap, ConnectionError> {
    // Reserves capacity for one more header, because the proxy's server side adds `Date`, and growing the map would
    // take another allocation.
    headers.reserve(read.len() + 1);
    for line in read {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        let value = HeaderValue::from_maybe_shared(text.slice_ref(line.value));
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(ConnectionError::Malformed("invalid header"));
        };
        headers.append(name, value);
    }
    Ok(headers)
}

/// Whether `Connection` contains a token.
fn connection_has_token(headers: &HeaderMap, word: &str) -> bool {
    let words = |line: &HeaderValue| {
        line.to_str().is_ok_and(|line| line.split(',').any(|said| said.trim().eq_ignore_ascii_case(word)))
    };
    headers.get_all(header::CONNECTION).iter().any(words)
}

/// Returns the framing of the body (RFC 9112 section 6.3).
fn framing(headers: &mut HeaderMap, is_old: bool, keep_alive: &mut bool) -> Result<Framing, ConnectionError> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if is_old || !is_chunked || codings.next().is_some() {
            return Err(ConnectionError::Malformed("the transfer coding is not `chunked`"));
        }
        // Both headers together may be an attempt at response smuggling.
        *keep_alive &= headers.remove(header::CONTENT_LENGTH).is_none();
        headers.remove(header::TRANSFER_ENCODING);
        return Ok(Framing::chunked());
    }
    let lines = headers.get_all(header::CONTENT_LENGTH);
    let mut said = 0;
    let mut lengths = lines.iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let mut next = || lengths.next().map(length).inspect(|_| said += 1);
    match next() {
        None => Ok(Framing::UntilClosed),
        Some(Some(size)) if std::iter::from_fn(&mut next).all(|other| other == Some(size)) => {
            if said > 1 {
                // A repeated length is replaced by a single one (RFC 9110 section 8.6).
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
            }
            Ok(Framing::Sized(size))
        }
        Some(_) => Err(ConnectionError::Malformed("invalid `Content-Length`")),
    }
}

fn length(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text.trim_ascii()).ok()?;
    // `parse` would accept a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
