//! Limits the resources that an image can use, because its content is untrusted.
//!
//! The limits on bytes and on files are enforced while data is streamed, so they also hold for content whose size is
//! not known in advance.

use std::io;

/// The most layers of an image. Kernels mount up to 500, engines up to 125 or so.
pub(super) const MAX_LAYERS: usize = 128;
/// The most files, folders and links of an image, in all layers.
pub(super) const MAX_ENTRIES: u64 = 1_000_000;
/// The largest unpacked image, headers of archives included.
pub(super) const MAX_IMAGE_BYTES: u64 = 32 << 30;
/// The largest configuration, manifest or index.
pub(super) const MAX_CONFIG_BYTES: u64 = 4 << 20;
/// The longest path of an entry, as in the kernel.
pub(super) const MAX_PATH_BYTES: usize = 4095;
/// The longest name of a file, as in the kernel.
pub(super) const MAX_NAME_BYTES: usize = 255;
/// The deepest folder. Removing folders takes one open file for each level.
pub(super) const MAX_PATH_DEPTH: usize = 256;
/// The largest extended header of one entry: its long names and attributes.
pub(super) const MAX_HEADER_BYTES: u64 = 1 << 20;
/// The most data segments of a sparse file.
pub(super) const MAX_SPARSE_SEGMENTS: usize = 65_536;
/// The most files in an archive of images, which has one for each layer and a few more.
pub(super) const MAX_ARCHIVE_ENTRIES: u64 = 16_384;

/// The rest of the limits of one image.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    bytes: u64,
    entries: u64,
}

impl Budget {
    /// The budget of a whole image.
    pub(super) fn of_image() -> Self {
        Self { bytes: MAX_IMAGE_BYTES, entries: MAX_ENTRIES }
    }

    /// The budget of an archive that holds images.
    pub(super) fn of_archive() -> Self {
        Self { bytes: MAX_IMAGE_BYTES, entries: MAX_ARCHIVE_ENTRIES }
    }

    #[cfg(test)]
    pub(super) fn new(bytes: u64, entries: u64) -> Self {
        Self { bytes, entries }
    }

    /// The bytes that are left.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes bytes.
    pub(super) fn take_bytes(&mut self, count: u64) -> io::Result<()> {
        let why = "the unpacked image is larger than 32 GiB";
        self.bytes = self.bytes.checked_sub(count).ok_or_else(|| invalid(why))?;
        Ok(())
    }

    /// Takes entries.
    pub(super) fn take_entries(&mut self, count: u64) -> io::Result<()> {
        let why = "the image has too many files";
        self.entries = self.entries.checked_sub(count).ok_or_else(|| invalid(why))?;
        Ok(())
    }
}

/// The error for content that breaks a rule or a limit, as opposed to an error of the disk.
pub(super) fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}
