//! Verifies the signature of an image.
//!
//! The tag is resolved to a digest once. A signature is valid if the expected signer made it and it signs that digest,
//! which is then pulled and run, so moving the tag afterwards has no effect. `find.rs` finds signatures; `key.rs` and
//! `identity.rs` verify them; `statement.rs` reads what they sign.

use std::fmt;

use super::{Digest, ImageReference, credentials::CredentialStore, distribution::ImageRepository};
use crate::{Error, ErrorKind, Result, transport::tls::TrustStore};

mod cosign;
mod crypto;
mod find;
mod identity;
mod key;
mod provenance;
mod reason;
mod signer;
mod statement;

pub(crate) use identity::{Identity, TrustedRoot};
pub(crate) use key::PublicKey;
pub use signer::{Signer, VerifiedImage};

/// How many reasons an error contains.
const MAX_REASONS: usize = 3;

/// The expected signer of an image.
#[derive(Debug, Clone)]
pub(crate) enum ExpectedSigner {
    /// The holder of this key.
    Key(PublicKey),
    /// An identity that an issuer attests.
    Identity(Box<Identity>),
}

impl fmt::Display for ExpectedSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Identity(identity) => identity.fmt(f),
        }
    }
}

/// Resolves the digest of an image, and verifies its signature.
///
/// # Errors
/// `ImageUnavailable` when the registry cannot be read or does not have the image; `ImageUnverified` when it has no
/// valid signature.
pub(crate) async fn verify(
    image: &ImageReference,
    expected: &ExpectedSigner,
    logins: &CredentialStore,
    trust: &TrustStore,
) -> Result<VerifiedImage> {
    let repository = ImageRepository::for_image(image, logins, trust).await?;
    let digest = digest_of(image, &repository).await?;
    let signatures = find::signatures(&repository, &digest).await?;
    let mut reasons: Vec<String> = Vec::new();
    for signature in &signatures {
        let outcome = match expected {
            ExpectedSigner::Key(key) => key.check(signature, &digest),
            ExpectedSigner::Identity(identity) => identity.check(signature, &digest),
        };
        match outcome {
            Ok(signer) => return Ok(VerifiedImage { digest: digest.to_string(), signer }),
            Err(reason) if reasons.contains(&reason) => {}
            Err(reason) => reasons.push(reason),
        }
    }
    Err(unverified(image, &digest, expected, &reasons))
}

async fn digest_of(image: &ImageReference, repository: &ImageRepository) -> Result<Digest> {
    let absent = || {
        let message = format!("image `{image}` does not exist in its registry");
        Error::new(ErrorKind::ImageUnavailable, message).with("registry", image.registry())
    };
    match image.digest() {
        Some(text) => Digest::parse(text).ok_or_else(|| {
            let message =
                format!("the digest of image `{image}` has an algorithm that signatures do not use");
            Error::new(ErrorKind::ImageUnverified, message).hint("use its `sha256:` digest")
        }),
        None => {
            let found = repository.manifest(image.tag().unwrap_or("latest")).await?;
            found.map(|(digest, _)| digest).ok_or_else(absent)
        }
    }
}

fn unverified(
    image: &ImageReference,
    digest: &Digest,
    expected: &ExpectedSigner,
    reasons: &[String],
) -> Error {
    let error = if reasons.is_empty() {
        Error::new(ErrorKind::ImageUnverified, format!("image `{image}` has no signature"))
    } else {
        let shown = reasons.iter().take(MAX_REASONS).cloned().collect::<Vec<_>>().join("; ");
        let message = format!("image `{image}` has no valid signature by the expected signer");
        Error::new(ErrorKind::ImageUnverified, message).source(shown)
    };
    let places = format!("the tag `sha256-{}.sig`, and the referrers of the image", digest.hex());
    error.with("digest", digest).with("expected signer", expected).with("searched", places).hint(
        "ask its publisher who signs it, or skip the verification by setting `image_verification` to `disabled`",
    )
}
