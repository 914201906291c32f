//! Leads the messages of an answer past the hooks.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;
use serde_json::value::RawValue;

use super::{Asked, Hook, Said, Verdict, unmistakable::unmistakable};
use crate::{
    mcp::{
        error_code,
        lane::error_answer,
        message::{Kind, Malformed, Message},
    },
    proxy::respond::{self, Response},
};

/// The hooks of one answer, and what they need to know.
pub(super) struct Passage {
    pub(super) hooks: Vec<Box<dyn Hook>>,
    pub(super) asked: Option<Arc<Asked>>,
    /// Whether what cannot be read must not go on.
    pub(super) strict: bool,
    /// Ids of requests that were answered.
    pub(super) answered: Vec<Bytes>,
}

impl Passage {
    /// Decides about a text: one message, or several in an array.
    pub(super) fn text(&mut self, text: Bytes) -> Result<Verdict, Malformed> {
        if !text.trim_ascii_start().starts_with(b"[") {
            let message = self.read(text)?;
            return Ok(self.message(message));
        }
        let texts: Vec<&RawValue> = serde_json::from_slice(&text).map_err(|error| Malformed {
            code: error_code::PARSE_ERROR,
            reason: format!("not an array of messages: {error}"),
        })?;
        let mut messages = Vec::with_capacity(texts.len());
        for one in &texts {
            messages.push(self.read(text.slice_ref(one.get().as_bytes()))?);
        }
        let originals = texts.iter().map(|one| text.slice_ref(one.get().as_bytes()));
        let mut kept = Vec::with_capacity(messages.len());
        let mut same = true;
        for (message, original) in messages.into_iter().zip(originals) {
            match self.message(message) {
                Verdict::Keep => kept.push(original),
                Verdict::Replace(other) => {
                    same = false;
                    kept.push(other);
                }
                Verdict::Drop => same = false,
            }
        }
        Ok(match kept.is_empty() {
            _ if same => Verdict::Keep,
            true => Verdict::Drop,
            false => Verdict::Replace([b"[", kept.join(&b',').as_slice(), b"]"].concat().into()),
        })
    }

    fn read(&self, text: Bytes) -> Result<Message, Malformed> {
        let message = Message::parse(text)?;
        if self.strict {
            unmistakable(&message)?;
        }
        Ok(message)
    }

    fn message(&mut self, mut message: Message) -> Verdict {
        if message.kind() == Kind::Response && self.answered.len() < self.expected() {
            self.answered.push(message.id());
        }
        let asked = self.asked.as_deref();
        let mut replaced = false;
        for hook in &mut self.hooks {
            let said = Said { message: &message, asked: asked.and_then(|asked| asked.of_answer(&message)) };
            match hook.message(&said) {
                Verdict::Keep => {}
                Verdict::Drop => return Verdict::Drop,
                Verdict::Replace(other) => match Message::parse(other) {
                    Ok(other) => (message, replaced) = (other, true),
                    Err(malformed) => {
                        tracing::error!(reason = malformed.reason, "a layer made a message that is none");
                        return Verdict::Drop;
                    }
                },
            }
        }
        if replaced { Verdict::Replace(message.bytes().clone()) } else { Verdict::Keep }
    }

    /// Tells the hooks that no more comes.
    pub(super) fn end(&mut self, broken: bool) {
        for hook in &mut self.hooks {
            hook.end(broken);
        }
        self.hooks.clear();
    }

    /// The error in place of what may not go on, for each request that has no answer yet.
    pub(super) fn failure(&mut self, reason: &str) -> Option<Bytes> {
        let asked = self.asked.clone()?;
        let requests = asked.messages().iter().filter(|message| message.kind() == Kind::Request);
        let mut errors = BytesMut::new();
        for request in requests {
            let id = request.id();
            if self.answered.contains(&id) {
                continue;
            }
            if !errors.is_empty() {
                errors.put_u8(b',');
            }
            errors.put_slice(&error_answer(&id, error_code::INTERNAL_ERROR, reason));
            self.answered.push(id);
        }
        match (errors.is_empty(), asked.is_batch()) {
            (true, _) => None,
            (false, false) => Some(errors.freeze()),
            (false, true) => Some([b"[".as_slice(), &errors, b"]"].concat().into()),
        }
    }

    /// The answer in place of one that may not go on.
    pub(super) fn refused(&mut self, reason: &str) -> Response {
        tracing::warn!(reason, "an answer of the server was not passed on");
        let error = self
            .failure(reason)
            .unwrap_or_else(|| error_answer(b"", error_code::INTERNAL_ERROR, reason).freeze());
        respond::json(StatusCode::BAD_GATEWAY, error)
    }

    fn expected(&self) -> usize {
        self.asked.as_ref().map_or(0, |asked| asked.messages().len())
    }
}
