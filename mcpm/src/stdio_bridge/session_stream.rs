//! Reads the stream of messages that the server initiates, and reopens a session that the server has lost.

use std::time::Duration;

use http::{HeaderValue, StatusCode};
use tokio::time::{sleep, timeout};

use super::{
    client::{LAST_EVENT_ID, MCP_SESSION_ID, Urgency, is_event_stream},
    event_stream::{EventStream, Opened},
    failure::Failure,
    session::SessionHeaders,
    streamable::{MAX_RETRY_DELAY, MIN_RETRY_DELAY, NOTIFY_TIMEOUT, RETRY_DELAY, StreamableServer},
};
use crate::{
    Error, ErrorKind,
    mcp::{error_code, message::MessageKind},
    proxy::respond::Response,
};

/// Timeout for opening a lost session again.
const REOPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// Time without data after which the stream of the server's own messages is opened again.
const LISTEN_IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);

impl StreamableServer {
    /// Opens a stream with GET, or resumes one.
    pub(super) async fn open_stream(
        &self,
        session: &SessionHeaders,
        last_id: Option<&str>,
        urgency: Urgency,
    ) -> Result<Opened, Failure> {
        let mut request = self.client.get();
        session.apply(request.headers_mut());
        let last_id = last_id.and_then(|id| HeaderValue::try_from(id).ok());
        request.headers_mut().extend(last_id.map(|id| (LAST_EVENT_ID, id)));
        let response = self.client.send_with_urgency(request, NOTIFY_TIMEOUT, urgency).await?;
        if is_event_stream(&response) {
            return Ok(Opened::Stream(EventStream::new(response.into_body(), self.client.account())));
        }
        match response.status() {
            StatusCode::NOT_FOUND if session.id.is_some() => Ok(Opened::SessionLost),
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => {
                Ok(Opened::Absent)
            }
            status => Err(Failure::status(status)),
        }
    }

    /// Forwards the server's own messages, as long as the session is open.
    pub(super) async fn listen(&self) {
        let (mut last_id, mut generation, mut delay) = (None::<String>, 0, RETRY_DELAY);
        loop {
            let session = self.session.headers();
            if generation != session.generation {
                (last_id, generation) = (None, session.generation);
            }
            match self.open_stream(&session, last_id.as_deref(), Urgency::Background).await {
                Ok(Opened::Stream(mut stream)) => {
                    delay = RETRY_DELAY;
                    while let Ok(Some(event)) = stream.next(LISTEN_IDLE_TIMEOUT).await {
                        self.forward_event(event.name, event.data).await;
                    }
                    last_id = stream.last_id().map(str::to_owned).or(last_id);
                    sleep(stream.retry().unwrap_or(delay).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY)).await;
                }
                // The server may only be unable to resume the stream, so a new one is tried.
                Ok(Opened::Absent) if last_id.is_some() => last_id = None,
                Ok(Opened::Absent) => return,
                Ok(Opened::SessionLost) => match self.reopen(generation, Urgency::Background).await {
                    Ok(()) => {}
                    Err(_) if self.lost.borrow().is_some() => return,
                    Err(failure) => {
                        tracing::debug!(%failure, "cannot reopen the session");
                        sleep(delay).await;
                        delay = (delay * 2).min(MAX_RETRY_DELAY);
                    }
                },
                Err(failure) => {
                    tracing::debug!(%failure, "cannot open the stream of messages that the server initiates");
                    sleep(delay).await;
                    delay = (delay * 2).min(MAX_RETRY_DELAY);
                }
            }
        }
    }

    /// Opens a session again that the server has lost, unless another request has done that meanwhile.
    pub(super) async fn reopen(&self, generation: u64, urgency: Urgency) -> Result<(), Failure> {
        let _turn = self.session.reopening.lock().await;
        if self.session.headers().generation != generation {
            return Ok(());
        }
        let outcome = timeout(REOPEN_TIMEOUT, self.repeat_handshake(urgency)).await;
        outcome.unwrap_or_else(|_| Err(Failure::server("the lost session could not be reopened in time")))
    }

    async fn repeat_handshake(&self, urgency: Urgency) -> Result<(), Failure> {
        let Some(initialize) = self.session.saved_initialize() else {
            return Err(self.give_up("the session cannot be reopened"));
        };
        let request = self.client.post(self.client.uri(), initialize.bytes().clone());
        let response = available(self.client.send_with_urgency(request, REOPEN_TIMEOUT, urgency).await?)?;
        let id = response.headers().get(MCP_SESSION_ID).cloned();
        let response = self.only_response(&initialize, response).await?;
        let Some(session) = self.session.replacement(&response, id) else {
            return Err(self.give_up("its response to `initialize` is different now"));
        };
        for message in self.session.saved_messages() {
            let request = self.session_post(&session, &message);
            let response = available(self.client.send_with_urgency(request, NOTIFY_TIMEOUT, urgency).await?)?;
            let is_done = match message.kind() {
                MessageKind::Request => !self.only_response(&message, response).await?.result().is_empty(),
                _ => response.status().is_success(),
            };
            if !is_done {
                return Err(self.give_up("it rejects the messages that restore the session"));
            }
        }
        self.session.replace(session);
        tracing::info!("reopened a session that the server had lost");
        Ok(())
    }

    /// Records that the session cannot be continued.
    fn give_up(&self, reason: &str) -> Failure {
        let error = Error::new(ErrorKind::Upstream, format!("the server has lost the session, and {reason}"))
            .hint("start the command again for a new session");
        let failure = Failure::new(error_code::SESSION_NOT_FOUND, error.to_string());
        self.lost.send_replace(Some(error));
        failure
    }
}

/// Returns a response, unless its status shows that the server is temporarily unavailable.
fn available(response: Response) -> Result<Response, Failure> {
    let status = response.status();
    match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        true => Err(Failure::status(status)),
        false => Ok(response),
    }
}
