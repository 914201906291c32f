//! The client side of streamable HTTP, in both eras (MCP 2025-11-25 and 2026-07-28, transports).

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::{
    client::{MCP_SESSION_ID, ServerClient, Urgency, is_event_stream},
    event_stream::{EventStream, Opened},
    failure::Failure,
    in_flight::{Claim, LISTEN},
    output::Output,
    session::{Session, SessionHeaders},
    stateless_headers::{called_tool, stateless_headers, stateless_version},
    tools::ToolList,
};
use crate::{
    Error,
    mcp::{
        era::{self, FIRST_MODERN_VERSION},
        error_code,
        message::{Message, MessageKind, same_id},
        param_headers::{MAX_LIST_PAGES, ParamHeader},
    },
    proxy::respond::Response,
};

/// Timeout of a message that gets no response.
pub(super) const NOTIFY_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for ending the session.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a call waits for the list of tools; without it, the call has no headers of mirrored arguments.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Default delay before a stream is opened again, and the bounds for a delay that the server sets.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);
pub(super) const MIN_RETRY_DELAY: Duration = Duration::from_millis(10);
pub(super) const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Maximum number of consecutive attempts to resume the stream of a response.
const MAX_RESUME_ATTEMPTS: usize = 5;
/// Time without data after which a subscription is given up; subscriptions may be silent for a long time.
const SUBSCRIPTION_IDLE_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);
/// How long to wait for the end of a stream after its response, so that the connection can be reused.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// A server that speaks streamable HTTP.
#[derive(Debug)]
pub(super) struct StreamableServer {
    pub(super) client: ServerClient,
    pub(super) output: Output,
    pub(super) session: Session,
    tools: ToolList,
    response_timeout: Duration,
    /// The version of the client's last stateless request.
    stateless_version: watch::Sender<Option<String>>,
    /// The task that reads the server's own messages.
    listener: OnceLock<AbortHandle>,
    /// Why the session cannot be continued; `None` as long as it can.
    pub(super) lost: watch::Sender<Option<Error>>,
}

/// The server's reply to a request.
enum Reply {
    Response(Message),
    Events(EventStream),
}

/// How a stream of events ended.
enum StreamEnd {
    /// The stream ended with the response.
    Answered,
    /// The stream ended before the response.
    Broken(Failure),
}

impl StreamableServer {
    pub(super) fn new(client: ServerClient, output: Output, response_timeout: Duration) -> Self {
        Self {
            client,
            output,
            session: Session::default(),
            tools: ToolList::default(),
            response_timeout,
            stateless_version: watch::Sender::new(None),
            listener: OnceLock::new(),
            lost: watch::Sender::new(None),
        }
    }

    /// Sends a request, and forwards the messages that the server sends for it.
    ///
    /// # Errors
    /// Why there is no response.
    pub(super) async fn request(&self, message: &Message, claim: &Claim) -> Result<(), Failure> {
        match stateless_version(message) {
            Some(version) => self.stateless_request(message, claim, &version).await,
            None => self.session_request(message, claim).await,
        }
    }

    /// Sends a message that gets no response.
    pub(super) async fn notify(self: &Arc<Self>, message: &Message) -> Result<(), Failure> {
        let version = match (stateless_version(message), self.session.is_open()) {
            (Some(version), _) => Some(version),
            (None, true) => None,
            (None, false) => self.stateless_version.borrow().clone(),
        };
        let Some(version) = version else { return self.session_notify(message).await };
        let mut request = self.client.post(self.client.uri(), message.bytes().clone());
        request.headers_mut().extend(stateless_headers(message, &version, &[])?);
        let response = self.client.send(request, NOTIFY_TIMEOUT).await?;
        self.accepted(response).await
    }

    /// Waits until the session cannot be continued.
    pub(super) async fn lost(&self) -> Error {
        let mut lost = self.lost.subscribe();
        match lost.wait_for(Option::is_some).await.ok().and_then(|error| error.clone()) {
            Some(error) => error,
            // The sender is in `self`, so the channel cannot be closed.
            None => std::future::pending().await,
        }
    }

    /// Ends the session.
    pub(super) async fn close(&self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
        let session = self.session.headers();
        if session.id.is_none() {
            return;
        }
        let mut request = self.client.delete();
        session.apply(request.headers_mut());
        // A server without DELETE ends the session itself.
        if let Err(failure) =
            self.client.send_with_urgency(request, DELETE_TIMEOUT, Urgency::Background).await
        {
            tracing::debug!(%failure, "the session could not be ended");
        }
    }

    async fn stateless_request(
        &self,
        message: &Message,
        claim: &Claim,
        version: &str,
    ) -> Result<(), Failure> {
        self.stateless_version.send_replace(Some(version.to_owned()));
        let tool = called_tool(message);
        let mut is_first = true;
        loop {
            let mirrored = match &tool {
                Some(tool) => self.mirrored(tool).await,
                None => Vec::new(),
            };
            let mut request = self.client.post(self.client.uri(), message.bytes().clone());
            request.headers_mut().extend(stateless_headers(message, version, &mirrored)?);
            let response = self.client.send_claimed(request, self.response_timeout, claim).await?;
            match self.reply(message, response).await? {
                // The schemas of the tools have changed; the server has not executed the call.
                Reply::Response(response)
                    if is_first
                        && tool.is_some()
                        && response.error_code() == Some(error_code::HEADER_MISMATCH) =>
                {
                    self.tools.invalidate();
                    is_first = false;
                }
                Reply::Response(response) => {
                    self.deliver(message, claim, response, None).await;
                    return Ok(());
                }
                Reply::Events(mut stream) => {
                    return match self.forward_events(message, claim, &mut stream, None).await {
                        StreamEnd::Answered => Ok(()),
                        StreamEnd::Broken(failure) => Err(failure),
                    };
                }
            }
        }
    }

    /// Returns the mirrored arguments of a tool; reads the list of tools first, if it is not known yet.
    async fn mirrored(&self, tool: &str) -> Vec<ParamHeader> {
        if self.tools.needs_reading() {
            let _turn = self.tools.reading.lock().await;
            if self.tools.needs_reading()
                && !matches!(timeout(LIST_TIMEOUT, self.read_tools()).await, Ok(Ok(())))
            {
                tracing::warn!(
                    "cannot list the tools of the server; calls are sent without `Mcp-Param-*` headers"
                );
                self.tools.record_failure();
            }
        }
        self.tools.mirrored(tool)
    }

    async fn read_tools(&self) -> Result<(), Failure> {
        let mut cursor = None;
        for page in 0..MAX_LIST_PAGES as u64 {
            let text = era::tools_request(page, cursor.as_deref()).freeze();
            let invalid = |_| Failure::server("cannot list the tools");
            let message = Message::parse(text).map_err(invalid)?;
            let mut request = self.client.post(self.client.uri(), message.bytes().clone());
            request.headers_mut().extend(stateless_headers(&message, FIRST_MODERN_VERSION, &[])?);
            let response = self.client.send(request, LIST_TIMEOUT).await?;
            let response = self.only_response(&message, response).await?;
            if response.result().is_empty() {
                return Err(Failure::server("cannot list the tools"));
            }
            cursor = self.tools.record(response.result());
            if cursor.is_none() {
                break;
            }
        }
        Ok(())
    }

    async fn session_request(&self, message: &Message, claim: &Claim) -> Result<(), Failure> {
        let is_initialize = message.method() == "initialize";
        let mut is_first = true;
        loop {
            let session = if is_initialize { SessionHeaders::default() } else { self.session.headers() };
            let request = self.session_post(&session, message);
            let response = self.client.send_claimed(request, self.response_timeout, claim).await?;
            if is_first && session.id.is_some() && response.status() == StatusCode::NOT_FOUND {
                let rejection = self.client.read_error(response).await;
                if let Ok(rejection) = &rejection
                    && rejection.error_code() == Some(error_code::METHOD_NOT_FOUND)
                {
                    self.deliver(message, claim, with_id(rejection, message)?, None).await;
                    return Ok(());
                }
                // The server has not executed the request.
                if !claim.mark_unsent() {
                    return Err(Failure::cancelled());
                }
                self.reopen(session.generation, Urgency::Awaited).await?;
                is_first = false;
                continue;
            }
            let opened = response.headers().get(MCP_SESSION_ID).cloned().filter(|_| is_initialize);
            match self.reply(message, response).await? {
                Reply::Response(response) => self.deliver(message, claim, response, opened).await,
                Reply::Events(stream) => self.follow(message, claim, stream, session, opened).await?,
            }
            return Ok(());
        }
    }

    async fn session_notify(self: &Arc<Self>, message: &Message) -> Result<(), Failure> {
        let mut session = self.session.headers();
        let mut response = self.client.send(self.session_post(&session, message), NOTIFY_TIMEOUT).await?;
        if session.id.is_some() && response.status() == StatusCode::NOT_FOUND {
            self.reopen(session.generation, Urgency::Awaited).await?;
            if message.kind() == MessageKind::Response || message.method() == "notifications/cancelled" {
                return Err(Failure::server("the session that the message belongs to was lost"));
            }
            session = self.session.headers();
            response = self.client.send(self.session_post(&session, message), NOTIFY_TIMEOUT).await?;
        }
        self.accepted(response).await?;
        self.session.record(message);
        if message.method() == "notifications/initialized" {
            let server = Arc::clone(self);
            self.listener.get_or_init(|| tokio::spawn(async move { server.listen().await }).abort_handle());
        }
        Ok(())
    }

    pub(super) fn session_post(&self, session: &SessionHeaders, message: &Message) -> Request<Bytes> {
        let mut request = self.client.post(self.client.uri(), message.bytes().clone());
        session.apply(request.headers_mut());
        request
    }

    async fn accepted(&self, response: Response) -> Result<(), Failure> {
        if response.status().is_success() {
            return Ok(());
        }
        let status = response.status();
        let rejection = self.client.read_error(response).await?;
        Err(Failure::server(format!("the server responded with HTTP {status}: {}", rejection.error())))
    }

    /// Reads the reply to a request, which is a response, an error with the request's id, or a stream.
    async fn reply(&self, request: &Message, response: Response) -> Result<Reply, Failure> {
        if is_event_stream(&response) {
            return Ok(Reply::Events(EventStream::new(response.into_body(), self.client.account())));
        }
        if !response.status().is_success() {
            let rejection = self.client.read_error(response).await?;
            return with_id(&rejection, request).map(Reply::Response);
        }
        if response.status() == StatusCode::ACCEPTED {
            return Err(Failure::server("the server accepted the request, but did not respond to it"));
        }
        let message = self.client.read_message(response.into_body(), self.response_timeout).await?;
        match same_id(message.id_text(), request.id_text()) {
            true => Ok(Reply::Response(message)),
            false => Err(Failure::server("the server's response has the id of another request")),
        }
    }

    /// Reads the response to a request of the bridge itself, and ignores other messages.
    pub(super) async fn only_response(
        &self,
        request: &Message,
        response: Response,
    ) -> Result<Message, Failure> {
        match self.reply(request, response).await? {
            Reply::Response(response) => Ok(response),
            Reply::Events(mut stream) => loop {
                let Some(event) = stream.next(self.response_timeout).await? else {
                    return Err(Failure::server("the server ended the stream before the response"));
                };
                if let Ok(message) = Message::parse(event.data)
                    && is_response_to(request, &message)
                {
                    return Ok(message);
                }
            },
        }
    }

    /// Forwards the messages of a stream, and resumes the stream until the response has arrived.
    async fn follow(
        &self,
        request: &Message,
        claim: &Claim,
        mut stream: EventStream,
        session: SessionHeaders,
        opened: Option<HeaderValue>,
    ) -> Result<(), Failure> {
        // `initialize` was sent without a session, and its response has opened one.
        let session = if opened.is_some() { session.with_id(opened.clone()) } else { session };
        let (mut last_id, mut delay, mut attempts) = (None, RETRY_DELAY, 0);
        loop {
            let end = self.forward_events(request, claim, &mut stream, opened.clone()).await;
            let StreamEnd::Broken(failure) = end else {
                return Ok(());
            };
            delay = stream.retry().unwrap_or(delay).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
            if let Some(id) = stream.last_id() {
                (last_id, attempts) = (Some(id.to_owned()), 0);
            }
            let Some(last_id) = &last_id else { return Err(failure) };
            stream = loop {
                if attempts == MAX_RESUME_ATTEMPTS {
                    return Err(failure);
                }
                attempts += 1;
                sleep(delay).await;
                match self.open_stream(&session, Some(last_id), Urgency::Awaited).await {
                    Ok(Opened::Stream(stream)) => break stream,
                    // The stream is gone, and with it the response.
                    Ok(Opened::Absent | Opened::SessionLost) => return Err(failure),
                    Err(error) => tracing::debug!(%error, "cannot resume the stream of a response"),
                }
            };
        }
    }

    /// Forwards the messages of a stream up to the response to a request.
    async fn forward_events(
        &self,
        request: &Message,
        claim: &Claim,
        stream: &mut EventStream,
        opened: Option<HeaderValue>,
    ) -> StreamEnd {
        let idle = if request.method() == LISTEN { SUBSCRIPTION_IDLE_TIMEOUT } else { self.response_timeout };
        loop {
            let event = match stream.next(idle).await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    let text = "the server ended the stream before the response";
                    return StreamEnd::Broken(Failure::server(text));
                }
                Err(failure) => return StreamEnd::Broken(failure),
            };
            let Some(message) = self.forward_event(event.name, event.data).await else { continue };
            if !is_response_to(request, &message) {
                tracing::warn!("the server sent a response on the stream of another request");
                continue;
            }
            self.deliver(request, claim, message, opened).await;
            let _ = timeout(DRAIN_TIMEOUT, stream.next(DRAIN_TIMEOUT)).await;
            return StreamEnd::Answered;
        }
    }

    /// Forwards the request or notification in an event; returns a response.
    pub(super) async fn forward_event(&self, name: String, data: Bytes) -> Option<Message> {
        if data.is_empty() || !matches!(&*name, "" | "message") {
            return None;
        }
        let message = match Message::parse(data) {
            Ok(message) => message,
            Err(malformed) => {
                tracing::warn!(reason = malformed.reason, "the server sent an invalid message");
                return None;
            }
        };
        if message.kind() == MessageKind::Response {
            return Some(message);
        }
        if message.method() == "notifications/tools/list_changed" {
            self.tools.invalidate();
        }
        self.output.send(message.bytes().clone()).await;
        None
    }

    /// Applies the effects of a response on the bridge, and then forwards the response.
    async fn deliver(
        &self,
        request: &Message,
        claim: &Claim,
        response: Message,
        opened: Option<HeaderValue>,
    ) {
        if !response.result().is_empty() {
            match request.method() {
                "initialize" => self.session.open(request, &response, opened),
                "tools/list" => {
                    self.tools.record(response.result());
                }
                _ => self.session.record(request),
            }
        }
        self.output.respond(claim, response.bytes().clone()).await;
    }
}

fn is_response_to(request: &Message, message: &Message) -> bool {
    message.kind() == MessageKind::Response && same_id(message.id_text(), request.id_text())
}

/// Returns an error response with the id of the request, because a server that rejects a request may not have read its
/// id.
fn with_id(rejection: &Message, request: &Message) -> Result<Message, Failure> {
    if same_id(rejection.id_text(), request.id_text()) {
        return Ok(rejection.clone());
    }
    let id = request.id();
    let text = [&br#"{"jsonrpc":"2.0","id":"#[..], &id, br#","error":"#, rejection.error().as_bytes(), b"}"];
    Message::parse(text.concat().into()).map_err(|malformed| Failure::server(malformed.reason))
}
