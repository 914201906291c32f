//! Logs in and out, as the user or as the configured client itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::HeaderValue;

use super::{
    TokenUnavailable,
    challenge::Challenge,
    kept_login::{LoginStore, changed_at},
    login::{Login, login_required},
    probe::probe,
    revocation::revoke,
    token_renewal::OutgoingAuth,
    token_state::{Renewal, TokenSource},
};
use crate::{
    Error, ErrorKind, Result, auth::SecretSource, explain::Reason, http_client::is_confidential,
    redact::url::redact_url, state::LoginState, user_prompt::UserPrompt,
};

/// Maximum number of logins to one server that a running proxy requests from the user within [`LOGIN_PERIOD`].
const MAX_LOGINS: usize = 3;
const LOGIN_PERIOD: Duration = Duration::from_secs(600);
/// Maximum number of scopes kept for the next login.
const MAX_MISSING_SCOPES: usize = 64;

impl OutgoingAuth {
    /// Gets a token for a server that requires a login: from the stored login, from a renewal, or from a new login. The
    /// store is opened only here, because the user may be prompted for its password.
    ///
    /// # Errors
    /// `NotFound` if the server names no authorization server; other errors as for [`log_in`](Self::log_in).
    pub(crate) async fn obtain_login(&self) -> Result<()> {
        if self.current().is_none() {
            self.restore(None).await?;
            if self.read_current().is_some_and(|current| current.is_valid((self.now)())) {
                return Ok(());
            }
        }
        if let Some(used) = self.current().filter(|_| !self.uses_bearer_token()) {
            let mut renewal = self.renewal.lock().await;
            match self.renew_kept(&mut renewal, Some(&used)).await {
                Ok(_) => return Ok(()),
                Err(TokenUnavailable::LoginRequired) => {}
                Err(failure) => {
                    let error = Error::new(ErrorKind::Upstream, failure.message());
                    return Err(error.hint(failure.reason().fix()));
                }
            }
        }
        self.log_in().await
    }

    /// Asks the user of a proxy that runs in the foreground to log in, within limits.
    pub(super) async fn log_in_again(
        &self,
        renewal: &mut Renewal,
        challenge: Option<Challenge>,
    ) -> Result<HeaderValue, TokenUnavailable> {
        if !self.can_log_in() {
            return Err(TokenUnavailable::LoginRequired);
        }
        let has_user = self.prompt().is_some();
        if has_user {
            renewal.logins.retain(|at| at.elapsed() < LOGIN_PERIOD);
            if renewal.logins.len() >= MAX_LOGINS {
                return Err(TokenUnavailable::LoginRequired);
            }
            renewal.logins.push(Instant::now());
        }
        self.log_in_with(renewal, challenge, false).await.map_err(|error| {
            tracing::warn!(%error, server = %redact_url(&self.target), "the login failed");
            // A login of the client itself is tried again later, because it needs no user.
            if has_user { TokenUnavailable::LoginRequired } else { TokenUnavailable::Unavailable }
        })
    }

    /// Logs in, and replaces the existing login.
    ///
    /// # Errors
    /// The errors of the login.
    pub(crate) async fn log_in(&self) -> Result<()> {
        let mut renewal = self.renewal.lock().await;
        self.log_in_with(&mut renewal, None, true).await.map(drop)
    }

    /// Logs in for another process, which reads the login from the secret store.
    ///
    /// # Errors
    /// `SecretsUnavailable` if the login is not stored; other errors as for [`log_in`](Self::log_in).
    pub(crate) async fn log_in_and_keep(&self) -> Result<()> {
        let mut renewal = self.renewal.lock().await;
        self.log_in_with(&mut renewal, None, true).await?;
        if renewal.login.as_ref().is_some_and(|login| login.is_saved) {
            return Ok(());
        }
        let message = "the login was not stored, so the running workload cannot use it";
        Err(Error::new(ErrorKind::SecretsUnavailable, message)
            .hint("use `mcpm restart`, which logs in again and passes the login to the workload"))
    }

    /// Whether a login may be stored, as far as this is known without opening the secret store.
    pub(crate) fn may_be_kept(&self) -> bool {
        let environment = self.environment.as_ref();
        environment.is_some_and(|environment| changed_at(environment, &self.login_name()).is_some())
    }

    /// Removes the stored login, and revokes it (RFC 7009).
    ///
    /// # Errors
    /// `NotFound` if no login is stored; errors of the secret store.
    pub(crate) async fn log_out(&self) -> Result<()> {
        let name = self.login_name();
        let none = || {
            let message = format!("no login to `{}` is stored", redact_url(&self.target));
            Error::new(ErrorKind::NotFound, message)
        };
        let store = LoginStore::open(self.environment.as_ref().ok_or_else(none)?)?;
        let Some(_lock) = store.lock(&name).await? else {
            let message = "another process is renewing the login";
            return Err(Error::new(ErrorKind::Upstream, message).hint("try again"));
        };
        let login = store.login(&name).await?.ok_or_else(none)?;
        store.remove_login(&name).await?;
        let revoked = async { revoke(self.http().await?, &login, &self.client_of(&login)?).await };
        if let Err(error) = revoked.await {
            tracing::warn!(%error, "the login was removed from this machine, but not revoked at the \
                authorization server");
        }
        Ok(())
    }

    async fn log_in_with(
        &self,
        renewal: &mut Renewal,
        challenge: Option<Challenge>,
        is_attended: bool,
    ) -> Result<HeaderValue> {
        if !is_confidential(&self.target) {
            return Err(Error::new(ErrorKind::NotFound, "a login requires an `https` URL"));
        }
        if !self.can_log_in() {
            return Err(login_required(&self.target));
        }
        let challenge = match challenge {
            Some(challenge) => Some(challenge),
            None => probe(self.http().await?, &self.target).await,
        };
        let (store, name) = (self.store_with_prompt(), self.login_name());
        let mut before = renewal.login.clone();
        if let Some(store) = &store {
            // Another process may have stored scopes that the new login needs.
            match store.login(&name).await {
                Ok(kept) => before = kept.or(before),
                Err(error) => tracing::warn!(%error, "a stored login cannot be read"),
            }
        }
        let login = Login {
            http: self.http().await?,
            spec: &self.spec,
            target: &self.target,
            client_secret: self.spec.read_client_secret(&self.secrets)?,
            prompt: self.prompt().map(Arc::as_ref),
            store: store.as_ref(),
            challenge: challenge.as_ref(),
            before: before.as_ref(),
            is_attended,
            now: self.now,
        };
        let logged_in = Box::pin(login.run()).await;
        if let Err(error) = &logged_in
            && error.has_reason(Reason::ScopeDenied)
        {
            self.forget_missing_scopes(renewal, store.as_ref()).await;
        }
        let mut login = logged_in?;
        let mut _lock = None;
        if let Some(store) = &store {
            // The lock prevents that a renewal of the previous login replaces this one.
            _lock = store.lock(&name).await.ok();
        }
        self.keep(renewal, &mut login, store.as_ref()).await;
        renewal.challenged_scopes = challenge.as_ref().map(Challenge::scopes).unwrap_or_default();
        self.set_login(renewal, login, TokenSource::LoggedIn)
    }

    /// Removes the missing scopes after the authorization server has rejected them; otherwise every later login would
    /// fail.
    async fn forget_missing_scopes(&self, renewal: &mut Renewal, store: Option<&LoginStore>) {
        if let Some(login) = &mut renewal.login {
            login.missing_scopes.clear();
        }
        let Some(store) = store else { return };
        let name = self.login_name();
        let _lock = store.lock(&name).await.ok();
        // Another process may have renewed the login while the user was logging in.
        if let Ok(Some(mut kept)) = store.login(&name).await
            && !kept.missing_scopes.is_empty()
        {
            kept.missing_scopes.clear();
            self.keep(renewal, &mut kept, Some(store)).await;
        }
    }

    /// Stores scopes that the login lacks for the next login, which another process may perform.
    pub(super) async fn keep_missing_scopes(&self, renewal: &mut Renewal, scopes: Vec<String>) {
        let Some(login) = &mut renewal.login else { return };
        let known = login.missing_scopes.len();
        for scope in scopes {
            if login.missing_scopes.len() < MAX_MISSING_SCOPES && !login.missing_scopes.contains(&scope) {
                login.missing_scopes.push(scope);
            }
        }
        if login.missing_scopes.len() == known || !login.is_saved {
            return;
        }
        let Some(store) = self.store() else { return };
        let (mut login, name) = (login.clone(), self.login_name());
        let _lock = store.lock(&name).await.ok();
        // Another process may have logged out or in meanwhile.
        if let Ok(Some(kept)) = store.login(&name).await
            && kept.access_token == login.access_token
        {
            self.keep(renewal, &mut login, Some(&store)).await;
            renewal.login = Some(login);
        }
    }

    /// Takes over a login that another process has stored, or ends the current login if another process has removed it.
    pub(crate) async fn take_changed_login(&self) {
        // A renewal in progress reads the stored login itself.
        let Ok(mut renewal) = self.renewal.try_lock() else { return };
        let Some(environment) = &self.environment else { return };
        let changed = changed_at(environment, &self.login_name());
        if changed.is_some() && changed != renewal.seen_change {
            renewal.seen_change = changed;
            let used = self.current();
            let taken = self.take_kept(&mut renewal, self.store().as_ref(), used.as_ref()).await;
            tracing::debug!(is_valid = taken.is_ok(), "the stored login has changed");
            if renewal.login.is_none() {
                self.set_state(LoginState::NeedsLogin);
            }
        }
    }

    /// Whether a login is possible: of a user, or of the configured client itself.
    pub(super) fn can_log_in(&self) -> bool {
        self.prompt().is_some() || self.spec.client_secret != SecretSource::None
    }

    fn prompt(&self) -> Option<&Arc<dyn UserPrompt>> {
        self.environment.as_ref()?.user_prompt.as_ref()
    }
}
