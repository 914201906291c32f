//! The list of the images in a store, in one file that is replaced atomically.
//!
//! Readers need no lock, since they see the old or the new list. A change reads and replaces the list under a lock.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

use super::store_lock;
use crate::{
    Error, ErrorKind, Result,
    image::{Digest, ImageReference},
    state::file::{self, file_error},
};

/// The version of the file's format.
const CATALOG_VERSION: u32 = 1;

/// All images of a store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalog {
    version: u32,
    pub(super) images: Vec<ImageRecord>,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageRecord {
    /// The digest of its configuration.
    pub(super) id: Digest,
    /// The digests of its index and its manifest; empty if it was not pulled.
    pub(super) digests: Vec<Digest>,
    pub(super) references: Vec<ImageReference>,
    /// The digests of its uncompressed layers, lowest first.
    pub(super) diff_ids: Vec<Digest>,
}

impl Default for Catalog {
    fn default() -> Self {
        Self { version: CATALOG_VERSION, images: Vec::new() }
    }
}

impl Catalog {
    /// Reads the list; an empty one if there is none yet.
    ///
    /// # Errors
    /// `Io`; `CorruptState` for a file that is damaged or of another version.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let corrupt = |why: String| {
            Error::new(ErrorKind::CorruptState, format!("`{}` is damaged: {why}", path.display()))
                .hint("remove the folder that contains this file, and pull the images again")
        };
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(file_error("read", path, error)),
        };
        let catalog: Self = serde_json::from_slice(&bytes).map_err(|error| corrupt(error.to_string()))?;
        match catalog.version {
            CATALOG_VERSION => Ok(catalog),
            other => Err(corrupt(format!(
                "its format version is {other}, but this mcpm reads version {CATALOG_VERSION}"
            ))),
        }
    }

    /// Changes the list under its lock, and returns what the change returns.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read) and of the change, which then has no effect.
    pub(super) fn change<T>(path: &Path, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let _lock = store_lock::exclusive(&path.with_extension("lock"))?;
        let mut catalog = Self::read(path)?;
        let returned = change(&mut catalog)?;
        let text = serde_json::to_vec_pretty(&catalog);
        let text = text.map_err(|error| {
            Error::new(ErrorKind::Internal, "cannot serialize the list of images").source(error)
        })?;
        file::replace(path, &text).map_err(|error| file_error("write", path, error))?;
        Ok(returned)
    }

    /// Returns the image with a name, or with the digest that the name contains.
    pub(super) fn find(&self, reference: &ImageReference) -> Option<&ImageRecord> {
        let named = self.images.iter().find(|image| image.references.contains(reference));
        let digest = reference.digest().and_then(Digest::parse);
        named.or_else(|| {
            let digest = digest?;
            self.images.iter().find(|image| {
                image.digests.contains(&digest)
                    && image.references.iter().any(|other| other.same_repository(reference))
            })
        })
    }

    pub(super) fn get(&self, id: &Digest) -> Option<&ImageRecord> {
        self.images.iter().find(|image| image.id == *id)
    }

    /// Adds an image, or merges it into the record of the same image. Its references are removed from all other images.
    pub(super) fn add(&mut self, image: ImageRecord) {
        for reference in &image.references {
            self.untag(reference);
        }
        match self.images.iter_mut().find(|other| other.id == image.id) {
            Some(known) => {
                known.references.extend(image.references);
                let digests = image.digests.into_iter();
                let new: Vec<_> = digests.filter(|digest| !known.digests.contains(digest)).collect();
                known.digests.splice(0..0, new);
            }
            None => self.images.push(image),
        }
    }

    /// Removes a name from the image that has it.
    pub(super) fn untag(&mut self, reference: &ImageReference) {
        for image in &mut self.images {
            image.references.retain(|other| other != reference);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first version of the format.
    const SAMPLE: &str = include_str!("samples/images-1.json");

    fn reference(text: &str) -> ImageReference {
        ImageReference::parse(text).unwrap()
    }

    fn record(content: &str, names: &[&str]) -> ImageRecord {
        ImageRecord {
            id: Digest::sha256(content.as_bytes()),
            digests: vec![Digest::sha256(format!("manifest of {content}").as_bytes())],
            references: names.iter().map(|name| reference(name)).collect(),
            diff_ids: vec![Digest::sha256(b"layer")],
        }
    }

    #[test]
    fn a_name_belongs_to_one_image() {
        let mut catalog = Catalog::default();
        catalog.add(record("a", &["one:1", "two:2"]));
        catalog.add(record("b", &["docker.io/library/one:1"]));
        assert_eq!(catalog.find(&reference("one:1")).unwrap().id, Digest::sha256(b"b"));
        assert_eq!(catalog.find(&reference("two:2")).unwrap().references.len(), 1);
        catalog.add(record("b", &["one:1"]));
        assert_eq!((catalog.images.len(), catalog.images[1].references.len()), (2, 1));
        assert_eq!(catalog.images[1].digests.len(), 1);
    }

    #[test]
    fn a_digest_finds_an_image_of_its_repository() {
        let mut catalog = Catalog::default();
        catalog.add(record("a", &["one:1"]));
        let digest = Digest::sha256(b"manifest of a");
        assert!(catalog.find(&reference(&format!("one@{digest}"))).is_some());
        assert!(catalog.find(&reference(&format!("one:1@{digest}"))).is_some());
        assert!(catalog.find(&reference(&format!("other@{digest}"))).is_none());
        assert!(catalog.find(&reference("one")).is_none());
    }

    #[test]
    fn the_first_version_is_read_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.json");
        assert!(Catalog::read(&path).unwrap().images.is_empty());
        fs::write(&path, SAMPLE).unwrap();
        let catalog = Catalog::read(&path).unwrap();
        assert_eq!(catalog.find(&reference("ghcr.io/example/server:1")).unwrap().diff_ids.len(), 2);
        for bad in [
            SAMPLE.replace("\"version\": 1", "\"version\": 2"),
            SAMPLE.replace("digests", "x"),
            String::new(),
        ] {
            fs::write(&path, bad).unwrap();
            assert_eq!(Catalog::read(&path).unwrap_err().kind(), ErrorKind::CorruptState);
        }
    }

    #[test]
    fn a_failed_change_has_no_effect() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.json");
        let add = |catalog: &mut Catalog| {
            catalog.add(record("a", &["one:1"]));
            Ok(())
        };
        Catalog::change(&path, add).unwrap();
        let failed = Catalog::change(&path, |catalog| -> Result<()> {
            catalog.images.clear();
            Err(Error::new(ErrorKind::Io, "no"))
        });
        failed.unwrap_err();
        assert_eq!(Catalog::read(&path).unwrap().images.len(), 1);
    }
}
