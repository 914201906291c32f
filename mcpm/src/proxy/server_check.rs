//! Checks with a short MCP exchange that a server speaks MCP over the expected transport.
//!
//! Over streamable HTTP, the check sends `server/discover` and, if that is rejected or gets no response, `initialize`,
//! whose session is closed again. A server may also respond to `initialize` with a JSON-RPC error, which shows that it
//! speaks MCP. Over the deprecated SSE transport, the check reads the `endpoint` event. Over both, a server that
//! requires a login passes. All responses are limited in size and time.

use std::{error::Error as StdError, io, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use tokio::time::{Instant, timeout};

use super::{
    check_outcome::{Finding, Passed},
    endpoint_event::{is_field, lines, parse_endpoint_event},
    recoverable_sessions::MCP_SESSION_ID,
    respond::{JSON, is_event_stream},
    target::{MCP_PATH, SSE_PATH, Target, TargetInstance},
};
use crate::{
    Error,
    mcp::{
        era::{self, FIRST_MODERN_VERSION},
        error_code,
        event_reader::{EventScan, event_end},
        message::{Message, MessageKind},
    },
    options::Transport,
    printable::Printable as _,
    proxy::body::Body,
    transport::{http::ResponseBody, tls},
};

/// Timeout of `server/discover`, to which older servers may not respond.
const DISCOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of `initialize`.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for the first event of a stream.
const EVENT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a whole check.
pub(crate) const CHECK_TIMEOUT: Duration = Duration::from_secs(40);
/// Timeout for closing a session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of a response in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// Maximum length of a redirect's target, in characters.
const MAX_LOCATION_CHARS: usize = 1000;
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// A header in each response of image registries (OCI distribution).
const REGISTRY: &str = "docker-distribution-api-version";

/// The expected location and transport of a server.
#[derive(Debug, Clone)]
pub(crate) struct ExpectedServer {
    /// `None` for either HTTP transport.
    transport: Option<Transport>,
    streamable: Uri,
    sse: Uri,
}

impl ExpectedServer {
    /// Expects MCP at the target's own path, or else at the usual path of each transport.
    pub(crate) fn at(target: &Target, transport: Option<Transport>) -> Self {
        match target.path() {
            "/" => {
                let (streamable, sse) = (Uri::from_static(MCP_PATH), Uri::from_static(SSE_PATH));
                Self { transport, streamable: target.map_uri(&streamable), sse: target.map_uri(&sse) }
            }
            _ => Self::at_own_path(target, transport),
        }
    }

    /// Expects MCP at the target's own path, even if that is `/`.
    pub(crate) fn at_own_path(target: &Target, transport: Option<Transport>) -> Self {
        let uri = target.map_uri(&Uri::from_static("/"));
        Self { transport, streamable: uri.clone(), sse: uri }
    }

    /// The path that is checked, for messages.
    pub(crate) fn path(&self) -> &str {
        match self.transport {
            Some(Transport::Sse) => self.sse.path(),
            _ => self.streamable.path(),
        }
    }
}

impl TargetInstance {
    /// Checks that the server speaks MCP at the expected location.
    ///
    /// # Errors
    /// The finding, which describes what was found instead.
    pub(crate) async fn check(
        &self,
        expected: &ExpectedServer,
        headers: &HeaderMap,
        limit: Duration,
    ) -> Result<Passed, Finding> {
        let check = Check { reached: self, headers, until: Instant::now() + limit };
        let exchange = async {
            match expected.transport {
                Some(Transport::Sse) => check.sse(&expected.sse).await,
                Some(_) => check.streamable(&expected.streamable).await,
                None => match check.streamable(&expected.streamable).await {
                    Err(finding) if !finding.is_temporary() => {
                        check.sse(&expected.sse).await.map_err(|_| finding)
                    }
                    outcome => outcome,
                },
            }
        };
        // Each exchange ends within the limit, and then has time to close its session.
        let outcome =
            timeout(limit + DELETE_TIMEOUT, exchange).await.unwrap_or(Err(Finding::NoAnswer(limit)));
        self.last_seen.record_check(&outcome);
        outcome
    }

    /// Detects whether a server that did not pass speaks the other transport.
    pub(crate) async fn detect_other_transport(
        &self,
        finding: Finding,
        expected: &ExpectedServer,
        headers: &HeaderMap,
    ) -> Finding {
        let check = Check { reached: self, headers, until: Instant::now() + CHECK_TIMEOUT };
        let other = match (&finding, expected.transport) {
            (Finding::Unreachable(_) | Finding::Untrusted(_), _) | (_, None) => return finding,
            (_, Some(Transport::Sse)) => {
                (Transport::StreamableHttp, check.streamable(&expected.streamable).await)
            }
            (_, Some(_)) => (Transport::Sse, check.sse(&expected.sse).await),
        };
        match other {
            (transport, Ok(Passed::Mcp | Passed::Redirects(_))) => {
                let finding = Finding::Speaks(transport);
                self.last_seen.record_check(&Err(finding.clone()));
                finding
            }
            _ => finding,
        }
    }
}

/// A check of a server.
struct Check<'a> {
    reached: &'a TargetInstance,
    /// Headers that the target requires.
    headers: &'a HeaderMap,
    until: Instant,
}

impl Check<'_> {
    async fn streamable(&self, uri: &Uri) -> Result<Passed, Finding> {
        match self.handshake(uri).await {
            Err(Finding::Redirects(status, Some(to)))
                if matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) =>
            {
                match self.reached.same_origin_uri(uri, &to) {
                    Some(place) => {
                        self.handshake(&place).await.map(|_| Passed::Redirects(place.path().to_owned()))
                    }
                    None => Err(Finding::Redirects(status, Some(to))),
                }
            }
            outcome => outcome,
        }
    }

    async fn handshake(&self, uri: &Uri) -> Result<Passed, Finding> {
        let mut discover = self.post(uri, era::discover_request(1).freeze());
        discover.headers_mut().insert(MCP_PROTOCOL_VERSION, HeaderValue::from_static(FIRST_MODERN_VERSION));
        discover.headers_mut().insert(MCP_METHOD, HeaderValue::from_static("server/discover"));
        match self.exchange(discover, DISCOVER_TIMEOUT).await {
            Ok(answer)
                if answer.error().is_empty()
                    || answer.error_code() == Some(error_code::UNSUPPORTED_VERSION) =>
            {
                return Ok(Passed::Mcp);
            }
            // Older servers reject it in various ways, or do not respond.
            Ok(_) | Err(Finding::NoAnswer(_)) => {}
            Err(Finding::Status(status)) if needs_login(status) => return Ok(Passed::NeedsLogin(status)),
            Err(Finding::Status(_) | Finding::NotMcp(_)) => {}
            Err(finding) => return Err(finding),
        }
        let initialize = self.post(uri, era::initialize_request(2).freeze());
        match self.exchange(initialize, INITIALIZE_TIMEOUT).await {
            Ok(_) => Ok(Passed::Mcp),
            Err(Finding::Status(status)) if needs_login(status) => Ok(Passed::NeedsLogin(status)),
            Err(finding) => Err(finding),
        }
    }

    /// Sends a request over streamable HTTP and returns the JSON-RPC response. A new session is closed.
    async fn exchange(&self, request: Request<Body>, limit: Duration) -> Result<Message, Finding> {
        let uri = request.uri().clone();
        let left = self.until.saturating_duration_since(Instant::now());
        let mut session = None;
        let exchange = async {
            let response = self.send(request).await?;
            session = response.headers().get(MCP_SESSION_ID).cloned();
            read_response(response).await
        };
        let outcome = timeout(limit.min(left), exchange).await.unwrap_or(Err(Finding::NoAnswer(limit)));
        if let Some(session) = session {
            let version = outcome.as_ref().ok().and_then(version_in);
            self.end(&uri, session, version).await;
        }
        outcome
    }

    async fn end(&self, uri: &Uri, session: HeaderValue, version: Option<HeaderValue>) {
        let mut delete = self.request(Method::DELETE, uri, Body::empty());
        delete.headers_mut().insert(MCP_SESSION_ID, session);
        if let Some(version) = version {
            delete.headers_mut().insert(MCP_PROTOCOL_VERSION, version);
        }
        // A server without DELETE ends the session itself.
        if let Ok(Ok(response)) = timeout(DELETE_TIMEOUT, self.reached.client.send(delete)).await {
            tracing::debug!(status = %response.status(), "the session of the start check was closed");
        }
    }

    async fn sse(&self, uri: &Uri) -> Result<Passed, Finding> {
        let mut open = self.request(Method::GET, uri, Body::empty());
        open.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let exchange = async {
            let response = self.send(open).await?;
            let status = response.status();
            if needs_login(status) {
                return Ok(Passed::NeedsLogin(status));
            }
            if !status.is_success() || !is_of_type(&response, is_event_stream) {
                return Err(classify_response(&response));
            }
            let is_endpoint = |event: &[u8]| parse_endpoint_event(event).map(|_| ());
            match find_event(response.into_body(), |event| Some(is_endpoint(event))).await? {
                Some(Some(())) => Ok(Passed::Mcp),
                _ => Err(Finding::NotMcp(Some("text/event-stream".to_owned()))),
            }
        };
        timeout(EVENT_TIMEOUT, exchange).await.unwrap_or(Err(Finding::NoAnswer(EVENT_TIMEOUT)))
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<ResponseBody>, Finding> {
        match self.reached.client.send(request).await {
            Ok(response) => {
                self.reached.last_seen.record_status(response.status());
                Ok(response)
            }
            Err(error) => {
                self.reached.last_seen.record_failure(&error.to_string());
                let finding = match tls::is_untrusted_issuer(&error) {
                    true => Finding::Untrusted,
                    false => Finding::Unreachable,
                };
                Err(finding(cause_of(&error)))
            }
        }
    }

    fn post(&self, uri: &Uri, message: Bytes) -> Request<Body> {
        let mut request = self.request(Method::POST, uri, Body::from(message));
        let headers = request.headers_mut();
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        request
    }

    fn request(&self, method: Method, uri: &Uri, body: Body) -> Request<Body> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri.clone();
        let headers = request.headers_mut();
        headers.clone_from(self.headers);
        headers.insert(header::HOST, self.reached.host.clone());
        request
    }
}

/// The cause of a failed exchange. That of a failed connection has no address, which the finding names already.
fn cause_of(error: &Error) -> String {
    let cause = StdError::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    let Some(cause) = cause else { return error.to_string() };
    let causes = std::iter::successors(Some(cause as &(dyn StdError + 'static)), |cause| (**cause).source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    match cause.raw_os_error() {
        // Formatted for the middle of a sentence, and without the error number.
        Some(code) => {
            let text = text.trim_end_matches(&format!(" (os error {code})"));
            text.chars().take(1).flat_map(char::to_lowercase).chain(text.chars().skip(1)).collect()
        }
        None => text,
    }
}

fn needs_login(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// The protocol version that the server chose in its response to `initialize`.
fn version_in(answer: &Message) -> Option<HeaderValue> {
    let version = crate::stdio::handshake::chosen_version(answer.result())?;
    HeaderValue::from_str(&version).ok()
}

/// Parses the JSON-RPC response in an HTTP response.
async fn read_response(response: Response<ResponseBody>) -> Result<Message, Finding> {
    let status = response.status();
    let other = classify_response(&response);
    // Gateways respond with these statuses and any body while a server is not ready yet.
    let is_gateway = matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    );
    if needs_login(status) || is_gateway {
        return Err(other);
    }
    let answer = if is_of_type(&response, is_event_stream) {
        find_event(response.into_body(), response_in_event).await?
    } else if is_of_type(&response, is_json) {
        let body = read(Body::Upstream(response.into_body())).await?;
        body.and_then(response_in)
    } else {
        None
    };
    match answer {
        Some(answer) if status.is_success() || refuses_message(status, &answer) => Ok(answer),
        _ => Err(other),
    }
}

/// Whether a response rejects an MCP message. Some statuses concern the path instead, unless the error is that the
/// MCP method does not exist.
fn refuses_message(status: StatusCode, answer: &Message) -> bool {
    let is_of_path = match status {
        StatusCode::NOT_FOUND => answer.error_code() != Some(error_code::METHOD_NOT_FOUND),
        StatusCode::METHOD_NOT_ALLOWED => true,
        _ => status.is_redirection(),
    };
    !is_of_path && !answer.error().is_empty()
}

fn response_in(text: Bytes) -> Option<Message> {
    Message::parse(text).ok().filter(|message| message.kind() == MessageKind::Response)
}

/// The JSON-RPC response in an event; other messages may precede it.
fn response_in_event(event: &[u8]) -> Option<Message> {
    let data = lines(event).filter(|line| is_field(line, b"data"));
    let values = data.map(|line| line.get(b"data:".len()..).unwrap_or_default().trim_ascii_start());
    response_in(Bytes::from(values.collect::<Vec<_>>().join(&b'\n')))
}

/// Classifies a response without a JSON-RPC response.
fn classify_response(response: &Response<ResponseBody>) -> Finding {
    let status = response.status();
    let text = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let kind = text("content-type").map(|kind| kind.split(';').next().unwrap_or_default().trim().to_owned());
    if response.headers().contains_key(REGISTRY) {
        Finding::ImageRegistry
    } else if status.is_redirection() {
        Finding::Redirects(status, text("location").map(|to| to.chars().take(MAX_LOCATION_CHARS).collect()))
    } else if !status.is_success() {
        Finding::Status(status)
    } else if kind.as_deref() == Some("text/html") {
        Finding::WebPage
    } else {
        Finding::NotMcp(kind.map(|kind| kind.chars().take(100).collect::<String>().printable()))
    }
}

fn is_of_type(response: &Response<ResponseBody>, is: fn(&HeaderValue) -> bool) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(is)
}

fn is_json(value: &HeaderValue) -> bool {
    let kind = value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Reads a whole body; `None` if it is too large.
async fn read(mut body: Body) -> Result<Option<Bytes>, Finding> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = next(&mut body).await? {
        if whole.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Ok(None);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(Some(whole.freeze()))
}

/// Returns the result of `find` for the first event for which it returns one; `None` if there is none.
async fn find_event<T>(body: ResponseBody, find: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, Finding> {
    let (mut body, mut buffer, mut read) = (Body::Upstream(body), BytesMut::new(), 0);
    let mut scan = EventScan::default();
    while let Some(chunk) = next(&mut body).await? {
        read += chunk.len();
        buffer.extend_from_slice(&chunk);
        while let Some(end) = event_end(&buffer, &mut scan) {
            let event = buffer.split_to(end);
            if lines(&event).any(|line| is_field(line, b"data"))
                && let Some(value) = find(&event)
            {
                return Ok(Some(value));
            }
        }
        if read > MAX_ANSWER_BYTES {
            return Ok(None);
        }
    }
    Ok(None)
}

async fn next(body: &mut Body) -> Result<Option<Bytes>, Finding> {
    body.next_chunk().await.map_err(|error| Finding::Unreachable(error.to_string()))
}
