//! Gets the password of the encrypted file from the environment, a file, the keyring, or a prompt.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use tokio::sync::OnceCell;

use super::store::SecretStore;
use crate::{Environment, Error, ErrorKind, Result, options::Secret, user_prompt::UserPrompt};

/// The name of the keyring item that contains the password.
const PASSWORD_ITEM: &str = "password of the encrypted file";

/// Obtains the password, once.
#[derive(Debug)]
pub(super) struct Password {
    given: Option<Secret>,
    entered: Arc<OnceLock<Secret>>,
    file: Option<PathBuf>,
    keyring: Option<Arc<dyn SecretStore>>,
    interaction: Option<Arc<dyn UserPrompt>>,
    found: OnceCell<ObtainedPassword>,
}

#[derive(Debug)]
struct ObtainedPassword {
    password: Secret,
    /// Whether the password was entered at a prompt and should be saved in the keyring.
    is_unsaved: bool,
}

impl Password {
    /// `keyring` is where the password is saved, if that is configured.
    pub(super) fn new(environment: &Environment, keyring: Option<Arc<dyn SecretStore>>) -> Self {
        let settings = &environment.secrets;
        Self {
            given: settings.password.clone(),
            entered: Arc::clone(&settings.entered_password),
            file: settings.password_file.as_ref().map(|path| environment.working_dir.join(path)),
            keyring,
            interaction: environment.user_prompt.clone(),
            found: OnceCell::new(),
        }
    }

    /// Returns the password of `file`; a new one is prompted for twice.
    pub(super) async fn get(&self, file: &Path, is_new: bool) -> Result<Secret> {
        let obtained = self.found.get_or_try_init(|| self.find(file, is_new)).await?;
        Ok(obtained.password.clone())
    }

    /// Reports that the password is correct, so that it may be saved in the keyring and is not asked for again.
    pub(super) async fn confirm(&self, password: &Secret) {
        // The first correct password is kept.
        let is_first = self.found.get().is_some_and(|found| found.is_unsaved)
            && self.entered.set(password.clone()).is_ok();
        if let Some(keyring) = self.keyring.as_ref().filter(|_| is_first)
            && let Err(error) = keyring.set(PASSWORD_ITEM, password).await
        {
            tracing::warn!(%error, "cannot save the password in the keyring");
        }
    }

    async fn find(&self, file: &Path, is_new: bool) -> Result<ObtainedPassword> {
        let known = |password| Ok(ObtainedPassword { password, is_unsaved: false });
        if let Some(password) = &self.given {
            return known(password.clone());
        }
        if let Some(password) = self.entered.get() {
            return known(password.clone());
        }
        if let Some(path) = &self.file {
            return known(read(path)?);
        }
        if let Some(keyring) = &self.keyring {
            match keyring.read(&[PASSWORD_ITEM.to_owned()]).await {
                Ok(mut items) => {
                    if let Some(password) = items.remove(PASSWORD_ITEM) {
                        return known(password);
                    }
                }
                // Without a running keyring, the user may still know the password.
                Err(error) => tracing::warn!(%error, "cannot read the password from the keyring"),
            }
        }
        Ok(ObtainedPassword { password: self.ask(file, is_new).await?, is_unsaved: true })
    }

    async fn ask(&self, file: &Path, is_new: bool) -> Result<Secret> {
        let none = || {
            let message = format!("the password of `{}` is unknown", file.display());
            Error::new(ErrorKind::SecretsUnavailable, message)
                .hint("set `MCPM_SECRETS_PASSWORD` or `MCPM_SECRETS_PASSWORD_FILE`, or run the command in a terminal")
        };
        let interaction = self.interaction.as_ref().ok_or_else(none)?;
        let question = if is_new { "New password for mcpm's secrets" } else { "Password of mcpm's secrets" };
        let password = interaction.ask_secret(question).await?.ok_or_else(none)?;
        if password.expose().is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, "the password is empty"));
        }
        if is_new && interaction.ask_secret("Repeat the password").await?.as_ref() != Some(&password) {
            return Err(Error::new(ErrorKind::InvalidOption, "the two passwords differ"));
        }
        Ok(password)
    }
}

/// The first line of a file.
fn read(path: &Path) -> Result<Secret> {
    let cannot = |error| {
        let message = format!("cannot read the password from `{}`", path.display());
        Error::new(ErrorKind::SecretsUnavailable, message).source(error)
    };
    let text = zeroize::Zeroizing::new(fs::read_to_string(path).map_err(cannot)?);
    match text.lines().next().unwrap_or_default() {
        "" => {
            let message = format!("`{}` contains no password: its first line is empty", path.display());
            Err(Error::new(ErrorKind::SecretsUnavailable, message))
        }
        password => Ok(Secret::from(password)),
    }
}
