//! Reads the files of an image archive, or of a folder with an OCI layout.
//!
//! Files of an archive are extracted to `file-0`, `file-1` and so on; their names in the archive are only keys, never
//! paths.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use super::{
    decompress::{MeasuredReader, StopFlag, decompressed},
    entry_path::shown,
    limits::{Budget, MAX_CONFIG_BYTES, invalid},
    tar_reader::{EntryKind, TarReader},
};
use crate::image::Digest;

/// Where the files are.
pub(super) enum ImageArchive {
    /// A folder with an OCI layout.
    Folder(PathBuf),
    /// Files of an archive by their names.
    Extracted(HashMap<Vec<u8>, ArchivedFile>),
}

/// A file of an archive.
pub(super) enum ArchivedFile {
    Stored(PathBuf),
    /// A link to the file of this name. Old engines replaced repeated layers with links.
    Link(Vec<u8>),
}

impl ImageArchive {
    /// Extracts the files of an archive, compressed or not, into a folder.
    ///
    /// # Errors
    /// `InvalidData` for a file that is not an archive or is too large; errors of the disk.
    pub(super) fn extract(archive: impl Read, folder: &Path) -> io::Result<Self> {
        let mut budget = Budget::of_archive();
        let measured = MeasuredReader::new(decompressed(archive)?, &budget, StopFlag::default());
        let mut reader = TarReader::new(BufReader::new(measured));
        let (mut files, mut stored) = (HashMap::new(), 0);
        while let Some(entry) = reader.next_entry()? {
            budget.take_entries(1)?;
            let name = normalized(&entry.path);
            match entry.kind {
                EntryKind::File if entry.segments.is_some() => {
                    return Err(invalid(format!("`{}` is a sparse file", shown(&name))));
                }
                EntryKind::File => {
                    let path = folder.join(format!("file-{stored}"));
                    stored += 1;
                    let mut file = File::create(&path)?;
                    io::copy(&mut reader, &mut file)?;
                    files.insert(name, ArchivedFile::Stored(path));
                }
                EntryKind::HardLink => {
                    files.insert(name, ArchivedFile::Link(normalized(&entry.link)));
                }
                EntryKind::SymbolicLink => {
                    let target = resolve(&name, &entry.link);
                    files.insert(name, ArchivedFile::Link(target));
                }
                EntryKind::Folder | EntryKind::Other => {}
            }
        }
        Ok(Self::Extracted(files))
    }

    /// Opens a file; `None` if there is none with that name.
    pub(super) fn open(&self, name: &str) -> io::Result<Option<File>> {
        let path = match self {
            Self::Folder(folder) => Some(folder.join(name)),
            Self::Extracted(files) => {
                let mut found = files.get(&normalized(name.as_bytes()));
                // One link is followed; archives do not need chains of links.
                if let Some(ArchivedFile::Link(target)) = found {
                    found = files.get(target);
                }
                match found {
                    Some(ArchivedFile::Stored(path)) => Some(path.clone()),
                    _ => None,
                }
            }
        };
        match path.map(File::open) {
            Some(Ok(file)) => Ok(Some(file)),
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(None),
        }
    }

    /// Reads a small file; `None` if there is none with that name.
    ///
    /// # Errors
    /// `InvalidData` for a file that is too large.
    pub(super) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > MAX_CONFIG_BYTES {
            true => Err(invalid(format!("`{name}` is larger than 4 MiB"))),
            false => Ok(Some(bytes)),
        }
    }

    /// Reads a small blob, and verifies it.
    ///
    /// # Errors
    /// `InvalidData` if the blob is missing or has another digest.
    pub(super) fn read_blob(&self, digest: &Digest) -> io::Result<Vec<u8>> {
        let bytes = self.read(&blob_name(digest))?;
        let bytes = bytes.ok_or_else(|| invalid(format!("the blob `{digest}` is missing")))?;
        match Digest::sha256(&bytes) == *digest {
            true => Ok(bytes),
            false => Err(invalid(format!("the blob `{digest}` is damaged"))),
        }
    }
}

/// The name of a blob in an OCI layout.
pub(super) fn blob_name(digest: &Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// Whether a folder has an OCI layout.
pub(super) fn is_layout(folder: &Path) -> bool {
    fs::metadata(folder.join("index.json")).is_ok_and(|found| found.is_file())
}

/// Returns a name without `./`, to compare it with others.
fn normalized(name: &[u8]) -> Vec<u8> {
    let parts = name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    parts.collect::<Vec<_>>().join(&b'/')
}

/// The name that a symbolic link leads to.
fn resolve(link: &[u8], target: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = link.split(|byte| *byte == b'/').collect();
    parts.pop();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    normalized(&parts.join(&b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_as_names() {
        assert_eq!(resolve(b"a/layer.tar", b"../b/layer.tar"), b"b/layer.tar");
        assert_eq!(resolve(b"a/layer.tar", b"../../../etc/passwd"), b"etc/passwd");
        assert_eq!(normalized(b"./a//b/"), b"a/b");
    }
}
