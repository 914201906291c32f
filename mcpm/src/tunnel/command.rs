//! The tunnel provider that runs a command given by the user.

use std::{collections::BTreeMap, fmt, time::Duration};

use async_trait::async_trait;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use tokio::time::{sleep, timeout};

use super::{
    arg_check::{check_values, invalid_args},
    child::{ChildCommand, ChildTunnel, Progress},
    provider::{TunnelConnection, TunnelProvider},
    target::TunnelTarget,
};
use crate::{
    Error, ErrorKind, Result, environment::Variables, options::Secret, redact::url::redact_url_text,
};

const PORT: &str = "{port}";
const HOST: &str = "{host}";
/// Timeout for a response at the URL.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of requests to the URL until a server responds.
const READY_INTERVAL: Duration = Duration::from_secs(1);

/// Runs a program, without a shell, for as long as the tunnel exists.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommandTunnel {
    /// The program and its arguments; `{port}` and `{host}` are replaced by the port and the host of the target.
    pub command: Vec<String>,
    /// Variables for the program, in addition to those of this process.
    pub variables: Vec<(String, Secret)>,
    /// The URL for clients. The tunnel counts as up when an MCP server responds there, or else after 30 s, with a
    /// warning, because this machine may be unable to reach the URL. If `None`, the URL is the first line of the output
    /// that is a URL; the tunnel counts as up when that line appears.
    pub url: Option<String>,
}

/// The fields of `--provider-args`; `secrets` maps names of variables to names of secrets in the store.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct CommandArgs {
    pub(super) command: Vec<String>,
    #[serde(default, deserialize_with = "distinct_variables")]
    pub(super) secrets: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) url: Option<String>,
}

impl CommandTunnel {
    /// Creates a provider that runs a program with its arguments.
    pub fn new(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        Self { command, variables: Vec::new(), url: None }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !self.command.iter().skip(1).any(|arg| arg.contains(PORT)) {
            return Err(invalid_args("`command` has no argument with `{port}`"));
        }
        check_values([("url", self.url.as_deref())])?;
        match &self.url {
            Some(url) if TunnelTarget::url(url).is_err() => Err(invalid_args("`url` is not an HTTP URL")),
            _ => Ok(()),
        }
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
            Some(url) => {
                wait_until_ready(&mut child, &target.with_url(url)?).await?;
                url.clone()
            }
            None => child.wait_until_up(Progress::of_url).await?.url.unwrap_or_default(),
        };
        Ok(Box::new(CommandConnection { child, url }))
    }

    fn command_line(&self, target: &TunnelTarget) -> Option<Vec<String>> {
        Some(self.argv(target))
    }
}

/// Waits until an MCP server responds at the public URL.
async fn wait_until_ready(child: &mut ChildTunnel, public: &TunnelTarget) -> Result<()> {
    let responds = timeout(READY_TIMEOUT, async {
        while !public.responds().await {
            sleep(READY_INTERVAL).await;
        }
    });
    tokio::select! {
        reason = child.wait() => {
            Err(Error::new(ErrorKind::Upstream, format!("the tunnel cannot be opened: {reason}")))
        }
        ready = responds => {
            if ready.is_err() {
                tracing::warn!(
                    "no MCP server responds at `{}` after {} s; the tunnel may not be up",
                    redact_url_text(public.as_str()),
                    READY_TIMEOUT.as_secs()
                );
            }
            Ok(())
        }
    }
}

/// Rejects a variable that is given twice; a map would silently keep the last value.
fn distinct_variables<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<String, String>, D::Error> {
    struct Distinct;
    impl<'de> Visitor<'de> for Distinct {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
            let mut variables = BTreeMap::new();
            while let Some((name, secret)) = map.next_entry::<String, String>()? {
                if variables.contains_key(&name) {
                    return Err(A::Error::custom(format!("duplicate variable `{name}` in `secrets`")));
                }
                variables.insert(name, secret);
            }
            Ok(variables)
        }
    }
    deserializer.deserialize_map(Distinct)
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
