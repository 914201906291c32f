//! Measures requests: what each asked for, how long its parts took, and how it ended.
//!
//! Three layers, which are in the stack only when something is measured. [`Observe`] is the outermost and sees every
//! request and how its answer ended; [`Mark`]s between the other layers say which part begins; [`Send`] is the
//! innermost and tells the server behind where the request stands in its trace. What they learn they put into the
//! [`Journey`], which is in the request's extensions.

mod counted;
mod elsewhere;
mod journey;
mod meta;
mod operation;
mod report;

use std::sync::Arc;

use http::{Extensions, Method, header};

use journey::Heard;
pub(crate) use journey::Journey;

use counted::Unanswered;
use elsewhere::Elsewhere;

use crate::{
    mcp::message::Kind,
    proxy::{
        denial::Denial,
        layer::{Answer, Layer, Next},
        messages::{Asked, Hook, Hooks, Said, Verdict},
        public::Publicity,
        respond::{Request, Response},
    },
    telemetry::Telemetry,
};

/// Paths that are asked by the machine, and whose requests are of no interest.
const QUIET: [&str; 2] = [super::health::PATH, super::metrics::PATH];

/// The outermost layer.
#[derive(Debug)]
pub(crate) struct Observe {
    telemetry: Arc<Telemetry>,
    /// Whether the server behind has a pipe or speaks HTTP.
    is_stdio: bool,
    /// Whether callers are asked who they are.
    is_guarded: bool,
    /// How clients see the proxy.
    publicity: Publicity,
    elsewhere: Arc<Elsewhere>,
}

impl Observe {
    /// `trusted` says whether a proxy in front is believed.
    pub(crate) fn new(telemetry: Arc<Telemetry>, is_stdio: bool, is_guarded: bool, trusted: bool) -> Self {
        let publicity = Publicity { prefix: None, trusted };
        Self { telemetry, is_stdio, is_guarded, publicity, elsewhere: Arc::default() }
    }

    async fn observe(&self, mut request: Request, next: Next<'_>) -> Response {
        let heard = Heard::of(&request, &self.publicity, self.is_stdio);
        let journey = Journey::begin(Arc::clone(&self.telemetry), Arc::clone(&self.elsewhere), heard);
        let journey = Arc::new(journey);
        if self.is_guarded {
            journey.is_of_a_stranger(true);
        }
        if *request.method() == Method::POST {
            Hooks::of(&mut request).add(Listens(Arc::clone(&journey)));
        } else if *request.method() == Method::GET && accepts_events(&request) {
            Hooks::of(&mut request).add(Streams(Arc::clone(&journey)));
        }
        request.extensions_mut().insert(Arc::clone(&journey));
        let unanswered = Unanswered::new(journey);
        let response = next.handle(request).await;
        unanswered.answered(response)
    }
}

impl Layer for Observe {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        let path = request.uri().path();
        if path == QUIET[0] || path == QUIET[1] && self.telemetry.serves_path() {
            return Box::pin(async move {
                let response = next.handle(request).await;
                // Who is kept out is of interest, wherever they knock.
                if let Some(denial) = response.extensions().get::<Denial>() {
                    report::denied(&self.telemetry, denial);
                }
                response
            });
        }
        Box::pin(self.observe(request, next))
    }
}

/// Says that another part of a request begins.
#[derive(Debug)]
pub(crate) struct Mark(pub(crate) &'static str);

impl Layer for Mark {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        if let Some(journey) = request.extensions().get::<Arc<Journey>>() {
            journey.mark(self.0);
            understand(journey, request.extensions());
        }
        next.handle(request)
    }
}

/// The innermost layer.
#[derive(Debug)]
pub(crate) struct Send;

impl Layer for Send {
    fn handle<'a>(&'a self, mut request: Request, next: Next<'a>) -> Answer<'a> {
        let Some(journey) = request.extensions().get::<Arc<Journey>>().cloned() else {
            return next.handle(request);
        };
        understand(&journey, request.extensions());
        if let Some(place) = journey.send() {
            if journey.is_stdio() {
                let asked = request.extensions().get::<Arc<Asked>>().cloned();
                if let Some(body) = asked.and_then(|asked| meta::placed(&asked, &place)) {
                    request = meta::with_body(request, body);
                }
            } else {
                place.write(request.headers_mut());
            }
        }
        Box::pin(async move {
            let response = next.handle(request).await;
            journey.began_answer();
            response
        })
    }
}

/// Whether events may be answered.
fn accepts_events(request: &Request) -> bool {
    let mut lines = request.headers().get_all(header::ACCEPT).iter().peekable();
    let has = |line: &[u8], kind: &[u8]| memchr::memmem::find(line, kind).is_some();
    lines.peek().is_none()
        || lines
            .map(|line| line.as_bytes().to_ascii_lowercase())
            .any(|line| [&b"text/event-stream"[..], b"text/*", b"*/*"].iter().any(|kind| has(&line, kind)))
}

/// Says that it is known who sent a request.
pub(in crate::proxy) fn known(extensions: &Extensions) {
    if let Some(journey) = extensions.get::<Arc<Journey>>() {
        journey.is_of_a_stranger(false);
    }
}

fn understand(journey: &Arc<Journey>, extensions: &Extensions) {
    if let Some(asked) = extensions.get::<Arc<Asked>>() {
        journey.understand(asked);
    }
}

/// Says that the server was reached, and has what it was sent.
pub(in crate::proxy) fn sent(extensions: &Extensions) {
    if let Some(journey) = extensions.get::<Arc<Journey>>() {
        journey.sent();
    }
}

/// Says where messages of a session are posted, as it was said in the answer to a request for `path`.
pub(in crate::proxy) fn opens(extensions: &Extensions, place: &str, path: &str) {
    if let Some(journey) = extensions.get::<Arc<Journey>>() {
        journey.opens(place, path);
    }
}

/// Hears what other requests are answered, on a stream.
struct Streams(Arc<Journey>);

impl Hook for Streams {
    fn message(&mut self, said: &Said<'_>) -> Verdict {
        if said.message.kind() == Kind::Response {
            self.0.streamed(said.message);
        }
        if let Some(denial) = said.denial {
            report::denied(&self.0.telemetry, denial);
        }
        Verdict::Keep
    }
}

/// Hears what a request is answered.
struct Listens(Arc<Journey>);

impl Hook for Listens {
    fn message(&mut self, said: &Said<'_>) -> Verdict {
        if let Some(asked) = said.asked {
            self.0.answer(asked, said.message);
        }
        if let Some(denial) = said.denial {
            report::denied(&self.0.telemetry, denial);
        }
        Verdict::Keep
    }
}
