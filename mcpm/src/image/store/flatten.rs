//! Copies the layers of an image into one folder, for machines and file systems on which overlays cannot be mounted.
//!
//! The layers are copied over each other, lowest first. On a file system that can share data between files (reflinks),
//! a copied file shares the data of the file in its layer. Holes of sparse files stay holes.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{self, AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, XattrFlags},
    io::Errno,
};

use super::{
    beneath::{self, Found},
    stored_image::StoredImage,
    unpack::{Ownership, is_kept_attribute},
};
use crate::{Result, state::file::file_error};

/// Most bytes that the kernel copies in one call.
const COPY_CHUNK_BYTES: usize = 1 << 30;

/// Copies the merged root of an image into an empty folder. On failure, the folder may contain a part of it.
///
/// # Errors
/// `Io`.
pub fn flatten(image: &StoredImage, target: &Path) -> Result<()> {
    flatten_layers(&image.layers, target)
}

/// Copies the merged root of layers, lowest first, into a folder that becomes a layer: it hides all layers below it.
///
/// # Errors
/// As for [`flatten`].
pub(crate) fn flatten_into_layer(layers: &[PathBuf], target: &Path) -> Result<()> {
    flatten_layers(layers, target)?;
    let marked = beneath::open_root(target).and_then(|folder| beneath::make_opaque(folder.as_fd()));
    marked.map_err(|error| file_error("copy the image to", target, error))
}

/// Whether a layer hides all layers below it.
pub(crate) fn is_whole_root(layer: &Path) -> bool {
    beneath::open_root(layer).is_ok_and(|folder| beneath::is_opaque(folder.as_fd()))
}

fn flatten_layers(layers: &[PathBuf], target: &Path) -> Result<()> {
    let failed = |error| file_error("copy the image to", target, error);
    let into = beneath::open_root(target).map_err(failed)?;
    let first = layers.iter().rposition(|layer| is_whole_root(layer)).unwrap_or_default();
    for layer in &layers[first..] {
        let from = beneath::open_root(layer).map_err(failed)?;
        let mut copying = Copying { ownership: Ownership::of_process(), links: HashMap::new(), root: &into };
        copying.folder(&from, &into, &mut Vec::new()).map_err(failed)?;
    }
    Ok(())
}

struct Copying<'a> {
    ownership: Ownership,
    /// Copies of files with several names, by their numbers in the layer.
    links: HashMap<(u64, u64), Vec<Vec<u8>>>,
    root: &'a OwnedFd,
}

impl Copying<'_> {
    /// Copies the content and the attributes of a folder of a layer. Its depth is bounded by that of its entries.
    fn folder(&mut self, from: &OwnedFd, into: &OwnedFd, path: &mut Vec<Vec<u8>>) -> io::Result<()> {
        for name in beneath::names(from.as_fd())? {
            let Some(stat) = beneath::stat(from.as_fd(), &name)? else { continue };
            match beneath::kind_of(&stat) {
                Found::Whiteout => beneath::remove_entry(into.as_fd(), &name)?,
                Found::Folder => {
                    let source = beneath::open_folder(from.as_fd(), &name)?;
                    let copy = match beneath::find(into.as_fd(), &name)? {
                        Found::Folder => beneath::open_folder(into.as_fd(), &name)?,
                        _ => {
                            beneath::remove_entry(into.as_fd(), &name)?;
                            beneath::create_folder(into.as_fd(), &name)?
                        }
                    };
                    if beneath::is_opaque(source.as_fd()) {
                        beneath::clear(copy.as_fd())?;
                    }
                    path.push(name);
                    self.folder(&source, &copy, path)?;
                    path.pop();
                }
                _ => {
                    beneath::remove_entry(into.as_fd(), &name)?;
                    path.push(name);
                    self.file(from, into, &stat, path)?;
                    path.pop();
                }
            }
        }
        let stat = fs::fstat(from)?;
        self.attributes(from, into, &stat)
    }

    /// Copies a file or a symbolic link, whose path is `path`.
    fn file(&mut self, from: &OwnedFd, into: &OwnedFd, stat: &Stat, path: &[Vec<u8>]) -> io::Result<()> {
        let Some(name) = path.last() else { return Ok(()) };
        let number = (stat.st_dev, stat.st_ino);
        if let Some(first) = self.links.get(&number) {
            return self.link(first, into, name);
        }
        if stat.st_nlink > 1 {
            self.links.insert(number, path.to_vec());
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let target = fs::readlinkat(from, name.as_slice(), Vec::new())?;
                fs::symlinkat(target.as_c_str(), into, name.as_slice())?;
                if self.ownership == Ownership::Kept {
                    beneath::set_link_owner(into.as_fd(), name, (stat.st_uid, stat.st_gid))?;
                }
                beneath::set_link_modified(into.as_fd(), name, modified(stat))
            }
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let source = fs::openat(from, name.as_slice(), flags, Mode::empty())?;
                let copy = beneath::create_file(into.as_fd(), name)?;
                copy_data(&source, &copy, stat.st_size)?;
                self.attributes(&source, &copy.into(), stat)
            }
            // Layers have no other files.
            _ => Ok(()),
        }
    }

    /// Gives a copied file a further name.
    fn link(&self, first: &[Vec<u8>], into: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let Some((first_name, folders)) = first.split_last() else { return Ok(()) };
        let mut folder = self.root.try_clone()?;
        for part in folders {
            folder = beneath::open_folder(folder.as_fd(), part)?;
        }
        Ok(fs::linkat(&folder, first_name.as_slice(), into, name, AtFlags::empty())?)
    }

    fn attributes(&self, from: &OwnedFd, into: &OwnedFd, stat: &Stat) -> io::Result<()> {
        if self.ownership == Ownership::Kept {
            beneath::set_owner(into.as_fd(), (stat.st_uid, stat.st_gid))?;
        }
        beneath::set_mode(into.as_fd(), stat.st_mode)?;
        let mut names = vec![0; 64 * 1024];
        let length = match fs::flistxattr(from, names.as_mut_slice()) {
            Ok(length) => length,
            Err(Errno::OPNOTSUPP) => 0,
            Err(error) => return Err(error.into()),
        };
        for name in names[..length].split(|byte| *byte == 0).filter(|name| is_kept_attribute(name)) {
            let mut value = vec![0; 64 * 1024];
            let length = fs::fgetxattr(from, name, value.as_mut_slice())?;
            match fs::fsetxattr(into, name, &value[..length], XattrFlags::empty()) {
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        beneath::set_modified(into.as_fd(), modified(stat))
    }
}

fn modified(stat: &Stat) -> (i64, u32) {
    (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or_default())
}

/// Copies the data of a file, but not its holes.
fn copy_data(from: &OwnedFd, to: &File, size: i64) -> io::Result<()> {
    if fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    let size = u64::try_from(size).unwrap_or_default();
    to.set_len(size)?;
    let mut at = 0;
    while at < size {
        let begin = match fs::seek(from, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            // The rest of the file is a hole.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = fs::seek(from, SeekFrom::Hole(begin))?;
        let (mut read_at, mut write_at) = (begin, begin);
        while read_at < end {
            let largest =
                usize::try_from(end - read_at).map_or(COPY_CHUNK_BYTES, |rest| rest.min(COPY_CHUNK_BYTES));
            match fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), largest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                    copy_by_reading(from, to, read_at, end)?;
                    read_at = end;
                }
                Err(error) => return Err(error.into()),
            }
        }
        at = end;
    }
    Ok(())
}

/// Copies a range by reading and writing, where the kernel cannot copy it.
fn copy_by_reading(from: &OwnedFd, to: &File, mut at: u64, end: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    let from = File::from(from.try_clone()?);
    let mut buffer = vec![0; 64 * 1024];
    while at < end {
        let largest = usize::try_from(end - at).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        let count = from.read_at(&mut buffer[..largest], at)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all_at(&buffer[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
#[path = "flatten_tests.rs"]
mod tests;
