//! Encodes and decodes the encrypted file: a readable header, and a ciphertext whose key is derived from the password.
//!
//! Each write uses a fresh salt, so each key encrypts only one plaintext, and no nonce is used twice with a key. The
//! header is authenticated as additional data: a header that was changed and is still valid leads to the same error as
//! a wrong password.

use std::{collections::BTreeMap, path::Path};

use argon2::{Algorithm, Argon2, Params, Version};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{
    Error, ErrorKind, Result,
    options::Secret,
    random::random_bytes,
    state::{FORMAT_VERSION, document},
};

const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 16;
/// The second recommended option of RFC 9106: 64 MiB, three passes, four lanes.
const DEFAULT_COSTS: Argon2Costs = Argon2Costs { memory_kib: 64 * 1024, passes: 3, lanes: 4 };
/// Maximum costs that are accepted from a file, so that a replaced file cannot exhaust memory or time.
const MAX_COSTS: Argon2Costs = Argon2Costs { memory_kib: 1024 * 1024, passes: 32, lanes: 64 };
/// Minimum costs that are accepted from a file.
const MIN_COSTS: Argon2Costs = Argon2Costs { memory_kib: 19 * 1024, passes: 1, lanes: 1 };

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Argon2Costs {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// The parameters of the key derivation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Derivation {
    name: DerivationName,
    costs: Argon2Costs,
    salt: String,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DerivationName {
    Argon2id,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Cipher {
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305,
}

/// The readable part, which is authenticated.
#[derive(Debug, Clone, Serialize)]
struct AuthenticatedHeader<'a> {
    version: u32,
    key: &'a Derivation,
    cipher: Cipher,
    nonce: &'a str,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EncryptedDocument {
    version: u32,
    key: Derivation,
    cipher: Cipher,
    nonce: String,
    data: String,
}

/// The encrypted part.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plaintext {
    secrets: BTreeMap<String, Zeroizing<String>>,
}

/// Encrypts secrets and returns the content of the file. Takes a fraction of a second.
pub(super) fn encrypt(secrets: &BTreeMap<String, Secret>, password: &Secret) -> Result<Vec<u8>> {
    let content = Plaintext {
        secrets: secrets
            .iter()
            .map(|(name, value)| (name.clone(), Zeroizing::new(value.expose().to_owned())))
            .collect(),
    };
    let mut data =
        Zeroizing::new(serde_json::to_vec(&content).map_err(|error| encryption_error().source(error))?);
    let salt = random_bytes::<SALT_BYTES>()?;
    let nonce = random_bytes::<{ ring::aead::NONCE_LEN }>()?;
    let derivation =
        Derivation { name: DerivationName::Argon2id, costs: DEFAULT_COSTS, salt: BASE64.encode(salt) };
    let key = key(&derivation, &salt, password)?;
    let nonce_text = BASE64.encode(nonce);
    let header = AuthenticatedHeader {
        version: FORMAT_VERSION,
        key: &derivation,
        cipher: Cipher::ChaCha20Poly1305,
        nonce: &nonce_text,
    };
    let header = Aad::from(serde_json::to_vec(&header).map_err(|error| encryption_error().source(error))?);
    let tag = key
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), header, &mut data)
        .map_err(|_| encryption_error())?;
    data.extend_from_slice(tag.as_ref());
    document::encode(
        &EncryptedDocument {
            version: FORMAT_VERSION,
            cipher: Cipher::ChaCha20Poly1305,
            data: BASE64.encode(&*data),
            nonce: nonce_text,
            key: derivation,
        },
        FORMAT_VERSION,
    )
}

/// Decrypts the content of a file. `path` is for the error. Takes a fraction of a second.
///
/// # Errors
/// `CorruptState` if `bytes` are not an encrypted file; `SecretsUnavailable` if the password is wrong.
pub(super) fn decrypt(bytes: &[u8], path: &Path, password: &Secret) -> Result<BTreeMap<String, Secret>> {
    let damaged = || Error::new(ErrorKind::CorruptState, format!("`{}` is damaged", path.display()));
    let sealed: EncryptedDocument = document::decode(bytes, path, FORMAT_VERSION, |_, _| None)?;
    let decoded = |text: &str| BASE64.decode(text).map_err(|_| damaged());
    let salt = decoded(&sealed.key.salt)?;
    let nonce = decoded(&sealed.nonce)?.try_into().map_err(|_| damaged())?;
    let mut data = Zeroizing::new(decoded(&sealed.data)?);
    let costs = sealed.key.costs;
    let within = |low, cost, high| (low..=high).contains(&cost);
    if salt.len() < SALT_BYTES
        || !within(MIN_COSTS.memory_kib, costs.memory_kib, MAX_COSTS.memory_kib)
        || !within(MIN_COSTS.passes, costs.passes, MAX_COSTS.passes)
        || !within(MIN_COSTS.lanes, costs.lanes, MAX_COSTS.lanes)
    {
        return Err(damaged());
    }
    let header = AuthenticatedHeader {
        version: sealed.version,
        key: &sealed.key,
        cipher: sealed.cipher,
        nonce: &sealed.nonce,
    };
    let header = Aad::from(serde_json::to_vec(&header).map_err(|error| encryption_error().source(error))?);
    let content = key(&sealed.key, &salt, password)?
        .open_in_place(Nonce::assume_unique_for_key(nonce), header, &mut data)
        .map_err(|_| wrong_password(path))?;
    let content: Plaintext = serde_json::from_slice(content).map_err(|_| damaged())?;
    Ok(content.secrets.into_iter().map(|(name, value)| (name, Secret::from(value.as_str()))).collect())
}

fn wrong_password(path: &Path) -> Error {
    let message = format!("the password of `{}` is wrong", path.display());
    Error::new(ErrorKind::SecretsUnavailable, message)
        .hint("use the correct password; the error is the same if another program has modified the file")
}

fn key(derivation: &Derivation, salt: &[u8], password: &Secret) -> Result<LessSafeKey> {
    let DerivationName::Argon2id = derivation.name;
    let Argon2Costs { memory_kib, passes, lanes } = derivation.costs;
    let mut key = Zeroizing::new([0; KEY_BYTES]);
    let params = Params::new(memory_kib, passes, lanes, Some(KEY_BYTES)).map_err(|_| encryption_error())?;
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into(password.expose().as_bytes(), salt, &mut *key)
        .map_err(|_| encryption_error())?;
    Ok(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &*key).map_err(|_| encryption_error())?))
}

fn encryption_error() -> Error {
    Error::new(ErrorKind::Internal, "cannot encrypt the secrets")
}
