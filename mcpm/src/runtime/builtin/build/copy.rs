//! Copies files into layers: from the context of a build, and from the layers of earlier stages.
//!
//! Programs of a build may have written anything into a layer, including links that lead out of it. So every copy is
//! unpacked by the code that unpacks layers of images.

use std::{
    io::Read as _,
    path::{Component, Path, PathBuf},
};

use bytes::Bytes;
use tar::{Archive, Builder, EntryType};

use super::{StageLayers, invalid};
use crate::{
    Error, ErrorKind, Result,
    image::store::{ArchiveFile, add_to_layer},
};

/// The files that a Dockerfile copies, in a tar archive.
#[derive(Clone)]
pub(super) struct BuildContext(Bytes);

impl BuildContext {
    pub(super) fn new(archive: Bytes) -> Self {
        Self(archive)
    }

    /// Returns the Dockerfile.
    pub(super) fn dockerfile(&self) -> Result<String> {
        let mut archive = Archive::new(self.0.as_ref());
        for entry in archive.entries().map_err(broken)? {
            let mut entry = entry.map_err(broken)?;
            if entry.path().map_err(broken)?.as_ref() == Path::new("Dockerfile") {
                let mut text = String::new();
                entry.read_to_string(&mut text).map_err(broken)?;
                return Ok(text);
            }
        }
        Err(invalid("the build context contains no `Dockerfile`"))
    }

    /// Copies files and the content of folders into a folder of a layer.
    pub(super) fn copy(&self, sources: &[String], layers: &StageLayers, target: &str) -> Result<()> {
        let mut copied = Builder::new(Vec::new());
        for source in sources {
            let mut found = false;
            let mut archive = Archive::new(self.0.as_ref());
            for entry in archive.entries().map_err(broken)? {
                let mut entry = entry.map_err(broken)?;
                let path = entry.path().map_err(broken)?.into_owned();
                let Ok(rest) = path.strip_prefix(source) else { continue };
                found = true;
                let place = place(target, source, rest, target.ends_with('/'))?;
                let mut header = entry.header().clone();
                match header.entry_type() {
                    EntryType::Symlink => {
                        let link = entry.link_name().map_err(broken)?.unwrap_or_default().into_owned();
                        copied.append_link(&mut header, place, link).map_err(broken)?;
                    }
                    _ => copied.append_data(&mut header, place, &mut entry).map_err(broken)?,
                }
            }
            if !found {
                return Err(invalid(&format!("the build context contains no `{source}`")));
            }
        }
        let archive = copied.into_inner().map_err(broken)?;
        add_to_layer(archive.as_slice(), &layers.own, &layers.lower)
    }
}

/// Copies files and the content of folders from the layer of another stage. Only files that this stage itself has
/// written can be copied. The copy is made in `draft`, a folder on the file system of the store, and is limited like an
/// image.
pub(super) fn from_layer(
    from: &Path,
    sources: &[String],
    layers: &StageLayers,
    target: &str,
    draft: &Path,
) -> Result<()> {
    copy_bounded(from, sources, layers, target, ArchiveFile::create(draft)?)
}

fn copy_bounded(
    from: &Path,
    sources: &[String],
    layers: &StageLayers,
    target: &str,
    archive: ArchiveFile,
) -> Result<()> {
    let mut copied = Builder::new(archive);
    copied.follow_symlinks(false);
    for source in sources {
        let mut path = from.to_owned();
        for part in relative(source)?.components() {
            path.push(part);
            // A link could lead out of the layer.
            let found = path.symlink_metadata().map_err(|error| cannot_copy(source).source(error))?;
            if found.is_symlink() {
                return Err(cannot_copy(source).source("its path contains a symbolic link"));
            }
        }
        let place = place(target, source, Path::new(""), false)?;
        let appended = if path.is_dir() {
            copied.append_dir_all(if place.as_os_str().is_empty() { Path::new(".") } else { &place }, &path)
        } else {
            copied.append_path_with_name(&path, &place)
        };
        appended.map_err(|error| cannot_copy(source).source(error))?;
    }
    let archive = copied.into_inner().map_err(broken)?;
    add_to_layer(archive.into_reader().map_err(broken)?, &layers.own, &layers.lower)
}

/// Returns the path of a copied file. A file is copied into the target if that ends with `/`, otherwise to the target;
/// the content of a folder is always copied into the target.
fn place(target: &str, source: &str, rest: &Path, is_folder: bool) -> Result<PathBuf> {
    let mut place = relative(target)?;
    if rest.as_os_str().is_empty() {
        if is_folder {
            place.push(Path::new(source).file_name().unwrap_or_default());
        }
    } else {
        place.push(rest);
    }
    Ok(place)
}

/// Returns an absolute path below the root, without `..`.
fn relative(path: &str) -> Result<PathBuf> {
    let parts =
        Path::new(path).components().filter(|part| !matches!(part, Component::RootDir | Component::CurDir));
    parts
        .map(|part| match part {
            Component::Normal(name) => Ok(name),
            _ => Err(invalid(&format!("`{path}` is not a path that can be copied"))),
        })
        .collect()
}

fn cannot_copy(source: &str) -> Error {
    Error::new(
        ErrorKind::ImageUnavailable,
        format!("cannot copy `{source}` from an earlier stage of the build"),
    )
}

fn broken(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, "cannot copy files into a layer").source(error)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_copy_of_a_layer_is_bounded_and_leaves_no_archive() {
        let folder = tempfile::tempdir().unwrap();
        let [from, own, draft] = ["from", "own", "draft"].map(|name| folder.path().join(name));
        for path in [&from.join("app"), &own, &draft] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(from.join("app/large"), vec![b'x'; 1 << 20]).unwrap();
        let layers = StageLayers { own: own.clone(), lower: Vec::new() };
        let sources = ["/app".to_owned()];
        let archive = ArchiveFile::limited(&draft, 1 << 19).unwrap();
        let error = copy_bounded(&from, &sources, &layers, "/app", archive).unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
        from_layer(&from, &sources, &layers, "/app", &draft).unwrap();
        assert_eq!(fs::read(own.join("app/large")).unwrap().len(), 1 << 20);
        assert_eq!(fs::read_dir(&draft).unwrap().count(), 0);
    }
}
