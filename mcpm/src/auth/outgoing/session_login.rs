//! Logs in and out, as the user or as the configured client itself.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::HeaderValue;

use super::{
    challenge::Challenge,
    kept_login::LoginStore,
    login::{Login, login_required},
    probe::probe,
    renewal::{Renewal, TokenSource, TokenUnavailable},
    revocation::revoke,
    session::OutgoingAuth,
};
use crate::{
    Error, ErrorKind, Result, auth::SecretSource, http_client::is_confidential, redact::url::redact_url,
    user_prompt::UserPrompt,
};

/// Most logins of one server within [`LOGIN_PERIOD`] that a running proxy asks the user for.
const MAX_LOGINS: usize = 3;
const LOGIN_PERIOD: Duration = Duration::from_secs(600);

impl OutgoingAuth {
    /// Gets another token for a server that requires a login: the kept one, a renewed one, or that of a new login. The
    /// store is opened only here, since that may ask for its password.
    ///
    /// # Errors
    /// `NotFound` if the server names no authorization server; as for [`log_in`](Self::log_in).
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
        renewal.logins.retain(|at| at.elapsed() < LOGIN_PERIOD);
        if renewal.logins.len() >= MAX_LOGINS {
            return Err(TokenUnavailable::LoginRequired);
        }
        renewal.logins.push(Instant::now());
        self.log_in_with(renewal, challenge).await.map_err(|error| {
            tracing::warn!(%error, server = %redact_url(&self.target), "the login failed");
            TokenUnavailable::LoginRequired
        })
    }

    /// Logs in, in place of the login that there is.
    ///
    /// # Errors
    /// Those of the login.
    pub(crate) async fn log_in(&self) -> Result<()> {
        let mut renewal = self.renewal.lock().await;
        self.log_in_with(&mut renewal, None).await.map(drop)
    }

    /// Whether the login may be kept, for all that is known without opening the secret store.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.store().is_some_and(|store| store.changed_at(&self.login_name()).is_some())
    }

    /// Removes the login that is kept, and revokes it (RFC 7009).
    ///
    /// # Errors
    /// `NotFound` if no login is kept; those of the secret store.
    pub(crate) async fn log_out(&self) -> Result<()> {
        let name = self.login_name();
        let none = || {
            let message = format!("no login to `{}` is kept", redact_url(&self.target));
            Error::new(ErrorKind::NotFound, message)
        };
        let store = LoginStore::open(self.environment.as_ref().ok_or_else(none)?)?;
        let _lock = store.lock(&name).await?;
        let login = store.login(&name).await?.ok_or_else(none)?;
        let http = self.http().await?;
        store.remove_login(&name).await?;
        let revoked = async { revoke(http, &login, &self.client_of(&login)?).await };
        if let Err(error) = revoked.await {
            tracing::warn!(%error, "the login is removed here, but was not revoked");
        }
        Ok(())
    }

    async fn log_in_with(&self, renewal: &mut Renewal, challenge: Option<Challenge>) -> Result<HeaderValue> {
        if !is_confidential(&self.target) {
            return Err(Error::new(ErrorKind::NotFound, "there are no logins over plain HTTP"));
        }
        if !self.can_log_in() {
            return Err(login_required(&self.target));
        }
        let challenge = match challenge {
            Some(challenge) => Some(challenge),
            None => probe(self.http().await?, &self.target).await,
        };
        let (store, name) = (self.store(), self.login_name());
        let mut before = renewal.login.clone();
        if let Some(store) = &store {
            // Another process may have kept the scopes that it needs.
            match store.login(&name).await {
                Ok(kept) => before = kept.or(before),
                Err(error) => tracing::warn!(%error, "a kept login cannot be read"),
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
            now: self.now,
        };
        let mut login = Box::pin(login.run()).await?;
        let mut _lock = None;
        if let Some(store) = &store {
            // A renewal of the login before must not replace this one.
            _lock = store.lock(&name).await.ok();
        }
        self.keep(&mut login, store.as_ref()).await;
        renewal.challenged_scopes = challenge.as_ref().map(Challenge::scopes).unwrap_or_default();
        self.set_login(renewal, login, TokenSource::LoggedIn)
    }

    /// Keeps scopes that the login lacks, for the next one, which may be made by another process.
    pub(super) async fn keep_missing_scopes(&self, renewal: &mut Renewal, scopes: Vec<String>) {
        let Some(login) = &mut renewal.login else { return };
        if scopes.is_empty() || scopes == login.missing_scopes {
            return;
        }
        login.missing_scopes = scopes;
        let store = self.store();
        let mut _lock = None;
        if let Some(store) = &store {
            let name = self.login_name();
            _lock = store.lock(&name).await.ok();
            let kept = store.login(&name).await.ok().flatten();
            if kept.is_some_and(|kept| kept.access_token != login.access_token) {
                // Another process has made another login meanwhile.
                return;
            }
        }
        self.keep(login, store.as_ref()).await;
    }

    /// Takes a login that another process has made since this one has needed it.
    pub(crate) async fn take_new_login(&self) {
        // A renewal that is under way looks by itself.
        let Ok(mut renewal) = self.renewal.try_lock() else { return };
        let Some(store) = self.store() else { return };
        let changed = store.changed_at(&self.login_name());
        if changed.is_some() && changed != renewal.seen_change {
            renewal.seen_change = changed;
            let used = self.current();
            let taken = self.take_kept(&mut renewal, Some(&store), used.as_ref()).await;
            tracing::debug!(is_valid = taken.is_ok(), "the kept login has changed");
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
