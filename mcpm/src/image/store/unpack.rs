//! Unpacks a layer into a folder in the format of overlayfs.
//!
//! Archives may be hostile. An entry is created only beneath the folder, by the descriptor of its parent, and never
//! through a link of an earlier entry. Devices and named pipes are skipped and counted. Removed files become whiteouts,
//! and replaced folders are marked as opaque. Only entries with the names that the image specification reserves for
//! this purpose cause whiteouts and marks; devices and attributes in the archive never do.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, ErrorKind, Read, Seek as _, SeekFrom, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, XattrFlags, fsetxattr, linkat, symlinkat},
    io::Errno,
};

use super::{
    beneath::{self, Found},
    decompress::{MeasuredReader, StopFlag, decompressed},
    entry_path::{EntryPath, shown},
    limits::{Budget, MAX_PATH_BYTES, invalid},
    tar_reader::{EntryKind, TarEntry, TarReader},
};
use crate::image::Digest;

/// The prefix of the names of files that mark removed ones.
const WHITEOUT_PREFIX: &[u8] = b".wh.";
/// The file that marks its folder as replaced.
const OPAQUE_MARKER: &[u8] = b".wh..wh..opq";
/// The prefix of the names of other metadata, which old engines wrote.
const METADATA_PREFIX: &[u8] = b".wh..wh.";
/// Attributes that are kept: those that every user may set and that mean nothing to the kernel.
const ATTRIBUTE_PREFIX: &[u8] = b"user.";
/// Attributes of overlayfs, which would make files of lower layers disappear or redirect them.
const OVERLAY_ATTRIBUTE_PREFIX: &[u8] = b"user.overlay";
/// The permissions of folders that an archive does not mention and no lower layer has.
const DEFAULT_FOLDER_MODE: u32 = 0o755;
/// The memory for the paths of folders whose time is set.
const MAX_FOLDER_TIMES_BYTES: usize = 64 << 20;
const BUFFER_BYTES: usize = 64 * 1024;

/// The owner that unpacked files get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The owners in the archive. Setuid and setgid bits are kept: containers run with `no_new_privs`, which disables
    /// them.
    Kept,
    /// The user, who may read and write all of them; setuid and setgid bits are dropped.
    User,
}

impl Ownership {
    /// Returns the ownership that this process is able to set.
    pub(super) fn of_process() -> Self {
        if rustix::process::geteuid().is_root() { Self::Kept } else { Self::User }
    }

    fn mode(self, mode: u32, is_folder: bool) -> u32 {
        match (self, is_folder) {
            // The owner can always enter folders, so that they can be removed again.
            (Self::Kept, true) => mode & 0o7777 | 0o700,
            (Self::Kept, false) => mode & 0o7777,
            (Self::User, true) => mode & 0o1777 | 0o700,
            (Self::User, false) => mode & 0o1777 | 0o600,
        }
    }
}

/// The result of unpacking a layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnpackedLayer {
    /// The digest of the uncompressed archive.
    pub(super) diff_id: Digest,
    /// The size of the files.
    pub(super) bytes: u64,
    /// The number of entries.
    pub(super) entries: u64,
    /// The number of devices and named pipes, which were skipped.
    pub(super) skipped: u64,
}

/// Unpacks a layer, compressed or not, into an empty folder. `lower` are the layers below it, lowest first.
///
/// # Errors
/// `InvalidData` and `UnexpectedEof` for invalid content, other kinds for errors of the disk. After an error, the
/// folder contains a part of the files.
pub(super) fn unpack(
    archive: impl Read,
    folder: &Path,
    lower: &[PathBuf],
    ownership: Ownership,
    budget: &mut Budget,
    stop: StopFlag,
) -> io::Result<UnpackedLayer> {
    let measured = MeasuredReader::new(decompressed(archive)?, budget, stop);
    let mut reader = TarReader::new(BufReader::with_capacity(BUFFER_BYTES, measured));
    let root = beneath::open_root(folder)?;
    let mut unpacking = Unpacking {
        root,
        lower,
        ownership,
        budget,
        parent: None,
        times: FolderTimes::default(),
        layer: Counts::default(),
    };
    unpacking.copy_from_lower(&[])?;
    while let Some(entry) = reader.next_entry()? {
        unpacking.add(&entry, &mut reader).map_err(|error| {
            io::Error::new(error.kind(), format!("entry `{}`: {error}", shown(&entry.path)))
        })?;
    }
    let layer = unpacking.finish()?;
    // The data after the last entry is included in the digest.
    let mut rest = reader.into_rest();
    io::copy(&mut rest, &mut io::sink())?;
    let (diff_id, count) = rest.into_inner().finish();
    // Headers, and data that was skipped, count as well.
    budget.take_bytes(count.saturating_sub(layer.bytes))?;
    Ok(UnpackedLayer { diff_id, bytes: layer.bytes, entries: layer.entries, skipped: layer.skipped })
}

#[derive(Debug, Default)]
struct Counts {
    bytes: u64,
    entries: u64,
    skipped: u64,
}

/// The times of folders, which are set last: creating a file in a folder changes its time.
#[derive(Debug, Default)]
struct FolderTimes {
    times: BTreeMap<Vec<u8>, (i64, u32)>,
    bytes: usize,
}

impl FolderTimes {
    fn insert(&mut self, folder: &[Vec<u8>], name: &[u8], time: (i64, u32)) {
        let path = joined(folder, name);
        self.bytes += path.len();
        // If an archive has absurdly many or long paths, the remaining folders keep the time of unpacking.
        if self.bytes <= MAX_FOLDER_TIMES_BYTES {
            self.times.insert(path, time);
        }
    }
}

struct Unpacking<'a> {
    root: OwnedFd,
    lower: &'a [PathBuf],
    ownership: Ownership,
    budget: &'a mut Budget,
    /// The folder of the last entry, cached because the next entry is usually in the same folder.
    parent: Option<(Vec<Vec<u8>>, OwnedFd)>,
    times: FolderTimes,
    layer: Counts,
}

impl Unpacking<'_> {
    fn add(&mut self, entry: &TarEntry, data: &mut impl Read) -> io::Result<()> {
        self.count_entry()?;
        let path = EntryPath::parse(&entry.path)?;
        let Some((folder, name)) = path.split() else { return self.add_root(entry) };
        if folder.iter().any(|part| part.starts_with(METADATA_PREFIX)) {
            return Ok(());
        }
        if folder.iter().any(|part| part.starts_with(WHITEOUT_PREFIX)) {
            return Err(invalid("a folder has the name of a whiteout"));
        }
        let parent = self.open_parent(folder)?;
        if name == OPAQUE_MARKER {
            return beneath::make_opaque(parent.as_fd());
        }
        if name.starts_with(METADATA_PREFIX) {
            return Ok(());
        }
        if let Some(removed) = name.strip_prefix(WHITEOUT_PREFIX) {
            return self.add_whiteout(&parent, removed);
        }
        match entry.kind {
            EntryKind::Folder => {
                let created = self.make_folder(&parent, folder, name)?;
                self.set_attributes(&created, entry, true)?;
                self.times.insert(folder, name, entry.modified);
            }
            EntryKind::File => {
                self.replace(&parent, name)?;
                self.add_file(&parent, name, entry, data)?;
            }
            EntryKind::SymbolicLink => {
                self.replace(&parent, name)?;
                self.add_symbolic_link(&parent, name, entry)?;
            }
            EntryKind::HardLink => self.add_hard_link(&parent, (folder, name), &entry.link)?,
            EntryKind::Other => self.layer.skipped += 1,
        }
        Ok(())
    }

    /// Sets what the archive says about the root folder.
    fn add_root(&mut self, entry: &TarEntry) -> io::Result<()> {
        if entry.kind != EntryKind::Folder {
            return Err(invalid("the root is not a folder"));
        }
        let root = self.root.try_clone()?;
        self.times.insert(&[], &[], entry.modified);
        self.set_attributes(&root, entry, true)
    }

    fn count_entry(&mut self) -> io::Result<()> {
        self.layer.entries += 1;
        self.budget.take_entries(1)
    }

    /// Opens the folder of an entry, and creates it if the archive did not mention it.
    fn open_parent(&mut self, folder: &[Vec<u8>]) -> io::Result<OwnedFd> {
        if let Some((path, opened)) = &self.parent
            && path == folder
        {
            return opened.try_clone();
        }
        let mut parent = self.root.try_clone()?;
        for (at, name) in folder.iter().enumerate() {
            let path = &folder[..=at];
            parent = match beneath::find(parent.as_fd(), name)? {
                Found::Folder => beneath::open_folder(parent.as_fd(), name)?,
                Found::Other => {
                    let shown = shown(&path.join(&b'/'));
                    return Err(invalid(format!("it is beneath `{shown}`, which is not a folder")));
                }
                Found::Nothing | Found::Whiteout => {
                    self.count_entry()?;
                    let created = self.make_folder(&parent, &folder[..at], name)?;
                    self.copy_from_lower(path)?;
                    created
                }
            };
        }
        self.parent = Some((folder.to_vec(), parent.try_clone()?));
        Ok(parent)
    }

    /// Opens a folder, or creates it in the place of whatever has its name.
    fn make_folder(&mut self, parent: &OwnedFd, folder: &[Vec<u8>], name: &[u8]) -> io::Result<OwnedFd> {
        let found = beneath::find(parent.as_fd(), name)?;
        if found == Found::Folder {
            return beneath::open_folder(parent.as_fd(), name);
        }
        self.replace(parent, name)?;
        let created = beneath::create_folder(parent.as_fd(), name)?;
        if found == Found::Whiteout {
            // The folder of the lower layers was removed, and this is another one.
            beneath::make_opaque(created.as_fd())?;
        }
        beneath::set_mode(created.as_fd(), DEFAULT_FOLDER_MODE)?;
        self.times.times.remove(&joined(folder, name));
        Ok(created)
    }

    /// Gives a folder that the archive does not mention the owner and the permissions that it has in the lower layers:
    /// those of the highest layer apply to the merged folder.
    fn copy_from_lower(&mut self, path: &[Vec<u8>]) -> io::Result<()> {
        let (mut mode, mut owner) = (DEFAULT_FOLDER_MODE, (0, 0));
        for layer in self.lower.iter().rev() {
            let mut opened = beneath::open_root(layer)?;
            let reached = path.iter().all(|name| match beneath::open_folder(opened.as_fd(), name) {
                Ok(next) => {
                    opened = next;
                    true
                }
                Err(_) => false,
            });
            if reached {
                let stat = rustix::fs::fstat(&opened)?;
                (mode, owner) = (stat.st_mode, (stat.st_uid, stat.st_gid));
                break;
            }
        }
        let mut created = self.root.try_clone()?;
        for name in path {
            created = beneath::open_folder(created.as_fd(), name)?;
        }
        if self.ownership == Ownership::Kept {
            beneath::set_owner(created.as_fd(), owner)?;
        }
        beneath::set_mode(created.as_fd(), self.ownership.mode(mode, true))
    }

    /// Removes an earlier entry with the same name.
    fn replace(&mut self, parent: &OwnedFd, name: &[u8]) -> io::Result<()> {
        if beneath::find(parent.as_fd(), name)? != Found::Nothing {
            // The folder of the last entry may be removed, too.
            self.parent = None;
            beneath::remove_entry(parent.as_fd(), name)?;
        }
        Ok(())
    }

    /// Hides a file of lower layers. A file of this layer with that name stays, whichever comes first in the archive.
    fn add_whiteout(&mut self, parent: &OwnedFd, name: &[u8]) -> io::Result<()> {
        if [&b""[..], b".", b".."].contains(&name) {
            return Err(invalid("it is a whiteout that names no file"));
        }
        match beneath::find(parent.as_fd(), name)? {
            Found::Nothing => beneath::create_whiteout(parent.as_fd(), name),
            Found::Folder => beneath::make_opaque(beneath::open_folder(parent.as_fd(), name)?.as_fd()),
            Found::Whiteout | Found::Other => Ok(()),
        }
    }

    fn add_file(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        entry: &TarEntry,
        data: &mut impl Read,
    ) -> io::Result<()> {
        self.budget.take_bytes(entry.size)?;
        self.layer.bytes += entry.size;
        let mut file = beneath::create_file(parent.as_fd(), name)?;
        match &entry.segments {
            None => copy(data, &mut file, entry.size)?,
            Some(segments) => {
                for segment in segments {
                    file.seek(SeekFrom::Start(segment.offset))?;
                    copy(data, &mut file, segment.length)?;
                }
                file.set_len(entry.size)?;
            }
        }
        let file = OwnedFd::from(file);
        self.set_attributes(&file, entry, false)?;
        beneath::set_modified(file.as_fd(), entry.modified)
    }

    fn add_symbolic_link(&mut self, parent: &OwnedFd, name: &[u8], entry: &TarEntry) -> io::Result<()> {
        let target = entry.link.as_slice();
        if target.is_empty() || target.len() > MAX_PATH_BYTES || target.contains(&0) {
            return Err(invalid("a symbolic link has an invalid target"));
        }
        symlinkat(target, parent, name)?;
        if self.ownership == Ownership::Kept {
            beneath::set_link_owner(parent.as_fd(), name, owner(entry)?)?;
        }
        beneath::set_link_modified(parent.as_fd(), name, entry.modified)
    }

    /// Gives a file of this layer another name.
    fn add_hard_link(
        &mut self,
        parent: &OwnedFd,
        (folder, name): (&[Vec<u8>], &[u8]),
        target: &[u8],
    ) -> io::Result<()> {
        let missing = || invalid(format!("its target `{}` is not a file of this layer", shown(target)));
        let path = EntryPath::parse(target)?;
        let Some((target_folder, target_name)) = path.split() else { return Err(missing()) };
        if (target_folder, target_name) == (folder, name) {
            return Err(missing());
        }
        let mut from = self.root.try_clone()?;
        for part in target_folder {
            from = beneath::open_folder(from.as_fd(), part).map_err(|_| missing())?;
        }
        if beneath::find(from.as_fd(), target_name)? != Found::Other {
            return Err(missing());
        }
        self.replace(parent, name)?;
        // Without `SYMLINK_FOLLOW`, a link to a symbolic link is another name of that link.
        match linkat(&from, target_name, parent, name, AtFlags::empty()) {
            // The name may have been a folder that held the target.
            Err(Errno::NOENT) => Err(missing()),
            linked => Ok(linked?),
        }
    }

    /// Sets owner, permissions and extended attributes.
    fn set_attributes(&mut self, file: &OwnedFd, entry: &TarEntry, is_folder: bool) -> io::Result<()> {
        // A change of the owner clears the setuid bit, so it comes first.
        if self.ownership == Ownership::Kept {
            beneath::set_owner(file.as_fd(), owner(entry)?)?;
        }
        beneath::set_mode(file.as_fd(), self.ownership.mode(entry.mode, is_folder))?;
        for (name, value) in &entry.attributes {
            if !is_kept_attribute(name) {
                continue;
            }
            match fsetxattr(file, name.as_slice(), value, XattrFlags::empty()) {
                Ok(()) => {}
                // Ignored, since programs cannot rely on attributes: many file systems do not support them, or not of
                // this size.
                Err(Errno::OPNOTSUPP | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::PERM) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn finish(self) -> io::Result<Counts> {
        for (path, time) in self.times.times.iter().rev() {
            let mut folder = self.root.try_clone()?;
            let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            let reached = names.all(|name| match beneath::open_folder(folder.as_fd(), name) {
                Ok(next) => {
                    folder = next;
                    true
                }
                // A later entry replaced it.
                Err(_) => false,
            });
            if reached {
                beneath::set_modified(folder.as_fd(), *time)?;
            }
        }
        Ok(self.layer)
    }
}

fn joined(folder: &[Vec<u8>], name: &[u8]) -> Vec<u8> {
    let mut path = folder.join(&b'/');
    path.push(b'/');
    path.extend_from_slice(name);
    path
}

pub(super) fn is_kept_attribute(attribute: &[u8]) -> bool {
    attribute.starts_with(ATTRIBUTE_PREFIX)
        && !attribute.starts_with(OVERLAY_ATTRIBUTE_PREFIX)
        && !attribute.contains(&0)
}

fn owner(entry: &TarEntry) -> io::Result<(u32, u32)> {
    // The largest number means "unchanged" to the kernel.
    let id = |id: u64| u32::try_from(id).ok().filter(|id| *id != u32::MAX);
    id(entry.uid).zip(id(entry.gid)).ok_or_else(|| invalid("its owner is invalid"))
}

/// Copies exactly `count` bytes.
fn copy(from: &mut impl Read, to: &mut File, mut count: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER_BYTES.min(usize::try_from(count).unwrap_or(BUFFER_BYTES))];
    while count > 0 {
        let largest = usize::try_from(count).map_or(buffer.len(), |count| count.min(buffer.len()));
        let read = match from.read(&mut buffer[..largest]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        to.write_all(&buffer[..read])?;
        count -= read as u64;
    }
    Ok(())
}

#[cfg(test)]
#[path = "unpack_random_tests.rs"]
mod random_tests;
#[cfg(test)]
#[path = "unpack_tests.rs"]
mod tests;
