//! Creates build contexts: tar archives with the same bytes for the same files.

use std::{io, path::Path};

use bytes::Bytes;
use tar::{Builder, EntryType, Header};

use crate::{Error, ErrorKind, Result};

/// The largest context. It is held in memory, so that exactly the bytes that were hashed are built.
pub(super) const MAX_CONTEXT_BYTES: usize = 256 * 1024 * 1024;

/// A builder of a context.
pub(super) struct BuildContext(Builder<Vec<u8>>);

impl BuildContext {
    pub(super) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// Adds a file.
    pub(super) fn add_file(
        &mut self,
        path: impl AsRef<Path>,
        content: &[u8],
        executable: bool,
    ) -> Result<()> {
        self.check_size(content.len())?;
        let mut header = header(EntryType::Regular, if executable { 0o755 } else { 0o644 });
        header.set_size(content.len() as u64);
        self.0.append_data(&mut header, path.as_ref(), content).map_err(|error| broken(path.as_ref(), error))
    }

    /// Adds a symbolic link.
    pub(super) fn add_symlink(&mut self, path: &Path, target: &Path) -> Result<()> {
        self.check_size(target.as_os_str().len())?;
        let mut header = header(EntryType::Symlink, 0o777);
        header.set_size(0);
        self.0.append_link(&mut header, path, target).map_err(|error| broken(path, error))
    }

    /// Checks that this many bytes can be added.
    fn check_size(&self, added: usize) -> Result<()> {
        if self.0.get_ref().len() + added > MAX_CONTEXT_BYTES {
            let message = format!("the files for the build are larger than {} MiB", MAX_CONTEXT_BYTES >> 20);
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("in the `.dockerignore` of the project, list the files that the build does not need"));
        }
        Ok(())
    }

    /// Finishes the archive.
    pub(super) fn finish(self) -> Result<Bytes> {
        self.0.into_inner().map(Bytes::from).map_err(|error| broken(Path::new("."), error))
    }
}

/// Returns a header without times and owners, so that these do not affect the build.
fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn broken(path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot add `{}` to the build context", path.display())).source(error)
}
