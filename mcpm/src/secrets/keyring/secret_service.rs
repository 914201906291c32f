//! Stores secrets in the keyring of a Linux desktop, through the Secret Service API of freedesktop.org.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

use async_trait::async_trait;
use secret_service::{EncryptionType, Item, SecretService};

use super::access::{unavailable, value_of, within_timeout};
use crate::{Environment, Error, ErrorKind, Result, options::Secret, secrets::store::SecretStore};

const APPLICATION: &str = "application";
const NAME: &str = "name";

/// Secrets in the default collection, each an item with the attributes `application` and `name`.
#[derive(Debug)]
struct Keyring {
    bus: Option<String>,
    application: &'static str,
}

/// Creates a client of the keyring on the bus that `environment` names. Does not connect yet.
///
/// # Errors
/// Only in a build without keyrings.
pub(in crate::secrets) fn open(
    environment: &Environment,
    application: &'static str,
) -> Result<Arc<dyn SecretStore>> {
    Ok(Arc::new(Keyring::of(environment, application)))
}

/// Checks that the keyring is there and unlocked, and returns where it is.
pub(in crate::secrets) async fn check(environment: &Environment) -> Result<String> {
    let keyring = Keyring::of(environment, "mcpm-doctor");
    keyring
        .with(async |service| {
            let collection = service.get_default_collection().await.map_err(failed)?;
            match collection.is_locked().await.map_err(failed)? {
                true => Err(Error::new(ErrorKind::SecretsUnavailable, "the keyring is locked")
                    .hint("unlock it, for example by logging in to the desktop")),
                false => Ok(keyring.location()),
            }
        })
        .await
}

impl Keyring {
    fn of(environment: &Environment, application: &'static str) -> Self {
        let address = |folder: &PathBuf| format!("unix:path={}", folder.join("bus").display());
        let bus = environment.secrets.session_bus.clone();
        let bus = bus.or_else(|| environment.engine.runtime_dir.as_ref().map(address));
        Self { bus, application }
    }

    /// Connects to the service and runs `work`, within the time limit.
    async fn with<T>(&self, work: impl AsyncFnOnce(&SecretService<'_>) -> Result<T>) -> Result<T> {
        let talk = async {
            let Some(bus) = &self.bus else {
                return Err(unavailable("neither `DBUS_SESSION_BUS_ADDRESS` nor `XDG_RUNTIME_DIR` is set"));
            };
            let connection = async { zbus::connection::Builder::address(bus.as_str())?.build().await };
            let connection =
                connection.await.map_err(|error| unavailable("there is no session bus").source(error))?;
            let service = SecretService::connect_with_existing(EncryptionType::Dh, connection)
                .await
                .map_err(|error| unavailable("no Secret Service is running").source(error))?;
            work(&service).await
        };
        within_timeout(talk).await
    }

    /// The items with that name, or all of this application.
    async fn items<'a>(&self, service: &'a SecretService<'a>, name: Option<&str>) -> Result<Vec<Item<'a>>> {
        let mut attributes = HashMap::from([(APPLICATION, self.application)]);
        attributes.extend(name.map(|name| (NAME, name)));
        let search = service.search_items(attributes).await.map_err(failed)?;
        let mut items = search.unlocked;
        for item in search.locked {
            item.unlock().await.map_err(failed)?;
            items.push(item);
        }
        Ok(items)
    }
}

#[async_trait]
impl SecretStore for Keyring {
    fn location(&self) -> String {
        "the keyring".to_owned()
    }

    async fn read(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        self.with(async |service| {
            let mut values = BTreeMap::new();
            for name in names {
                if let Some(item) = self.items(service, Some(name)).await?.first() {
                    let value = item.get_secret().await.map_err(failed)?;
                    values.insert(name.clone(), value_of(name, value)?);
                }
            }
            Ok(values)
        })
        .await
    }

    async fn set(&self, name: &str, value: &Secret) -> Result<()> {
        self.with(async |service| {
            let collection = service.get_default_collection().await.map_err(failed)?;
            if collection.is_locked().await.map_err(failed)? {
                collection.unlock().await.map_err(failed)?;
            }
            let attributes = HashMap::from([(APPLICATION, self.application), (NAME, name)]);
            let (label, value) = (format!("mcpm: {name}"), value.expose().as_bytes());
            collection.create_item(&label, attributes, value, true, "text/plain").await.map_err(failed)?;
            Ok(())
        })
        .await
    }

    async fn list(&self) -> Result<Vec<String>> {
        self.with(async |service| {
            let mut names = Vec::new();
            for item in self.items(service, None).await? {
                names.extend(item.get_attributes().await.map_err(failed)?.remove(NAME));
            }
            names.sort();
            names.dedup();
            Ok(names)
        })
        .await
    }

    async fn remove(&self, name: &str) -> Result<bool> {
        self.with(async |service| {
            let items = self.items(service, Some(name)).await?;
            for item in &items {
                item.delete().await.map_err(failed)?;
            }
            Ok(!items.is_empty())
        })
        .await
    }
}

fn failed(error: secret_service::Error) -> Error {
    use secret_service::Error as Cause;
    let message = match error {
        Cause::Locked => "the keyring is locked",
        Cause::Prompt | Cause::PromptDisconnected => "the keyring was not unlocked",
        Cause::NoResult => "the keyring has no default collection",
        _ => "the keyring denied access",
    };
    Error::new(ErrorKind::SecretsUnavailable, message).source(error)
}
