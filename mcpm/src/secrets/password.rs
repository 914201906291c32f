//! Where the password of the encrypted file comes from: the environment, a file, the keyring, somebody who is asked.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::OnceCell;

use super::SecretStore;
use crate::{Environment, Error, ErrorKind, Result, options::Secret, user_prompt::UserPrompt};

/// The name that the keyring has for the password.
const PASSWORD_ITEM: &str = "password of the encrypted file";

/// Finds the password, once.
#[derive(Debug)]
pub(super) struct Password {
    given: Option<Secret>,
    file: Option<PathBuf>,
    keyring: Option<Arc<dyn SecretStore>>,
    interaction: Option<Arc<dyn UserPrompt>>,
    found: OnceCell<ObtainedPassword>,
}

#[derive(Debug)]
struct ObtainedPassword {
    password: Secret,
    /// Whether somebody was asked, and the keyring does not have it yet.
    is_unsaved: bool,
}

impl Password {
    pub(super) fn new(environment: &Environment, in_keyring: bool) -> Result<Self> {
        let settings = &environment.secrets;
        Ok(Self {
            given: settings.password.clone(),
            file: settings.password_file.as_ref().map(|path| environment.working_dir.join(path)),
            keyring: if in_keyring { Some(keyring(environment)?) } else { None },
            interaction: environment.user_prompt.clone(),
            found: OnceCell::new(),
        })
    }

    /// Returns the password of `file`; somebody who is asked says a new one twice.
    pub(super) async fn get(&self, file: &Path, is_new: bool) -> Result<Secret> {
        let found = self.found.get_or_try_init(|| self.find(file, is_new)).await?;
        Ok(found.password.clone())
    }

    /// Hears that the password opened the file, so that the keyring may keep it.
    pub(super) async fn confirm(&self, password: &Secret) {
        let is_news = self.found.get().is_some_and(|found| found.is_unsaved);
        if let Some(keyring) = self.keyring.as_ref().filter(|_| is_news)
            && let Err(error) = keyring.set(PASSWORD_ITEM, password).await
        {
            tracing::warn!(%error, "the keyring does not keep the password");
        }
    }

    async fn find(&self, file: &Path, is_new: bool) -> Result<ObtainedPassword> {
        let known = |password| Ok(ObtainedPassword { password, is_unsaved: false });
        if let Some(password) = &self.given {
            return known(password.clone());
        }
        if let Some(path) = &self.file {
            return known(read(path)?);
        }
        if let Some(keyring) = &self.keyring {
            match keyring.read(&[PASSWORD_ITEM.to_owned()]).await {
                Ok(mut found) => {
                    if let Some(password) = found.remove(PASSWORD_ITEM) {
                        return known(password);
                    }
                }
                // Somebody may know the password where no keyring runs.
                Err(error) => tracing::warn!(%error, "the keyring does not give the password"),
            }
        }
        Ok(ObtainedPassword { password: self.ask(file, is_new).await?, is_unsaved: true })
    }

    async fn ask(&self, file: &Path, is_new: bool) -> Result<Secret> {
        let none = || {
            let message = format!("no password is known for `{}`", file.display());
            Error::new(ErrorKind::SecretsUnavailable, message)
                .hint("set `MCPM_SECRETS_PASSWORD` or `MCPM_SECRETS_PASSWORD_FILE`, or run it on a terminal")
        };
        let interaction = self.interaction.as_ref().ok_or_else(none)?;
        let question = if is_new { "New password for mcpm's secrets" } else { "Password of mcpm's secrets" };
        let password = interaction.ask_secret(question).await?.ok_or_else(none)?;
        if password.expose().is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, "the password is empty"));
        }
        if is_new && interaction.ask_secret("The same again").await?.as_ref() != Some(&password) {
            return Err(Error::new(ErrorKind::InvalidOption, "the two passwords differ"));
        }
        Ok(password)
    }
}

/// The first line of a file.
fn read(path: &Path) -> Result<Secret> {
    let cannot = |error| {
        let message = format!("cannot read the password in `{}`", path.display());
        Error::new(ErrorKind::SecretsUnavailable, message).source(error)
    };
    let text = zeroize::Zeroizing::new(fs::read_to_string(path).map_err(cannot)?);
    match text.lines().next().unwrap_or_default() {
        "" => {
            let message = format!("the first line of `{}` is no password: it is empty", path.display());
            Err(Error::new(ErrorKind::SecretsUnavailable, message))
        }
        password => Ok(Secret::from(password)),
    }
}

#[cfg(feature = "keyring")]
#[expect(clippy::unnecessary_wraps, reason = "a build without keyrings fails here")]
fn keyring(environment: &Environment) -> Result<Arc<dyn SecretStore>> {
    Ok(Arc::new(super::keyring::Keyring::new(environment, "mcpm-password")))
}

#[cfg(not(feature = "keyring"))]
fn keyring(environment: &Environment) -> Result<Arc<dyn SecretStore>> {
    super::select::keyring(environment)
}
