//! Parses the messages of requests and responses, once for all layers that inspect them.
//!
//! The layer is in the stack only if another layer needs messages. It buffers the body of a request, up to the body
//! limit, and stores the parsed messages in the extensions of the request. In [`strict`](Parse::new) mode, which is for
//! layers whose decisions depend on messages, it denies a request whose body cannot be parsed, could be read
//! differently by another parser, or contradicts the headers.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;

use crate::{
    explain::{DenialLog, Reason},
    mcp::{
        era::{Era, ModernMeta},
        error_code,
        message::{Malformed, Message, MessageKind},
        request_id::scan_request_id,
    },
    proxy::{
        body::Body,
        body_errors,
        denial::Denial,
        header_check,
        layer::{Layer, Next, ResponseFuture},
        messages::{Hooks, RequestMessages, check_unambiguous, is_utf8, run_hooks},
        observe::Exchange,
        respond::{self, Request, Response},
    },
    stdio::mux::RpcError,
};

/// The layer.
#[derive(Debug)]
pub(crate) struct Parse {
    strict: bool,
    recent: Arc<DenialLog>,
}

impl Parse {
    /// With `strict`, a body that cannot be parsed is denied; otherwise it is forwarded without inspection. Denials of
    /// parts of a response are recorded in `recent`.
    pub(crate) fn new(strict: bool, recent: Arc<DenialLog>) -> Self {
        Self { strict, recent }
    }

    async fn parse(&self, mut request: Request, next: Next<'_>) -> Response {
        let hooks = Hooks::of_request(&mut request);
        let headers = request.headers_mut();
        if headers.contains_key(header::ACCEPT_ENCODING) {
            // A compressed response could not be parsed.
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        // A byte range of a response is not a complete message.
        headers.remove(header::RANGE);
        let listens = self.strict && request.method() == Method::GET && accepts_events(request.headers());
        let (request, asked) = match self.read(request).await {
            Ok(read) => read,
            Err(response) => return *response,
        };
        let account = respond::answer_account(request.extensions());
        let response = next.handle(request).await;
        run_hooks(response, &hooks, asked, Some(&self.recent), self.strict, listens, account).await
    }

    /// Reads the body of a request that has one.
    async fn read(&self, request: Request) -> Result<(Request, Option<Arc<RequestMessages>>), Box<Response>> {
        if request.body().is_end_stream() || request.body().size_hint().exact() == Some(0) {
            return Ok((request, None));
        }
        let (mut parts, body) = request.into_parts();
        if self.strict && parts.headers.contains_key(header::CONTENT_ENCODING) {
            return Err(unsupported("a body with a `Content-Encoding` cannot be inspected"));
        }
        if self.strict && !is_utf8(&parts.headers) {
            return Err(unsupported(
                "the body must be UTF-8, with one `Content-Type` header and no other charset",
            ));
        }
        if !self.strict && parts.method != Method::POST {
            return Ok((Request::from_parts(parts, body), None));
        }
        let account = || respond::body_account(&parts.extensions);
        let body =
            body.collect(account).await.map_err(|broken| Box::new(body_errors::unreadable_body(&broken)))?;
        let asked = if self.strict && !is_form(&parts.headers, &body) {
            let asked = RequestMessages::read(&parts.headers, body.clone()).and_then(|asked| {
                asked.messages().iter().try_for_each(check_unambiguous)?;
                Ok(asked)
            });
            let refused = |malformed: Malformed| {
                let (status, reason) = (StatusCode::BAD_REQUEST, malformed.reason);
                let denial = Denial::new(Reason::MessageUnclear).input("cause", &*reason);
                respond::deny(status, malformed.code, &reason, &scan_request_id(&body), denial)
            };
            let asked = asked.map_err(|malformed| Box::new(refused(malformed)))?;
            check_headers(&parts.headers, &asked)
                .map_err(|(refusal, message)| Box::new(contradicted(&refusal, message)))?;
            Some(Arc::new(asked))
        } else {
            RequestMessages::read(&parts.headers, body.clone()).ok().map(Arc::new)
        };
        if let Some(asked) = &asked {
            if let Some(exchange) = Exchange::of(&parts.extensions) {
                exchange.set_messages(asked);
            }
            parts.extensions.insert(Arc::clone(asked));
        }
        Ok((Request::from_parts(parts, Body::from(body)), asked))
    }
}

impl Layer for Parse {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        Box::pin(self.parse(request, next))
    }
}

/// Checks that headers which repeat the body do not contradict it (MCP 2026-07-28, "Standard Request Headers").
fn check_headers<'a>(headers: &HeaderMap, asked: &'a RequestMessages) -> Result<(), (RpcError, &'a Message)> {
    for message in asked.messages() {
        let refused = |refusal| (refusal, message);
        if asked.era() == Era::Modern && message.kind() == MessageKind::Request && !asked.is_batch() {
            header_check::check_required(headers, message, ModernMeta::of(message).as_ref())
                .map_err(refused)?;
        } else {
            header_check::check_optional(headers, message).map_err(refused)?;
        }
    }
    Ok(())
}

/// Whether a client with these headers accepts an event stream.
fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|line| {
        let line = line.as_bytes().to_ascii_lowercase();
        memchr::memmem::find(&line, b"text/event-stream").is_some()
    })
}

fn contradicted(refusal: &RpcError, message: &Message) -> Response {
    let denial = Denial::new(Reason::MessageContradicted).input("method", message.method());
    let denial = denial.input("cause", &*refusal.message);
    respond::deny(refusal.status, refusal.code, &refusal.message, message.id_text(), denial)
}

fn unsupported(message: &str) -> Box<Response> {
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let denial = Denial::new(Reason::MessageEncoded).input("cause", message);
    Box::new(respond::deny(status, error_code::INVALID_REQUEST, message, b"", denial))
}

/// Whether a body is a form, such as those of OAuth, which no parser can mistake for JSON.
fn is_form(headers: &HeaderMap, body: &[u8]) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    kind.starts_with(b"application/x-www-form-urlencoded")
        && body.first().is_some_and(u8::is_ascii_alphabetic)
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
