//! Reads the messages of the client, and sends them to the server.
//!
//! The client writes all messages to one pipe and relies on their order. Notifications and `initialize` are therefore
//! sent to the server one at a time. Any other request is sent in a task of its own, after all notifications and
//! `initialize` requests before it, without waiting for other requests. Responses to the server's requests do not wait.
//! Meanwhile, reading continues.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{
        Semaphore,
        mpsc::{self, error::TrySendError},
        watch,
    },
    task::JoinSet,
    time::timeout,
};

use super::{
    failure::{Failure, NO_ROOM},
    in_flight::{Claim, InFlight, LISTEN, Registration},
    output::Output,
    sse::SseServer,
    stateless_headers::stateless_version,
    streamable::StreamableServer,
};
use crate::{
    Error, ErrorKind, Result,
    mcp::{
        era::Era,
        error_code,
        message::{Message, MessageKind, batch},
        request_id::scan_request_id,
    },
    memory::Account,
    stdio::{
        id_scan::IdScan,
        lines::{Line, LineSplitter, Skipped},
    },
};

/// Maximum number of messages that wait to be sent in order.
const MAX_ORDERED_MESSAGES: usize = 256;
/// Maximum number of responses to the server's requests that are being sent.
const MAX_RESPONSES: usize = 64;
/// Timeout of a call, even if its stream still sends data.
const CALL_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);
/// Timeout for writing the last messages.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
const CANCELLED: &str = "notifications/cancelled";

/// The server, over one of the transports.
#[derive(Debug, Clone)]
pub(super) enum Server {
    Streamable(Arc<StreamableServer>),
    Sse(Arc<SseServer>),
}

impl Server {
    async fn request(&self, message: &Message, claim: &Claim) -> Result<(), Failure> {
        match self {
            Self::Streamable(server) => server.request(message, claim).await,
            Self::Sse(server) => server.request(message, claim).await,
        }
    }

    async fn notify(&self, message: &Message) -> Result<(), Failure> {
        match self {
            Self::Streamable(server) => server.notify(message).await,
            Self::Sse(server) => server.notify(message).await,
        }
    }

    async fn lost(&self) -> Error {
        match self {
            Self::Streamable(server) => server.lost().await,
            Self::Sse(server) => server.lost().await,
        }
    }

    async fn close(&self) {
        match self {
            Self::Streamable(server) => server.close().await,
            Self::Sse(server) => server.close(),
        }
    }
}

/// A message that is sent in the order of the input.
enum Ordered {
    /// A message that gets no response.
    Notify(Message),
    Initialize(Message, Registration),
}

/// Serves a server on a pair of streams until the input ends, the client closes the output, or `stop` is ready.
pub(super) async fn serve(
    connect: impl FnOnce(Output) -> Server,
    input: impl AsyncRead + Send + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: impl Future<Output = ()>,
    exit_grace: Duration,
) -> Result<()> {
    let (output, mut writer) = Output::open(output);
    let server = connect(output.clone());
    let mut dispatcher = Dispatcher::new(server.clone(), output);
    let outcome = tokio::select! {
        // The client closes the output when it ends.
        _ = &mut writer => Ok(()),
        () = stop => Ok(()),
        error = server.lost() => Err(error),
        outcome = dispatcher.run(input, exit_grace) => outcome,
    };
    let failure = match &outcome {
        Ok(()) => Failure::server("the connection was closed before the response arrived"),
        Err(error) => Failure::new(error_code::SESSION_NOT_FOUND, error.to_string()),
    };
    dispatcher.finish(&failure, &writer).await;
    server.close().await;
    // The writer ends when no task can queue messages any more.
    drop(server);
    if !writer.is_finished() {
        let _ = timeout(FLUSH_TIMEOUT, writer).await;
    }
    outcome
}

struct Dispatcher {
    server: Server,
    output: Output,
    in_flight: Arc<InFlight>,
    ordered: Option<mpsc::Sender<Ordered>>,
    /// Number of ordered messages that were queued, and number of those that were sent.
    queued: u64,
    sent: watch::Receiver<u64>,
    /// Limits the responses that are being sent: it has a permit for each further one.
    responses: Arc<Semaphore>,
    /// The account that lines of the input are charged to.
    account: Arc<Account>,
    tasks: JoinSet<()>,
}

impl Dispatcher {
    fn new(server: Server, output: Output) -> Self {
        let (ordered, queue) = mpsc::channel(MAX_ORDERED_MESSAGES);
        let (sender, sent) = watch::channel(0);
        let mut tasks = JoinSet::new();
        tasks.spawn(send_in_order(server.clone(), output.clone(), queue, sender));
        Self {
            server,
            output,
            in_flight: InFlight::new(),
            ordered: Some(ordered),
            queued: 0,
            sent,
            responses: Arc::new(Semaphore::new(MAX_RESPONSES)),
            account: Account::new(),
            tasks,
        }
    }

    /// Reads the input to its end, and then waits up to `exit_grace` for missing responses.
    async fn run(&mut self, mut input: impl AsyncRead + Unpin, exit_grace: Duration) -> Result<()> {
        let mut lines = LineSplitter::charged_to(Arc::clone(&self.account));
        let mut complete = Vec::new();
        loop {
            match lines.read_from(&mut input).await {
                Ok(0) => break,
                Ok(_) => lines.drain_lines(|line| complete.push(line)),
                Err(error) => return Err(read_error(error)),
            }
            for line in complete.drain(..) {
                self.take_line(line).await;
            }
            while self.tasks.try_join_next().is_some() {}
        }
        if let Some(line) = lines.finish() {
            self.take_line(line).await;
        }
        self.ordered = None;
        let mut sent = self.sent.clone();
        let answered = async {
            // The last messages may be notifications or responses, so the wait for missing responses does not include
            // them.
            let _ = sent.wait_for(|sent| *sent >= self.queued).await;
            let _ = self.responses.acquire_many(MAX_RESPONSES as u32).await;
            self.in_flight.wait_until_answered().await;
        };
        let _ = timeout(exit_grace, answered).await;
        Ok(())
    }

    /// Sends an error for each request without a response, and then ends all tasks.
    async fn finish(mut self, failure: &Failure, writer: &tokio::task::JoinHandle<io::Result<()>>) {
        if !writer.is_finished() {
            let ids = self.in_flight.cancel_all();
            let answers = async {
                for id in ids {
                    self.output.fail(&id, failure).await;
                }
            };
            // The client may have stopped reading.
            let _ = timeout(FLUSH_TIMEOUT, answers).await;
        }
        self.tasks.shutdown().await;
    }

    async fn take_line(&mut self, line: Line) {
        match line {
            Line::Whole(line) if line.trim_ascii().is_empty() => {}
            Line::Whole(line) => self.take_bytes(self.account.reserve_until_dropped(line)).await,
            Line::Skipped(why, id, has_method) => {
                let failure = match why {
                    Skipped::TooLong => Failure::new(error_code::INVALID_REQUEST, "the message is too large"),
                    Skipped::NoRoom => Failure::server(NO_ROOM),
                };
                self.reject(id.unwrap_or_default().as_bytes(), has_method, &failure).await;
            }
        }
    }

    /// Rejects a message that cannot be sent. A message without a method is a response, and its id is that of a request
    /// of the server.
    async fn reject(&mut self, id: &[u8], has_method: bool, failure: &Failure) {
        if has_method {
            return self.output.fail(id, failure).await;
        }
        if !id.is_empty()
            && let Ok(response) = Message::parse(failure.response(id))
        {
            self.send_response(response);
        }
        self.output.fail(b"", failure).await;
    }

    async fn take_bytes(&mut self, bytes: Bytes) {
        let malformed = match Message::parse(bytes.clone()) {
            Ok(message) => return self.take_message(message).await,
            Err(malformed) => malformed,
        };
        // MCP 2025-03-26 allows arrays. Each of their messages is sent separately, and gets a separate response.
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        let array = text.trim_ascii_start().starts_with('[').then(|| batch(text)).and_then(Result::ok);
        let messages = array.unwrap_or_default().into_iter();
        let messages: Option<Vec<_>> =
            messages.map(|message| Message::parse(bytes.slice_ref(message.get().as_bytes())).ok()).collect();
        match messages {
            Some(messages) if !messages.is_empty() => {
                for message in messages {
                    self.take_message(message).await;
                }
            }
            _ => {
                let failure = Failure::new(malformed.code, malformed.reason);
                let mut scan = IdScan::default();
                scan.feed(&bytes);
                let (_, has_method) = scan.finish();
                self.reject(&scan_request_id(&bytes), has_method, &failure).await;
            }
        }
    }

    async fn take_message(&mut self, message: Message) {
        match message.kind() {
            MessageKind::Request => self.take_request(message).await,
            // A cancellation is not forwarded if the server does not need it, for example because the response has
            // already arrived.
            MessageKind::Notification
                if message.method() == CANCELLED
                    && !cancelled_id(&message).is_some_and(|id| self.in_flight.cancel(&id)) => {}
            MessageKind::Notification => self.notify(message),
            MessageKind::Response => self.send_response(message),
        }
    }

    async fn take_request(&mut self, message: Message) {
        let era = if stateless_version(&message).is_some() { Era::Modern } else { Era::Legacy };
        let Some(registration) = self.in_flight.register(&message, era) else {
            let failure = Failure::server("too many requests are waiting for responses");
            return self.output.fail(message.id_text(), &failure).await;
        };
        if message.method() == "initialize" {
            if let Some(Ordered::Initialize(message, _)) =
                self.send_next(Ordered::Initialize(message, registration))
            {
                let failure = Failure::server("too many messages are waiting to be sent");
                self.output.fail(message.id_text(), &failure).await;
            }
            return;
        }
        let (server, output) = (self.server.clone(), self.output.clone());
        let (mut sent, before) = (self.sent.clone(), self.queued);
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = registration.abandoned() => return,
                // This does not take forever, because each message before it has a timeout.
                _ = sent.wait_for(|sent| *sent >= before) => {}
            }
            answer(&server, &output, &message, registration).await;
        });
    }

    fn notify(&mut self, message: Message) {
        if let Some(Ordered::Notify(message)) = self.send_next(Ordered::Notify(message)) {
            tracing::warn!(
                method = message.method(),
                "too many messages are waiting; a notification was dropped"
            );
        }
    }

    /// Queues a message that is sent after the previous ones; returns the message if too many are waiting.
    fn send_next(&mut self, message: Ordered) -> Option<Ordered> {
        let unsent = self.ordered.as_ref()?.try_send(message).map_err(TrySendError::into_inner).err();
        self.queued += u64::from(unsent.is_none());
        unsent
    }

    /// Sends a response to a request of the server.
    fn send_response(&mut self, message: Message) {
        let Ok(permit) = Arc::clone(&self.responses).try_acquire_owned() else {
            tracing::warn!("too many responses are being sent; one was dropped");
            return;
        };
        let server = self.server.clone();
        self.tasks.spawn(async move {
            notify(&server, &message).await;
            drop(permit);
        });
    }
}

async fn send_in_order(
    server: Server,
    output: Output,
    mut queue: mpsc::Receiver<Ordered>,
    sent: watch::Sender<u64>,
) {
    while let Some(next) = queue.recv().await {
        match next {
            Ordered::Initialize(message, registration) => {
                answer(&server, &output, &message, registration).await;
            }
            Ordered::Notify(message) => notify(&server, &message).await,
        }
        sent.send_modify(|sent| *sent += 1);
    }
}

async fn notify(server: &Server, message: &Message) {
    if let Err(failure) = server.notify(message).await {
        tracing::warn!(method = message.method(), %failure, "a message could not be delivered");
    }
}

/// Sends a request, and responds with an error if the server does not respond.
async fn answer(server: &Server, output: &Output, message: &Message, registration: Registration) {
    let limit = if message.method() == LISTEN { Duration::MAX } else { CALL_TIMEOUT };
    let outcome = tokio::select! {
        biased;
        // The client no longer waits for the response.
        () = registration.abandoned() => return,
        outcome = timeout(limit, server.request(message, &registration.claim)) => outcome,
    };
    let failure = match outcome {
        Ok(Ok(())) => return,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::server("the request took too long"),
    };
    tracing::warn!(method = message.method(), %failure, "a request failed");
    output.respond(&registration.claim, failure.response(message.id_text())).await;
}

fn cancelled_id(message: &Message) -> Option<Bytes> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "requestId")]
        id: &'a RawValue,
    }
    let params: Params<'_> = serde_json::from_str(message.params()).ok()?;
    Some(Bytes::copy_from_slice(params.id.get().as_bytes()))
}

fn read_error(error: io::Error) -> Error {
    Error::new(ErrorKind::Io, "cannot read the messages of the client").source(error)
}
