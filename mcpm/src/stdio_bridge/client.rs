//! Sends the requests of a stdio bridge to its server, and reads the bodies of responses.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::{
    failure::{Failure, NO_ROOM},
    in_flight::Claim,
};
use crate::{
    Error,
    auth::outgoing::{OutgoingAuth, TokenUnavailable},
    mcp::message::{Message, MessageKind},
    memory::{Account, ReservedBuffer},
    proxy::{
        body::Body,
        forward::MAX_AUTHENTICATED_REPEATS,
        in_process::InProcessConnection,
        respond::Response,
        target::{Target, TargetInstance},
    },
    transport::http::RequestHead,
};

/// Maximum size of a response body in bytes, which is one message of a server.
const MAX_BODY_BYTES: usize = 32 << 20;
/// Maximum size of the body of an error response in bytes.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Maximum number of redirects of a request that are followed.
const MAX_REDIRECTS: usize = 3;
/// Timeout for the body of an error response.
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON_OR_EVENT_STREAM: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Whether the client waits for the response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Urgency {
    Awaited,
    /// The client does not wait; the user is never prompted to log in.
    Background,
}

/// The HTTP client of one server.
#[derive(Debug)]
pub(super) struct ServerClient {
    target: Target,
    uri: Uri,
    account: Arc<Account>,
    /// The connection for requests, if the server is behind a proxy of this process.
    in_process: Option<InProcessConnection>,
}

impl ServerClient {
    pub(super) fn new(target: Target) -> Self {
        let uri = target.map_uri(&Uri::from_static("/"));
        Self { target, uri, account: Account::new(), in_process: None }
    }

    /// Creates a client of a proxy in this process.
    pub(super) fn in_process(connection: InProcessConnection, target: Target) -> Self {
        Self { in_process: Some(connection), ..Self::new(target) }
    }

    /// Returns the account that data of the server is charged to.
    pub(super) fn account(&self) -> Arc<Account> {
        Arc::clone(&self.account)
    }

    /// Returns the URI of the MCP endpoint, in origin form.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the server at its current address.
    pub(super) fn instance(&self) -> Result<Arc<TargetInstance>, Failure> {
        self.target.instance().map_err(Failure::server)
    }

    /// Sets more headers for each request, and logs in if options require it.
    ///
    /// # Errors
    /// `LoginRequired` and `Upstream` for the login.
    pub(super) async fn prepare(&mut self, headers: HeaderMap) -> Result<(), Error> {
        self.target.add_headers(headers);
        match self.target.outgoing() {
            Some(outgoing) => Box::pin(outgoing.prepare()).await,
            None => Ok(()),
        }
    }

    /// Creates a request with a message.
    pub(super) fn post(&self, uri: &Uri, message: Bytes) -> Request<Bytes> {
        let mut request = self.request(Method::POST, uri, message);
        request.headers_mut().insert(header::CONTENT_TYPE, JSON);
        request.headers_mut().insert(header::ACCEPT, JSON_OR_EVENT_STREAM);
        request
    }

    /// Creates a request for a stream of messages.
    pub(super) fn get(&self) -> Request<Bytes> {
        let mut request = self.request(Method::GET, &self.uri, Bytes::new());
        request.headers_mut().insert(header::ACCEPT, EVENT_STREAM);
        request
    }

    /// Creates a request that ends a session.
    pub(super) fn delete(&self) -> Request<Bytes> {
        self.request(Method::DELETE, &self.uri, Bytes::new())
    }

    fn request(&self, method: Method, uri: &Uri, body: Bytes) -> Request<Bytes> {
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut()) = (method, uri.clone());
        request
    }

    /// Sends a request, and returns the head of the response. `limit` is the timeout of each exchange. If the server
    /// requires another token, the user may be prompted to log in.
    pub(super) async fn send(&self, request: Request<Bytes>, limit: Duration) -> Result<Response, Failure> {
        self.send_authenticated(request, limit, None).await
    }

    /// Sends a request of the client, and records when it is written to a connection. After a cancellation, the request
    /// is not sent again.
    pub(super) async fn send_claimed(
        &self,
        request: Request<Bytes>,
        limit: Duration,
        claim: &Claim,
    ) -> Result<Response, Failure> {
        self.send_authenticated(request, limit, Some(claim)).await
    }

    /// Sends a request. The user is prompted to log in only if `urgency` says that the client waits for the response.
    pub(super) async fn send_with_urgency(
        &self,
        request: Request<Bytes>,
        limit: Duration,
        urgency: Urgency,
    ) -> Result<Response, Failure> {
        if urgency == Urgency::Awaited {
            return self.send(request, limit).await;
        }
        let token = match self.target.outgoing() {
            Some(outgoing) => outgoing.authorization_without_user().await,
            None => None,
        };
        self.exchange(&request, token.as_ref(), limit, || ()).await
    }

    async fn send_authenticated(
        &self,
        request: Request<Bytes>,
        limit: Duration,
        claim: Option<&Claim>,
    ) -> Result<Response, Failure> {
        let on_sent = || claim.into_iter().for_each(Claim::mark_sent);
        let Some(outgoing) = self.target.outgoing() else {
            return self.exchange(&request, None, limit, on_sent).await;
        };
        let mut token = outgoing.authorization().await?;
        let mut repeats = 0;
        loop {
            let response = self.exchange(&request, token.as_ref(), limit, &on_sent).await?;
            if !OutgoingAuth::is_rejection(response.status(), response.headers()) {
                return Ok(response);
            }
            if repeats == MAX_AUTHENTICATED_REPEATS {
                return Err(TokenUnavailable::Rejected.into());
            }
            if claim.is_some_and(|claim| !claim.mark_unsent()) {
                return Err(Failure::cancelled());
            }
            let (status, headers) = (response.status(), response.headers());
            token = match outgoing.after_rejection(token, status, headers, repeats > 0).await {
                Ok(renewed) => Some(renewed),
                Err(None) => return Ok(response),
                Err(Some(unavailable)) => return Err(unavailable.into()),
            };
            repeats += 1;
        }
    }

    /// Sends a request with the headers of the target and a token, and follows redirects on the same server.
    async fn exchange(
        &self,
        request: &Request<Bytes>,
        token: Option<&HeaderValue>,
        limit: Duration,
        on_sent: impl Fn(),
    ) -> Result<Response, Failure> {
        let instance = self.instance()?;
        let (mut parts, body) = request.clone().into_parts();
        let own = std::mem::take(&mut parts.headers);
        self.target.set_headers(&mut parts.headers);
        parts.headers.extend(token.map(|token| (header::AUTHORIZATION, token.clone())));
        parts.headers.insert(header::HOST, instance.host.clone());
        // The request's own headers, which the protocol defines, take precedence.
        parts.headers.extend(own);
        let exchanging = async {
            for _ in 0..=MAX_REDIRECTS {
                let response = match &self.in_process {
                    Some(proxy) => {
                        on_sent();
                        let body = Body::from(body.clone());
                        proxy.handle(Request::from_parts(parts.clone(), body)).await?
                    }
                    None => {
                        let head = RequestHead::new(&parts, Some(body.len() as u64));
                        let client = &instance.client;
                        let sent = client.send_with_callback(&head, body.clone(), HeaderMap::new(), &on_sent);
                        sent.await?.map(Body::Upstream)
                    }
                };
                match redirected(&instance, &parts.uri, &response) {
                    Some(uri) => parts.uri = uri,
                    None => return Ok(response),
                }
            }
            Err(Failure::server(format!("the server redirects more than {MAX_REDIRECTS} times")))
        };
        let late = |_| Failure::server(format!("no response from the server within {} s", limit.as_secs()));
        timeout(limit, exchanging).await.map_err(late)?
    }

    /// Reads the JSON-RPC response in a body.
    pub(super) async fn read_message(&self, body: Body, limit: Duration) -> Result<Message, Failure> {
        let late = |_| Failure::server("the server did not complete its response in time");
        let body = timeout(limit, self.read(body, MAX_BODY_BYTES)).await.map_err(late)??;
        let invalid = |reason: &str| Failure::server(format!("the server's response is invalid: {reason}"));
        let message = Message::parse(body).map_err(|malformed| invalid(&malformed.reason))?;
        match message.kind() {
            MessageKind::Response => Ok(message),
            _ => Err(invalid("it is a request or a notification")),
        }
    }

    /// Reads the JSON-RPC error in the body of an error response. If there is none, returns the failure that the status
    /// means.
    pub(super) async fn read_error(&self, response: Response) -> Result<Message, Failure> {
        let status = response.status();
        let read = timeout(ERROR_TIMEOUT, self.read(response.into_body(), MAX_ERROR_BYTES)).await;
        let message = read.ok().and_then(Result::ok).and_then(|body| Message::parse(body).ok());
        message.filter(|message| !message.error().is_empty()).ok_or_else(|| Failure::status(status))
    }

    async fn read(&self, mut body: Body, limit: usize) -> Result<Bytes, Failure> {
        let mut whole = ReservedBuffer::new(self.account());
        while let Some(frame) = body.frame().await {
            let broken = |error| Failure::server(format!("the connection to the server failed: {error}"));
            let Ok(chunk) = frame.map_err(broken)?.into_data() else { continue };
            if whole.len() + chunk.len() > limit {
                return Err(Failure::server(format!("the server's response is larger than {limit} bytes")));
            }
            if !whole.append(&chunk) {
                return Err(Failure::server(NO_ROOM));
            }
        }
        Ok(whole.freeze())
    }
}

/// Whether a response is a stream of events.
pub(super) fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    response.status() == StatusCode::OK && kind.trim().eq_ignore_ascii_case("text/event-stream")
}

/// Returns the target of a redirect that keeps the method, if the target is on the same server.
fn redirected(instance: &TargetInstance, uri: &Uri, response: &Response) -> Option<Uri> {
    let is_redirect =
        matches!(response.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let location = response.headers().get(header::LOCATION).filter(|_| is_redirect)?;
    instance.same_origin_uri(uri, location.to_str().ok()?)
}
