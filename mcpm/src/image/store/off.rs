//! The image store in a build without the Cargo feature `builtin`, and on systems other than Linux: no store can be
//! opened.

use std::{
    convert::Infallible,
    io::Read,
    path::{Path, PathBuf},
};

mod stored_image;

pub use stored_image::{ImageConfig, ImagesInUse, PruneScope, RemovedImages, StoredImage};

use super::{Digest, ImageReference, credentials::CredentialStore};
use crate::{Error, ErrorKind, Feature, Result, runtime::PullProgress};

/// A store of images, which cannot be opened.
#[derive(Debug, Clone)]
pub struct ImageStore(Infallible);

/// A folder of a store.
#[derive(Debug)]
pub struct Draft(Infallible);

impl Draft {
    /// Returns the folder.
    pub fn path(&self) -> &Path {
        match self.0 {}
    }
}

impl ImageStore {
    /// Opens no store.
    ///
    /// # Errors
    /// `Unsupported`.
    pub fn open(_folder: &Path) -> Result<Self> {
        Err(missing())
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        match self.0 {}
    }

    /// Returns the image with a name.
    ///
    /// # Errors
    /// None.
    pub fn find(&self, _reference: &ImageReference) -> Result<Option<StoredImage>> {
        match self.0 {}
    }

    /// Returns the image with an id.
    ///
    /// # Errors
    /// None.
    pub fn get(&self, _id: &Digest) -> Result<Option<StoredImage>> {
        match self.0 {}
    }

    /// Returns all images.
    ///
    /// # Errors
    /// None.
    pub fn list(&self) -> Result<Vec<StoredImage>> {
        match self.0 {}
    }

    /// Gives an image a name.
    ///
    /// # Errors
    /// None.
    pub fn tag(&self, _id: &Digest, _reference: &ImageReference) -> Result<()> {
        match self.0 {}
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// None.
    pub fn draft(&self) -> Result<Draft> {
        match self.0 {}
    }

    /// Pulls an image.
    ///
    /// # Errors
    /// None.
    pub async fn pull(
        &self,
        _reference: &ImageReference,
        _credentials: &CredentialStore,
        _ca_bundle: Option<&Path>,
        _progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<StoredImage> {
        match self.0 {}
    }

    /// Loads images.
    ///
    /// # Errors
    /// None.
    pub fn load(&self, _path: &Path) -> Result<Vec<StoredImage>> {
        match self.0 {}
    }

    /// Loads images.
    ///
    /// # Errors
    /// None.
    pub fn load_stream(&self, _archive: impl Read) -> Result<Vec<StoredImage>> {
        match self.0 {}
    }

    /// Adds an image.
    ///
    /// # Errors
    /// None.
    pub fn commit(
        &self,
        _base: Option<&StoredImage>,
        _new_layers: Vec<PathBuf>,
        _config: &ImageConfig,
        _reference: Option<ImageReference>,
    ) -> Result<StoredImage> {
        match self.0 {}
    }

    /// Removes an image.
    ///
    /// # Errors
    /// None.
    pub fn remove(
        &self,
        _name: &str,
        _in_use: impl FnOnce() -> Result<ImagesInUse>,
    ) -> Result<RemovedImages> {
        match self.0 {}
    }

    /// Removes images.
    ///
    /// # Errors
    /// None.
    pub fn prune(
        &self,
        _scope: PruneScope,
        _in_use: impl FnOnce() -> Result<ImagesInUse>,
    ) -> Result<RemovedImages> {
        match self.0 {}
    }
}

/// Copies no image.
///
/// # Errors
/// `Unsupported`.
pub fn flatten(_image: &StoredImage, _target: &Path) -> Result<()> {
    Err(missing())
}

fn missing() -> Error {
    if cfg!(not(target_os = "linux")) {
        return Error::new(ErrorKind::Unsupported, "images can be stored without an engine on Linux only")
            .hint("use Docker or Podman");
    }
    Feature::Builtin.missing("storing images without an engine")
}
