//! Legacy sessions: who has one, what it subscribed to, and its streams (MCP 2025-11-25, "Session Management").

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Instant,
};

use bytes::Bytes;

use super::{
    handshake::ClientCapabilities,
    owner::Owner,
    replay_stream::{MessageStream, STREAM_OVERHEAD, StreamEnd},
};
use crate::{Error, ErrorKind, Result, memory::Account};

/// Streams of a session that can still be replayed.
const MAX_REPLAYABLE_STREAMS: usize = 32;
/// Room that is made for new answers by giving up old ones.
const MIN_FREE_RESPONSE_BYTES: usize = 1 << 20;

/// A session id: 128 random bits in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(Arc<str>);

impl SessionId {
    /// Makes a new id from the system's random source.
    pub(crate) fn random() -> Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|error| Error::new(ErrorKind::Internal, "no random numbers").source(error))?;
        Ok(Self(random.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()))
    }

    /// Takes what a client sent.
    pub(crate) fn from_client(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a client and the server agreed on at `initialize`.
#[derive(Debug, Clone)]
pub(crate) struct Negotiated {
    /// The protocol version in the server's answer.
    pub(crate) version: Arc<str>,
    /// What the client said it can be asked for.
    pub(crate) capabilities: ClientCapabilities,
}

/// Counted for a subscription beside its URI.
const SUBSCRIPTION_OVERHEAD: usize = 64;

/// The URI of a resource that a session subscribed to, or is about to, booked as long as it is kept.
#[derive(Debug)]
pub(crate) struct Subscription {
    uri: String,
    account: Arc<Account>,
}

impl Subscription {
    pub(crate) fn uri(&self) -> &String {
        &self.uri
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.account.release(self.uri.len() + SUBSCRIPTION_OVERHEAD);
    }
}

impl Borrow<str> for Subscription {
    fn borrow(&self) -> &str {
        &self.uri
    }
}

impl PartialEq for Subscription {
    fn eq(&self, other: &Self) -> bool {
        self.uri == other.uri
    }
}

impl Eq for Subscription {}

impl PartialOrd for Subscription {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Subscription {
    fn cmp(&self, other: &Self) -> Ordering {
        self.uri.cmp(&other.uri)
    }
}

/// One client's session.
#[derive(Debug)]
pub(crate) struct Session {
    /// Whose it is, where callers are asked who they are.
    pub(crate) owner: Option<Owner>,
    /// `None` until `initialize` was answered; only the deprecated SSE transport has such sessions.
    pub(crate) negotiated: Option<Negotiated>,
    /// Where messages go that belong to no call.
    pub(crate) standalone: Arc<MessageStream>,
    /// Whether answers to calls go to the standalone stream too, as on the deprecated SSE transport.
    pub(crate) single_stream: bool,
    /// URIs of resources it subscribed to.
    pub(crate) subscriptions: BTreeSet<Subscription>,
    /// The least severe log level it asked for.
    pub(crate) log_level: Option<LogLevel>,
    /// When its client was last heard of.
    pub(crate) last_used: Instant,
    /// What its streams hold.
    account: Arc<Account>,
    streams: VecDeque<Arc<MessageStream>>,
    next_stream: u64,
}

impl Session {
    pub(crate) fn new(
        owner: Option<Owner>,
        single_stream: bool,
        account: Arc<Account>,
        now: Instant,
    ) -> Self {
        Self {
            owner,
            negotiated: None,
            standalone: MessageStream::new(0, !single_stream, Arc::clone(&account)),
            account,
            single_stream,
            subscriptions: BTreeSet::new(),
            log_level: None,
            last_used: now,
            streams: VecDeque::new(),
            next_stream: 1,
        }
    }

    /// Books the URI of a resource; `None` when there is no room for it.
    pub(crate) fn book(&self, uri: String) -> Option<Subscription> {
        let fits = self.account.try_reserve(uri.len() + SUBSCRIPTION_OVERHEAD);
        fits.then(|| Subscription { uri, account: Arc::clone(&self.account) })
    }

    /// Makes the stream that answers the request of that id.
    pub(crate) fn open_stream(&mut self, request: Bytes) -> Arc<MessageStream> {
        if self.single_stream {
            return Arc::clone(&self.standalone);
        }
        let outlet = MessageStream::for_request(request, self.next_stream, true, Arc::clone(&self.account));
        self.next_stream += 1;
        self.evict_streams(Instant::now());
        if self.streams.len() == MAX_REPLAYABLE_STREAMS {
            self.streams.pop_front();
        }
        self.streams.push_back(Arc::clone(&outlet));
        outlet
    }

    /// Drops streams that have ended and that nobody comes back for, and the oldest of the others that have ended as
    /// long as what is kept leaves little room for new answers.
    pub(crate) fn evict_streams(&mut self, now: Instant) {
        self.streams.retain(|stream| !stream.is_evictable(now));
        let mut left = self.streams.iter().filter(|stream| stream.is_ended_and_detached());
        while !self.account.has_room(MIN_FREE_RESPONSE_BYTES)
            && let Some(stream) = left.next()
        {
            stream.discard();
        }
        if !self.account.has_room(STREAM_OVERHEAD) {
            // There is no room even to tell those who come back what was lost.
            self.streams.retain(|stream| !stream.is_ended_and_detached());
        }
    }

    /// The stream of messages that belong to no call. One that ended since its reader was too slow is replaced.
    pub(crate) fn standalone(&mut self) -> &Arc<MessageStream> {
        if !self.single_stream && self.standalone.has_overflowed() {
            self.standalone = self.standalone.successor();
        }
        &self.standalone
    }

    /// Finds a stream by the number in an event id.
    pub(crate) fn stream(&mut self, number: u64) -> Option<&Arc<MessageStream>> {
        if number == 0 {
            return Some(self.standalone());
        }
        self.streams.iter().find(|stream| stream.number() == number)
    }

    /// Whether the client declared a capability, such as `sampling`.
    pub(crate) fn has_capability(&self, capability: &str) -> bool {
        self.negotiated.as_ref().is_some_and(|negotiated| negotiated.capabilities.has(capability))
    }

    /// Whether a log message of that level is to be delivered.
    pub(crate) fn wants_log(&self, level: LogLevel) -> bool {
        self.log_level.is_none_or(|least| level >= least)
    }

    /// Ends its streams.
    pub(crate) fn end(&self) {
        self.standalone.end(StreamEnd::Cancelled);
        for stream in &self.streams {
            stream.end(StreamEnd::Cancelled);
        }
    }
}

/// Severity of a log message, least severe first (RFC 5424 section 6.2.1, as MCP names them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    const NAMES: [(&'static str, Self); 8] = [
        ("debug", Self::Debug),
        ("info", Self::Info),
        ("notice", Self::Notice),
        ("warning", Self::Warning),
        ("error", Self::Error),
        ("critical", Self::Critical),
        ("alert", Self::Alert),
        ("emergency", Self::Emergency),
    ];

    /// Reads a level's name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(text, _)| *text == name).map(|(_, level)| *level)
    }

    /// The level's name.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, level)| *level == self).map_or("debug", |(text, _)| text)
    }
}
