//! Starts workloads of remote servers, and logs in to and out of these servers.

use std::sync::Arc;

use http::header;

use super::{
    Launch, Placement, RemoteSpec, headers,
    record::Record,
    remote_login,
    remote_server::{self, RemoteEndpoint, StartupNotice},
};
use crate::{
    ErrorKind, Feature, Result,
    proxy::{
        Endpoint, external_url::ExternalUrlConfig, forward::Forward, server_check::ExpectedServer,
        target::Target,
    },
    secrets::SecretValues,
    transport::tls::TrustStore,
};

impl Launch {
    /// Asks the user to log in to a remote server, if that is required and there is no login yet, and returns the
    /// values of secrets with the login, for a [launch](Self::secrets) in a process that cannot ask. For a recorded
    /// workload whose server cannot be reached, nothing is done.
    ///
    /// # Errors
    /// `LoginRequired` if the environment has no user prompt; `Upstream` if the login fails; `StartFailed` for a remote
    /// server that is not an MCP server; those of the secret store.
    pub async fn log_in(&self, mut values: SecretValues) -> Result<SecretValues> {
        let Placement::Remote(remote) = &self.spec.place else { return Ok(values) };
        let target = self.remote_target(remote, &values)?;
        if let Some(outgoing) = target.outgoing() {
            match self.check_remote(&target, remote).await {
                // The server of a recorded workload may be temporarily unreachable.
                Err(error) if self.recorded => tracing::debug!(%error, "the remote server was not checked"),
                checked => drop(checked?),
            }
            values.extend(
                outgoing.to_secret().await.map(|login| (outgoing.login_name(), login)).into_iter().collect(),
            );
        }
        Ok(values)
    }

    /// The remote server, with its headers and the means to log in.
    fn remote_target(&self, remote: &RemoteSpec, values: &SecretValues) -> Result<Target> {
        let mut headers = headers::build_headers(remote, &self.spec.secrets, values)?;
        headers.extend(self.spec.proxy.forward_headers(&self.proxy_secrets())?);
        let bundle = self.spec.asked.mcpm_ca_bundle.as_deref();
        let target = Target::parse_with_trust(&remote.url, TrustStore::with_bundle(bundle)?)?;
        // An exchanged token or a header authenticates requests already.
        let is_authenticated =
            self.spec.proxy.exchange.is_some() || headers.contains_key(header::AUTHORIZATION);
        // A build without logins forwards what the server responds, unless the options require one.
        let can_log_in = Feature::Login.is_enabled() || self.spec.proxy.outgoing.is_some();
        let outgoing = if is_authenticated || !can_log_in {
            None
        } else {
            Some(Arc::new(remote_login::outgoing(&self.spec, remote, &self.environment)?))
        };
        Ok(target.with_headers(headers).with_outgoing(outgoing))
    }

    /// Asks the user to log in to the remote server, and replaces the stored login. A running proxy uses the new login
    /// the next time that it needs a token.
    ///
    /// # Errors
    /// `InvalidOption` for a workload in a container; `NotFound` if the server names no authorization server; as for
    /// [`log_in`](Self::log_in).
    pub async fn renew_login(&self) -> Result<()> {
        remote_login::of_workload(&self.spec, &self.environment)?.log_in_and_keep().await
    }

    /// Removes the stored login to the remote server, and revokes it at the authorization server (RFC 7009). A running
    /// workload stops using it within seconds, another proxy when its token expires.
    ///
    /// # Errors
    /// `InvalidOption` for a workload in a container; `NotFound` if no login is stored; those of the secret store. A
    /// failed revocation is logged.
    pub async fn log_out(&self) -> Result<()> {
        remote_login::of_workload(&self.spec, &self.environment)?.log_out().await
    }

    /// Checks the remote server with one MCP exchange, and logs in if the server requires it. If mcpm cannot log in,
    /// returns the notice about that.
    async fn check_remote(&self, target: &Target, remote: &RemoteSpec) -> Result<Option<StartupNotice>> {
        let expected = ExpectedServer::at_own_path(target, Some(self.spec.transport));
        let shown = remote.redacted_url();
        let Some(outgoing) = target.outgoing() else {
            return remote_server::check(target, &expected, &shown).await;
        };
        outgoing.prepare().await?;
        // The first attempt uses a stored login, the second one a new login.
        for _ in 0..2 {
            match remote_server::check(target, &expected, &shown).await? {
                Some(notice) if notice.needs_login => match outgoing.obtain_login().await {
                    Ok(()) => {}
                    // The server's responses are forwarded, so that clients can log in themselves.
                    Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::LoginRequired) => {
                        return Ok(Some(notice));
                    }
                    Err(error) => return Err(error),
                },
                notice => return Ok(notice),
            }
        }
        remote_server::check(target, &expected, &shown).await
    }

    /// Checks that the remote server can be reached. The server of a recorded workload may be temporarily unreachable.
    pub(super) async fn start_remote(
        &self,
        remote: &RemoteSpec,
        values: &SecretValues,
        publicity: ExternalUrlConfig,
        record: &Arc<Record>,
    ) -> Result<Box<dyn Endpoint>> {
        let target = self.remote_target(remote, values)?;
        let expected = ExpectedServer::at_own_path(&target, Some(self.spec.transport));
        if let Some(outgoing) = target.outgoing()
            && let Some(login) = values.get(&outgoing.login_name())
        {
            outgoing.restore(Some(login)).await?;
        }
        match self.check_remote(&target, remote).await {
            Ok(None) => {}
            // A server that requires a login gets an exchanged token with each request.
            Ok(Some(remark)) if self.spec.proxy.exchange.is_some() && remark.needs_login => {}
            Ok(Some(remark)) => record.warn(remark.message),
            Err(error) if self.recorded => record.warn(error.to_string()),
            Err(error) => return Err(error),
        }
        if let Some(outgoing) = target.outgoing() {
            tokio::spawn(remote_login::watch(outgoing, Arc::clone(record), self.spec.name.clone()));
        }
        let forward = Forward::new(Arc::new(target), publicity, expected);
        Ok(Box::new(RemoteEndpoint::new(forward, Arc::clone(record))))
    }
}
