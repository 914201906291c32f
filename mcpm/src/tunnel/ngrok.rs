//! Runs ngrok's agent, which opens a tunnel through ngrok's service.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use serde::Deserialize;

use super::{
    arg_check::check_values,
    child::{ChildCommand, ChildTunnel, Progress},
    provider::{TunnelConnection, TunnelProvider},
    target::TunnelTarget,
};
use crate::{Result, environment::Variables, options::Secret};

/// Connects through ngrok's service, with `ngrok http`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct NgrokTunnel {
    /// The token of the account; if `None`, the agent reads it from `NGROK_AUTHTOKEN` or its configuration.
    pub auth_token: Option<Secret>,
    /// The URL for clients; if `None`, ngrok assigns one.
    pub url: Option<String>,
    /// Whether other agents may serve the same URL.
    pub pooling: bool,
    /// A file with a traffic policy.
    pub traffic_policy_file: Option<PathBuf>,
}

/// The fields of `--provider-args`; `auth-token-secret` is the name of a secret in the store.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct NgrokArgs {
    #[serde(default)]
    pub(super) auth_token: Option<String>,
    #[serde(default)]
    pub(super) auth_token_secret: Option<String>,
    #[serde(default)]
    pub(super) url: Option<String>,
    #[serde(default)]
    pub(super) pooling: bool,
    #[serde(default)]
    pub(super) traffic_policy_file: Option<PathBuf>,
    #[serde(default)]
    pub(super) dry_run: bool,
}

impl NgrokTunnel {
    pub(super) fn check(&self) -> Result<()> {
        check_values([("url", self.url.as_deref())])
    }

    fn argv(&self, target: &TunnelTarget) -> Vec<String> {
        // The agent's local inspector would show requests, including their access tokens, to anyone on this machine.
        let fixed = ["ngrok", "http", "--inspect=false", "--log", "stdout", "--log-format", "json"];
        let mut argv: Vec<String> = fixed.map(str::to_owned).into();
        if let Some(url) = &self.url {
            argv.extend(["--url".to_owned(), url.clone()]);
        }
        if self.pooling {
            argv.push("--pooling-enabled".to_owned());
        }
        if let Some(file) = &self.traffic_policy_file {
            argv.extend(["--traffic-policy-file".to_owned(), file.display().to_string()]);
        }
        argv.push(target.origin());
        argv
    }
}

#[async_trait]
impl TunnelProvider for NgrokTunnel {
    async fn connect(
        &self,
        target: &TunnelTarget,
        variables: &Variables,
    ) -> Result<Box<dyn TunnelConnection>> {
        self.check()?;
        let token = self.auth_token.iter().map(|token| ("NGROK_AUTHTOKEN".to_owned(), token.clone()));
        let command = ChildCommand {
            argv: self.argv(target),
            inherited: variables.clone(),
            variables: token.collect(),
        };
        let mut child = ChildTunnel::start(&command)?;
        let connected = child.wait_until_up(progress).await?;
        let url = connected.url.map(|url| format!("{}{}", url.trim_end_matches('/'), target.path()));
        Ok(Box::new(NgrokConnection { child, url }))
    }

    fn command_line(&self, target: &TunnelTarget) -> Option<Vec<String>> {
        Some(self.argv(target))
    }
}

/// Reads a line of the agent's log.
fn progress(line: &str) -> Progress {
    #[derive(Deserialize)]
    struct LogLine {
        msg: String,
        url: String,
    }
    match serde_json::from_str(line) {
        Ok(LogLine { msg, url }) if msg == "started tunnel" => Progress::of_url(&url),
        _ => Progress::None,
    }
}

struct NgrokConnection {
    child: ChildTunnel,
    url: Option<String>,
}

#[async_trait]
impl TunnelConnection for NgrokConnection {
    fn public_url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    async fn wait(&mut self) -> String {
        self.child.wait().await
    }

    async fn stop(&mut self, grace: Duration) {
        self.child.stop(grace).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_not_in_the_arguments() {
        let target = TunnelTarget::url("http://127.0.0.1:8080/mcp").expect("a target");
        let tunnel = NgrokTunnel {
            auth_token: Some(Secret::from("hush")),
            url: Some("https://a.example".to_owned()),
            pooling: true,
            traffic_policy_file: Some("p.yml".into()),
        };
        assert_eq!(
            tunnel.argv(&target).join(" "),
            "ngrok http --inspect=false --log stdout --log-format json --url https://a.example --pooling-enabled \
             --traffic-policy-file p.yml http://127.0.0.1:8080"
        );
        assert!(!format!("{tunnel:?}").contains("hush"));
    }

    #[test]
    fn the_log_tells_the_url() {
        let line =
            r#"{"addr":"http://localhost:1","lvl":"info","msg":"started tunnel","url":"https://x.example"}"#;
        assert_eq!(progress(line), Progress::Url("https://x.example".to_owned()));
        for line in ["", "{}", r#"{"msg":"client session established","url":"x"}"#] {
            assert_eq!(progress(line), Progress::None, "{line}");
        }
    }
}
