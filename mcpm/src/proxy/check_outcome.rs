//! The outcome of the check whether a server speaks MCP, with the error message for each kind of failure.

use std::time::Duration;

use http::StatusCode;

use crate::{Error, ErrorKind, options::Transport, redact::url::redact_url_text, transport::tls};

/// How a server passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Passed {
    /// It responded in MCP.
    Mcp,
    /// It responded with 401 or 403: a login may be needed.
    NeedsLogin(StatusCode),
    /// It speaks MCP at the target of a redirect, on the same host.
    Redirects(String),
}

/// Why a server did not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It cannot be connected to, or the connection broke.
    Unreachable(String),
    /// Its certificate is not issued by a trusted authority.
    Untrusted(String),
    /// It did not respond in time.
    NoAnswer(Duration),
    /// It responded with an error status.
    Status(StatusCode),
    /// It redirects; contains the target of the redirect, if the response names one.
    Redirects(StatusCode, Option<String>),
    /// It responded with a web page.
    WebPage,
    /// It is an image registry.
    ImageRegistry,
    /// Its response is not MCP, and has this content type.
    NotMcp(Option<String>),
    /// It speaks the other transport.
    Speaks(Transport),
}

impl Finding {
    /// Whether the finding may be temporary while a server starts.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::NoAnswer(_) => true,
            Self::Status(status) => is_failure(*status),
            _ => false,
        }
    }

    /// The error for this finding, with a hint.
    pub(crate) fn error(&self, location: &str) -> Error {
        let error = |message: String| Error::new(ErrorKind::StartFailed, message);
        match self {
            Self::Unreachable(cause) => error(format!("cannot connect to {location}")).source(cause.clone()),
            Self::Untrusted(cause) => error(format!("the certificate of {location} is not trusted"))
                .source(cause.clone())
                .hint(tls::UNTRUSTED_ISSUER_HINT),
            Self::NoAnswer(limit) => {
                error(format!("no response from {location} within {} s", limit.as_secs()))
            }
            Self::Status(StatusCode::NOT_FOUND) => error(format!("{location} was not found (404)")),
            Self::Status(status) if is_failure(*status) => {
                error(format!("{location} responds with an error ({})", status.as_u16()))
            }
            Self::Status(status) => error(format!("{location} rejects MCP requests ({})", status.as_u16())),
            Self::Redirects(status, to) => {
                let to = to.as_ref().map(|to| format!(" to `{}`", redact_url_text(to))).unwrap_or_default();
                error(format!("{location} redirects{to} ({})", status.as_u16()))
            }
            Self::WebPage => error(format!("{location} is a web page, not an MCP server")),
            Self::ImageRegistry => error(format!("{location} is an image registry, not an MCP server")),
            Self::NotMcp(kind) => {
                let kind = kind.as_ref().map_or_else(|| "none".to_owned(), |kind| format!("`{kind}`"));
                error(format!(
                    "{location} is not an MCP server: its response is not MCP (content type: {kind})"
                ))
            }
            Self::Speaks(transport) => error(format!("{location} uses another transport"))
                .hint(format!("set `transport` to `{transport}`")),
        }
    }
}

/// Whether a status is a server failure, which may be temporary; 501 for an unknown method is not.
pub(super) fn is_failure(status: StatusCode) -> bool {
    status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED
}
