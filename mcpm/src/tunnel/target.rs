//! The endpoint that a tunnel makes public, and the check that this endpoint requires authentication.

use http::StatusCode;
use url::{Position, Url};

use crate::{
    Error, ErrorKind, Result,
    options::{ProxyMode, Transport},
    proxy::{
        check_outcome::{Finding, Passed},
        server_check::{CHECK_TIMEOUT, ExpectedServer},
        target::Target,
    },
};

/// The endpoint that a tunnel leads to.
#[derive(Debug, Clone)]
pub struct TunnelTarget {
    url: Url,
    transport: Transport,
}

impl TunnelTarget {
    /// Creates the target for the MCP server at a URL. Requests without a token check whether it requires
    /// authentication.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid URL.
    pub fn url(url: &str) -> Result<Self> {
        // This fails with an error that describes what is wrong with the URL.
        Target::parse(url)?;
        let invalid =
            |error| Error::new(ErrorKind::InvalidOption, "the URL of the target is invalid").source(error);
        let url = Url::parse(url).map_err(invalid)?;
        Ok(Self { url, transport: Transport::StreamableHttp })
    }

    /// Creates the target for the endpoint of a workload's proxy.
    pub(crate) fn workload(url: &str, mode: ProxyMode) -> Result<Self> {
        let transport = match mode {
            ProxyMode::StreamableHttp => Transport::StreamableHttp,
            ProxyMode::Sse => Transport::Sse,
        };
        Ok(Self { transport, ..Self::url(url)? })
    }

    /// Returns the target as clients reach it, at another URL.
    pub(super) fn with_url(&self, url: &str) -> Result<Self> {
        Ok(Self { transport: self.transport, ..Self::url(url)? })
    }

    pub(super) fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(super) fn scheme(&self) -> &str {
        self.url.scheme()
    }

    /// Returns the host, in the form for URLs.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or_default()
    }

    /// Returns `scheme://host:port`.
    pub fn origin(&self) -> String {
        format!("{}://{}:{}", self.url.scheme(), self.host(), self.port())
    }

    /// Returns the path and query of the endpoint, for the URL at the other end of the tunnel.
    pub fn path(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }

    /// Checks that the endpoint requires authentication: a request without a token must get 401.
    ///
    /// # Errors
    /// `InvalidOption` if the endpoint does not require authentication; an error that describes what was found, if it
    /// is not an MCP server.
    pub(super) async fn check_authentication(&self) -> Result<()> {
        let not_checked = |finding: Finding| {
            finding
                .error("the target")
                .hint("mcpm makes a target public only if the target is known to require authentication")
        };
        let mut passed = self.probe(&self.url).await?.map_err(not_checked)?;
        if let Passed::Redirects(path) = &passed {
            // The endpoint for clients is at this path.
            let mut url = self.url.clone();
            url.set_path(path);
            passed = self.probe(&url).await?.map_err(not_checked)?;
        }
        if passed == Passed::NeedsLogin(StatusCode::UNAUTHORIZED) {
            return Ok(());
        }
        let origin = self.origin();
        let (message, why) = match passed {
            Passed::NeedsLogin(status) => (
                format!("`{origin}` rejected a request without a token with {status} instead of 401"),
                "it is not known to require authentication",
            ),
            _ => (
                format!("`{origin}` does not require authentication"),
                "anyone who knows the public URL could use the server",
            ),
        };
        let hint =
            format!("{why}: start the target's proxy with `oidc_issuer`, or set `allow_unauthenticated`");
        Err(Error::new(ErrorKind::InvalidOption, message).hint(hint))
    }

    /// Whether an MCP server responds, or requires a login.
    pub(super) async fn responds(&self) -> bool {
        matches!(self.probe(&self.url).await, Ok(Ok(_)))
    }

    /// Sends a request without a token.
    async fn probe(&self, url: &Url) -> Result<std::result::Result<Passed, Finding>> {
        let target = Target::parse(url.as_str())?;
        let expected = ExpectedServer::at_own_path(&target, Some(self.transport));
        let instance = target.instance().map_err(|reason| Error::new(ErrorKind::Upstream, reason))?;
        Ok(instance.check(&expected, &target.headers(), CHECK_TIMEOUT).await)
    }
}
