//! Sends the requests of a stdio bridge to its server, and reads the bodies of responses.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::failure::Failure;
use crate::{
    mcp::message::{Message, MessageKind},
    memory::{Account, ReservedBuffer},
    proxy::target::Target,
    transport::http::ResponseBody,
};

/// Largest body of a response in bytes: one message of a server.
const MAX_BODY_BYTES: usize = 32 << 20;
/// Largest body in bytes of a response that is an error.
const MAX_ERROR_BYTES: usize = 64 << 10;
/// Timeout for the body of a response that is an error.
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON_OR_EVENT_STREAM: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// The HTTP client of one server.
#[derive(Debug)]
pub(super) struct ServerClient {
    target: Target,
    uri: Uri,
    account: Arc<Account>,
}

impl ServerClient {
    pub(super) fn new(target: Target) -> Self {
        let uri = target.map_uri(&Uri::from_static("/"));
        Self { target, uri, account: Account::new() }
    }

    /// Returns the account that data of the server is charged to.
    pub(super) fn account(&self) -> Arc<Account> {
        Arc::clone(&self.account)
    }

    /// Returns the URI of the MCP endpoint, in origin form.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns `scheme://host[:port]` of the server.
    pub(super) fn origin(&self) -> Result<String, Failure> {
        self.target.instance().map(|instance| instance.origin.clone()).map_err(Failure::server)
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

    /// Sends a request with the headers of the target, and returns the head of the response. All requests of a bridge
    /// are sent here, so credentials for the server belong here.
    pub(super) async fn send(
        &self,
        mut request: Request<Bytes>,
        limit: Duration,
    ) -> Result<Response<ResponseBody>, Failure> {
        let instance = self.target.instance().map_err(Failure::server)?;
        let own = std::mem::replace(request.headers_mut(), HeaderMap::new());
        let headers = request.headers_mut();
        self.target.set_headers(headers);
        headers.insert(header::HOST, instance.host.clone());
        // Those of the protocol take precedence.
        headers.extend(own);
        let responding = instance.client.send(request);
        let late = |_| Failure::server(format!("no response from the server within {} s", limit.as_secs()));
        Ok(timeout(limit, responding).await.map_err(late)??)
    }

    /// Reads the JSON-RPC response in a body.
    pub(super) async fn read_message(&self, body: ResponseBody, limit: Duration) -> Result<Message, Failure> {
        let late = |_| Failure::server("the server's response is incomplete");
        let body = timeout(limit, self.read(body, MAX_BODY_BYTES)).await.map_err(late)??;
        let invalid = |reason: &str| Failure::server(format!("the server's response is invalid: {reason}"));
        let message = Message::parse(body).map_err(|malformed| invalid(&malformed.reason))?;
        match message.kind() {
            MessageKind::Response => Ok(message),
            _ => Err(invalid("it is a request")),
        }
    }

    /// Reads the JSON-RPC error in the body of a response whose status says that the request failed; otherwise
    /// returns what the status means.
    pub(super) async fn read_error(&self, response: Response<ResponseBody>) -> Result<Message, Failure> {
        let status = response.status();
        let read = timeout(ERROR_TIMEOUT, self.read(response.into_body(), MAX_ERROR_BYTES)).await;
        let message = read.ok().and_then(Result::ok).and_then(|body| Message::parse(body).ok());
        message.filter(|message| !message.error().is_empty()).ok_or_else(|| Failure::status(status))
    }

    async fn read(&self, mut body: ResponseBody, limit: usize) -> Result<Bytes, Failure> {
        let mut whole = ReservedBuffer::new(self.account());
        while let Some(frame) = body.frame().await {
            let broken = |error| Failure::server(format!("the connection to the server failed: {error}"));
            let Ok(chunk) = frame.map_err(broken)?.into_data() else { continue };
            if whole.len() + chunk.len() > limit {
                return Err(Failure::server(format!("the server's response is larger than {limit} bytes")));
            }
            if !whole.append(&chunk) {
                return Err(Failure::server("too much is held for other requests to take the response now"));
            }
        }
        Ok(whole.freeze())
    }
}

/// Whether a response is a stream of events.
pub(super) fn is_event_stream(response: &Response<ResponseBody>) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    response.status() == StatusCode::OK && kind.trim().eq_ignore_ascii_case("text/event-stream")
}
