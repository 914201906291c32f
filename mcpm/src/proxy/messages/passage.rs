//! Leads the messages of an answer past the hooks.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http::StatusCode;

use super::{Asked, Hook, Said, Verdict, asked::batch_of, unmistakable::unmistakable};
use crate::{
    explain::{Reason, Recent},
    mcp::{
        error_code,
        lane::error_answer_with,
        message::{Kind, Malformed, Message},
    },
    memory::Account,
    proxy::{
        denial::Denial,
        respond::{self, Response},
    },
    transport::body::Body,
};

/// The hooks of one answer, and what they need to know.
pub(super) struct Passage {
    pub(super) hooks: Vec<Box<dyn Hook>>,
    pub(super) asked: Option<Arc<Asked>>,
    /// Whether what cannot be read must not go on.
    pub(super) strict: bool,
    /// Where it is kept why a message does not go on.
    pub(super) recent: Option<Arc<Recent>>,
    /// Ids of requests that were answered.
    pub(super) answered: Vec<Bytes>,
    /// What is read of the answer is booked on it.
    pub(super) account: Arc<Account>,
}

/// What is left of a text that has passed all hooks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    Same,
    Other(Bytes),
    Nothing,
}

impl Passage {
    /// Decides about a text: one message, or several in an array.
    pub(super) fn text(&mut self, text: Bytes) -> Result<Left, Malformed> {
        if !text.trim_ascii_start().starts_with(b"[") {
            let message = self.read(text)?;
            return Ok(self.message(message));
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
            match self.message(message) {
                Left::Same => kept.push(original),
                Left::Other(other) => {
                    same = false;
                    kept.push(other);
                }
                Left::Nothing => same = false,
            }
        }
        Ok(match kept.is_empty() {
            _ if same => Left::Same,
            true => Left::Nothing,
            false => Left::Other([b"[", kept.join(&b',').as_slice(), b"]"].concat().into()),
        })
    }

    fn read(&self, text: Bytes) -> Result<Message, Malformed> {
        let message = Message::parse(text)?;
        if self.strict {
            unmistakable(&message)?;
        }
        Ok(message)
    }

    fn message(&mut self, mut message: Message) -> Left {
        if message.kind() == Kind::Response && self.answered.len() < self.expected() {
            self.answered.push(message.id());
        }
        let asked = self.asked.as_deref();
        let (mut replaced, mut denial) = (false, None);
        for hook in &mut self.hooks {
            let asked = asked.and_then(|asked| asked.of_answer(&message));
            let said = Said { message: &message, asked, denial: denial.as_deref() };
            let other = match hook.message(&said) {
                Verdict::Keep => continue,
                Verdict::Drop => return Left::Nothing,
                Verdict::Replace(other) => other,
                Verdict::Refuse(refused, words) => {
                    let (code, data) = (error_code::INTERNAL_ERROR, refused.data());
                    keep(self.recent.as_deref(), &refused);
                    denial = Some(refused);
                    error_answer_with(message.id_text(), code, &words, Some(&data)).freeze()
                }
            };
            match Message::parse(other) {
                Ok(other) => (message, replaced) = (other, true),
                Err(malformed) => {
                    tracing::error!(reason = malformed.reason, "a layer made a message that is none");
                    return Left::Nothing;
                }
            }
        }
        if replaced { Left::Other(message.bytes().clone()) } else { Left::Same }
    }

    /// Keeps why something does not go on whose client has the head of the answer already.
    pub(super) fn keep(&self, denial: &Denial) {
        keep(self.recent.as_deref(), denial);
    }

    /// Tells the hooks that no more comes.
    pub(super) fn end(&mut self, broken: bool) {
        for hook in &mut self.hooks {
            hook.end(broken);
        }
        self.hooks.clear();
    }

    /// The error in place of what may not go on, for each request that has no answer yet.
    pub(super) fn failure(&mut self, reason: &str, denial: &Denial) -> Option<Bytes> {
        let asked = self.asked.clone()?;
        let requests = asked.messages().iter().filter(|message| message.kind() == Kind::Request);
        let (mut errors, data) = (BytesMut::new(), denial.data());
        for request in requests {
            let id = request.id();
            if self.answered.contains(&id) {
                continue;
            }
            if !errors.is_empty() {
                errors.put_u8(b',');
            }
            errors.put_slice(&error_answer_with(&id, error_code::INTERNAL_ERROR, reason, Some(&data)));
            self.answered.push(id);
        }
        match (errors.is_empty(), asked.is_batch()) {
            (true, _) => None,
            (false, false) => Some(errors.freeze()),
            (false, true) => Some([b"[".as_slice(), &errors, b"]"].concat().into()),
        }
    }

    /// The answer in place of one that may not go on.
    pub(super) fn refused(&mut self, reason: Reason, text: &str) -> Response {
        let denial = Denial::new(reason).input("cause", text);
        let errors = self.failure(text, &denial);
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

    fn expected(&self) -> usize {
        self.asked.as_ref().map_or(0, |asked| asked.messages().len())
    }
}

fn keep(recent: Option<&Recent>, denial: &Denial) {
    let (reason, refusal) = (denial.reason.id(), &denial.refusal);
    tracing::warn!(reason, %refusal, "a message of the server was not passed on");
    if let Some(recent) = recent {
        recent.keep(denial.refused(recent));
    }
}
