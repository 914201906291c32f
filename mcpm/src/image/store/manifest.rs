//! Parses manifests and indexes of the OCI and of Docker, and checks them before the content that they list is used.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    limits::{MAX_CONFIG_BYTES, MAX_IMAGE_BYTES, MAX_LAYERS},
    platform::{ImagePlatform, MachinePlatform},
};
use crate::{
    Error, ErrorKind, Result,
    image::{Digest, distribution::download::BlobDescriptor},
    printable::Printable as _,
};

/// The annotation that marks attestations, which are listed in the index of the images that they describe.
const ATTESTATION_ANNOTATION: &str = "vnd.docker.reference.type";
const INDEX_MEDIA_TYPES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
const MANIFEST_MEDIA_TYPES: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
const CONFIG_MEDIA_TYPES: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
const LAYER_MEDIA_TYPES: [&str; 6] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
];

/// A manifest or an index.
#[derive(Debug)]
pub(super) enum Document {
    Index(Index),
    Manifest(Manifest),
}

/// The manifests of an image for several platforms.
#[derive(Debug)]
pub(super) struct Index(Vec<Descriptor>);

/// The parts of an image for one platform.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) config: BlobDescriptor,
    pub(super) layers: Vec<BlobDescriptor>,
}

/// What a manifest or an index says about another document.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    platform: Option<ImagePlatform>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentFile {
    #[serde(default)]
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

impl Document {
    /// Reads a manifest or an index.
    ///
    /// # Errors
    /// `ImageUnavailable` for a document that is neither, that is both, or that describes no image which mcpm can
    /// unpack.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let file: DocumentFile = serde_json::from_slice(bytes)
            .map_err(|error| unusable("its manifest is invalid").source(error))?;
        if file.schema_version == 1 {
            return Err(unusable("its manifest has schema version 1, which registries no longer support")
                .hint("push the image again with a current tool"));
        }
        let media_type = file.media_type.unwrap_or_default();
        match (file.manifests, file.layers, file.config) {
            // Other tools might take a document that is both for another image (CVE-2021-41190).
            (Some(manifests), None, None) if is_one_of(&media_type, &INDEX_MEDIA_TYPES) => {
                Ok(Self::Index(Index(manifests)))
            }
            (None, Some(layers), Some(config)) if is_one_of(&media_type, &MANIFEST_MEDIA_TYPES) => {
                Manifest::new(&config, &layers).map(Self::Manifest)
            }
            (None, None, None) => Err(unusable("its manifest has no layers")),
            _ => {
                Err(unusable(format!("its manifest does not have the form of type `{}`", shown(&media_type))))
            }
        }
    }
}

impl Index {
    /// The manifests that are images, without attestations.
    pub(super) fn images(&self) -> impl Iterator<Item = &Descriptor> {
        self.0.iter().filter(|one| one.is_image())
    }

    /// Returns the manifest for a machine.
    ///
    /// # Errors
    /// `ImageUnavailable` names the available platforms.
    pub(super) fn select(&self, machine: &MachinePlatform) -> Result<&Descriptor> {
        let ranked = self.images().filter_map(|one| Some((machine.rank(one.platform.as_ref()?)?, one)));
        if let Some((_, best)) = ranked.min_by_key(|(rank, _)| *rank) {
            return Ok(best);
        }
        let mut images = self.images();
        match (images.next(), images.next()) {
            // The platform of a single image is in its configuration, too.
            (Some(only), None) if only.platform.is_none() => Ok(only),
            _ => {
                let found: Vec<_> = self.images().filter_map(|one| one.platform.clone()).collect();
                Err(machine.unsuitable(&found))
            }
        }
    }
}

impl Manifest {
    fn new(config: &Descriptor, layers: &[Descriptor]) -> Result<Self> {
        if !CONFIG_MEDIA_TYPES.contains(&config.media_type.as_str()) {
            let kind = shown(&config.media_type);
            return Err(unusable(format!("it is not a container image, but `{kind}`")));
        }
        if layers.len() > MAX_LAYERS {
            return Err(unusable(format!("it has {} layers, which is more than {MAX_LAYERS}", layers.len())));
        }
        let layer = |layer: &Descriptor| {
            let kind = layer.media_type.as_str();
            if kind.contains("foreign") || kind.contains("nondistributable") {
                return Err(unusable(
                    "it has a foreign layer, which its registry does not contain, as in images for Windows",
                ));
            }
            if !LAYER_MEDIA_TYPES.contains(&kind) {
                return Err(unusable(format!("it has a layer of the unknown type `{}`", shown(kind))));
            }
            layer.blob(MAX_IMAGE_BYTES)
        };
        Ok(Self {
            config: config.blob(MAX_CONFIG_BYTES)?,
            layers: layers.iter().map(layer).collect::<Result<_>>()?,
        })
    }
}

impl Descriptor {
    /// Returns the digest and the size, which is at most `largest`.
    ///
    /// # Errors
    /// `ImageUnavailable` for another kind of digest and for a larger size.
    pub(super) fn blob(&self, largest: u64) -> Result<BlobDescriptor> {
        let digest = Digest::parse(&self.digest)
            .ok_or_else(|| unusable(format!("`{}` is not a SHA-256 digest", shown(&self.digest))))?;
        match self.size <= largest {
            true => Ok(BlobDescriptor { digest, size: self.size }),
            false => {
                Err(unusable(format!("`{digest}` has {} bytes, which is more than {largest}", self.size)))
            }
        }
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }

    /// Whether a machine may be able to run the image, as far as the descriptor states its platform.
    pub(super) fn may_run_on(&self, machine: &MachinePlatform) -> bool {
        self.platform.as_ref().is_none_or(|platform| machine.rank(platform).is_some())
    }

    pub(super) fn platform(&self) -> Option<&ImagePlatform> {
        self.platform.as_ref()
    }

    fn is_image(&self) -> bool {
        let known = INDEX_MEDIA_TYPES.iter().chain(&MANIFEST_MEDIA_TYPES);
        let is_unknown = self.platform.as_ref().is_some_and(|platform| platform.os == "unknown");
        known.into_iter().any(|known| *known == self.media_type)
            && self.annotation(ATTESTATION_ANNOTATION).is_none()
            && !is_unknown
    }
}

/// Whether a media type is one of the known ones. It may be missing, since the fields of a document show its type.
fn is_one_of(media_type: &str, known: &[&str]) -> bool {
    media_type.is_empty() || known.contains(&media_type)
}

fn unusable(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::ImageUnavailable, format!("the image cannot be used: {}", why.into()))
}

fn shown(text: &str) -> String {
    text.chars().take(200).collect::<String>().printable()
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
