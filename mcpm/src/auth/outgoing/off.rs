//! Replaces outgoing authentication in builds without the Cargo feature `login` with a type that has no values.

use std::{convert::Infallible, path::PathBuf, sync::Arc};

use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::watch;
use url::Url;

use super::{OutgoingSecrets, OutgoingSpec, TokenUnavailable};
use crate::{Environment, Feature, Result, options::Secret, state::LoginState};

/// Authenticates requests to one remote server, which this build cannot do.
#[derive(Debug)]
pub(crate) struct OutgoingAuth(Infallible);

impl OutgoingAuth {
    pub(crate) fn new(
        _spec: OutgoingSpec,
        _secrets: OutgoingSecrets,
        _target: Url,
        _ca_bundle: Option<PathBuf>,
        _environment: Option<Environment>,
    ) -> Result<Self> {
        Err(Feature::Login.missing("a login to a remote server"))
    }

    pub(crate) fn is_rejection(_status: StatusCode, _headers: &HeaderMap) -> bool {
        false
    }

    pub(crate) fn login_name(&self) -> String {
        match self.0 {}
    }

    pub(crate) fn current(&self) -> Option<HeaderValue> {
        match self.0 {}
    }

    pub(crate) fn states(&self) -> watch::Receiver<Option<LoginState>> {
        match self.0 {}
    }

    pub(crate) fn may_be_kept(&self) -> bool {
        match self.0 {}
    }

    pub(crate) async fn restore(&self, _handed_over: Option<&Secret>) -> Result<()> {
        match self.0 {}
    }

    pub(crate) async fn prepare(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) async fn obtain_login(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) async fn log_in_and_keep(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) async fn log_out(&self) -> Result<()> {
        match self.0 {}
    }

    pub(crate) async fn take_changed_login(&self) {
        match self.0 {}
    }

    pub(crate) async fn to_secret(&self) -> Option<Secret> {
        match self.0 {}
    }

    pub(crate) async fn authorization(self: &Arc<Self>) -> Result<Option<HeaderValue>, TokenUnavailable> {
        match self.0 {}
    }

    pub(crate) async fn authorization_without_user(self: &Arc<Self>) -> Option<HeaderValue> {
        match self.0 {}
    }

    pub(crate) async fn after_rejection(
        self: &Arc<Self>,
        _used: Option<HeaderValue>,
        _status: StatusCode,
        _headers: &HeaderMap,
        _is_repeat: bool,
    ) -> Result<HeaderValue, Option<TokenUnavailable>> {
        match self.0 {}
    }
}
