//! Reads the ZIP archive of a bundle, and limits its size and its number of files, because the archive is untrusted.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use zip::{ZipArchive, read::ZipFile, result::ZipError};

use crate::{
    Error, ErrorKind, Result,
    package::context::{BuildContext, MAX_CONTEXT_BYTES},
    printable::Printable as _,
};

/// The most files and folders of a bundle.
const MAX_BUNDLE_ENTRIES: usize = 50_000;
/// The largest index of a bundle, including the search for it. A longer index is not read into memory.
const MAX_INDEX_BYTES: u64 = 16 << 20;
/// The largest manifest of a bundle.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;
/// The longest path of a file, and of one of its names.
const MAX_PATH_BYTES: usize = 1024;
const MAX_NAME_BYTES: usize = 255;
/// The name of the manifest.
const MANIFEST: &str = "manifest.json";

/// An open archive.
pub(super) struct Archive {
    path: PathBuf,
    zip: ZipArchive<ArchiveFile>,
}

/// The open file of an archive, of which only a limited number of bytes can be read.
#[derive(Clone)]
struct ArchiveFile {
    file: Arc<File>,
    readable: Arc<AtomicU64>,
}

impl Read for ArchiveFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let readable = self.readable.load(Ordering::Relaxed);
        let length = usize::try_from(readable).map_or(buffer.len(), |readable| readable.min(buffer.len()));
        let read = self.file.read(&mut buffer[..length])?;
        self.readable.fetch_sub(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Seek for ArchiveFile {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Archive {
    /// Opens an archive, and reads only its index.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::open_bounded(path, MAX_INDEX_BYTES)
    }

    fn open_bounded(path: &Path, max_index_bytes: u64) -> Result<Self> {
        let path = path.to_owned();
        let failed = |error: io::Error| {
            let kind =
                if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
            Error::new(kind, format!("cannot read `{}`", path.display())).source(error)
        };
        let file = File::open(&path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?;
        if !size.is_file() || size.len() > MAX_CONTEXT_BYTES as u64 {
            return Err(too_large(&path));
        }
        let invalid = |what: String| {
            let message = format!("the bundle `{}` {what}", path.display());
            Error::new(ErrorKind::InvalidOption, message)
        };
        let readable = Arc::new(AtomicU64::new(max_index_bytes));
        let file = ArchiveFile { file: Arc::new(file), readable: Arc::clone(&readable) };
        let zip = ZipArchive::new(file).map_err(|error| match readable.load(Ordering::Relaxed) {
            0 => invalid(format!("has an index of more than {} MiB", MAX_INDEX_BYTES >> 20)),
            _ => broken(&path, error),
        })?;
        // The files have limits of their own.
        readable.store(u64::MAX, Ordering::Relaxed);
        if zip.len() > MAX_BUNDLE_ENTRIES {
            return Err(invalid(format!("has more than {MAX_BUNDLE_ENTRIES} files")));
        }
        if zip.has_duplicate_names() {
            return Err(invalid("contains a file twice".to_owned()));
        }
        Ok(Self { path, zip })
    }

    /// Returns the manifest.
    pub(super) fn manifest(&mut self) -> Result<Vec<u8>> {
        let path = &self.path;
        let mut content = Vec::new();
        let file = self.zip.by_name(MANIFEST).map_err(|error| match error {
            ZipError::FileNotFound => {
                let message = format!("`{}` is not a bundle: it has no `{MANIFEST}`", path.display());
                Error::new(ErrorKind::InvalidOption, message)
            }
            error => broken(path, error),
        })?;
        let read = file.take(MAX_MANIFEST_BYTES + 1).read_to_end(&mut content);
        read.map_err(|error| broken(path, error.into()))?;
        if content.len() as u64 > MAX_MANIFEST_BYTES {
            let message = format!("the manifest of `{}` is larger than 1 MiB", path.display());
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Ok(content)
    }

    /// Adds all files below a folder of the context.
    pub(super) fn pack(&self, context: &mut BuildContext, into: &str) -> Result<()> {
        self.pack_bounded(context, into, MAX_CONTEXT_BYTES)
    }

    fn pack_bounded(&self, context: &mut BuildContext, into: &str, limit: usize) -> Result<()> {
        let (path, mut zip) = (&self.path, self.zip.clone());
        let mut left = limit;
        let mut names = BTreeSet::new();
        for index in 0..zip.len() {
            let mut file = zip.by_index(index).map_err(|error| broken(path, error))?;
            let name = place(&file)
                .ok_or_else(|| refused(path, &file, "its path is not a valid path inside the bundle"))?;
            if file.is_symlink() {
                return Err(refused(path, &file, "it is a link"));
            }
            if file.is_dir() {
                continue;
            }
            if !names.insert(name.clone()) {
                return Err(refused(path, &file, "the bundle contains it twice"));
            }
            // The size that the archive states may be wrong.
            let mut content = Vec::new();
            let read = file.by_ref().take(left as u64 + 1).read_to_end(&mut content);
            read.map_err(|error| broken(path, error.into()))?;
            left = left.checked_sub(content.len()).ok_or_else(|| too_large(path))?;
            let executable = file.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
            context.add_file(Path::new(into).join(&name), &content, executable)?;
        }
        Ok(())
    }
}

/// Returns the path of a file below the bundle.
fn place(file: &ZipFile<'_, ArchiveFile>) -> Option<PathBuf> {
    let name = &*file.name().ok()?;
    let is_sound = name.len() <= MAX_PATH_BYTES && !name.contains(|c: char| c.is_control() || c == '\\');
    let parts: Option<PathBuf> = Path::new(name)
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| match part {
            Component::Normal(part) if part.len() <= MAX_NAME_BYTES => Some(part),
            _ => None,
        })
        .collect();
    parts.filter(|parts| is_sound && !parts.as_os_str().is_empty())
}

fn refused(path: &Path, file: &ZipFile<'_, ArchiveFile>, why: &str) -> Error {
    let name = file.name().unwrap_or_default();
    let name: String = name.chars().take(200).collect::<String>().printable();
    let message =
        format!("the bundle `{}` has the file `{name}`, which is not allowed: {why}", path.display());
    Error::new(ErrorKind::InvalidOption, message)
}

fn too_large(path: &Path) -> Error {
    let message = format!(
        "`{}` is not a file, or is larger than {} MiB, packed or unpacked",
        path.display(),
        MAX_CONTEXT_BYTES / 1024 / 1024
    );
    Error::new(ErrorKind::InvalidOption, message)
}

fn broken(path: &Path, error: ZipError) -> Error {
    let message = format!("cannot read `{}` as a bundle", path.display());
    Error::new(ErrorKind::InvalidOption, message)
        .source(error)
        .hint("a bundle must be a ZIP archive without a password")
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
