//! Manages the unpacked layers of a store.
//!
//! A layer is stored under its chain id, a digest over its own content and that of all layers below it. The layers
//! below matter because a folder that the layer's archive does not mention gets its owner and mode from them. A layer
//! is unpacked or built in a temporary folder, which is renamed to its final name when the layer is complete. The
//! record of the layer is a file beside the final folder, and is written before the rename.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    beneath,
    decompress::StopFlag,
    flatten::is_whole_root,
    limits::Budget,
    unpack::{self, Ownership, UnpackedLayer},
};
use crate::{
    Error, ErrorKind, Result,
    image::Digest,
    state::{
        file::{self, file_error},
        remove_tree::remove_tree,
    },
};

/// The version of the files' format.
const LAYER_VERSION: u32 = 1;
/// The hex digits of a chain id in the name of a folder. With 32 digits, the relative paths of more than a hundred
/// layers fit into the one page that `mount` accepts as options.
const FOLDER_NAME_DIGITS: usize = 32;

/// The layers of a store.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    folder: PathBuf,
}

/// The record of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LayerRecord {
    version: u32,
    chain_id: Digest,
    diff_id: Digest,
    /// The size of its files.
    pub(super) bytes: u64,
    pub(super) entries: u64,
    /// Devices and named pipes that were left out.
    skipped: u64,
}

/// Returns the chain ids of layers, lowest first.
pub(super) fn chain_ids(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut chain: Vec<Digest> = Vec::new();
    for diff_id in diff_ids {
        let id = match chain.last() {
            Some(below) => Digest::sha256(format!("{below} {diff_id}").as_bytes()),
            None => diff_id.clone(),
        };
        chain.push(id);
    }
    chain
}

impl Layers {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Returns the folder of a layer, which need not exist.
    pub(super) fn path(&self, chain_id: &Digest) -> PathBuf {
        self.folder.join(&chain_id.hex()[..FOLDER_NAME_DIGITS])
    }

    /// Returns the record of a layer; `None` if the layer is not in the store.
    ///
    /// # Errors
    /// `Io`; `CorruptState` for a damaged file.
    pub(super) fn get(&self, chain_id: &Digest) -> Result<Option<LayerRecord>> {
        let folder = self.path(chain_id);
        let path = folder.with_extension("json");
        let text = match fs::read(&path) {
            Ok(text) if folder.is_dir() => text,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error("read", &path, error)),
        };
        let corrupt = |why: String| {
            Error::new(ErrorKind::CorruptState, format!("`{}` is damaged: {why}", path.display()))
                .hint("remove the file, and pull the image again")
        };
        let record: LayerRecord =
            serde_json::from_slice(&text).map_err(|error| corrupt(error.to_string()))?;
        match record.version == LAYER_VERSION && record.chain_id == *chain_id {
            true => Ok(Some(record)),
            false => Err(corrupt("it has another format version, or describes another layer".to_owned())),
        }
    }

    /// Unpacks a layer in `draft` and adds it, unless another process adds the same one meanwhile. `chain` contains the
    /// layers below it, which are in the store, and then this layer.
    ///
    /// # Errors
    /// `ImageUnavailable` for a layer that is invalid or has another digest than the configuration says; `Io`. After an
    /// error, nothing of the layer is left.
    pub(super) fn unpack(
        &self,
        archive: impl io::Read,
        diff_id: &Digest,
        chain: &[Digest],
        draft: &Path,
        budget: &mut Budget,
        stop: &StopFlag,
    ) -> Result<()> {
        let (chain_id, below) = chain.split_last().ok_or_else(no_chain)?;
        let lower: Vec<PathBuf> = below.iter().map(|id| self.path(id)).collect();
        let folder = draft.join(chain_id.hex());
        fs::create_dir(&folder).map_err(|error| file_error("create", &folder, error))?;
        let ownership = Ownership::of_process();
        let unpacked = unpack::unpack(archive, &folder, &lower, ownership, budget, stop.clone())
            .map_err(|error| unpack_error(diff_id, error))
            .and_then(|layer| match layer.diff_id == *diff_id {
                true => Ok(layer),
                false => {
                    let message =
                        format!("a layer does not match its digest `{diff_id}` in the image configuration");
                    Err(Error::new(ErrorKind::ImageUnavailable, message).with("found", layer.diff_id))
                }
            })
            .and_then(|layer| self.add(&folder, diff_id, chain_id, &layer));
        if unpacked.is_err() {
            // The first error is the one to report.
            let _ = remove_tree(&folder);
        }
        unpacked
    }

    /// Adds a folder in the format of overlayfs as a layer, by moving it.
    ///
    /// # Errors
    /// `Io` when it cannot be moved, for example because it is on another file system.
    pub(super) fn add(
        &self,
        folder: &Path,
        diff_id: &Digest,
        chain_id: &Digest,
        layer: &UnpackedLayer,
    ) -> Result<()> {
        let record = LayerRecord {
            version: LAYER_VERSION,
            chain_id: chain_id.clone(),
            diff_id: diff_id.clone(),
            bytes: layer.bytes,
            entries: layer.entries,
            skipped: layer.skipped,
        };
        let text = serde_json::to_vec(&record).map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot serialize the record of an image layer").source(error)
        })?;
        let target = self.path(chain_id);
        let described = target.with_extension("json");
        file::replace(&described, &text).map_err(|error| file_error("write", &described, error))?;
        // After a power failure, a layer is there as a whole or not at all.
        let synced = beneath::open_root(folder).and_then(|opened| Ok(rustix::fs::syncfs(opened)?));
        synced.map_err(|error| file_error("write", folder, error))?;
        match fs::rename(folder, &target) {
            Ok(()) => Ok(()),
            // Another process has added the same layer meanwhile.
            Err(error) if target.is_dir() && error.kind() != io::ErrorKind::CrossesDevices => {
                remove_tree(folder).map_err(|error| file_error("remove", folder, error))
            }
            Err(error) => Err(file_error("move", folder, error)),
        }
    }

    /// Returns the folders of an image's layers, lowest first. Those below a layer that replaces the whole root are
    /// left out, since overlayfs ignores the mark on a root.
    pub(super) fn visible(&self, chain: &[Digest]) -> Vec<PathBuf> {
        let paths: Vec<PathBuf> = chain.iter().map(|id| self.path(id)).collect();
        let first = paths.iter().rposition(|path| is_whole_root(path)).unwrap_or_default();
        paths[first..].to_vec()
    }

    /// Removes all layers but these, and returns the size of their files. The caller holds the lock that prevents other
    /// processes from adding layers. Layers are moved to `trash` first, so that no layer is ever incomplete in its
    /// place.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn retain(&self, kept: &[Digest], trash: &Path) -> Result<u64> {
        let kept: Vec<PathBuf> = kept.iter().map(|id| self.path(id)).collect();
        let failed = |error| file_error("read", &self.folder, error);
        let entries = fs::read_dir(&self.folder).map_err(failed)?;
        let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
        let mut garbage = paths.map_err(failed)?;
        garbage.retain(|path| !kept.contains(&path.with_extension("")));
        let (folders, files): (Vec<_>, Vec<_>) = garbage.into_iter().partition(|path| path.is_dir());
        let mut freed = 0;
        for (number, path) in folders.iter().enumerate() {
            freed += size_of_record(&path.with_extension("json"));
            let moved = trash.join(format!("layer-{number}"));
            fs::rename(path, &moved)
                .and_then(|()| remove_tree(&moved))
                .map_err(|error| file_error("remove", path, error))?;
        }
        for path in files {
            fs::remove_file(&path).map_err(|error| file_error("remove", &path, error))?;
        }
        Ok(freed)
    }
}

fn size_of_record(path: &Path) -> u64 {
    let record = fs::read(path).ok().and_then(|text| serde_json::from_slice::<LayerRecord>(&text).ok());
    record.map_or(0, |record| record.bytes)
}

fn no_chain() -> Error {
    Error::new(ErrorKind::Internal, "a layer has no id")
}

/// The error for a layer that cannot be unpacked.
fn unpack_error(diff_id: &Digest, error: io::Error) -> Error {
    let (kind, hint) = match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => {
            (ErrorKind::ImageUnavailable, "the image is damaged or malicious; report that to its publisher")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            (ErrorKind::Io, "free disk space, for example with `mcpm image prune`")
        }
        _ => return Error::new(ErrorKind::Io, format!("cannot unpack the layer `{diff_id}`")).source(error),
    };
    Error::new(kind, format!("cannot unpack the layer `{diff_id}`")).source(error).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_ids_are_those_of_the_specification() {
        let layers = ["a", "b", "c"].map(|text| Digest::sha256(text.as_bytes()));
        let chain = chain_ids(&layers);
        assert_eq!(chain[0], layers[0]);
        let second = Digest::sha256(format!("{} {}", layers[0], layers[1]).as_bytes());
        let third = Digest::sha256(format!("{second} {}", layers[2]).as_bytes());
        assert_eq!(chain[1..], [second, third]);
    }
}
