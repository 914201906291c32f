//! Passes the messages of a response through the hooks.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;

use super::{
    Hook, HookVerdict, RequestMessages, ResponseMessage, ambiguity::check_unambiguous,
    request_messages::batch_of,
};
use crate::{
    explain::{DenialLog, Reason},
    mcp::{
        error_code,
        message::{Malformed, Message, MessageKind},
    },
    memory::LazyAccount,
    proxy::{
        body::Body,
        denial::Denial,
        respond::{self, Response},
    },
    stdio::mux::error_response_with_data,
};

/// The hooks of one response, and their state.
pub(super) struct HookChain {
    pub(super) hooks: Vec<Arc<dyn Hook>>,
    pub(super) request: Option<Arc<RequestMessages>>,
    /// Whether messages that cannot be parsed must not be forwarded.
    pub(super) strict: bool,
    /// Where denials are recorded.
    pub(super) recent: Option<Arc<DenialLog>>,
    /// Ids of the requests that have a response already.
    pub(super) answered_ids: Vec<Bytes>,
    /// The memory account that buffered parts of the response are charged to.
    pub(super) account: LazyAccount,
}

/// The outcome for a text that has passed through all hooks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HookResult {
    Unchanged,
    Replaced(Bytes),
    Dropped,
}

impl HookChain {
    /// Passes a text through the hooks: one message, or a batch.
    pub(super) fn process_text(&mut self, text: Bytes) -> Result<HookResult, Malformed> {
        if !text.trim_ascii_start().starts_with(b"[") {
            let message = self.read(text)?;
            return Ok(self.process(message));
        }
        let texts = batch_of(&text)?;
        let mut messages = Vec::with_capacity(texts.len());
        for one in &texts {
            messages.push(self.read(text.slice_ref(one.get().as_bytes()))?);
        }
        let originals = texts.iter().map(|one| text.slice_ref(one.get().as_bytes()));
        let mut kept = Vec::with_capacity(messages.len());
        let mut same = true;
        for (message, original) in messages.into_iter().zip(originals) {
            match self.process(message) {
                HookResult::Unchanged => kept.push(original),
                HookResult::Replaced(other) => {
                    same = false;
                    kept.push(other);
                }
                HookResult::Dropped => same = false,
            }
        }
        Ok(match kept.is_empty() {
            _ if same => HookResult::Unchanged,
            true => HookResult::Dropped,
            false => HookResult::Replaced([b"[", kept.join(&b',').as_slice(), b"]"].concat().into()),
        })
    }

    fn read(&self, text: Bytes) -> Result<Message, Malformed> {
        let message = Message::parse(text)?;
        if self.strict {
            check_unambiguous(&message)?;
        }
        Ok(message)
    }

    fn process(&mut self, mut message: Message) -> HookResult {
        if message.kind() == MessageKind::Response && self.answered_ids.len() < self.request_count() {
            self.answered_ids.push(message.id());
        }
        let asked = self.request.as_deref();
        let (mut replaced, mut denial) = (false, None);
        for hook in &self.hooks {
            let asked = asked.and_then(|asked| asked.request_for(&message));
            let said = ResponseMessage { message: &message, request: asked, denial: denial.as_deref() };
            let other = match hook.on_message(&said) {
                HookVerdict::Keep => continue,
                HookVerdict::Drop => return HookResult::Dropped,
                HookVerdict::Replace(other) => other,
                HookVerdict::Deny(refused, words) => {
                    let (code, data) = (error_code::INTERNAL_ERROR, refused.error_data());
                    log_denial(self.recent.as_deref(), &refused);
                    denial = Some(refused);
                    error_response_with_data(message.id_text(), code, &words, Some(&data)).freeze()
                }
            };
            match Message::parse(other) {
                Ok(other) => (message, replaced) = (other, true),
                Err(malformed) => {
                    tracing::error!(reason = malformed.reason, "a layer produced an invalid message");
                    return HookResult::Dropped;
                }
            }
        }
        if replaced { HookResult::Replaced(message.bytes().clone()) } else { HookResult::Unchanged }
    }

    /// Logs a denial whose client has already received the response head.
    pub(super) fn log_denial(&self, denial: &Denial) {
        log_denial(self.recent.as_deref(), denial);
    }

    /// Tells the hooks that the response has ended.
    pub(super) fn end(&mut self, broken: bool) {
        for hook in &self.hooks {
            hook.on_end(broken);
        }
        self.hooks.clear();
    }

    /// Creates a JSON-RPC error for each request that has no response yet, to replace what must not be forwarded.
    pub(super) fn error_messages(&mut self, reason: &str, denial: &Denial) -> Option<Bytes> {
        let asked = self.request.clone()?;
        let requests = asked.messages().iter().filter(|message| message.kind() == MessageKind::Request);
        let (mut errors, data) = (BytesMut::new(), denial.error_data());
        for request in requests {
            let id = request.id();
            if self.answered_ids.contains(&id) {
                continue;
            }
            if !errors.is_empty() {
                errors.put_u8(b',');
            }
            errors.put_slice(&error_response_with_data(&id, error_code::INTERNAL_ERROR, reason, Some(&data)));
            self.answered_ids.push(id);
        }
        match (errors.is_empty(), asked.is_batch()) {
            (true, _) => None,
            (false, false) => Some(errors.freeze()),
            (false, true) => Some([b"[".as_slice(), &errors, b"]"].concat().into()),
        }
    }

    /// Creates the response that replaces one that must not be forwarded.
    pub(super) fn denied_response(&mut self, reason: Reason, text: &str) -> Response {
        let denial = Denial::new(reason).input("cause", text);
        let errors = self.error_messages(text, &denial);
        let status = match reason {
            Reason::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        };
        let mut response = respond::deny(status, error_code::INTERNAL_ERROR, text, b"", denial);
        if let Some(errors) = errors {
            *response.body_mut() = Body::from(errors);
        }
        response
    }

    fn request_count(&self) -> usize {
        self.request.as_ref().map_or(0, |asked| asked.messages().len())
    }
}

fn log_denial(recent: Option<&DenialLog>, denial: &Denial) {
    let (reason, refusal) = (denial.reason.id(), &denial.id);
    tracing::warn!(reason, %refusal, "a message from the server was not forwarded");
    if let Some(recent) = recent {
        recent.push(denial.to_record(recent));
    }
}
