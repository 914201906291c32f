//! Adding images that were built on this machine.

use std::{
    fs,
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
    state::file::file_error,
};

impl ImageStore {
    /// Adds an image with the layers of `base` and further ones. `new_layers` are folders in the form of overlayfs, lowest
    /// first, which are moved into the store: they are in a [draft](Self::draft) of it. Since no archive of them exists,
    /// their ids are random, and the image cannot be pushed.
    ///
    /// # Errors
    /// `NotFound` when `base` was removed; `InvalidOption` for too many layers or none; `Io` when a folder cannot be
    /// moved. Layers that were moved already are then garbage.
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
                        format!("the image `{}` is not in the store any more", base.id),
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
        for folder in new_layers {
            let layer = measure(random_digest()?, &folder)?;
            diff_ids.push(layer.diff_id.clone());
            if let Some(chain_id) = chain_ids(&diff_ids).last() {
                self.layers.add(&folder, &layer.diff_id, chain_id, &layer)?;
            }
        }
        let created = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let text = serde_json::to_vec(&ConfigFile::new(&config, &diff_ids, created));
        let text = text
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write a configuration").source(error))?;
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
    let mut bytes = [0; 32];
    let failed =
        |error: getrandom::Error| Error::new(ErrorKind::Io, "no random numbers").source(error.to_string());
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(Digest::sha256(&bytes))
}

/// Counts the files of a folder, without following links.
fn measure(diff_id: Digest, folder: &Path) -> Result<UnpackedLayer> {
    let mut layer = UnpackedLayer { diff_id, bytes: 0, entries: 0, skipped: 0 };
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        let failed = |error| file_error("read", &folder, error);
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let found = entry.metadata().map_err(failed)?;
            layer.entries += 1;
            match found.is_dir() {
                true => pending.push(entry.path()),
                false => layer.bytes += found.len(),
            }
        }
    }
    Ok(layer)
}

/// Adds the entries of an archive to the folder of a layer that is built, as safely as the layers of images are
/// unpacked. `lower` are the layers below it, lowest first.
///
/// # Errors
/// `Io` for what cannot be unpacked.
pub(crate) fn add_to_layer(archive: impl std::io::Read, layer: &Path, lower: &[PathBuf]) -> Result<()> {
    let (mut budget, stop) = (Budget::of_image(), StopFlag::default());
    let unpacked = unpack(archive, layer, lower, Ownership::of_process(), &mut budget, stop);
    unpacked.map(drop).map_err(|error| file_error("add files to", layer, error))
}
