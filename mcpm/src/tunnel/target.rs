//! The endpoint that a tunnel leads to, and whether it requires authentication.

use http::StatusCode;
use url::{Position, Url};

use crate::{
    Error, ErrorKind, Result,
    options::{ProxyMode, Transport},
    proxy::{
        check_outcome::Passed,
        server_check::{CHECK_TIMEOUT, ExpectedServer},
        target::Target,
    },
};

/// The endpoint that a tunnel leads to.
#[derive(Debug, Clone)]
pub struct TunnelTarget {
    url: Url,
    transport: Transport,
    /// Whether requests without a token are rejected, if that is known.
    requires_authentication: Option<bool>,
}

impl TunnelTarget {
    /// Names the MCP server at a URL. Whether it requires authentication is found out by a request without a token.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid URL.
    pub fn url(url: &str) -> Result<Self> {
        // It says what is wrong with the URL.
        Target::parse(url)?;
        let invalid =
            |error| Error::new(ErrorKind::InvalidOption, "the URL of the target is invalid").source(error);
        let url = Url::parse(url).map_err(invalid)?;
        Ok(Self { url, transport: Transport::StreamableHttp, requires_authentication: None })
    }

    /// Names the endpoint of a workload's proxy.
    pub(crate) fn workload(url: &str, mode: ProxyMode, requires_authentication: bool) -> Result<Self> {
        let transport = match mode {
            ProxyMode::StreamableHttp => Transport::StreamableHttp,
            ProxyMode::Sse => Transport::Sse,
        };
        let requires_authentication = Some(requires_authentication);
        Ok(Self { transport, requires_authentication, ..Self::url(url)? })
    }

    /// Returns the host, as in a URL.
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

    /// Checks that the endpoint requires authentication.
    ///
    /// # Errors
    /// `InvalidOption` if it does not; what was found instead of an MCP server.
    pub(super) async fn check_authentication(&self) -> Result<()> {
        let requires_authentication = match self.requires_authentication {
            Some(known) => known,
            None => self.probe().await?,
        };
        if requires_authentication {
            return Ok(());
        }
        let message = format!("`{}` does not require authentication", self.origin());
        Err(Error::new(ErrorKind::InvalidOption, message).hint(
            "anyone who knows the public URL could use the server: require a login with `oidc_issuer`, or set \
             `allow_unauthenticated`",
        ))
    }

    async fn probe(&self) -> Result<bool> {
        let target = Target::parse(self.url.as_str())?;
        let expected = ExpectedServer::at_own_path(&target, Some(self.transport));
        let unreachable = |reason| Error::new(ErrorKind::Upstream, reason);
        let instance = target.instance().map_err(unreachable)?;
        let outcome = instance.check(&expected, &target.headers(), CHECK_TIMEOUT).await;
        let passed = outcome.map_err(|finding| {
            finding.error("the target").hint("its authentication is checked before it is made public")
        })?;
        Ok(passed == Passed::NeedsLogin(StatusCode::UNAUTHORIZED))
    }
}
