//! Tunnels that any program holds.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use serde::Deserialize;

use super::{
    child::{ChildCommand, ChildTunnel, Progress},
    provider::{TunnelConnection, TunnelProvider},
    target::TunnelTarget,
    words::{check_words, invalid_args},
};
use crate::{Result, environment::Variables, options::Secret};

const PORT: &str = "{port}";
const HOST: &str = "{host}";

/// Runs a program, without a shell, for as long as the tunnel exists.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommandTunnel {
    /// The program and its arguments; `{port}` and `{host}` are replaced by those of the target.
    pub command: Vec<String>,
    /// Variables for the program, beside those of this process.
    pub variables: Vec<(String, Secret)>,
    /// The URL for clients. Without one, it is the first line of the output that is a URL, which also says that the
    /// tunnel is up.
    pub url: Option<String>,
}

/// The fields of `--provider-args`; `secrets` has names of secrets of the store by names of variables.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct CommandArgs {
    pub(super) command: Vec<String>,
    #[serde(default)]
    pub(super) secrets: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) url: Option<String>,
}

impl CommandTunnel {
    /// Creates it for a program and its arguments.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        Self { command, variables: Vec::new(), url: None }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !self.command.iter().skip(1).any(|arg| arg.contains(PORT)) {
            return Err(invalid_args("`command` has no argument with `{port}`"));
        }
        check_words([("url", self.url.as_deref())])
    }

    fn argv(&self, target: &TunnelTarget) -> Vec<String> {
        let (port, host) = (target.port().to_string(), target.host());
        self.command.iter().map(|arg| arg.replace(PORT, &port).replace(HOST, host)).collect()
    }
}

#[async_trait]
impl TunnelProvider for CommandTunnel {
    async fn connect(
        &self,
        target: &TunnelTarget,
        variables: &Variables,
    ) -> Result<Box<dyn TunnelConnection>> {
        self.check()?;
        let command = ChildCommand {
            argv: self.argv(target),
            inherited: variables.clone(),
            variables: self.variables.clone(),
        };
        let mut child = ChildTunnel::start(&command)?;
        let url = match &self.url {
            Some(url) => url.clone(),
            None => child.wait_until_up(progress).await?.url.unwrap_or_default(),
        };
        Ok(Box::new(CommandConnection { child, url }))
    }

    fn command_line(&self, target: &TunnelTarget) -> Option<Vec<String>> {
        Some(self.argv(target))
    }
}

fn progress(line: &str) -> Progress {
    let is_url = line.starts_with("https://") || line.starts_with("http://");
    if is_url && !line.contains(char::is_whitespace) {
        Progress::Url(line.to_owned())
    } else {
        Progress::None
    }
}

struct CommandConnection {
    child: ChildTunnel,
    url: String,
}

#[async_trait]
impl TunnelConnection for CommandConnection {
    fn public_url(&self) -> Option<&str> {
        Some(&self.url)
    }

    async fn wait(&mut self) -> String {
        self.child.wait().await
    }

    async fn stop(&mut self, grace: Duration) {
        self.child.stop(grace).await;
    }
}
