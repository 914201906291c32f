//! What callers may see and do: which tools there are and what they are called ([`tools`]), and who may use
//! what ([`cedar`]).
//!
//! What the options ask for is read once, at the start, into a [`PolicySpec`], which holds contents and no paths:
//! a workload that is started again goes by the same rules, whatever became of the files. From it a [`Policy`] is
//! made, which answers questions; the layers of the proxy ask them. Nothing here knows HTTP.

pub(crate) mod cedar;
mod overrides;
pub(crate) mod tools;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

pub use cedar::AuthorizationSpec;
pub use overrides::ToolOverride;

use crate::{Result, config_file::invalid};
use cedar::Authorization;
use tools::ToolPolicy;

/// What is filtered, renamed and allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// Tools that are let through, as clients see them: names, patterns with `*` and `?`, and with a `!` before it
    /// what is not. Empty lets all through.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// What clients see in place of a tool's own name and description, by its own name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, ToolOverride>,
    /// Who may use what; `None` lets everybody use everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorization: Option<AuthorizationSpec>,
}

/// Answers the questions of the layers.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    pub(crate) tools: Option<Arc<ToolPolicy>>,
    pub(crate) authorization: Option<Arc<Authorization>>,
}

impl PolicySpec {
    /// Reads what the options name, relative paths from `folder`, and checks all of it.
    ///
    /// # Errors
    /// `InvalidOption` for what is wrong in it, with the file and the place; `NotFound` or `Io` for a file that
    /// cannot be read.
    pub(crate) fn read(
        tools: &[String],
        overrides: Option<&PathBuf>,
        authorization: Option<&PathBuf>,
        folder: &Path,
    ) -> Result<Self> {
        let spec = Self {
            tools: tools.to_vec(),
            overrides: overrides
                .map(|path| overrides::read(&folder.join(path)))
                .transpose()?
                .unwrap_or_default(),
            authorization: authorization.map(|path| cedar::read(&folder.join(path))).transpose()?,
        };
        ToolPolicy::new(&spec.tools, &spec.overrides)?;
        Ok(spec)
    }

    /// Tells whether everything passes.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Makes what answers questions. `server` is the server's name.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), except for files.
    pub(crate) fn policy(&self, server: &str) -> Result<Policy> {
        let tools = ToolPolicy::new(&self.tools, &self.overrides)?;
        let authorization =
            self.authorization.as_ref().map(|spec| Authorization::new(spec, server)).transpose()?;
        Ok(Policy { tools: tools.map(Arc::new), authorization: authorization.map(Arc::new) })
    }
}
