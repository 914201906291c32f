//! Loads images from archives of `docker save` and from OCI layouts.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use serde::Deserialize;

use super::{
    archive::{ImageArchive, blob_name, is_layout},
    catalog::ImageRecord,
    config::ConfigFile,
    decompress::StopFlag,
    draft::Draft,
    image_store::ImageStore,
    layers::chain_ids,
    limits::MAX_CONFIG_BYTES,
    manifest::{Descriptor, Document, Index, Manifest},
    platform::{ImagePlatform, MachinePlatform},
    stored_image::StoredImage,
};
use crate::{
    Error, ErrorKind, Result,
    image::{Digest, ImageReference},
    printable::Printable as _,
    state::file::file_error,
};

/// The annotation with the whole name of an image, which containerd and Docker write.
const FULL_NAME_ANNOTATION: &str = "io.containerd.image.name";
/// The annotation with the name or only the tag of an image.
const NAME_ANNOTATION: &str = "org.opencontainers.image.ref.name";
/// How many indexes may lead to a manifest.
const MAX_INDEX_DEPTH: usize = 3;

/// An image in `manifest.json` of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SavedImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// An image in an archive that has not been unpacked yet.
struct FoundImage {
    config: Vec<u8>,
    /// The names of the files of its layers.
    layers: Vec<String>,
    references: Vec<ImageReference>,
}

impl ImageStore {
    /// Loads all images of an archive of `docker save` or of an OCI layout, which may be compressed, or of a folder
    /// with an OCI layout. Images for other platforms are left out.
    ///
    /// # Errors
    /// `ImageUnavailable` for a file that is not such an archive or has no image for this machine; `Io`.
    pub fn load(&self, path: &Path) -> Result<Vec<StoredImage>> {
        if path.is_dir() {
            if !is_layout(path) {
                let message = format!("the folder `{}` has no OCI layout", path.display());
                return Err(Error::new(ErrorKind::ImageUnavailable, message)
                    .hint("use a folder that contains `index.json`"));
            }
            return self.load_from(&ImageArchive::Folder(path.to_owned()), &self.draft()?);
        }
        let file = File::open(path).map_err(|error| file_error("open", path, error))?;
        self.load_stream(file)
    }

    /// Loads all images of an archive that can only be read once, such as standard input.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    pub fn load_stream(&self, archive: impl Read) -> Result<Vec<StoredImage>> {
        let draft = self.draft()?;
        let archive = ImageArchive::extract(archive, draft.path()).map_err(archive_error)?;
        self.load_from(&archive, &draft)
    }

    fn load_from(&self, archive: &ImageArchive, draft: &Draft) -> Result<Vec<StoredImage>> {
        // Archives of Docker contain both this file and an OCI layout since version 25; this file has all names.
        let images = match archive.read("manifest.json").map_err(archive_error)? {
            Some(text) => saved_images(archive, &text)?,
            None => layout_images(archive)?,
        };
        images.into_iter().map(|image| self.add_image(archive, draft, image)).collect()
    }

    fn add_image(&self, archive: &ImageArchive, draft: &Draft, image: FoundImage) -> Result<StoredImage> {
        let config = ConfigFile::parse(&image.config)?;
        let diff_ids = config.diff_ids()?;
        if diff_ids.len() != image.layers.len() {
            return Err(damaged(
                "the manifest and the configuration of an image list different numbers of layers",
            ));
        }
        let chain = chain_ids(&diff_ids);
        let mut budget = self.remaining_budget(&chain)?;
        for (index, name) in image.layers.iter().enumerate() {
            if self.layers.get(&chain[index])?.is_none() {
                let file = archive.open(name).map_err(archive_error)?;
                let file =
                    file.ok_or_else(|| damaged(format!("the file `{}` is missing", name.printable())))?;
                let (below, stop) = (&chain[..=index], StopFlag::default());
                self.layers.unpack(file, &diff_ids[index], below, draft.path(), &mut budget, &stop)?;
            }
        }
        let record = ImageRecord {
            id: Digest::sha256(&image.config),
            digests: Vec::new(),
            references: image.references,
            diff_ids,
        };
        self.add(record, &[&image.config])
    }
}

/// Finds the images of an archive of `docker save`.
fn saved_images(archive: &ImageArchive, manifest: &[u8]) -> Result<Vec<FoundImage>> {
    let saved: Vec<SavedImage> = serde_json::from_slice(manifest)
        .map_err(|error| damaged("`manifest.json` is invalid").source(error))?;
    let machine = MachinePlatform::current();
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for image in saved {
        let config = archive.read(&image.config).map_err(archive_error)?;
        let config = config.ok_or_else(|| damaged(format!("`{}` is missing", image.config.printable())))?;
        let platform = platform_of(&config)?;
        if machine.check(&platform).is_err() {
            others.push(platform);
            continue;
        }
        let names = image.repo_tags.unwrap_or_default();
        let references = names.iter().map(|name| ImageReference::parse(name)).collect::<Result<_>>()?;
        found.push(FoundImage { config, layers: image.layers, references });
    }
    some(found, &machine, &others)
}

/// Finds the images of an OCI layout.
fn layout_images(archive: &ImageArchive) -> Result<Vec<FoundImage>> {
    let text = archive.read("index.json").map_err(archive_error)?;
    let text = text.ok_or_else(|| damaged("it has neither `manifest.json` nor `index.json`"))?;
    let Document::Index(index) = Document::parse(&text)? else {
        return Err(damaged("`index.json` is not an image index"));
    };
    let machine = MachinePlatform::current();
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for image in index.images() {
        if !image.may_run_on(&machine) {
            others.extend(image.platform().cloned());
            continue;
        }
        let manifest = manifest_of(archive, image, &machine)?;
        let config = archive.read_blob(&manifest.config.digest).map_err(archive_error)?;
        let platform = platform_of(&config)?;
        if machine.check(&platform).is_err() {
            others.push(platform);
            continue;
        }
        let layers = manifest.layers.iter().map(|layer| blob_name(&layer.digest)).collect();
        found.push(FoundImage { config, layers, references: name_of(image).into_iter().collect() });
    }
    some(found, &machine, &others)
}

/// Follows indexes to the manifest for a machine.
fn manifest_of(archive: &ImageArchive, image: &Descriptor, machine: &MachinePlatform) -> Result<Manifest> {
    let mut digest = image.blob(MAX_CONFIG_BYTES)?.digest;
    for _ in 0..=MAX_INDEX_DEPTH {
        let text = archive.read_blob(&digest).map_err(archive_error)?;
        match Document::parse(&text)? {
            Document::Manifest(manifest) => return Ok(manifest),
            Document::Index(index) => digest = Index::select(&index, machine)?.blob(MAX_CONFIG_BYTES)?.digest,
        }
    }
    Err(damaged("its indexes are nested too deeply"))
}

/// The name of an image in an OCI layout; `None` if the layout only has a tag, which names no repository.
fn name_of(image: &Descriptor) -> Option<ImageReference> {
    let full = image.annotation(FULL_NAME_ANNOTATION);
    let name = full.or_else(|| image.annotation(NAME_ANNOTATION).filter(|name| name.contains(['/', ':'])))?;
    ImageReference::parse(name).ok()
}

fn platform_of(config: &[u8]) -> Result<ImagePlatform> {
    let ConfigFile { os, architecture, variant, .. } = ConfigFile::parse(config)?;
    Ok(ImagePlatform { os, architecture, variant })
}

fn some(
    found: Vec<FoundImage>,
    machine: &MachinePlatform,
    others: &[ImagePlatform],
) -> Result<Vec<FoundImage>> {
    match found.is_empty() {
        false => Ok(found),
        true if others.is_empty() => Err(damaged("it contains no image")),
        true => Err(machine.unsuitable(others)),
    }
}

fn damaged(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::ImageUnavailable, format!("the archive cannot be loaded: {}", why.into()))
        .hint("use an archive of `docker save`, or an OCI layout")
}

fn archive_error(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            damaged("it is damaged or has another format").source(error)
        }
        _ => Error::new(ErrorKind::Io, "the archive cannot be read").source(error),
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
