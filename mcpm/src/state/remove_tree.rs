//! Removes a folder with everything in it, even files that a server or a build made hard to remove.
//!
//! A server can nest folders more deeply than a path or a recursive function can follow, and can remove its own access
//! rights to them. A folder that is not empty is therefore moved to the top of the tree and emptied there, so neither
//! the memory nor the number of open files depends on the tree. Files are opened relative to the descriptors of
//! their folders, and links are never followed.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, Dir, Mode, OFlags, chmod, fstat, openat, renameat, unlinkat},
    io::Errno,
    path::Arg,
};

const FOLDER_FLAGS: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a folder, which need not exist, with everything in it.
pub(crate) fn remove_tree(folder: &Path) -> io::Result<()> {
    match open_removable(CWD, folder) {
        Ok(top) => Tree { top, moved: 0 }.clear()?,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    remove_empty(CWD, folder)
}

/// Removes an entry of a folder, with everything in it. Succeeds if the entry does not exist.
pub(crate) fn remove_entry(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    Tree { top: open_removable(parent, name)?, moved: 0 }.clear()?;
    remove_empty(parent, name)
}

/// A folder that is being emptied.
struct Tree {
    top: OwnedFd,
    /// Number of names tried so far for folders that are moved to the top.
    moved: u64,
}

impl Tree {
    fn clear(mut self) -> io::Result<()> {
        let top = self.top.try_clone()?;
        loop {
            let mut is_empty = true;
            for name in names(top.as_fd())? {
                is_empty = false;
                self.remove(&name?)?;
            }
            // Folders that were moved here during the listing may not have been listed, so the top is listed again.
            if is_empty {
                return Ok(());
            }
        }
    }

    /// Removes an entry of the top folder, after moving the folders in it to the top.
    fn remove(&mut self, name: &[u8]) -> io::Result<()> {
        let Some(folder) = unlink_or_open(self.top.as_fd(), name)? else { return Ok(()) };
        for inner in names(folder.as_fd())? {
            let inner = inner?;
            // A folder can only be moved by a process that has access to it; opening it grants that access.
            if unlink_or_open(folder.as_fd(), &inner)?.is_some() {
                match unlinkat(&folder, &inner[..], AtFlags::REMOVEDIR) {
                    Err(Errno::NOTEMPTY | Errno::EXIST) => self.move_to_top(folder.as_fd(), &inner)?,
                    removed => removed?,
                }
            }
        }
        remove_empty(self.top.as_fd(), name)
    }

    fn move_to_top(&mut self, parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
        loop {
            self.moved += 1;
            match renameat(parent, name, &self.top, format!(".moved-{}", self.moved)) {
                // The name is taken. An empty folder of that name is replaced.
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                moved => return Ok(moved?),
            }
        }
    }
}

/// Removes a file or a link; a folder is opened instead, with access to all that is in it.
fn unlink_or_open(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<OwnedFd>> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(None),
        Err(Errno::ISDIR | Errno::PERM) => Ok(Some(open_removable(parent, name)?)),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder, whose owner may have no access to it, and changes its mode so that it can be emptied and moved.
fn open_removable(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> rustix::io::Result<OwnedFd> {
    let found = openat(parent, name, FOLDER_FLAGS | OFlags::PATH, Mode::empty())?;
    if !Mode::from_raw_mode(fstat(&found)?.st_mode).contains(Mode::RWXU) {
        // The mode of a file that is opened as a path can only be changed by this name.
        chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::RWXU)?;
    }
    openat(&found, c".", FOLDER_FLAGS | OFlags::RDONLY, Mode::empty())
}

/// Removes an empty folder.
fn remove_empty(parent: BorrowedFd<'_>, name: impl Arg) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

/// Lists the names in a folder as they are read.
fn names(folder: BorrowedFd<'_>) -> io::Result<impl Iterator<Item = io::Result<Vec<u8>>>> {
    let entries = Dir::read_from(folder)?.map(|entry| Ok(entry?.file_name().to_bytes().to_vec()));
    Ok(entries.filter(|name| !matches!(name.as_deref(), Ok(b"." | b".."))))
}

#[cfg(test)]
#[path = "remove_tree_tests.rs"]
mod tests;
