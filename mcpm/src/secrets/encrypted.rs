//! The encrypted file: read whole, changed under a lock, replaced whole.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;

use super::{SecretStore, password::Password, sealed};
use crate::{
    Error, ErrorKind, Result,
    options::Secret,
    state::file::{self, cannot},
};

/// The largest file that is read.
const LARGEST: u64 = 32 << 20;
/// How long another process may take for its change.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Secrets in one file under a password.
#[derive(Debug)]
pub(super) struct EncryptedFile {
    place: Arc<Place>,
    password: Password,
}

impl EncryptedFile {
    /// The file below a state folder; neither need exist.
    pub(super) fn new(state_dir: &Path, password: Password) -> Self {
        let folder = state_dir.join("secrets");
        let place = Place { file: folder.join("store.json"), lock: folder.join("lock"), folder };
        Self { place: Arc::new(place), password }
    }

    /// What is in the file, and nothing when there is none. The password is asked for only if there is one.
    async fn content(&self) -> Result<BTreeMap<String, Secret>> {
        let Some(bytes) = self.place.bytes()? else { return Ok(BTreeMap::new()) };
        let password = self.password.get(&self.place.file, false).await?;
        let place = Arc::clone(&self.place);
        let (content, password) =
            apart(move || Ok((sealed::open(&bytes, &place.file, &password)?, password))).await?;
        self.password.was_right(&password).await;
        Ok(content)
    }

    /// Changes the file; `change` tells whether there is anything to write.
    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, Secret>) -> (bool, T) + Send + 'static,
    ) -> Result<T> {
        let is_new = self.place.bytes()?.is_none();
        let password = self.password.get(&self.place.file, is_new).await?;
        let place = Arc::clone(&self.place);
        let (outcome, password) = apart(move || {
            let _lock = place.lock()?;
            let mut content = match place.bytes()? {
                Some(bytes) => sealed::open(&bytes, &place.file, &password)?,
                None => BTreeMap::new(),
            };
            let (changed, outcome) = change(&mut content);
            if changed {
                let bytes = sealed::seal(&content, &password)?;
                file::replace(&place.file, &bytes).map_err(|error| cannot("write", &place.file, error))?;
            }
            Ok((outcome, password))
        })
        .await?;
        self.password.was_right(&password).await;
        Ok(outcome)
    }
}

#[async_trait]
impl SecretStore for EncryptedFile {
    fn place(&self) -> String {
        format!("the encrypted file `{}`", self.place.file.display())
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
        if self.place.bytes()?.is_none() {
            return Ok(false);
        }
        let name = name.to_owned();
        self.change(move |content| {
            let found = content.remove(&name).is_some();
            (found, found)
        })
        .await
    }
}

/// Where the file is.
#[derive(Debug)]
struct Place {
    folder: PathBuf,
    file: PathBuf,
    lock: PathBuf,
}

impl Place {
    /// The file as it is; `None` when there is none.
    fn bytes(&self) -> Result<Option<Vec<u8>>> {
        match fs::metadata(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("read", &self.file, error)),
            Ok(file) if file.len() > LARGEST => {
                let message = format!("`{}` is larger than 32 MiB", self.file.display());
                return Err(Error::new(ErrorKind::CorruptState, message));
            }
            Ok(_) => {}
        }
        fs::read(&self.file).map(Some).map_err(|error| cannot("read", &self.file, error))
    }

    /// The lock that whoever changes the file holds. It is a file of its own, since the other one is replaced.
    fn lock(&self) -> Result<File> {
        file::create_folders(&self.folder).map_err(|error| cannot("make", &self.folder, error))?;
        let lock = file::open(&self.lock).map_err(|error| cannot("open", &self.lock, error))?;
        let begin = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                Err(TryLockError::WouldBlock) if begin.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    let message = format!("another process is changing `{}`", self.file.display());
                    return Err(Error::new(ErrorKind::SecretsUnavailable, message).hint("try again"));
                }
                Err(TryLockError::Error(error)) => return Err(cannot("lock", &self.lock, error)),
            }
        }
    }
}

/// Does what takes long on a thread of its own.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let lost = |error| Error::new(ErrorKind::Internal, "the secrets could not be read").source(error);
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}
