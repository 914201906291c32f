//! The types that describe images in a store, and the result of removing images.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use crate::image::{Digest, ImageReference};

/// An image in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoredImage {
    /// The digest of its configuration, which identifies it.
    pub id: Digest,
    /// The digest of the image in its registry: that of the index, if there is one, else that of the manifest. `None`
    /// if the image was not pulled.
    pub digest: Option<Digest>,
    /// Its names.
    pub references: Vec<ImageReference>,
    /// The configuration of its containers.
    pub config: ImageConfig,
    /// The folders of its layers in the format of overlayfs (mount option `userxattr`), lowest first.
    pub layers: Vec<PathBuf>,
    /// The size of the files in its layers, in bytes. Images share layers.
    pub size: u64,
    /// When it was built, in RFC 3339; `None` if its configuration does not say so.
    pub created: Option<String>,
}

/// What the configuration of an image says about its containers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// The program, and its first arguments.
    pub entrypoint: Vec<String>,
    /// Default arguments, or the program if there is no entry point.
    pub command: Vec<String>,
    /// Environment variables, each `NAME=VALUE`.
    pub env: Vec<String>,
    /// The working folder; empty for `/`.
    pub working_dir: String,
    /// The user, and after a colon the group, by name or number; empty for root.
    pub user: String,
    /// TCP ports that the image exposes, ascending.
    pub exposed_ports: Vec<u16>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// The architecture in the terms of images: `amd64`, `arm64`. If it is empty, an image that is built gets the
    /// architecture of this machine.
    pub architecture: String,
}

/// What was removed from a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RemovedImages {
    /// Names that were removed.
    pub references: Vec<ImageReference>,
    /// The ids of images that were removed.
    pub images: Vec<Digest>,
    /// The size of the files that were removed, in bytes.
    pub freed: u64,
}

/// The images that a store must not remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImagesInUse {
    /// The images that workloads name.
    pub references: Vec<ImageReference>,
    /// The ids of the images on which containers are based. Their names may have moved to newer images.
    pub ids: BTreeSet<Digest>,
}

/// Which images the garbage collector removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PruneScope {
    /// Images without a name, because newer images have taken their names.
    Unnamed,
    /// All images that are not in use.
    Unused,
}
