//! Loads the login to a remote server from the secret store, and stores it there.

use http::HeaderValue;

use super::{
    TokenUnavailable,
    kept_login::{KeptLogin, LoginStore},
    token_renewal::OutgoingAuth,
    token_state::{Renewal, TokenSource},
};
use crate::{Environment, auth::bearer_value, options::Secret};

impl OutgoingAuth {
    /// The stored form of the login, to pass it to another process.
    pub(crate) async fn to_secret(&self) -> Option<Secret> {
        self.renewal.lock().await.login.as_ref().map(KeptLogin::to_secret)
    }

    /// Takes over the stored login, if its token is not `used`, and returns that token if it is valid.
    ///
    /// # Errors
    /// `LoginRequired` if there is no such login, or if it has to be renewed first; `renewal.login` is then the login
    /// to renew.
    pub(super) async fn take_kept(
        &self,
        renewal: &mut Renewal,
        store: Option<&LoginStore>,
        used: Option<&HeaderValue>,
    ) -> Result<HeaderValue, TokenUnavailable> {
        let none = Err(TokenUnavailable::LoginRequired);
        let Some(store) = store else { return none };
        let name = self.login_name();
        // A login that could not be stored is newer than the stored one, until another process changes the stored one.
        if renewal.login.as_ref().is_some_and(|login| !login.is_saved)
            && store.changed_at(&name) == renewal.seen_change
        {
            return none;
        }
        let kept = match store.login(&name).await {
            Ok(Some(kept)) => kept,
            Ok(None) => {
                // Another process has logged out.
                renewal.login = None;
                self.set_current(None);
                return none;
            }
            Err(error) => {
                tracing::warn!(%error, "a stored login cannot be read");
                return none;
            }
        };
        let Ok(header) = bearer_value(&kept.access_token) else { return none };
        if used == Some(&header) {
            return none;
        }
        self.set_login(renewal, kept, TokenSource::Kept).map_err(|_| TokenUnavailable::LoginRequired)?;
        match self.read_current().is_some_and(|current| current.is_valid((self.now)())) {
            true => Ok(header),
            false => none,
        }
    }

    /// Stores a login in the secret store. If that fails, the login is lost when this process ends.
    pub(super) async fn keep(
        &self,
        renewal: &mut Renewal,
        login: &mut KeptLogin,
        store: Option<&LoginStore>,
    ) {
        login.is_saved = false;
        let Some(store) = store else { return };
        let name = self.login_name();
        let saved = store.set_login(&name, login).await;
        login.is_saved = saved.is_ok();
        renewal.seen_change = store.changed_at(&name);
        if let Err(error) = saved {
            tracing::warn!(%error, "the login was not stored: a new login is required after a restart");
        }
    }

    /// The secret store. The user is not prompted for its password, because requests would have to wait for that.
    pub(super) fn store(&self) -> Option<LoginStore> {
        let environment = Environment { user_prompt: None, ..self.environment.clone()? };
        Self::open_store(&environment)
    }

    /// The secret store; the user may be prompted for its password.
    pub(super) fn store_with_prompt(&self) -> Option<LoginStore> {
        Self::open_store(self.environment.as_ref()?)
    }

    fn open_store(environment: &Environment) -> Option<LoginStore> {
        let opened = LoginStore::open(environment);
        opened.inspect_err(|error| tracing::warn!(%error, "cannot open the secret store for logins")).ok()
    }
}
