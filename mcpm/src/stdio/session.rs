//! Legacy sessions: their owners, subscriptions and streams (MCP 2025-11-25, "Session Management").

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
use crate::{Result, memory::Account, random::random_token};

/// Maximum number of streams of a session that can be replayed.
const MAX_REPLAYABLE_STREAMS: usize = 32;
/// Free memory below which old streams are discarded for new responses.
const MIN_FREE_RESPONSE_BYTES: usize = 1 << 20;

/// A session id: 128 random bits in hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(Arc<str>);

impl SessionId {
    /// Creates a new id from the system's random source.
    pub(crate) fn random() -> Result<Self> {
        random_token().map(|token| Self(token.into()))
    }

    /// Parses an id from a client.
    pub(crate) fn from_client(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The result of the `initialize` of a session.
#[derive(Debug, Clone)]
pub(crate) struct Negotiated {
    /// The protocol version in the server's response.
    pub(crate) version: Arc<str>,
    /// The capabilities that the client declared.
    pub(crate) capabilities: ClientCapabilities,
}

/// Bytes charged for a subscription in addition to its URI.
const SUBSCRIPTION_OVERHEAD: usize = 64;

/// The URI of a resource that a session subscribes to, charged as long as it is kept.
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

/// The session of one client.
#[derive(Debug)]
pub(crate) struct Session {
    /// The owner, if callers are authenticated.
    pub(crate) owner: Option<Owner>,
    /// `None` until `initialize` was answered, which only occurs with the deprecated SSE transport.
    pub(crate) negotiated: Option<Negotiated>,
    /// The stream for messages that belong to no call.
    pub(crate) standalone: Arc<MessageStream>,
    /// Whether responses are sent on the standalone stream too, as with the deprecated SSE transport.
    pub(crate) single_stream: bool,
    /// The resources that the session subscribed to.
    pub(crate) subscriptions: BTreeSet<Subscription>,
    /// The log level that the session requested.
    pub(crate) log_level: Option<LogLevel>,
    /// The time of the last message of its client.
    pub(crate) last_used: Instant,
    /// The account that is charged for the session's streams.
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

    /// Charges the URI of a resource; `None` if there is no room for it.
    pub(crate) fn book(&self, uri: String) -> Option<Subscription> {
        let fits = self.account.try_reserve(uri.len() + SUBSCRIPTION_OVERHEAD);
        fits.then(|| Subscription { uri, account: Arc::clone(&self.account) })
    }

    /// Creates the stream for the response to the request with this id.
    pub(crate) fn open_stream(&mut self, request: Bytes) -> Arc<MessageStream> {
        if self.single_stream {
            return Arc::clone(&self.standalone);
        }
        let stream = MessageStream::for_request(request, self.next_stream, true, Arc::clone(&self.account));
        self.next_stream += 1;
        self.evict_streams(Instant::now());
        if self.streams.len() == MAX_REPLAYABLE_STREAMS {
            self.streams.pop_front();
        }
        self.streams.push_back(Arc::clone(&stream));
        stream
    }

    /// Drops streams whose retention is over. While there is little memory for new responses, also discards the
    /// messages of the oldest ended streams.
    pub(crate) fn evict_streams(&mut self, now: Instant) {
        self.streams.retain(|stream| !stream.is_evictable(now));
        let mut left = self.streams.iter().filter(|stream| stream.is_ended_and_detached());
        while !self.account.has_room(MIN_FREE_RESPONSE_BYTES)
            && let Some(stream) = left.next()
        {
            stream.discard();
        }
        if !self.account.has_room(STREAM_OVERHEAD) {
            // There is not even room for the records that responses were lost.
            self.streams.retain(|stream| !stream.is_ended_and_detached());
        }
    }

    /// Returns the stream for messages that belong to no call. A stream that ended because its reader was too slow is
    /// replaced.
    pub(crate) fn standalone(&mut self) -> &Arc<MessageStream> {
        if !self.single_stream && self.standalone.has_overflowed() {
            self.standalone = self.standalone.successor();
        }
        &self.standalone
    }

    /// Returns the stream with the number from an event id.
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

    /// Whether a log message of this level is delivered.
    pub(crate) fn wants_log(&self, level: LogLevel) -> bool {
        self.log_level.is_none_or(|least| level >= least)
    }

    /// Ends the streams of the session.
    pub(crate) fn end(&self) {
        self.standalone.end(StreamEnd::Cancelled);
        for stream in &self.streams {
            stream.end(StreamEnd::Cancelled);
        }
    }
}

/// The severity of a log message, least severe first (RFC 5424 section 6.2.1, with the names of MCP).
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

    /// Parses the name of a level.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(text, _)| *text == name).map(|(_, level)| *level)
    }

    /// Returns the name of the level.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, level)| *level == self).map_or("debug", |(text, _)| text)
    }
}
