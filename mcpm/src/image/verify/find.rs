//! Finds the signatures of an image in its registry.
//!
//! - The tag `sha256-DIGEST.sig`: a manifest with one layer for each signature. The signature is in the annotations of
//!   the layer.
//! - The referrers of the image (OCI 1.1): manifests with a Sigstore bundle as their layer. In a registry without the
//!   referrers API, the tag `sha256-DIGEST` lists them.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;

use crate::{
    Result,
    image::{Digest, distribution::ImageRepository},
};

/// How many signatures of an image are verified.
const MAX_SIGNATURES: usize = 32;
const SIMPLE_SIGNING_MEDIA_TYPE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// The prefix of the media types of all bundle versions.
const BUNDLE_MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle";

/// A signature that is not verified yet.
#[derive(Debug)]
pub(super) enum Signature {
    /// A simple signing payload with its signature.
    SimpleSigning {
        /// The payload.
        payload: Bytes,
        /// The annotations with the signature and its certificate.
        annotations: BTreeMap<String, String>,
    },
    /// A Sigstore bundle.
    Bundle(Bytes),
}

#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    artifact_type: Option<String>,
    digest: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// Returns all signatures of an image, bundles first. Unknown formats are ignored.
///
/// # Errors
/// `ImageUnavailable` when the registry cannot be read.
pub(super) async fn signatures(repository: &ImageRepository, image: &Digest) -> Result<Vec<Signature>> {
    let mut found = Vec::new();
    for referrer in referrers(repository, image).await? {
        let Some((_, manifest)) = repository.manifest(&referrer.to_string()).await? else { continue };
        for layer in layers(&manifest) {
            if layer.media_type.starts_with(BUNDLE_MEDIA_TYPE)
                && found.len() < MAX_SIGNATURES
                && let Some(digest) = Digest::parse(&layer.digest)
            {
                found.push(Signature::Bundle(repository.blob(&digest).await?));
            }
        }
    }
    let tag = format!("sha256-{}.sig", image.hex());
    if let Some((_, manifest)) = repository.manifest(&tag).await? {
        for layer in layers(&manifest) {
            if layer.media_type == SIMPLE_SIGNING_MEDIA_TYPE
                && found.len() < MAX_SIGNATURES
                && let Some(digest) = Digest::parse(&layer.digest)
            {
                let payload = repository.blob(&digest).await?;
                let annotations = layer.annotations.unwrap_or_default();
                found.push(Signature::SimpleSigning { payload, annotations });
            }
        }
    }
    Ok(found)
}

/// Returns the manifests that refer to an image and may contain bundles.
async fn referrers(repository: &ImageRepository, image: &Digest) -> Result<Vec<Digest>> {
    let index = match repository.referrers(image).await? {
        Some(index) => index,
        None => match repository.manifest(&format!("sha256-{}", image.hex())).await? {
            Some((_, index)) => index,
            None => return Ok(Vec::new()),
        },
    };
    let Ok(index) = serde_json::from_slice::<Index>(&index) else { return Ok(Vec::new()) };
    let may_be =
        |of: &Descriptor| of.artifact_type.as_deref().is_none_or(|kind| kind.starts_with(BUNDLE_MEDIA_TYPE));
    let digests = index.manifests.iter().filter(|of| may_be(of)).filter_map(|of| Digest::parse(&of.digest));
    Ok(digests.take(MAX_SIGNATURES).collect())
}

fn layers(manifest: &[u8]) -> Vec<Descriptor> {
    serde_json::from_slice::<Manifest>(manifest).map(|manifest| manifest.layers).unwrap_or_default()
}
