//! The messages of a request and of its response, for layers that inspect them.
//!
//! A layer that inspects what a server sends adds a [`Hook`] to the [`Hooks`] of the request. The layer
//! [`parse`](super::layers::parse) parses the response once for all hooks, and only if there are hooks: each complete
//! message of the response passes through the hooks, beginning with the hook of the innermost layer. Everything that no
//! hook changes stays as the server wrote it: fields, the order of keys, number formats, and the ids and comments of
//! event streams. In strict mode, content that the hooks cannot inspect is not forwarded.

mod ambiguity;
mod content;
mod hook_chain;
mod hooked_response;
mod line_ends;
mod list;
#[cfg(test)]
mod messages_tests;
mod request_messages;
mod sse_body;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

pub(super) use ambiguity::check_unambiguous;
pub(super) use content::is_utf8;
pub(super) use hooked_response::{is_encoded, run_hooks};
pub(super) use list::{ListItem, rewrite_lists};
pub(super) use request_messages::batch_of;
pub(crate) use request_messages::{RequestMessages, is_modern};

use super::{denial::Denial, respond::Request};
use crate::mcp::message::Message;

/// Maximum size of a message of a response that is buffered for inspection; the same as for a line of a process.
pub(crate) const MAX_MESSAGE_BYTES: usize = 32 << 20;

/// The cause if a message within that limit cannot be inspected.
const NO_ROOM: &str = "the memory budget has no room for the server's response; try again later";

/// Inspects the messages of one response. It is dropped when the response has ended or the client has disconnected.
pub(crate) trait Hook: Send + Sync {
    /// Decides about a message on its way to the client.
    fn on_message(&self, said: &ResponseMessage<'_>) -> HookVerdict;

    /// Called when the response has ended; `broken` if it was interrupted. Not called if the client has disconnected.
    fn on_end(&self, broken: bool) {
        let _ = broken;
    }
}

/// A message in an HTTP response: the response to a request, or a request or notification of the server.
#[derive(Debug)]
pub(crate) struct ResponseMessage<'a> {
    pub(crate) message: &'a Message,
    /// The request of the same exchange that the message responds to, if it is the only one with that id.
    ///
    /// Use it only to describe the message, not for decisions: servers confuse the responses to concurrent requests
    /// with the same id, and responses on separate streams belong to requests of other exchanges.
    #[cfg_attr(
        not(any(feature = "telemetry", test)),
        expect(dead_code, reason = "only metrics tell things about an answer")
    )]
    pub(crate) request: Option<&'a Message>,
    /// The denial by an inner layer, if the message is the error that replaces a denied one.
    pub(crate) denial: Option<&'a Denial>,
}

/// The decision of a hook about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookVerdict {
    /// The message stays unchanged.
    Keep,
    /// This message is forwarded in place of the original.
    Replace(Bytes),
    /// The message is not forwarded.
    #[cfg_attr(
        not(any(feature = "policy", test)),
        expect(dead_code, reason = "only authorization drops messages")
    )]
    Drop,
    /// An error with this text is forwarded in place of the message.
    Deny(Box<Denial>, String),
}

/// The hooks of a request. Clones share one list, so that layers outside of the one that parses messages can also add
/// hooks.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Arc<Mutex<Vec<Arc<dyn Hook>>>>);

impl Hooks {
    /// Returns the hooks of a request.
    pub(crate) fn of_request(request: &mut Request) -> Self {
        request.extensions_mut().get_or_insert_default::<Self>().clone()
    }

    /// Adds a hook, which sees each message before the existing hooks do.
    pub(crate) fn add(&self, hook: Arc<impl Hook + 'static>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    /// Takes all hooks, in the order in which they see a message.
    fn take(&self) -> Vec<Arc<dyn Hook>> {
        let mut hooks = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        hooks.reverse();
        hooks
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooks(..)")
    }
}
