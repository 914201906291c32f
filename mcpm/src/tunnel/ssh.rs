//! Runs OpenSSH's client, which opens a tunnel through an SSH server by remote port forwarding.

use std::{borrow::Cow, path::PathBuf, time::Duration};

use async_trait::async_trait;
use serde::Deserialize;

use super::{
    arg_check::check_values,
    child::{ChildCommand, ChildTunnel, Progress},
    provider::{TunnelConnection, TunnelProvider},
    target::TunnelTarget,
};
use crate::{Result, environment::Variables};

/// Connects through an SSH server that listens for clients, with `ssh -R`.
///
/// The keys of the server and of the user are those of OpenSSH's configuration, unless they are set here. OpenSSH
/// cannot prompt the user, so both keys must be known.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub struct SshTunnel {
    /// The SSH server.
    pub host: String,
    /// The user on the SSH server; by default, that of OpenSSH's configuration.
    #[serde(default)]
    pub user: Option<String>,
    /// The port of the SSH server.
    #[serde(default)]
    pub port: Option<u16>,
    /// A file with the private key.
    #[serde(default)]
    pub identity_file: Option<PathBuf>,
    /// A file with the known keys of servers.
    #[serde(default)]
    pub known_hosts_file: Option<PathBuf>,
    /// The address that the SSH server listens on; most servers allow only loopback.
    #[serde(default)]
    pub bind_address: Option<String>,
    /// The port that the SSH server listens on; 0, the default, selects a free one.
    #[serde(default)]
    pub remote_port: u16,
    /// The URL for clients; by default the scheme and path of the target at `HOST:REMOTE_PORT`.
    #[serde(default)]
    pub url: Option<String>,
}

impl SshTunnel {
    /// Creates a provider for an SSH server.
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            host: host.into(),
            user: None,
            port: None,
            identity_file: None,
            known_hosts_file: None,
            bind_address: None,
            remote_port: 0,
            url: None,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        check_values([
            ("host", Some(self.host.as_str())),
            ("user", self.user.as_deref()),
            ("bind-address", self.bind_address.as_deref()),
            ("url", self.url.as_deref()),
        ])
    }

    fn argv(&self, target: &TunnelTarget) -> Vec<String> {
        let mut argv: Vec<String> = ["ssh", "-N", "-T", "-v"].map(str::to_owned).into();
        let mut option = |option: String| argv.extend(["-o".to_owned(), option]);
        option("BatchMode=yes".to_owned());
        option("ExitOnForwardFailure=yes".to_owned());
        option("ServerAliveInterval=15".to_owned());
        option("ServerAliveCountMax=3".to_owned());
        // A connection that OpenSSH shares with other processes would outlive this process.
        option("ControlPath=none".to_owned());
        if let Some(file) = &self.known_hosts_file {
            option(format!("UserKnownHostsFile=\"{}\"", file.display()));
        }
        if let Some(file) = &self.identity_file {
            option("IdentitiesOnly=yes".to_owned());
            argv.extend(["-i".to_owned(), file.display().to_string()]);
        }
        if let Some(port) = self.port {
            argv.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(user) = &self.user {
            argv.extend(["-l".to_owned(), user.clone()]);
        }
        let bind = self.bind_address.as_deref().map(|address| format!("{}:", bracketed(address)));
        let bind = bind.unwrap_or_default();
        let forward = format!("{bind}{}:{}:{}", self.remote_port, target.host(), target.port());
        argv.extend(["-R".to_owned(), forward, "--".to_owned(), unbracketed(&self.host).to_owned()]);
        argv
    }

    /// Returns the URL for clients. By default, it has the scheme of the target, because the forward does not terminate
    /// TLS.
    fn public_url(&self, target: &TunnelTarget, port: u16) -> String {
        let default = || {
            let host = bracketed(&self.host);
            format!("{}://{host}:{port}{}", target.scheme(), target.path())
        };
        self.url.clone().unwrap_or_else(default)
    }
}

#[async_trait]
impl TunnelProvider for SshTunnel {
    async fn connect(
        &self,
        target: &TunnelTarget,
        variables: &Variables,
    ) -> Result<Box<dyn TunnelConnection>> {
        self.check()?;
        let mut child = ChildTunnel::start(&ChildCommand {
            argv: self.argv(target),
            inherited: variables.clone(),
            variables: Vec::new(),
        })?;
        let connected = child.wait_until_up(progress).await?;
        let url = self.public_url(target, connected.port.unwrap_or(self.remote_port));
        Ok(Box::new(SshConnection { child, url }))
    }

    fn command_line(&self, target: &TunnelTarget) -> Option<Vec<String>> {
        Some(self.argv(target))
    }
}

/// Returns a host in the form for URLs and forwards: an IPv6 address is in brackets.
fn bracketed(host: &str) -> Cow<'_, str> {
    let address = unbracketed(host);
    if address.contains(':') { format!("[{address}]").into() } else { host.into() }
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// Reads a line of the output of `ssh -v`.
fn progress(line: &str) -> Progress {
    if let Some(rest) = line.strip_prefix("Allocated port ") {
        let port = rest.split(' ').next().and_then(|port| port.parse().ok());
        return port.map_or(Progress::None, Progress::Port);
    }
    match line.contains("forwarding_success: all expected forwarding replies received") {
        true => Progress::Up,
        false => Progress::None,
    }
}

struct SshConnection {
    child: ChildTunnel,
    url: String,
}

#[async_trait]
impl TunnelConnection for SshConnection {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_has_the_forward_and_no_option_from_a_name() {
        let target = TunnelTarget::url("http://127.0.0.1:8080/mcp").expect("a target");
        let tunnel =
            SshTunnel { remote_port: 9, user: Some("me".to_owned()), ..SshTunnel::new("gate.example") };
        let argv = tunnel.argv(&target).join(" ");
        assert!(argv.ends_with(" -l me -R 9:127.0.0.1:8080 -- gate.example"), "{argv}");
        for host in ["2001:db8::1", "[2001:db8::1]"] {
            let tunnel = SshTunnel { bind_address: Some("::".to_owned()), ..SshTunnel::new(host) };
            let argv = tunnel.argv(&target).join(" ");
            assert!(argv.ends_with(" -R [::]:0:127.0.0.1:8080 -- 2001:db8::1"), "{argv}");
            assert_eq!(tunnel.public_url(&target, 9), "http://[2001:db8::1]:9/mcp");
        }
        let target = TunnelTarget::url("https://127.0.0.1/mcp").expect("a target");
        assert_eq!(SshTunnel::new("gate.example").public_url(&target, 9), "https://gate.example:9/mcp");
        for host in ["-oProxyCommand=x", "", "a b", "a\n"] {
            assert!(SshTunnel::new(host).check().is_err(), "{host:?}");
        }
    }

    #[test]
    fn lines_say_how_far_the_connection_is() {
        for (line, expected) in [
            ("Allocated port 40295 for remote forward to 127.0.0.1:80", Progress::Port(40295)),
            ("debug1: forwarding_success: all expected forwarding replies received", Progress::Up),
            ("debug1: remote forward success for: listen 0, connect 127.0.0.1:80", Progress::None),
        ] {
            assert_eq!(progress(line), expected, "{line}");
        }
    }
}
