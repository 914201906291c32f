//! Implements the crypto provider of `sigstore-verify` with ring, which TLS uses already.
//!
//! The provider is installed once per process, unless the embedding program has installed another one. The crypto
//! provider of rustls is not affected.
//!
//! ring hashes the message itself, and cannot verify a digest. So the message is kept in a thread-local variable while
//! it is verified.

use std::cell::RefCell;

use ring::{
    digest::{self, Context},
    signature::{self, UnparsedPublicKey, VerificationAlgorithm},
};
use sigstore_verify::{
    crypto::{
        CryptoProvider, Error, HashContext, Result, SigningScheme, install_default_provider,
        try_default_provider,
    },
    types::HashAlgorithm,
};

thread_local! {
    static MESSAGE: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

#[derive(Debug)]
struct Ring;

struct RingHash(Context);

impl HashContext for RingHash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

/// Installs the provider, unless there is one.
pub(super) fn install_crypto_provider() {
    if try_default_provider().is_none() && install_default_provider(&Ring).is_err() {
        tracing::debug!("another crypto provider for signatures was installed at the same time");
    }
}

/// Runs a verification with `message` as the signed message.
pub(super) fn with_message<T>(message: &[u8], verify: impl FnOnce() -> T) -> T {
    struct ClearOnDrop;
    impl Drop for ClearOnDrop {
        fn drop(&mut self) {
            MESSAGE.with_borrow_mut(|kept| *kept = None);
        }
    }
    MESSAGE.with_borrow_mut(|kept| *kept = Some(message.to_vec()));
    let _forget = ClearOnDrop;
    verify()
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>> {
        Ok(Box::new(RingHash(Context::new(hash_algorithm(algorithm)?))))
    }

    fn verify_raw(&self, scheme: SigningScheme, key: &[u8], data: &[u8], signature: &[u8]) -> Result<()> {
        UnparsedPublicKey::new(algorithm(scheme)?, key)
            .verify(data, signature)
            .map_err(|_| Error::Verification(format!("the {} signature is invalid", scheme.name())))
    }

    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        hash: &[u8],
        signature: &[u8],
    ) -> Result<()> {
        let unsupported = || Error::UnsupportedAlgorithm(format!("a digest with {}", scheme.name()));
        let algorithm = hash_algorithm(scheme.hash_algorithm().ok_or_else(unsupported)?)?;
        MESSAGE.with_borrow(|message| {
            let message = message.as_deref().ok_or_else(unsupported)?;
            if digest::digest(algorithm, message).as_ref() != hash {
                return Err(Error::Verification("the digest does not match the signed message".to_owned()));
            }
            self.verify_raw(scheme, key, message, signature)
        })
    }
}

fn hash_algorithm(algorithm: HashAlgorithm) -> Result<&'static digest::Algorithm> {
    match algorithm {
        HashAlgorithm::Sha2256 => Ok(&digest::SHA256),
        HashAlgorithm::Sha2384 => Ok(&digest::SHA384),
        HashAlgorithm::Sha2512 => Ok(&digest::SHA512),
        other => Err(Error::UnsupportedAlgorithm(other.to_string())),
    }
}

fn algorithm(scheme: SigningScheme) -> Result<&'static dyn VerificationAlgorithm> {
    Ok(match scheme {
        SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
        SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
        SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
        SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
        SigningScheme::Ed25519 => &signature::ED25519,
        SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
        SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
        SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
        other => return Err(Error::UnsupportedAlgorithm(other.name().to_owned())),
    })
}
