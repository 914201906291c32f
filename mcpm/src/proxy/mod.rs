//! Plain proxies in front of an MCP server.

use crate::{
    Result,
    options::{OptionSet, ProxyOptions},
};

/// Collects the options of a proxy.
#[derive(Debug, Clone, Default)]
pub struct ProxyBuilder {
    pub(crate) options: ProxyOptions,
}

impl ProxyBuilder {
    /// Returns what was asked, checked and with every declared default.
    ///
    /// # Errors
    /// Those of [`OptionSet::check`].
    pub fn build(self) -> Result<ProxyOptions> {
        self.options.check()?;
        Ok(self.options.or(ProxyOptions::defaults()))
    }
}

impl From<ProxyOptions> for ProxyBuilder {
    fn from(options: ProxyOptions) -> Self {
        Self { options }
    }
}
