//! The messages of a request and of its response, for layers that inspect them.
//!
//! A layer that inspects what a server sends adds a [`Hook`] to the [`Hooks`] of the request. The layer
//! [`parse`](super::layers::parse) parses bodies once for all hooks, and only if there are hooks: each complete message of
//! a response passes them, that of the innermost layer first. What no hook changes stays as the server wrote it: fields,
//! order of keys, forms of numbers, ids and comments of event streams.

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

/// Largest message of an answer that is held in memory to be looked at: as large as a line of a process may be.
pub(crate) const MAX_MESSAGE_BYTES: usize = 32 << 20;

/// Why a message of an answer is not looked at although it is no larger.
const NO_ROOM: &str = "the memory budget has no room for the server's response; try again later";

/// Looks at the messages of one answer. Dropped when the answer is over or its client has gone.
pub(crate) trait Hook: Send + Sync {
    /// Decides about a message on its way to the client.
    fn on_message(&self, said: &ResponseMessage<'_>) -> HookVerdict;

    /// Is told that the answer is over: to its end, or `broken` off before. Not called when the client has gone.
    fn on_end(&self, broken: bool) {
        let _ = broken;
    }
}

/// A message of an answer: an answer to a request, or a request or notification of the server.
#[derive(Debug)]
pub(crate) struct ResponseMessage<'a> {
    pub(crate) message: &'a Message,
    /// The request of the same exchange that it answers, if it is the only one with that id.
    ///
    /// Of use to tell things about an answer, and not to decide about it: servers mix up the answers to requests that
    /// are under way with the same id, and those on streams of their own belong to requests of other exchanges.
    #[cfg_attr(
        not(any(feature = "telemetry", test)),
        expect(dead_code, reason = "only metrics tell things about an answer")
    )]
    pub(crate) request: Option<&'a Message>,
    /// Why it stands in place of one that a layer further in has refused.
    pub(crate) denial: Option<&'a Denial>,
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookVerdict {
    /// It stays as it is.
    Keep,
    /// This message goes on in its place.
    Replace(Bytes),
    /// It does not go on.
    #[cfg_attr(
        not(any(feature = "policy", test)),
        expect(dead_code, reason = "only authorization drops messages")
    )]
    Drop,
    /// An error goes on in its place, with these words.
    Deny(Box<Denial>, String),
}

/// The hooks of a request. A clone is the same list, so that a layer outside of the one that reads messages can add
/// to it as well.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Arc<Mutex<Vec<Arc<dyn Hook>>>>);

impl Hooks {
    /// The list of a request.
    pub(crate) fn of_request(request: &mut Request) -> Self {
        request.extensions_mut().get_or_insert_default::<Self>().clone()
    }

    /// Adds one, which sees messages before those that are there already.
    pub(crate) fn add(&self, hook: Arc<impl Hook + 'static>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(hook);
    }

    /// All of them, in the order in which they see a message.
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
