//! Policies: tool filters and overrides ([`tools`]), and authorization ([`cedar`]).
//!
//! The options are resolved once, at the start, into a [`PolicySpec`], which contains the content of files rather than
//! their paths: a restarted workload uses the same rules even if the files have changed. A [`Policy`], which is created
//! from the spec, makes the decisions for the proxy's layers. This module does not depend on HTTP.

#[cfg_attr(not(feature = "policy"), path = "cedar/off.rs")]
pub(crate) mod cedar;
mod overrides_file;
pub(crate) mod tools;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

pub use cedar::AuthorizationSpec;
pub use overrides_file::ToolOverride;

use crate::Result;
use cedar::Authorization;
use tools::ToolPolicy;

/// The resolved configuration of tool filters, overrides and authorization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// Allowed tools, by the names that clients see: names, patterns with `*` and `?`, and, after a `!`, names and
    /// patterns to hide. If empty, all tools are allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// New names and descriptions of tools, by the server's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, ToolOverride>,
    /// The authorization policies; `None` allows every caller everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization: Option<AuthorizationSpec>,
}

/// Makes the decisions for the proxy's layers.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    pub(crate) tools: Option<Arc<ToolPolicy>>,
    pub(crate) authorization: Option<Arc<Authorization>>,
}

impl PolicySpec {
    /// Reads and validates the configuration. `folder` is the base of relative paths.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid configuration, with the file and the position; `NotFound` or `Io` for a file
    /// that cannot be read.
    pub(crate) fn read(
        tools: &[String],
        overrides: Option<&PathBuf>,
        authorization: Option<&PathBuf>,
        folder: &Path,
    ) -> Result<Self> {
        let spec = Self {
            tools: tools.to_vec(),
            overrides: overrides
                .map(|path| overrides_file::read(&folder.join(path)))
                .transpose()?
                .unwrap_or_default(),
            authorization: authorization.map(|path| cedar::read(&folder.join(path))).transpose()?,
        };
        ToolPolicy::new(&spec.tools, &spec.overrides)?;
        Ok(spec)
    }

    /// Returns whether nothing is filtered, renamed or denied.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Creates the policy of a server. `server` is the server's name.
    ///
    /// # Errors
    /// As for [`read`](Self::read), except those about files.
    pub(crate) fn policy(&self, server: &str) -> Result<Policy> {
        let tools = ToolPolicy::new(&self.tools, &self.overrides)?;
        let authorization =
            self.authorization.as_ref().map(|spec| Authorization::new(spec, server)).transpose()?;
        Ok(Policy { tools: tools.map(Arc::new), authorization: authorization.map(Arc::new) })
    }
}
