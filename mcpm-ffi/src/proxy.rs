//! Exports proxies to Python and Swift.

use std::sync::Arc;

use mcpm::{
    ProxyBuilder, RunningProxy,
    options::{ProxyMode, ProxyOptions, Secret},
    state::Phase,
    stdio_bridge::ConnectOptions,
};

use crate::{
    Connection, Explanation, McpmError, UserPrompt, connection_handle::ConnectionHandle, executor,
    prompt_bridge::environment, user_prompt,
};

/// A running proxy in front of an MCP server.
///
/// It runs as long as this object and this process exist, so keep a reference.
#[derive(Debug, uniffi::Object)]
pub struct Proxy(Arc<RunningProxy>);

#[uniffi::export]
impl Proxy {
    /// Starts a proxy and returns once clients can connect.
    ///
    /// `prompt` prompts the user at the start and later, for example to log in to a remote server; without it, the user
    /// cannot be prompted.
    ///
    /// With `in_process_only`, the proxy opens no port: only `connect` can connect to the server.
    #[uniffi::constructor(default(prompt = None, in_process_only = false))]
    pub async fn start(
        options: ProxyOptions,
        prompt: Option<Arc<dyn UserPrompt>>,
        in_process_only: bool,
    ) -> Result<Arc<Self>, McpmError> {
        let mut builder = ProxyBuilder::from(options).environment(environment(user_prompt::adapt(prompt)));
        if in_process_only {
            builder = builder.in_process_only();
        }
        let started = async move { builder.build()?.start().await };
        Ok(Arc::new(Self(Arc::new(executor::spawn_cancellable(started)?.join_or_abort().await?))))
    }

    /// Returns the name of the server.
    pub fn name(&self) -> String {
        self.0.name().to_owned()
    }

    /// Returns the URL for clients; empty without a port.
    pub fn url(&self) -> String {
        self.0.url().to_owned()
    }

    /// Returns the phase of the proxy.
    pub fn status(&self) -> Phase {
        self.0.status()
    }

    /// Returns the warnings of the start, for example that callers are not authenticated, or that an option has no
    /// effect.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings().to_vec()
    }

    /// Checks with one MCP exchange whether the target is an MCP server, and returns a remark about a server that
    /// passes, for example that it requires a login. A start does not check this, because the target may be started
    /// later.
    pub async fn check(&self) -> Result<Option<String>, McpmError> {
        let proxy = Arc::clone(&self.0);
        Ok(executor::spawn_cancellable(async move { proxy.check().await })?.join_or_abort().await?)
    }

    /// Connects to the server from this process, without a port. Requests pass through all layers of the proxy;
    /// `bearer_token` is the access token of the caller, if the proxy authenticates callers. `transport` is the
    /// transport of the server; by default, the server's URL determines the transport: SSE if it ends in `/sse`.
    #[uniffi::method(default(bearer_token = None, transport = None))]
    pub async fn connect(
        &self,
        bearer_token: Option<Secret>,
        transport: Option<ProxyMode>,
    ) -> Result<Arc<Connection>, McpmError> {
        let proxy = Arc::clone(&self.0);
        let options = ConnectOptions { bearer_token, mode: transport };
        let connected = async move { Ok(ConnectionHandle::new(proxy.connect_with(options)?)) };
        Ok(Connection::new(executor::spawn_cancellable(connected)?.join_or_abort().await?))
    }

    /// Explains a reason, or one of the last denials of this proxy, by its id.
    pub fn explain(&self, id: &str) -> Result<Explanation, McpmError> {
        Ok(self.0.explain(id)?.into())
    }

    /// Stops listening and waits up to 2 s for pending responses. Stopping twice is allowed.
    pub async fn stop(&self) -> Result<(), McpmError> {
        let proxy = Arc::clone(&self.0);
        let stopped = async move {
            proxy.stop().await;
            Ok(())
        };
        Ok(executor::spawn_to_completion(stopped)?.join().await?)
    }
}
