//! Plain proxies as Python and Swift see them.

use std::sync::Arc;

use mcpm::{Environment, ProxyBuilder, RunningProxy, options::ProxyOptions, state::Phase};

use crate::{Explanation, McpmError, executor};

/// A proxy that listens in front of an MCP server.
///
/// It lives as long as this object and this process, so keep it.
#[derive(Debug, uniffi::Object)]
pub struct Proxy(Arc<RunningProxy>);

#[uniffi::export]
impl Proxy {
    /// Starts a proxy and returns once clients can connect.
    #[uniffi::constructor]
    pub async fn start(options: ProxyOptions) -> Result<Arc<Self>, McpmError> {
        let started = async move {
            ProxyBuilder::from(options).environment(Environment::from_process()).build()?.start().await
        };
        Ok(Arc::new(Self(Arc::new(executor::spawn_cancellable(started)?.join_or_abort().await?))))
    }

    /// Returns the name of the server.
    pub fn name(&self) -> String {
        self.0.name().to_owned()
    }

    /// Returns where clients connect.
    pub fn url(&self) -> String {
        self.0.url().to_owned()
    }

    /// Returns where it is in its life.
    pub fn status(&self) -> Phase {
        self.0.status()
    }

    /// Returns what the start warned of, such as that callers are not authenticated, or that an option has no effect.
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings().to_vec()
    }

    /// Checks with one MCP exchange whether the target is an MCP server, and returns what there is to say of one that passes,
    /// such as that it requires a login. The start does not need a target that is up, so it does not check that.
    pub async fn check(&self) -> Result<Option<String>, McpmError> {
        let proxy = Arc::clone(&self.0);
        Ok(executor::spawn_cancellable(async move { proxy.check().await })?.join_or_abort().await?)
    }

    /// Explains the id of a reason, or of one of the last refusals of this proxy.
    pub fn explain(&self, id: &str) -> Result<Explanation, McpmError> {
        Ok(self.0.explain(id)?.into())
    }

    /// Stops listening and lets answers under way finish for up to 2 s. Stopping twice does no harm.
    pub async fn stop(&self) -> Result<(), McpmError> {
        let proxy = Arc::clone(&self.0);
        let stopped = async move {
            proxy.stop().await;
            Ok(())
        };
        Ok(executor::spawn_to_completion(stopped)?.join().await?)
    }
}
