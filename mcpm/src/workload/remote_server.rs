//! Reaches a remote server: asked once at the start, then watched for refusals.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Method, StatusCode, Uri, header};

use super::record::Record;
use crate::{
    Error, ErrorKind, Result,
    proxy::{
        Answer, Endpoint,
        forward::Forward,
        respond::{Request, Response},
        target::Target,
    },
    shown::shown_text,
    transport::body::Body,
};

/// How long the answer to the first question may take. A stream that holds back its head is an answer, too.
const ASK_LIMIT: Duration = Duration::from_secs(5);
/// What is on record while the server answers 401.
const LOGIN_NEEDED: &str = "the remote server asks for a login (401)";
/// What to do about it.
const LOGIN_HINT: &str = "the refusal is passed on, and clients that can log in may do so";

/// Asks whether anything answers, and returns what the user should know of the answer.
///
/// # Errors
/// `StartFailed` when nothing is reached there.
pub(super) async fn ask(target: &Target, shown: &str) -> Result<Option<Oddity>> {
    let failed = |error: Error| {
        Error::new(ErrorKind::StartFailed, format!("nothing is reached at `{shown}`"))
            .source(error.to_string())
            .hint("check the URL and the network")
    };
    let reached = target.reached().map_err(|reason| failed(Error::new(ErrorKind::Upstream, reason)))?;
    // What takes no connection is told from what takes its time.
    reached.client.reach().await.map_err(failed)?;
    let mut question = http::Request::new(Body::empty());
    *question.method_mut() = Method::GET;
    *question.uri_mut() = target.map(&Uri::from_static("/"));
    question.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
    question.headers_mut().insert(header::HOST, reached.host.clone());
    target.dress(question.headers_mut());
    let Ok(asked) = tokio::time::timeout(ASK_LIMIT, reached.client.send(question)).await else {
        return Ok(None);
    };
    let answer = asked.map_err(failed)?;
    let status = answer.status();
    let oddity = match status {
        StatusCode::UNAUTHORIZED => Some(format!("{LOGIN_NEEDED}; {LOGIN_HINT}")),
        StatusCode::NOT_FOUND => Some(format!("the remote server knows nothing at `{shown}` (404)")),
        _ if status.is_redirection() => {
            let place = answer.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
            let place = place.map(|place| format!(" to `{}`", shown_text(place))).unwrap_or_default();
            Some(format!("the remote server redirects{place} ({}); run that URL instead", status.as_u16()))
        }
        _ if status.is_server_error() => {
            Some(format!("the remote server answers with an error ({})", status.as_u16()))
        }
        _ => None,
    };
    Ok(oddity.map(Oddity))
}

/// What is odd about a server's first answer.
pub(super) struct Oddity(pub(super) String);

impl Oddity {
    /// Whether it is no more than that the server lets nobody in without a token.
    pub(super) fn asks_for_login(&self) -> bool {
        self.0.starts_with(LOGIN_NEEDED)
    }
}

/// Forwards to a remote server and says when it asks for a login.
pub(super) struct Remote {
    forward: Forward,
    record: Arc<Record>,
    refused: AtomicBool,
    warned: AtomicBool,
}

impl Remote {
    pub(super) fn new(forward: Forward, record: Arc<Record>) -> Self {
        Self { forward, record, refused: AtomicBool::new(false), warned: AtomicBool::new(false) }
    }

    fn look(&self, status: StatusCode) {
        let refused = status == StatusCode::UNAUTHORIZED;
        // Only a success says that a login is no longer missing.
        if !refused && !status.is_success() || self.refused.swap(refused, Ordering::Relaxed) == refused {
            return;
        }
        if !refused {
            self.record.remark(None);
            return;
        }
        self.record.remark(Some(LOGIN_NEEDED.to_owned()));
        if !self.warned.swap(true, Ordering::Relaxed) {
            self.record.warn(format!("{LOGIN_NEEDED}; {LOGIN_HINT}"));
        }
    }
}

impl Endpoint for Remote {
    fn handle(&self, request: Request) -> Answer<'_> {
        Box::pin(async move {
            let response: Response = self.forward.handle(request).await;
            self.look(response.status());
            response
        })
    }

    fn path(&self) -> &str {
        self.forward.path()
    }

    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        self.forward.health()
    }
}
