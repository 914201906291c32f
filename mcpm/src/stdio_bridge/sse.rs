//! The client side of the deprecated SSE transport (MCP 2024-11-05, transports).
//!
//! The session ends with its stream: when the stream breaks, the session cannot be reopened without the client
//! noticing this.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::Uri;
use tokio::{
    sync::{OnceCell, oneshot, watch},
    task::AbortHandle,
    time::timeout,
};

use super::{
    client::{ServerClient, is_event_stream},
    event_stream::EventStream,
    failure::Failure,
    in_flight::Claim,
    output::Output,
};
use crate::{
    Error, ErrorKind,
    mcp::{
        error_code,
        message::{Message, MessageKind, same_id},
    },
    proxy::respond::Response,
    redact::url::redact_url_text,
};

/// Timeout for the `endpoint` event at the beginning of a stream.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for the response to a POST, which only confirms that the message was received.
const POST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time without data after which the stream is given up.
const STREAM_IDLE_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);

/// A request that waits for its response.
#[derive(Debug)]
struct Waiter {
    id: Bytes,
    claim: Claim,
    responded: oneshot::Sender<Result<(), Failure>>,
}

/// A server that speaks HTTP+SSE.
#[derive(Debug)]
pub(super) struct SseServer {
    client: ServerClient,
    output: Output,
    response_timeout: Duration,
    /// The URI to which messages are posted, and the task that reads the stream.
    stream: OnceCell<(Uri, AbortHandle)>,
    waiting: Mutex<Vec<Waiter>>,
    lost: watch::Sender<Option<Error>>,
}

impl SseServer {
    pub(super) fn new(client: ServerClient, output: Output, response_timeout: Duration) -> Self {
        let (stream, waiting, lost) = (OnceCell::new(), Mutex::default(), watch::Sender::new(None));
        Self { client, output, response_timeout, stream, waiting, lost }
    }

    /// Sends a request, and waits until its response was forwarded.
    ///
    /// # Errors
    /// Why there is no response.
    pub(super) async fn request(self: &Arc<Self>, message: &Message, claim: &Claim) -> Result<(), Failure> {
        let (sender, responded) = oneshot::channel();
        let waiter = Waiter { id: message.id(), claim: claim.clone(), responded: sender };
        {
            let mut waiting = self.lock();
            // Removes requests that were cancelled or have failed.
            waiting.retain(|waiter| !waiter.responded.is_closed());
            waiting.push(waiter);
        }
        let (endpoint, _) = self.stream.get_or_try_init(|| self.open()).await?;
        let request = self.client.post(endpoint, message.bytes().clone());
        self.accepted(self.client.send_claimed(request, POST_TIMEOUT, claim).await?).await?;
        match timeout(self.response_timeout, responded).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Failure::server("the stream of the server has ended")),
            Err(_) => {
                let limit = self.response_timeout.as_secs();
                Err(Failure::server(format!("no response from the server within {limit} s")))
            }
        }
    }

    /// Posts a message that gets no response.
    ///
    /// # Errors
    /// The server does not accept the message.
    pub(super) async fn notify(self: &Arc<Self>, message: &Message) -> Result<(), Failure> {
        let (endpoint, _) = self.stream.get_or_try_init(|| self.open()).await?;
        let request = self.client.post(endpoint, message.bytes().clone());
        self.accepted(self.client.send(request, POST_TIMEOUT).await?).await
    }

    async fn accepted(&self, response: Response) -> Result<(), Failure> {
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let rejection = self.client.read_error(response).await?;
        Err(Failure::server(format!("the server responded with HTTP {status}: {}", rejection.error())))
    }

    /// Waits until the stream has ended.
    pub(super) async fn lost(&self) -> Error {
        let mut lost = self.lost.subscribe();
        match lost.wait_for(Option::is_some).await.ok().and_then(|error| error.clone()) {
            Some(error) => error,
            // The sender is in `self`, so the channel cannot be closed.
            None => std::future::pending().await,
        }
    }

    /// Ends the stream, and with it the session.
    pub(super) fn close(&self) {
        if let Some((_, reader)) = self.stream.get() {
            reader.abort();
        }
    }

    /// Opens the stream, and returns the URI to which messages are posted.
    async fn open(self: &Arc<Self>) -> Result<(Uri, AbortHandle), Failure> {
        let response = self.client.send(self.client.get(), ENDPOINT_TIMEOUT).await?;
        if !is_event_stream(&response) {
            return Err(Failure::status(response.status()));
        }
        let mut stream = EventStream::new(response.into_body(), self.client.account());
        let endpoint = match stream.next(ENDPOINT_TIMEOUT).await? {
            Some(event) if event.name == "endpoint" => self.endpoint(&event.data)?,
            _ => return Err(Failure::server("the server's stream does not begin with an `endpoint` event")),
        };
        let server = Arc::clone(self);
        let reader = tokio::spawn(async move { server.read(stream).await });
        Ok((endpoint, reader.abort_handle()))
    }

    /// Returns the URI in an `endpoint` event. It must be on the same server, because credentials are sent there.
    fn endpoint(&self, text: &[u8]) -> Result<Uri, Failure> {
        let instance = self.client.instance()?;
        let endpoint = str::from_utf8(text).ok();
        let endpoint = endpoint.and_then(|text| instance.same_origin_uri(self.client.uri(), text.trim()));
        endpoint.ok_or_else(|| {
            let shown = redact_url_text(&String::from_utf8_lossy(text).chars().take(200).collect::<String>());
            let origin = &instance.origin;
            Failure::server(format!(
                "the server's `endpoint` event names `{shown}`, which is not on `{origin}`"
            ))
        })
    }

    /// Forwards the messages of the stream until it ends.
    async fn read(&self, mut stream: EventStream) {
        let reason = loop {
            let event = match stream.next(STREAM_IDLE_TIMEOUT).await {
                Ok(Some(event)) => event,
                Ok(None) => break "the server has ended its stream".to_owned(),
                Err(failure) => break failure.to_string(),
            };
            if event.data.is_empty() || !matches!(&*event.name, "" | "message") {
                continue;
            }
            let message = match Message::parse(event.data) {
                Ok(message) => message,
                Err(malformed) => {
                    tracing::warn!(reason = malformed.reason, "the server sent an invalid message");
                    continue;
                }
            };
            if message.kind() != MessageKind::Response {
                self.output.send(message.bytes().clone()).await;
                continue;
            }
            let Some(waiter) = self.take_waiter(message.id_text()) else {
                tracing::warn!("the server responded to a request that is not in flight");
                continue;
            };
            self.output.respond(&waiter.claim, message.bytes().clone()).await;
            let _ = waiter.responded.send(Ok(()));
        };
        let error = Error::new(ErrorKind::Upstream, reason).hint("start the command again for a new session");
        let failure = Failure::new(error_code::SESSION_NOT_FOUND, error.to_string());
        for waiter in std::mem::take(&mut *self.lock()) {
            let _ = waiter.responded.send(Err(failure.clone()));
        }
        self.lost.send_replace(Some(error));
    }

    fn take_waiter(&self, id: &[u8]) -> Option<Waiter> {
        let mut waiting = self.lock();
        let at =
            waiting.iter().position(|waiter| !waiter.responded.is_closed() && same_id(&waiter.id, id))?;
        Some(waiting.swap_remove(at))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Waiter>> {
        // No code panics while it holds the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
