//! Proxies for Python and Swift.

use std::sync::Arc;

use mcpm::{ProxyBuilder, RunningProxy, options::ProxyOptions, state::Phase};

use crate::{Explanation, McpmError, UserPrompt, executor, prompt_bridge::environment, user_prompt};

/// A running proxy in front of an MCP server.
///
/// It runs as long as this object and this process exist, so keep a reference.
#[derive(Debug, uniffi::Object)]
pub struct Proxy(Arc<RunningProxy>);

#[uniffi::export]
impl Proxy {
    /// Starts a proxy and returns once clients can connect.
    ///
    /// `prompt` prompts the user, for example to log in to a remote server, at the start and later; without it,
    /// nobody can be prompted.
    #[uniffi::constructor(default(prompt = None))]
    pub async fn start(
        options: ProxyOptions,
        prompt: Option<Arc<dyn UserPrompt>>,
    ) -> Result<Arc<Self>, McpmError> {
        let environment = environment(user_prompt::adapt(prompt));
        let started =
            async move { ProxyBuilder::from(options).environment(environment).build()?.start().await };
        Ok(Arc::new(Self(Arc::new(executor::spawn_cancellable(started)?.join_or_abort().await?))))
    }

    /// Returns the name of the server.
    pub fn name(&self) -> String {
        self.0.name().to_owned()
    }

    /// Returns the URL for clients.
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

    /// Checks with one MCP exchange whether the target is an MCP server, and returns a remark about one that
    /// passes, for example that it requires a login. Starting does not check this, because the target need not be
    /// up then.
    pub async fn check(&self) -> Result<Option<String>, McpmError> {
        let proxy = Arc::clone(&self.0);
        Ok(executor::spawn_cancellable(async move { proxy.check().await })?.join_or_abort().await?)
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
