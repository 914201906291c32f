//! Checks a remote server when its workload starts, forwards requests to it, and records when it requires a login.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use http::StatusCode;

use super::record::Record;
use crate::{
    Result,
    proxy::{
        Endpoint, LastExchange, ResponseFuture,
        check_outcome::{Finding, Passed},
        forward::Forward,
        respond::{Request, Response},
        server_check::{CHECK_TIMEOUT, ExpectedServer},
        target::Target,
    },
};

/// The recorded reason while the server responds with 401.
const LOGIN_NEEDED: &str = "the remote server requires a login (401)";
/// The next step for the user.
const LOGIN_HINT: &str = "its response is forwarded, so that clients can log in if they support it";

/// Checks the server with one MCP exchange, and returns a notice for the user, if there is one.
///
/// # Errors
/// `StartFailed` says what was found instead of an MCP server.
pub(super) async fn check(
    target: &Target,
    expected: &ExpectedServer,
    shown: &str,
) -> Result<Option<StartupNotice>> {
    let place = format!("`{shown}`");
    let outcome = match target.instance() {
        Ok(reached) => match reached.check(expected, &target.headers(), CHECK_TIMEOUT).await {
            Err(finding) => Err(reached.detect_other_transport(finding, expected, &target.headers()).await),
            passed => passed,
        },
        Err(reason) => Err(Finding::Unreachable(reason)),
    };
    match outcome {
        Ok(Passed::Mcp) => Ok(None),
        Ok(passed) => Ok(startup_notice(&passed, "remote server", &place)),
        Err(finding) => Err(match finding {
            Finding::Speaks(_) | Finding::Untrusted(_) => finding.error(&place),
            Finding::Unreachable(_) => finding.error(&place).hint("check the URL and the network"),
            Finding::Redirects(_, Some(_)) => {
                finding.error(&place).hint("use that URL instead, if it belongs to the server")
            }
            _ if finding.is_temporary() => finding.error(&place).hint("check the URL, or try again later"),
            _ => finding.error(&place).hint("use the URL of the MCP endpoint, including its path"),
        }),
    }
}

/// Returns the notice about a server that passed the check.
pub(super) fn startup_notice(passed: &Passed, server: &str, place: &str) -> Option<StartupNotice> {
    match passed {
        Passed::Mcp => None,
        Passed::NeedsLogin(status) => {
            let verb = if *status == StatusCode::UNAUTHORIZED { "requires" } else { "may require" };
            let message = format!("the {server} {verb} a login ({}); {LOGIN_HINT}", status.as_u16());
            Some(StartupNotice { message, needs_login: true })
        }
        Passed::Redirects(to) => {
            let message =
                format!("the {server} redirects from {place} to `{to}`, so clients may bypass the proxy");
            Some(StartupNotice { message, needs_login: false })
        }
    }
}

/// A notice about a server that passed the check.
pub(super) struct StartupNotice {
    pub(super) message: String,
    /// Whether the notice is only that the server requires a login.
    pub(super) needs_login: bool,
}

/// Forwards to a remote server, and records when it requires a login.
pub(super) struct RemoteEndpoint {
    forward: Forward,
    record: Arc<Record>,
    warned: AtomicBool,
}

impl RemoteEndpoint {
    pub(super) fn new(forward: Forward, record: Arc<Record>) -> Self {
        Self { forward, record, warned: AtomicBool::new(false) }
    }

    fn observe_status(&self, status: StatusCode) {
        // Only a successful response shows that the login works.
        if status.is_success() {
            self.record.set_reason(None);
        } else if status == StatusCode::UNAUTHORIZED {
            self.record.set_reason(Some(LOGIN_NEEDED.to_owned()));
            if !self.warned.swap(true, Ordering::Relaxed) {
                self.record.warn(format!("{LOGIN_NEEDED}; {LOGIN_HINT}"));
            }
        }
    }
}

impl Endpoint for RemoteEndpoint {
    fn handle(&self, request: Request) -> ResponseFuture<'_> {
        Box::pin(async move {
            let response: Response = self.forward.handle(request).await;
            self.observe_status(response.status());
            response
        })
    }

    fn path(&self) -> &str {
        self.forward.path()
    }

    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        self.forward.health()
    }

    fn last_exchange(&self) -> Option<LastExchange> {
        self.forward.last_exchange()
    }

    fn check(&self) -> Pin<Box<dyn Future<Output = Result<Passed, Finding>> + Send + '_>> {
        self.forward.check()
    }
}
