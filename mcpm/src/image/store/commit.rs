//! Adds images that were built on this machine to a store.

use std::{
    fs::{self, File},
    io::{self, Seek as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{
    catalog::ImageRecord,
    config::ConfigFile,
    decompress::StopFlag,
    image_store::ImageStore,
    layers::chain_ids,
    limits::{Budget, MAX_LAYERS},
    platform::MachinePlatform,
    stored_image::{ImageConfig, StoredImage},
    unpack::{Ownership, UnpackedLayer, unpack},
};
use crate::{
    Error, ErrorKind, Result,
    image::{Digest, ImageReference},
    random::{random_bytes, random_token},
    state::file::file_error,
};

impl ImageStore {
    /// Adds an image with the layers of `base` and new layers. `new_layers` are folders in the format of overlayfs,
    /// lowest first, in a [draft](Self::draft) of this store; they are moved into the store. Since no archives of these
    /// layers exist, their ids are random, and the image cannot be pushed.
    ///
    /// # Errors
    /// `NotFound` when `base` was removed; `InvalidOption` for too many layers or none; `Io` when a folder cannot be
    /// moved; `ImageUnavailable` for an image that is too large. After an error, layers that were already moved are
    /// left to the garbage collector.
    pub fn commit(
        &self,
        base: Option<&StoredImage>,
        new_layers: Vec<PathBuf>,
        config: &ImageConfig,
        reference: Option<ImageReference>,
    ) -> Result<StoredImage> {
        let _draft = self.draft()?;
        let mut config = config.clone();
        if config.architecture.is_empty() {
            config.architecture = MachinePlatform::current().architecture().to_owned();
        }
        let mut diff_ids = match base {
            Some(base) => {
                let catalog = self.catalog()?;
                let found = catalog.get(&base.id);
                let missing = || {
                    Error::new(
                        ErrorKind::NotFound,
                        format!("the image `{}` was removed from the image store", base.id),
                    )
                    .hint("pull it again")
                };
                found.ok_or_else(missing)?.diff_ids.clone()
            }
            None => Vec::new(),
        };
        let count = diff_ids.len() + new_layers.len();
        if count == 0 || count > MAX_LAYERS {
            let message = format!("an image has 1 to {MAX_LAYERS} layers, not {count}");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        let mut budget = self.remaining_budget(&chain_ids(&diff_ids))?;
        for folder in new_layers {
            let layer = measure(random_digest()?, &folder, &mut budget)?;
            diff_ids.push(layer.diff_id.clone());
            if let Some(chain_id) = chain_ids(&diff_ids).last() {
                self.layers.add(&folder, &layer.diff_id, chain_id, &layer)?;
            }
        }
        let created = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let text = serde_json::to_vec(&ConfigFile::new(&config, &diff_ids, created));
        let text = text.map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot serialize the configuration of an image").source(error)
        })?;
        let record = ImageRecord {
            id: Digest::sha256(&text),
            digests: Vec::new(),
            references: reference.into_iter().collect(),
            diff_ids,
        };
        self.add(record, &[&text])
    }
}

fn random_digest() -> Result<Digest> {
    random_bytes::<32>().map(|bytes| Digest::sha256(&bytes))
}

/// Counts the files of a folder, without following links.
fn measure(diff_id: Digest, folder: &Path, budget: &mut Budget) -> Result<UnpackedLayer> {
    let mut layer = UnpackedLayer { diff_id, bytes: 0, entries: 0, skipped: 0 };
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        let failed = |error| file_error("read", &folder, error);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let found = entry.metadata().map_err(failed)?;
            let bytes = if found.is_dir() { 0 } else { found.len() };
            budget.take_entries(1).and_then(|()| budget.take_bytes(bytes)).map_err(|error| {
                Error::new(ErrorKind::ImageUnavailable, "the image cannot be built").source(error)
            })?;
            layer.entries += 1;
            layer.bytes += bytes;
            if found.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    Ok(layer)
}

/// An archive on the file system of a store, limited like an image. The file has no name, so the kernel removes it when
/// it is closed.
pub(crate) struct ArchiveFile {
    file: File,
    budget: Budget,
}

impl ArchiveFile {
    /// Creates an empty archive in a folder.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        Self::with_budget(folder, Budget::of_image())
    }

    fn with_budget(folder: &Path, budget: Budget) -> Result<Self> {
        let path = folder.join(random_token()?);
        let options = File::options().read(true).write(true).create_new(true).to_owned();
        let file = options.open(&path).and_then(|file| fs::remove_file(&path).map(|()| file));
        Ok(Self { file: file.map_err(|error| file_error("create", &path, error))?, budget })
    }

    /// Creates an archive of at most this many bytes.
    #[cfg(test)]
    pub(crate) fn limited(folder: &Path, bytes: u64) -> Result<Self> {
        Self::with_budget(folder, Budget::new(bytes, u64::MAX))
    }

    /// Returns the archive to be read from its beginning.
    pub(crate) fn into_reader(mut self) -> io::Result<impl io::Read> {
        self.file.rewind()?;
        Ok(self.file)
    }
}

impl io::Write for ArchiveFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.budget.take_bytes(bytes.len() as u64)?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Adds the entries of an archive to the folder of a layer that is built, as safely as the layers of images are
/// unpacked. `lower` are the layers below it, lowest first.
///
/// # Errors
/// `Io` for an archive that cannot be unpacked.
pub(crate) fn add_to_layer(archive: impl io::Read, layer: &Path, lower: &[PathBuf]) -> Result<()> {
    let (mut budget, stop) = (Budget::of_image(), StopFlag::default());
    let unpacked = unpack(archive, layer, lower, Ownership::of_process(), &mut budget, stop);
    unpacked.map(drop).map_err(|error| file_error("add files to", layer, error))
}
