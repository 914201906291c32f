//! Opens an image store, and finds, lists, tags and adds the images in it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    catalog::{Catalog, ImageRecord},
    config::ConfigFile,
    draft::{self, Draft},
    layers::{Layers, chain_ids},
    limits::{Budget, MAX_CONFIG_BYTES},
    store_lock,
    stored_image::StoredImage,
};
use crate::{
    Error, ErrorKind, Result,
    image::{Digest, ImageReference},
    state::{
        file::{self, file_error},
        file_lock::FileLock,
    },
};

/// Most abandoned drafts that are removed when a new one is made.
const MAX_SWEPT_DRAFTS: usize = 16;

/// A content-addressed store of images, shared by all processes of a user.
///
/// Functions that are not `async` block.
#[derive(Debug, Clone)]
pub struct ImageStore {
    folder: PathBuf,
    pub(super) layers: Layers,
}

impl ImageStore {
    /// Opens the store in a folder, which is created if it is missing. Only the user may read it.
    ///
    /// # Errors
    /// `Io`. `Unsupported` in a build without the Cargo feature `builtin`, and on other systems than Linux.
    pub fn open(folder: &Path) -> Result<Self> {
        let store = Self { folder: folder.to_owned(), layers: Layers::new(folder.join("layers")) };
        for folder in [store.folder.join("layers"), store.blobs(), store.drafts()] {
            file::create_folders(&folder).map_err(|error| file_error("create", &folder, error))?;
        }
        Ok(store)
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the image with a name or, if the name contains a digest, the image of that repository with the digest.
    ///
    /// # Errors
    /// `Io`; `CorruptState` for a damaged store.
    pub fn find(&self, reference: &ImageReference) -> Result<Option<StoredImage>> {
        let catalog = self.catalog()?;
        catalog.find(reference).map_or(Ok(None), |record| self.describe(record))
    }

    /// Returns the image with an id.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    pub fn get(&self, id: &Digest) -> Result<Option<StoredImage>> {
        let catalog = self.catalog()?;
        catalog.get(id).map_or(Ok(None), |record| self.describe(record))
    }

    /// Returns all images. An image whose files are incomplete is left out; it is pulled again when it is used.
    ///
    /// # Errors
    /// As for [`find`](Self::find).
    pub fn list(&self) -> Result<Vec<StoredImage>> {
        let described =
            self.catalog()?.images.iter().map(|record| self.describe(record)).collect::<Result<Vec<_>>>()?;
        Ok(described.into_iter().flatten().collect())
    }

    /// Gives an image a name. Another image that had the name loses it.
    ///
    /// # Errors
    /// `NotFound`; `InvalidOption` for a name with a digest; `Io`.
    pub fn tag(&self, id: &Digest, reference: &ImageReference) -> Result<()> {
        if reference.digest().is_some() {
            let message = format!(
                "`{reference}` contains a digest, but an image can be tagged only with a name and a tag"
            );
            return Err(Error::new(ErrorKind::InvalidOption, message).hint("leave out `@` and the digest"));
        }
        Catalog::change(&self.catalog_path(), |catalog| {
            let found = catalog.get(id).ok_or_else(|| no_such_image(id))?;
            let tagged = ImageRecord { references: vec![reference.clone()], ..found.clone() };
            catalog.add(tagged);
            Ok(())
        })
    }

    /// Makes a private folder on the file system of the store, for layers that are built.
    ///
    /// # Errors
    /// `Io`; `NameTaken` while images are being removed.
    pub fn draft(&self) -> Result<Draft> {
        // A process that holds the lock exclusively knows that no draft is in use.
        if let Some(_alone) = FileLock::exclusive(&self.lock_path(), Duration::ZERO)? {
            draft::remove_abandoned(&self.drafts(), MAX_SWEPT_DRAFTS);
        }
        Draft::create(&self.drafts(), self.keep_all()?)
    }

    /// Keeps all images from being removed until the result is dropped.
    ///
    /// # Errors
    /// `Io`; `NameTaken` while images are being removed.
    pub(crate) fn keep_all(&self) -> Result<FileLock> {
        store_lock::shared(&self.lock_path())
    }

    /// Adds an image whose layers are in the store, with its configuration and other blobs.
    pub(super) fn add(&self, record: ImageRecord, blobs: &[&[u8]]) -> Result<StoredImage> {
        for bytes in blobs {
            let path = self.blob_path(&Digest::sha256(bytes));
            file::replace(&path, bytes).map_err(|error| file_error("write", &path, error))?;
        }
        let id = record.id.clone();
        Catalog::change(&self.catalog_path(), |catalog| {
            catalog.add(record);
            Ok(())
        })?;
        self.get(&id)?.ok_or_else(|| {
            Error::new(ErrorKind::CorruptState, format!("the image `{id}` is incomplete")).hint("try again")
        })
    }

    /// Returns the rest of an image's limits after its layers that are already in the store.
    pub(super) fn remaining_budget(&self, chain: &[Digest]) -> Result<Budget> {
        let mut budget = Budget::of_image();
        for id in chain {
            if let Some(record) = self.layers.get(id)? {
                budget.take_bytes(record.bytes).and_then(|()| budget.take_entries(record.entries)).map_err(
                    |error| Error::new(ErrorKind::ImageUnavailable, "the image cannot be used").source(error),
                )?;
            }
        }
        Ok(budget)
    }

    /// Returns an image; `None` if its files are incomplete.
    fn describe(&self, record: &ImageRecord) -> Result<Option<StoredImage>> {
        let Some(config) = self.read_blob(&record.id)? else { return Ok(None) };
        let config = ConfigFile::parse(&config)?;
        let chain = chain_ids(&record.diff_ids);
        let mut size = 0;
        for id in &chain {
            let Some(layer) = self.layers.get(id)? else { return Ok(None) };
            size += layer.bytes;
        }
        Ok(Some(StoredImage {
            id: record.id.clone(),
            digest: record.digests.first().cloned(),
            references: record.references.clone(),
            config: config.image_config(),
            layers: self.layers.visible(&chain),
            size,
            created: config.created,
        }))
    }

    /// Returns a blob; `None` if it is not there or is damaged.
    fn read_blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>> {
        let path = self.blob_path(digest);
        match std::fs::metadata(&path) {
            Ok(found) if found.len() <= MAX_CONFIG_BYTES => {}
            _ => return Ok(None),
        }
        let bytes = std::fs::read(&path).map_err(|error| file_error("read", &path, error))?;
        Ok(Some(bytes).filter(|bytes| Digest::sha256(bytes) == *digest))
    }

    pub(super) fn catalog(&self) -> Result<Catalog> {
        Catalog::read(&self.catalog_path())
    }

    pub(super) fn catalog_path(&self) -> PathBuf {
        self.folder.join("images.json")
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.folder.join("blobs/sha256")
    }

    pub(super) fn drafts(&self) -> PathBuf {
        self.folder.join("drafts")
    }

    /// The lock that the garbage collector holds exclusively, and that processes which add layers share.
    pub(super) fn lock_path(&self) -> PathBuf {
        self.folder.join("lock")
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.blobs().join(digest.hex())
    }
}

fn no_such_image(id: &Digest) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no image `{id}` in the store"))
        .hint("list the images with `mcpm image list`")
}
