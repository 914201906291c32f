//! Forwards requests to an HTTP server. Bodies are unchanged, except the `endpoint` event of the deprecated SSE
//! transport.
//!
//! Small request bodies are buffered, so that a request can be sent again. All other bodies are streamed.

use std::{
    pin::{Pin, pin},
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts};
use http_body::Body as _;
use memchr::memmem::Finder;

use super::{
    body_errors,
    check_outcome::{Finding, Passed},
    denial::Denial,
    endpoint_event::{EndpointObservers, EndpointRewritingBody},
    external_url::{ExternalUrl, ExternalUrlConfig},
    health_probe::HealthProbe,
    hop_by_hop::{is_hop_by_hop, is_underscore_variant, strip},
    last_seen::{LastExchange, LastSeen},
    layer::{Endpoint, ResponseFuture},
    messages::is_encoded,
    observe::{Exchange, Peer},
    recoverable_sessions::{MCP_SESSION_ID, RecoverableSessions, SavedInitialize, SessionLookup},
    respond::{self, Request, Response, is_event_stream},
    server_check::{CHECK_TIMEOUT, ExpectedServer},
    session_recovery::{self, RecoveryOutcome, SessionRequest},
    target::{Target, TargetInstance},
};
use crate::{
    Error,
    auth::outgoing::{OutgoingAuth, TokenUnavailable},
    mcp::{error_code, message::Message, request_id::scan_request_id},
    proxy::body::Body,
    timers::CoarseTimers,
    transport::http::RequestHead,
};

/// Timeout for the response head of a POST.
const RESPONSE_HEAD_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Timeout of a health probe of the server.
const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a body that is buffered before it is sent, so that it is sent with one write and provides the id for
/// error responses. Of a larger body, this many bytes are read for the id.
const MAX_BUFFERED_BYTES: usize = 64 << 10;

/// Maximum capacity of a header map whose memory is reused for a response, and then for the client's next request.
const MAX_REUSED_HEADERS: usize = 32;
/// How often a request is repeated with another token.
pub(crate) const MAX_AUTHENTICATED_REPEATS: usize = 3;

/// The endpoint for an HTTP server.
#[derive(Debug)]
pub(crate) struct Forward {
    target: Arc<Target>,
    publicity: ExternalUrlConfig,
    alarms: CoarseTimers,
    sessions: RecoverableSessions,
    health_probe: HealthProbe,
    expected: ExpectedServer,
}

impl Forward {
    pub(crate) fn new(target: Arc<Target>, publicity: ExternalUrlConfig, expected: ExpectedServer) -> Self {
        let (alarms, sessions, looks) =
            (CoarseTimers::default(), RecoverableSessions::default(), HealthProbe::default());
        Self { target, publicity, alarms, sessions, health_probe: looks, expected }
    }

    async fn forward(&self, request: Request) -> Response {
        let reached = self.target.instance();
        let is_get = request.method() == Method::GET;
        let public = is_get.then(|| Peer::external_url(&self.publicity, &request));
        let observers = is_get.then(|| EndpointObservers::from_request(&request));
        let (mut parts, body, asked) = match self.prepare(request).await {
            Ok(prepared) => prepared,
            Err(response) => return response,
        };
        let reached = match reached {
            Ok(reached) => reached,
            Err(reason) => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                return respond::error(status, error_code::INTERNAL_ERROR, &reason, &asked.id());
            }
        };
        parts.headers.insert(header::HOST, reached.host.clone());
        let token = match self.authenticate(&mut parts).await {
            Ok(token) => token,
            Err(failure) => return unauthenticated(failure, &asked.id()),
        };
        let SessionLookup { session: server_session, lost } =
            self.sessions.find(&parts.headers, reached.generation);
        let in_session =
            server_session.map(|server_session| SessionRequest::with_server_id(&mut parts, server_session));
        let opening = initialize_request(&parts, &asked.body);
        let observed = Exchange::of(&parts.extensions).cloned();
        let mut head = RequestHead::new(&parts, body.size_hint().exact());
        let spare = reusable(std::mem::take(&mut parts.headers));
        // The client's data retains the whole read buffer of its connection, so it is not kept until the response.
        drop(parts);
        let exchanged = match lost {
            // The server would associate the request with the session that has this id now.
            true => Ok(session_recovery::session_not_found(&asked.id())),
            false => self.exchange(&reached, &head, body, &asked, spare, observed.as_ref()).await,
        };
        let mut response = match exchanged {
            Ok(response) => response,
            Err(response) => return response,
        };
        if let Some(outgoing) = self.target.outgoing()
            && OutgoingAuth::is_rejection(response.status(), response.headers())
        {
            // Boxed, because it is rare and large.
            let repeating = self.repeat_authenticated(outgoing, token, &reached, &mut head, &asked, response);
            response = Box::pin(repeating).await;
        }
        if let Some(in_session) = &in_session
            && in_session.affects_session(&head, &response, reached.generation)
        {
            // Boxed, because it is rare and large.
            let repeatable = asked.is_complete.then_some(&asked.body);
            let answered = session_recovery::handle_response(
                &self.sessions,
                &reached,
                in_session,
                &head,
                repeatable,
                response,
            );
            response = match Box::pin(answered).await {
                RecoveryOutcome::Response(response) => response,
                RecoveryOutcome::Retry(head, body) => {
                    let spare = HeaderMap::new();
                    let again = Box::pin(self.exchange(&reached, &head, body, &asked, spare, None)).await;
                    in_session.restore_client_id(again.unwrap_or_else(|response| response))
                }
            };
        }
        if let Some(opening) = opening
            && response.status().is_success()
            && let Some(id) = response.headers().get(MCP_SESSION_ID)
        {
            self.sessions.remember(id, opening, reached.generation);
        }
        match (public, observers) {
            (Some(public), Some(observers)) => rewrite_endpoint(response, public, &reached, observers),
            _ => response,
        }
    }

    /// Sets the token of the login to the server, if there is one, and returns it.
    async fn authenticate(&self, parts: &mut Parts) -> Result<Option<HeaderValue>, TokenUnavailable> {
        let token = match self.target.outgoing() {
            Some(outgoing) => outgoing.authorization().await?,
            None => None,
        };
        if let Some(token) = &token {
            parts.headers.insert(header::AUTHORIZATION, token.clone());
        }
        if let Some(exchange) = Exchange::of(&parts.extensions) {
            exchange.set_outgoing_headers(&parts.headers, &self.target.headers());
        }
        Ok(token)
    }

    /// Repeats a request whose token the server rejected, with another token. The server's challenge is for mcpm, and
    /// is not passed on.
    async fn repeat_authenticated(
        &self,
        outgoing: &Arc<OutgoingAuth>,
        mut token: Option<HeaderValue>,
        reached: &TargetInstance,
        head: &mut RequestHead,
        asked: &RetainedRequest,
        mut response: Response,
    ) -> Response {
        for repeat in 0..MAX_AUTHENTICATED_REPEATS {
            let (status, headers) = (response.status(), response.headers());
            let renewed = outgoing.after_rejection(token, status, headers, repeat > 0).await;
            let renewed = match renewed {
                Ok(renewed) => renewed,
                Err(None) => return response,
                Err(Some(failure)) => return unauthenticated(failure, &asked.id()),
            };
            let Some(mut parts) = head.parts().filter(|_| asked.is_complete) else {
                let (status, message) = (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the login to the remote server was renewed; send the request again",
                );
                return respond::error(status, error_code::INTERNAL_ERROR, message, &asked.id());
            };
            parts.headers.insert(header::AUTHORIZATION, renewed.clone());
            *head = RequestHead::new(&parts, Some(asked.body.len() as u64));
            let body = if asked.body.is_empty() { Body::empty() } else { Body::from(asked.body.clone()) };
            response = match self.exchange(reached, head, body, asked, HeaderMap::new(), None).await {
                Ok(response) => response,
                Err(response) => return response,
            };
            if !OutgoingAuth::is_rejection(response.status(), response.headers()) {
                return response;
            }
            token = Some(renewed);
        }
        unauthenticated(TokenUnavailable::Rejected, &asked.id())
    }

    /// Sends a request and waits for the response head.
    async fn exchange(
        &self,
        reached: &TargetInstance,
        head: &RequestHead,
        body: Body,
        asked: &RetainedRequest,
        spare: HeaderMap,
        observed: Option<&Exchange>,
    ) -> Result<Response, Response> {
        let sent = || {
            if let Some(observed) = observed {
                observed.mark_sent();
            }
        };
        let mut sending = pin!(reached.client.send_with_callback(head, body, spare, sent));
        let answered = if head.method() == Method::POST {
            self.alarms.timeout(RESPONSE_HEAD_TIMEOUT, sending).await
        } else {
            // There is no timeout: some servers send the head of an SSE stream only with the first event.
            Some(sending.as_mut().await)
        };
        match answered {
            Some(Ok(response)) => {
                reached.last_seen.record_status(response.status());
                let mut response = response.map(Body::Upstream);
                strip(response.headers_mut(), |_| false);
                Ok(response)
            }
            Some(Err(error)) => Err(upstream_error(&error, &asked.id(), &reached.last_seen)),
            None => {
                let status = StatusCode::GATEWAY_TIMEOUT;
                let message = "the server did not respond in time";
                reached.last_seen.record_failure(message);
                Err(respond::error(status, error_code::INTERNAL_ERROR, message, &asked.id()))
            }
        }
    }

    /// Whether the proxy checks, sets or removes a header.
    fn is_managed_header(&self, name: &str) -> bool {
        // Headers of parameters are defined by the server, and their names may contain `_`.
        let of_mcp = matches!(name, "mcp-session-id" | "mcp-protocol-version" | "mcp-method" | "mcp-name");
        of_mcp || is_forwarding_header(name) || is_hop_by_hop(name) || self.target.sets_header(name)
    }

    /// Converts a request for the server, and buffers the body if it is small.
    async fn prepare(&self, request: Request) -> Result<(Parts, Body, RetainedRequest), Response> {
        let (mut parts, body) = request.into_parts();
        parts.uri = self.target.map_uri(&parts.uri);
        strip(&mut parts.headers, |name| {
            !self.publicity.trust_proxy_headers && is_forwarding_header(name)
                || is_underscore_variant(name, |name| self.is_managed_header(name))
        });
        self.target.set_headers(&mut parts.headers);
        let size = body.size_hint().exact();
        if size.is_some_and(|size| (1..=MAX_BUFFERED_BYTES as u64).contains(&size)) {
            let body = body
                .collect(|| respond::body_account(&parts.extensions))
                .await
                .map_err(|broken| body_errors::unreadable_body(&broken))?;
            // A copy, because the bytes would retain the read buffer of their connection.
            let asked = RetainedRequest {
                body: Bytes::copy_from_slice(&body),
                is_complete: true,
                ..RetainedRequest::default()
            };
            return Ok((parts, Body::from(body), asked));
        }
        if size == Some(0) || parts.method != Method::POST {
            let asked = RetainedRequest { is_complete: size == Some(0), ..RetainedRequest::default() };
            // A body that is known to be empty lets the client repeat the request on another connection.
            let body = if size == Some(0) { Body::empty() } else { body };
            return Ok((parts, body, asked));
        }
        // Boxed, because it is rare and large.
        let peeked =
            Box::pin(body.peek(MAX_BUFFERED_BYTES, || respond::body_account(&parts.extensions))).await;
        let (begun, body) = peeked.map_err(|broken| body_errors::unreadable_body(&broken))?;
        let asked = match body.size_hint().exact() {
            Some(size) if size == begun.len() as u64 && begun.len() <= MAX_BUFFERED_BYTES => {
                RetainedRequest { body: begun, is_complete: true, ..RetainedRequest::default() }
            }
            _ => RetainedRequest {
                id: scan_request_id(&begun[..begun.len().min(MAX_BUFFERED_BYTES)]),
                ..RetainedRequest::default()
            },
        };
        Ok((parts, body, asked))
    }
}

/// The response to a request that cannot be authenticated. It has no challenge: the client would log in itself, for
/// another resource.
fn unauthenticated(failure: TokenUnavailable, id: &[u8]) -> Response {
    let status = match failure {
        TokenUnavailable::Rejected => StatusCode::FORBIDDEN,
        TokenUnavailable::LoginRequired | TokenUnavailable::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    respond::deny(status, error_code::INTERNAL_ERROR, failure.message(), id, Denial::new(failure.reason()))
}

/// Empties a map of headers, whose memory is reused unless it is large.
fn reusable(mut headers: HeaderMap) -> HeaderMap {
    if headers.capacity() > MAX_REUSED_HEADERS {
        return HeaderMap::new();
    }
    headers.clear();
    headers
}

/// The data that is needed to open a session again, if the request opens one.
fn initialize_request(parts: &Parts, body: &Bytes) -> Option<SavedInitialize> {
    if body.is_empty() || parts.headers.contains_key(MCP_SESSION_ID) || !may_initialize(body) {
        return None;
    }
    let is_initialize = Message::parse(body.clone()).is_ok_and(|message| message.method() == "initialize");
    is_initialize.then(|| SavedInitialize { uri: parts.uri.clone(), body: body.clone() })
}

/// The parts of a request that are retained while it is in flight.
#[derive(Debug, Default)]
struct RetainedRequest {
    /// A copy of the body, if it is small.
    body: Bytes,
    /// Whether the copy is complete.
    is_complete: bool,
    /// The id, if the body is not retained.
    id: Bytes,
}

impl RetainedRequest {
    /// The id of the request, if known. Parsed only when it is needed, which is rare.
    fn id(&self) -> Bytes {
        if self.body.is_empty() { self.id.clone() } else { scan_request_id(&self.body) }
    }
}

/// Whether a body may be an `initialize` request. Much cheaper than parsing it.
fn may_initialize(body: &[u8]) -> bool {
    static METHOD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("initialize\""));
    METHOD.find(body).is_some()
}

/// Rewrites the endpoint event of the deprecated transport.
fn rewrite_endpoint(
    response: Response,
    public: ExternalUrl,
    reached: &TargetInstance,
    told: EndpointObservers,
) -> Response {
    if !response.headers().get(header::CONTENT_TYPE).is_some_and(is_event_stream) {
        return response;
    }
    if is_encoded(response.headers()) {
        // A compressed stream cannot be parsed.
        told.endpoint_unknown();
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The event may become longer.
    parts.headers.remove(header::CONTENT_LENGTH);
    let body = Body::stream(EndpointRewritingBody::new(body, public, reached.origin.clone(), told));
    Response::from_parts(parts, body)
}

impl Endpoint for Forward {
    fn handle(&self, request: Request) -> ResponseFuture<'_> {
        Box::pin(self.forward(request))
    }

    fn path(&self) -> &str {
        self.target.path()
    }

    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(async move {
            let reached = self.target.instance()?;
            let life = reached.generation;
            let probe = || {
                let (expected, headers) = (self.expected.clone(), self.target.headers().into_owned());
                async move {
                    let known = reached.last_seen.cached_check();
                    // After a successful check, only the connection is tested, and no session is opened.
                    reached.client.check_reachable().await.map_err(|error| error.to_string())?;
                    let outcome = match known {
                        Some(outcome) => outcome,
                        None => reached.check(&expected, &headers, HEALTH_CHECK_TIMEOUT).await.map(|_| ()),
                    };
                    outcome.map_err(|finding| finding.error(&format!("`{}`", expected.path())).to_string())
                }
            };
            self.health_probe.check(life, probe).await
        })
    }

    fn last_exchange(&self) -> Option<LastExchange> {
        self.target.instance().ok()?.last_seen.last()
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Result<Passed, Finding>> + Send + '_>> {
        Box::pin(async move {
            let reached = self.target.instance().map_err(Finding::Unreachable)?;
            reached.check(&self.expected, &self.target.headers(), CHECK_TIMEOUT).await
        })
    }
}

/// Whether only a trusted reverse proxy may set a header.
fn is_forwarding_header(name: &str) -> bool {
    matches!(
        name,
        "forwarded"
            | "x-forwarded-for"
            | "x-forwarded-host"
            | "x-forwarded-port"
            | "x-forwarded-prefix"
            | "x-forwarded-proto"
    )
}

/// The response if the proxy cannot connect to the server (503) or the connection broke (502).
fn upstream_error(error: &Error, id: &[u8], seen: &LastSeen) -> Response {
    if let Some(response) = body_errors::response_for(error, id) {
        return response;
    }
    seen.record_failure(&error.to_string());
    // Only connecting fails with an OS error. After other errors, the server may have received the request.
    let cause = std::error::Error::source(error);
    let connected = !cause.is_some_and(|cause| cause.is::<std::io::Error>());
    let status = if connected { StatusCode::BAD_GATEWAY } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = respond::error(status, error_code::INTERNAL_ERROR, error.message(), id);
    respond::log_failure(&mut response, "not_forwarded", error.to_string());
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Account;

    #[tokio::test]
    async fn a_server_that_restarts_is_503_with_the_id_of_the_request() {
        let target = Target::unreachable("the server ended");
        let expected = ExpectedServer::at(&target, None);
        let forward = Forward::new(Arc::new(target), ExternalUrlConfig::default(), expected);
        for id in ["7", "\"7\""] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#);
            let mut request = Request::new(Body::from(Bytes::from(body)));
            *request.method_mut() = Method::POST;
            let response = forward.handle(request).await;
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(response.headers().contains_key(header::RETRY_AFTER));
            let answer = response.into_body().collect(Account::new).await.expect("a body");
            let answer = Message::parse(answer).expect("an answer");
            assert_eq!(
                (&answer.id()[..], answer.error_code()),
                (id.as_bytes(), Some(error_code::INTERNAL_ERROR))
            );
        }
    }
}
