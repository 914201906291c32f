//! One request on its way: what is known of it, and when its parts began.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use http::{HeaderMap, Method, StatusCode, Version, header};
use http_body::Body as _;
use opentelemetry::{
    Context, KeyValue,
    trace::{Span as _, SpanBuilder, SpanContext, SpanKind, TraceContextExt as _, Tracer as _},
};
use opentelemetry_sdk::trace::Span;

use super::{
    elsewhere::Elsewhere,
    operation::{Hello, Operation, Outcome, Target},
    report,
};
use crate::{
    mcp::{era::ModernMeta, message::Message},
    proxy::{
        denial::Denial,
        messages::Asked,
        public::Publicity,
        respond::{Request, Response},
        trail::{Peer, forwarded},
    },
    telemetry::{Carrier, Telemetry, cut, http_method, parent_of},
};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// One request.
#[derive(Debug)]
pub(crate) struct Journey {
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) heard: Heard,
    elsewhere: Arc<Elsewhere>,
    /// The same moment on both clocks.
    began: (SystemTime, Instant),
    state: Mutex<State>,
}

/// What a request says of itself.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) method: Method,
    pub(super) path: String,
    /// Where messages are posted: the whole path and query, which may hold the id of a session.
    place: String,
    /// As clients write it, in front of all proxies.
    pub(super) scheme: &'static str,
    pub(super) host: Option<String>,
    pub(super) version: &'static str,
    /// Who is at the other end of the connection.
    pub(super) peer: Option<SocketAddr>,
    /// Who called the proxy in front, if that is believed.
    pub(super) forwarded: Option<String>,
    pub(super) agent: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) session: Option<String>,
    protocol: Option<String>,
    pub(super) is_stdio: bool,
    carried: Carrier,
}

/// What is found out on the way.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Parts, and when each began.
    pub(super) marks: Vec<(&'static str, Instant)>,
    /// The request as a whole.
    pub(super) span: Option<Span>,
    /// Where that stands, also when it is over.
    place: Option<SpanContext>,
    /// What the server behind does.
    pub(super) sending: Option<(Span, Instant)>,
    /// When the server was reached.
    pub(super) sent: Option<Instant>,
    /// When the head of the server's answer was there.
    pub(super) head: Option<Instant>,
    pub(super) understood: bool,
    pub(super) is_batch: bool,
    pub(super) operations: Vec<Operation>,
    pub(super) version: Option<String>,
    pub(super) client: Option<String>,
    pub(super) answered: Option<Answered>,
    /// Whether the answer may come on another stream.
    is_expected: bool,
    /// How the request of HTTP ended, while the answer is still to come on another stream.
    posted: Option<(Ended, Flow)>,
    /// The place that was named in this stream.
    opened: Option<Arc<str>>,
    is_finished: bool,
    /// Whether nobody has found out yet who sent it, where callers are asked who they are.
    is_of_a_stranger: bool,
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) at: Instant,
    pub(super) status: StatusCode,
    /// The session that was opened.
    pub(super) session: Option<String>,
    pub(super) denial: Option<Denial>,
    pub(super) is_events: bool,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// All of the answer went to the client.
    Whole,
    /// The answer broke off.
    Broken,
    /// The client went away before.
    Gone,
    /// There is a defect in mcpm.
    Panicked,
}

/// What went to the client.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flow {
    pub(super) size: u64,
    /// When the first byte went.
    pub(super) first: Option<Instant>,
}

impl Heard {
    pub(super) fn of(request: &Request, publicity: &Publicity, is_stdio: bool) -> Self {
        let headers = request.headers();
        let one = |name: &str| text(headers, name).map(|value| cut(value).to_owned());
        let public = if publicity.trusted { publicity.of(headers).origin } else { None };
        let (scheme, host) = match public.as_deref().and_then(|origin| origin.split_once("://")) {
            Some(("https", host)) => ("https", Some(cut(host).to_owned())),
            Some((_, host)) => ("http", Some(cut(host).to_owned())),
            None => ("http", one(header::HOST.as_str())),
        };
        Self {
            method: request.method().clone(),
            path: cut(request.uri().path()).to_owned(),
            place: request.uri().path_and_query().map_or_else(String::new, |place| place.as_str().to_owned()),
            scheme,
            host,
            version: if request.version() == Version::HTTP_10 { "1.0" } else { "1.1" },
            peer: request.extensions().get::<Peer>().map(|peer| peer.0),
            forwarded: if publicity.trusted { forwarded(headers) } else { None },
            agent: one(header::USER_AGENT.as_str()),
            size: request.body().size_hint().exact(),
            session: one(SESSION),
            protocol: one(VERSION),
            is_stdio,
            carried: Carrier::of_headers(headers),
        }
    }
}

impl Journey {
    pub(super) fn begin(telemetry: Arc<Telemetry>, elsewhere: Arc<Elsewhere>, heard: Heard) -> Self {
        let state = State { version: heard.protocol.clone(), ..State::default() };
        let began = (SystemTime::now(), Instant::now());
        report::begun(&telemetry, &heard);
        Self { telemetry, heard, elsewhere, began, state: Mutex::new(state) }
    }

    /// Says whether it is not known who sent it. A stranger has no say in what is sampled.
    pub(super) fn is_of_a_stranger(&self, is: bool) {
        self.state().is_of_a_stranger = is;
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server behind has a pipe.
    pub(super) fn is_stdio(&self) -> bool {
        self.heard.is_stdio
    }

    /// When it began.
    pub(super) fn since(&self) -> Instant {
        self.began.1
    }

    /// A moment on the clock of spans.
    pub(super) fn on_clock(&self, at: Instant) -> SystemTime {
        self.began.0 + at.saturating_duration_since(self.began.1)
    }

    /// A part begins, and with it ends the one before.
    pub(super) fn mark(&self, part: &'static str) {
        self.state().marks.push((part, Instant::now()));
    }

    /// Learns what is asked for, once, and begins the span of the request.
    pub(in crate::proxy) fn understand(self: &Arc<Self>, asked: &Asked) {
        if self.learn(asked) && !self.elsewhere.expects(&self.heard.place, self) {
            self.state().is_expected = false;
        }
    }

    /// Returns whether an answer may be expected on another stream.
    fn learn(&self, asked: &Asked) -> bool {
        let mut state = self.state();
        if std::mem::replace(&mut state.understood, true) {
            return false;
        }
        state.is_batch = asked.is_batch();
        state.operations = asked.messages().iter().filter_map(Operation::of).collect();
        let mut carried = Carrier::default();
        if let Some(message) = asked.single() {
            if message.may_have_meta() {
                carried = Carrier::of_params(message.params());
                let version = ModernMeta::of(message).and_then(|meta| meta.version());
                state.version = version.map(|version| cut(&version).to_owned()).or(state.version.take());
            }
            if message.method() == "initialize" {
                let hello = Hello::of(message);
                state.client = hello.client().map(str::to_owned);
                state.version = hello.protocol_version.map(|version| cut(&version).to_owned());
            }
        }
        self.begin_span(&mut state, &carried);
        // Before anything is sent, since the answer may come before the request is said to be taken.
        state.is_expected = state.operations.iter().any(Operation::is_request);
        state.is_expected
    }

    /// The ids of the trace, and of the span of the request in it; `None` when requests are counted alone.
    pub(in crate::proxy) fn ids(&self) -> Option<(String, String)> {
        let mut state = self.state();
        if state.place.is_none() {
            self.begin_span(&mut state, &Carrier::default());
        }
        let place = state.place.as_ref()?;
        Some((place.trace_id().to_string(), place.span_id().to_string()))
    }

    fn begin_span(&self, state: &mut State, message: &Carrier) {
        let Some(tracer) = &self.telemetry.tracer else { return };
        let (parent, link) = match parent_of(message, &self.heard.carried) {
            // With a parent, that one's decision would be taken.
            (parent, _) if state.is_of_a_stranger => (None, parent),
            both => both,
        };
        let title = match &state.operations[..] {
            [one] if !state.is_batch => one.title(),
            _ => http_method(&self.heard.method).into(),
        };
        let builder = SpanBuilder::from_name(title).with_kind(SpanKind::Server).with_start_time(self.began.0);
        let mut span = tracer.build_with_context(builder, &below(parent));
        if let Some(link) = link {
            span.add_link(link, Vec::new());
        }
        state.place = Some(span.span_context().clone());
        state.span = Some(span);
    }

    /// The request goes to the server behind. Returns its place in the trace, if there is one.
    pub(super) fn send(&self) -> Option<Carrier> {
        let mut state = self.state();
        if state.span.is_none() {
            self.begin_span(&mut state, &Carrier::default());
        }
        let now = Instant::now();
        let parent = state.span.as_ref()?.span_context().clone();
        let builder =
            SpanBuilder::from_name("backend").with_kind(SpanKind::Client).with_start_time(self.on_clock(now));
        let span = self.telemetry.tracer.as_ref()?.build_with_context(builder, &below(Some(parent)));
        let place = Carrier::of_span(span.span_context());
        state.sending = Some((span, now));
        Some(place)
    }

    /// The server behind was reached.
    pub(in crate::proxy) fn sent(&self) {
        self.state().sent.get_or_insert_with(Instant::now);
    }

    /// The server behind began to answer.
    pub(super) fn began_answer(&self) {
        self.state().head = Some(Instant::now());
    }

    /// A request of it was answered.
    pub(super) fn answer(&self, asked: &Message, answer: &Message) {
        let took = self.began.1.elapsed();
        let mut state = self.state();
        let open = |one: &&mut Operation| one.outcome.is_none() && one.is(asked);
        if let Some(operation) = state.operations.iter_mut().find(open) {
            let is_call = matches!(operation.target, Target::Tool(_));
            operation.outcome = Some(Outcome::of(answer, is_call, seconds(took)));
        }
    }

    /// The head of the answer is there.
    pub(super) fn answered(&self, response: &Response) {
        let mut state = self.state();
        if state.span.is_none() {
            self.begin_span(&mut state, &Carrier::default());
        }
        let headers = response.headers();
        let kind = text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
        state.answered = Some(Answered {
            at: Instant::now(),
            status: response.status(),
            session: text(headers, SESSION).map(str::to_owned),
            denial: response.extensions().get::<Denial>().cloned(),
            is_events: kind.trim_start().starts_with("text/event-stream"),
        });
    }

    /// It is over, but for what is answered on another stream.
    pub(super) fn finish(self: &Arc<Self>, ended: Ended, flow: Flow) {
        let mut state = self.state();
        if state.is_finished || state.posted.is_some() {
            return;
        }
        report::sent(self, &state, ended);
        let is_taken = state.answered.as_ref().is_some_and(|head| head.status == StatusCode::ACCEPTED);
        if state.is_expected && is_taken && ended == Ended::Whole && state.operations.iter().any(is_open) {
            state.posted = Some((ended, flow));
            return;
        }
        let was_expected = std::mem::take(&mut state.is_expected);
        let opened = state.opened.take();
        self.end(&mut state, ended, flow);
        drop(state);
        if was_expected {
            self.elsewhere.forget(&self.heard.place, self);
        }
        if let Some(place) = opened {
            self.elsewhere.close(&place);
        }
    }

    fn end(&self, state: &mut State, ended: Ended, flow: Flow) {
        state.is_finished = true;
        report::finished(self, state, ended, flow);
    }

    /// A place is named, in this stream, where messages are posted that are answered here.
    pub(in crate::proxy) fn opens(&self, place: &str, path: &str) {
        let mut state = self.state();
        if !state.is_finished && state.opened.is_none() {
            state.opened = self.elsewhere.open(place, path);
        }
    }

    /// A message is answered on this stream.
    pub(super) fn streamed(&self, answer: &Message) {
        let opened = self.state().opened.clone();
        if let Some(place) = opened {
            self.elsewhere.answered(&place, answer);
        }
    }

    /// Whether a message may answer what was asked for.
    pub(super) fn awaits(&self, answer: &Message) -> bool {
        self.state().operations.iter().any(|one| is_open(one) && one.is(answer))
    }

    /// A message that answers it went out on another stream. Returns whether there is nothing more to come.
    pub(super) fn answered_elsewhere(&self, answer: &Message) -> bool {
        self.answer(answer, answer);
        let mut state = self.state();
        if state.operations.iter().any(is_open) {
            return false;
        }
        state.is_expected = false;
        if let Some((ended, flow)) = state.posted.take() {
            self.end(&mut state, ended, flow);
        }
        true
    }

    /// The stream is over on which the answer would have come.
    pub(super) fn abandoned(&self) {
        let mut state = self.state();
        state.is_expected = false;
        if let Some((_, flow)) = state.posted.take() {
            self.end(&mut state, Ended::Gone, flow);
        }
    }
}

/// Whether an answer is still to come.
fn is_open(operation: &Operation) -> bool {
    operation.is_request() && operation.outcome.is_none()
}

/// What a span that begins under `parent` needs to know.
pub(super) fn below(parent: Option<SpanContext>) -> Context {
    match parent {
        Some(parent) => Context::new().with_remote_span_context(parent),
        None => Context::new(),
    }
}

pub(super) fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// One more attribute.
pub(super) fn pair(key: &'static str, value: impl Into<opentelemetry::Value>) -> KeyValue {
    KeyValue::new(key, value)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        environment::Variables,
        options::{OptionSet as _, ProxyOptions, SharedOptions},
        proxy::{public::Publicity, respond},
        telemetry::TelemetrySpec,
        transport::body::Body,
    };

    /// Measures, and samples nothing of its own.
    fn telemetry() -> Arc<Telemetry> {
        let mut options = ProxyOptions::default();
        for (name, value) in [("otel-endpoint", "http://127.0.0.1:1"), ("otel-sampling-rate", "0")] {
            options.set(name, value).expect("an option");
        }
        let variables = Variables::default();
        let spec = TelemetrySpec::read(&SharedOptions::from(&options), "s", Path::new("/"), &variables);
        let spec = spec.expect("options").expect("telemetry");
        Arc::new(Telemetry::start(&spec, &[], &variables, "s", "http").expect("telemetry"))
    }

    #[test]
    fn a_stranger_has_no_say_in_what_is_sampled() {
        let telemetry = telemetry();
        for is_stranger in [false, true] {
            let mut request = Request::new(Body::empty());
            let place = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            request.headers_mut().insert("traceparent", place.parse().expect("a value"));
            let heard = Heard::of(&request, &Publicity::default(), false);
            let journey = Journey::begin(Arc::clone(&telemetry), Arc::default(), heard);
            journey.is_of_a_stranger(is_stranger);
            journey.answered(&respond::empty(StatusCode::UNAUTHORIZED));
            let state = journey.state();
            let span = state.span.as_ref().expect("a span").span_context();
            assert_eq!(span.is_sampled(), !is_stranger);
            assert_eq!(span.trace_id().to_string() == place[3..35], !is_stranger);
        }
    }
}
