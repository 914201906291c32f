//! Stores secrets in one encrypted file, which is read as a whole, changed under a lock and replaced atomically.

use std::{collections::BTreeMap, fs, io, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{encrypted_format, password::Password, store::SecretStore};
use crate::{
    Environment, Error, ErrorKind, Result,
    blocking::run_blocking,
    options::Secret,
    state::{
        file::{self, file_error},
        file_lock::FileLock,
    },
};

/// Maximum size of the file in bytes.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// How long to wait while another process changes the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Secrets in one file that is encrypted with a password.
#[derive(Debug)]
pub(super) struct EncryptedFile {
    paths: Arc<StorePaths>,
    password: Password,
}

impl EncryptedFile {
    /// The file in the state folder; neither need exist. `keyring` is where the password is saved, if that is
    /// configured.
    pub(super) fn new(environment: &Environment, keyring: Option<Arc<dyn SecretStore>>) -> Self {
        let folder = environment.state_dir.join("secrets");
        let paths = StorePaths { file: folder.join("store.json"), lock: folder.join("lock"), folder };
        Self { paths: Arc::new(paths), password: Password::new(environment, keyring) }
    }

    /// The content of the file; empty if there is no file, and then no password is needed.
    async fn content(&self) -> Result<BTreeMap<String, Secret>> {
        let Some(bytes) = self.paths.read_file()? else { return Ok(BTreeMap::new()) };
        let password = self.password.get(&self.paths.file, false).await?;
        let paths = Arc::clone(&self.paths);
        let (content, password) =
            run_blocking(move || Ok((encrypted_format::decrypt(&bytes, &paths.file, &password)?, password)))
                .await?;
        self.password.confirm(&password).await;
        Ok(content)
    }

    /// Changes the file; `change` returns whether there is anything to write.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Secret>) -> (bool, T) + Send + 'static,
    ) -> Result<T> {
        let is_new = self.paths.read_file()?.is_none();
        let password = self.password.get(&self.paths.file, is_new).await?;
        let paths = Arc::clone(&self.paths);
        let (outcome, password) = run_blocking(move || {
            let _lock = paths.lock(LOCK_TIMEOUT)?;
            let mut content = match paths.read_file()? {
                Some(bytes) => encrypted_format::decrypt(&bytes, &paths.file, &password)?,
                None => BTreeMap::new(),
            };
            let (changed, outcome) = change(&mut content);
            if changed {
                let bytes = encrypted_format::encrypt(&content, &password)?;
                file::replace(&paths.file, &bytes)
                    .map_err(|error| file_error("write", &paths.file, error))?;
            }
            Ok((outcome, password))
        })
        .await?;
        self.password.confirm(&password).await;
        Ok(outcome)
    }
}

#[async_trait]
impl SecretStore for EncryptedFile {
    fn location(&self) -> String {
        format!("the encrypted file `{}`", self.paths.file.display())
    }

    async fn read(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        let mut content = self.content().await?;
        content.retain(|name, _| names.contains(name));
        Ok(content)
    }

    async fn set(&self, name: &str, value: &Secret) -> Result<()> {
        let (name, value) = (name.to_owned(), value.clone());
        self.change(move |content| {
            content.insert(name, value);
            (true, ())
        })
        .await
    }

    async fn list(&self) -> Result<Vec<String>> {
        Ok(self.content().await?.into_keys().collect())
    }

    async fn remove(&self, name: &str) -> Result<bool> {
        if self.paths.read_file()?.is_none() {
            return Ok(false);
        }
        let name = name.to_owned();
        self.change(move |content| {
            let existed = content.remove(&name).is_some();
            (existed, existed)
        })
        .await
    }
}

/// The paths of the file and its lock.
#[derive(Debug)]
struct StorePaths {
    folder: PathBuf,
    file: PathBuf,
    lock: PathBuf,
}

impl StorePaths {
    /// Reads the file; `None` if there is none.
    fn read_file(&self) -> Result<Option<Vec<u8>>> {
        match fs::metadata(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error("read", &self.file, error)),
            Ok(file) if file.len() > MAX_FILE_BYTES => {
                let message = format!("`{}` is larger than 32 MiB", self.file.display());
                return Err(Error::new(ErrorKind::CorruptState, message));
            }
            Ok(_) => {}
        }
        fs::read(&self.file).map(Some).map_err(|error| file_error("read", &self.file, error))
    }

    /// Locks the file for a change. The lock is a separate file, because the store is replaced.
    fn lock(&self, timeout: Duration) -> Result<FileLock> {
        file::create_folders(&self.folder).map_err(|error| file_error("create", &self.folder, error))?;
        FileLock::exclusive(&self.lock, timeout)?.ok_or_else(|| {
            let message = format!("another process is changing `{}`", self.file.display());
            Error::new(ErrorKind::SecretsUnavailable, message).hint("try again")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_process_changes_for_too_long_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let mut environment = Environment::from_lookup(|_| None);
        environment.state_dir = folder.path().to_owned();
        let paths = EncryptedFile::new(&environment, None).paths;
        let _changing = paths.lock(LOCK_TIMEOUT).unwrap();
        let error = paths.lock(Duration::ZERO).unwrap_err();
        let expected = format!("another process is changing `{}`", paths.file.display());
        assert_eq!((error.kind(), error.message()), (ErrorKind::SecretsUnavailable, expected.as_str()));
        assert_eq!(error.next_step(), Some("try again"));
    }
}
