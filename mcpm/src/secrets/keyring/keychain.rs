//! Stores secrets in the user's Keychain on macOS, through the Security framework.
//!
//! Secrets are generic passwords: the service is the application, the account is the name. The framework's functions
//! block while macOS asks the user, so each operation runs on a thread of its own.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use security_framework::{
    base::Error as KeychainError,
    item::{ItemClass, ItemSearchOptions, Limit},
    passwords::{PasswordOptions, delete_generic_password, generic_password, set_generic_password},
};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::access::{unavailable, value_of, within_timeout};
use crate::{Environment, Error, ErrorKind, Result, options::Secret, secrets::store::SecretStore};

/// The codes of Security.framework that have a meaning here (`SecBase.h`).
const ITEM_NOT_FOUND: i32 = -25300;
const INTERACTION_NOT_ALLOWED: i32 = -25308;
const AUTHENTICATION_FAILED: i32 = -25293;
const CANCELED_BY_USER: i32 = -128;

/// The attribute of an item with its account.
const ACCOUNT_ATTRIBUTE: &str = "acct";

/// Secrets in the default keychain.
#[derive(Debug)]
struct Keychain {
    service: &'static str,
}

/// Creates a client of the default keychain. Does not use it yet.
///
/// # Errors
/// Only in a build without keyrings.
pub(in crate::secrets) fn open(
    _environment: &Environment,
    application: &'static str,
) -> Result<Arc<dyn SecretStore>> {
    Ok(Arc::new(Keychain { service: application }))
}

/// Runs `work` on a thread of its own, within the time limit. The runtime waits for its own blocking threads at the end
/// of the program, even if nobody answers the prompt.
async fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, KeychainError> + Send + 'static,
) -> Result<T> {
    let (sender, result) = oneshot::channel();
    let internal = |message: &'static str| Error::new(ErrorKind::Internal, message);
    std::thread::Builder::new()
        .name("keychain".to_owned())
        // After a timeout nobody receives the result.
        .spawn(move || drop(sender.send(work())))
        .map_err(|error| internal("cannot start a thread for the keychain").source(error))?;
    let result = async { result.await.map_err(|_| internal("the thread for the keychain panicked")) };
    within_timeout(result).await?.map_err(failed)
}

/// Treats an item that does not exist as `None`.
fn found<T>(result: Result<T, KeychainError>) -> Result<Option<T>, KeychainError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == ITEM_NOT_FOUND => Ok(None),
        Err(error) => Err(error),
    }
}

#[async_trait]
impl SecretStore for Keychain {
    fn location(&self) -> String {
        "the keychain".to_owned()
    }

    async fn read(&self, names: &[String]) -> Result<BTreeMap<String, Secret>> {
        let mut values = BTreeMap::new();
        for name in names {
            let (service, account) = (self.service, name.clone());
            let read = move || generic_password(PasswordOptions::new_generic_password(service, &account));
            if let Some(value) = run(move || found(read())).await? {
                values.insert(name.clone(), value_of(name, value)?);
            }
        }
        Ok(values)
    }

    async fn set(&self, name: &str, value: &Secret) -> Result<()> {
        let (service, account) = (self.service, name.to_owned());
        let value = Zeroizing::new(value.expose().as_bytes().to_vec());
        run(move || set_generic_password(service, &account, &value)).await
    }

    async fn list(&self) -> Result<Vec<String>> {
        let service = self.service;
        let items = run(move || {
            let mut search = ItemSearchOptions::new();
            search.class(ItemClass::generic_password()).service(service);
            let items = found(search.load_attributes(true).limit(Limit::All).search())?;
            let items = items.into_iter().flatten().filter_map(|item| item.simplify_dict());
            Ok(items.filter_map(|mut item| item.remove(ACCOUNT_ATTRIBUTE)).collect::<Vec<_>>())
        });
        let mut names = items.await?;
        names.sort();
        names.dedup();
        Ok(names)
    }

    async fn remove(&self, name: &str) -> Result<bool> {
        let (service, account) = (self.service, name.to_owned());
        let removed = run(move || found(delete_generic_password(service, &account)));
        Ok(removed.await?.is_some())
    }
}

fn failed(error: KeychainError) -> Error {
    let why = match error.code() {
        INTERACTION_NOT_ALLOWED => "the keychain is locked, and this session cannot ask for its password",
        AUTHENTICATION_FAILED | CANCELED_BY_USER => "the keychain was not unlocked",
        _ => "the keychain denied access",
    };
    unavailable(why).source(error)
}
