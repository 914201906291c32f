//! Accesses files beneath a folder through descriptors of their parent folders, and never through links.
//!
//! Each component of a path is opened on its own without following links, so nothing that an archive has created can
//! lead out of the folder. `..` never reaches this module (`entry_path.rs`).

use std::{
    ffi::CStr,
    io,
    os::fd::{BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{
        self, AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
        makedev,
    },
    io::Errno,
};

pub(super) use crate::state::remove_tree::remove_entry;

/// The attribute of folders that hide those of lower layers, as overlayfs writes it with the option `userxattr`.
const OPAQUE_ATTRIBUTE: &str = "user.overlay.opaque";
const OPAQUE: &[u8] = b"y";
const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The kind of an entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    Folder,
    /// The mark of a file that lower layers have and this layer removes: a character device with the number 0.
    Whiteout,
    /// A file or a link.
    Other,
}

/// Opens a folder of mcpm itself, whose path may contain links.
pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(fs::openat(CWD, path, FOLDER_FLAGS, Mode::empty())?)
}

/// Opens a folder in a folder. Fails with `NOTDIR` or `LOOP` for anything else.
pub(super) fn open_folder(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(fs::openat(parent, name, FOLDER_FLAGS, Mode::empty())?)
}

/// Creates an empty file and opens it for writing. Fails if the name exists.
pub(super) fn create_file(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<std::fs::File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Creates a folder and opens it. Fails if the name exists.
pub(super) fn create_folder(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    fs::mkdirat(parent, name, Mode::RWXU)?;
    open_folder(parent, name)
}

/// Marks a file of lower layers as removed. Users may create these devices since Linux 5.8.
pub(super) fn create_whiteout(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    fs::mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), makedev(0, 0)).map_err(|error| {
        match error {
            Errno::PERM | Errno::OPNOTSUPP => io::Error::new(
                io::ErrorKind::Unsupported,
                "the file system of the image store cannot mark removed files; it may be an overlay itself",
            ),
            other => other.into(),
        }
    })
}

/// Marks a folder as hiding the folders of lower layers.
pub(super) fn make_opaque(folder: BorrowedFd<'_>) -> io::Result<()> {
    fs::fsetxattr(folder, OPAQUE_ATTRIBUTE, OPAQUE, XattrFlags::empty()).map_err(|error| match error {
        Errno::OPNOTSUPP => io::Error::new(
            io::ErrorKind::Unsupported,
            "the file system of the image store does not support extended attributes",
        ),
        other => other.into(),
    })
}

/// Whether a folder hides the folders of lower layers.
pub(super) fn is_opaque(folder: BorrowedFd<'_>) -> bool {
    let mut value = [0; 1];
    fs::fgetxattr(folder, OPAQUE_ATTRIBUTE, &mut value[..]) == Ok(1) && value == OPAQUE
}

/// Returns the metadata of an entry of a folder, without following a link; `None` if it does not exist.
pub(super) fn stat(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<Stat>> {
    match fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the kind of an entry of a folder.
pub(super) fn find(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Found> {
    Ok(stat(parent, name)?.map_or(Found::Nothing, |stat| kind_of(&stat)))
}

/// Returns the kind of the file that some metadata describes.
pub(super) fn kind_of(stat: &Stat) -> Found {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Found::Folder,
        FileType::CharacterDevice if stat.st_rdev == 0 => Found::Whiteout,
        _ => Found::Other,
    }
}

/// Removes the content of a folder.
pub(super) fn clear(folder: BorrowedFd<'_>) -> io::Result<()> {
    for name in names(folder)? {
        remove_entry(folder, &name)?;
    }
    Ok(())
}

/// The names in a folder.
pub(super) fn names(folder: BorrowedFd<'_>) -> io::Result<Vec<Vec<u8>>> {
    let is_own = |name: &CStr| ![&b"."[..], b".."].contains(&name.to_bytes());
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if is_own(entry.file_name()) {
            names.push(entry.file_name().to_bytes().to_vec());
        }
    }
    Ok(names)
}

/// Sets owner and group by number.
pub(super) fn set_owner(file: BorrowedFd<'_>, owner: (u32, u32)) -> io::Result<()> {
    Ok(fs::fchown(file, Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1)))?)
}

/// Sets owner and group of a link itself.
pub(super) fn set_link_owner(parent: BorrowedFd<'_>, name: &[u8], owner: (u32, u32)) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
    Ok(fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Sets the permissions.
pub(super) fn set_mode(file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    Ok(fs::fchmod(file, Mode::from_raw_mode(mode & 0o7777))?)
}

/// Sets the time of the last change.
pub(super) fn set_modified(file: BorrowedFd<'_>, time: (i64, u32)) -> io::Result<()> {
    Ok(fs::futimens(file, &timestamps(time))?)
}

/// Sets the time of the last change of a link itself.
pub(super) fn set_link_modified(parent: BorrowedFd<'_>, name: &[u8], time: (i64, u32)) -> io::Result<()> {
    Ok(fs::utimensat(parent, name, &timestamps(time), AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Clamps a time to the range that all file systems support.
fn timestamps((seconds, nanos): (i64, u32)) -> Timestamps {
    let time =
        Timespec { tv_sec: seconds.clamp(0, i64::from(u32::MAX)), tv_nsec: nanos.min(999_999_999).into() };
    Timestamps { last_access: time, last_modification: time }
}
