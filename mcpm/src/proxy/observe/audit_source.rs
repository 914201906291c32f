//! Records in the audit log where a request came from.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, header};

use super::facts::{Peer, RequestFacts};
use crate::{
    audit::EventFields,
    redact::{Redactor, truncate},
};

/// Maximum recorded length of a header value.
const MAX_HEADER_BYTES: usize = 256;

/// The source of a request.
#[derive(Debug)]
pub(super) struct RequestSource {
    /// The client that a trusted reverse proxy names, or the peer.
    client: Option<IpAddr>,
    /// The peer, if it is a trusted reverse proxy.
    proxy: Option<IpAddr>,
    /// Whether the request was sent by the process in which the proxy runs.
    is_in_process: bool,
    user_agent: Option<String>,
    request_id: Option<String>,
}

impl RequestSource {
    pub(super) fn of(facts: &RequestFacts, headers: &HeaderMap, masks: &Redactor) -> Self {
        let peer = facts.peer.and_then(Peer::address).map(|peer| peer.ip().to_canonical());
        // The text is redacted before it is truncated, so that no part of a secret remains.
        let text = |name: HeaderName| {
            let text = String::from_utf8_lossy(headers.get(name)?.as_bytes());
            Some(truncate(&masks.redact(&text), MAX_HEADER_BYTES).into_owned())
        };
        Self {
            client: facts.forwarded.or(peer),
            proxy: facts.forwarded.and(peer),
            is_in_process: matches!(facts.peer, Some(Peer::InProcess)),
            user_agent: text(header::USER_AGENT),
            request_id: text(HeaderName::from_static("x-request-id")),
        }
    }

    pub(super) fn write(&self, source: &mut EventFields<'_>) {
        source.put_plain("type", if self.is_in_process { "in_process" } else { "network" });
        match self.client {
            Some(client) => source.put("value", Some(client)),
            None if self.is_in_process => source.put("value", Some("in_process")),
            None => source.put("value", Some("unknown")),
        }
        source.object_if_any("extra", |extra| {
            extra.put("user_agent", self.user_agent.as_deref());
            extra.put("request_id", self.request_id.as_deref());
            extra.put("peer", self.proxy);
        });
    }
}
