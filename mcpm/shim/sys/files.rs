//! Opens, creates and changes files and folders; a path below an open folder never leads out of that folder.

use alloc::vec::Vec;

use super::{
    Errno, Fd, Result,
    arch::{FOLDER, NO_FOLLOW},
    call, number, opened,
};

const CLOEXEC: u64 = 0x8_0000;
const PATH_ONLY: u64 = 0x20_0000;
const WRITE: u64 = 1;
const CREATE_NEW: u64 = 0x40 | 0x80;
/// Stands for the current folder in place of an open folder (`AT_FDCWD`).
pub(super) const HERE: usize = -100_isize as usize;

/// How a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The folder is the root: absolute links and `..` stay in it.
    InRoot,
    /// Like [`InRoot`](Self::InRoot), but a symbolic link is an error.
    InRootWithoutLinks,
}

impl Lookup {
    fn bits(self) -> u64 {
        const NO_MAGIC_LINKS: u64 = 0x2;
        const NO_LINKS: u64 = 0x4;
        const IN_ROOT: u64 = 0x10;
        match self {
            Self::InRoot => IN_ROOT | NO_MAGIC_LINKS,
            Self::InRootWithoutLinks => IN_ROOT | NO_MAGIC_LINKS | NO_LINKS,
        }
    }
}

/// Opens a path of this process's root for reading.
pub(crate) fn open_to_read(path: &[u8]) -> Result<Fd> {
    open(path, CLOEXEC)
}

/// Opens an existing file of this process's root for writing.
pub(crate) fn open_to_write(path: &[u8]) -> Result<Fd> {
    open(path, WRITE | CLOEXEC)
}

/// Opens the place of a folder of this process's root.
pub(crate) fn open_folder(path: &[u8]) -> Result<Fd> {
    open(path, PATH_ONLY | FOLDER | CLOEXEC)
}

/// Opens the place of a file or folder of this process's root.
pub(crate) fn open_place(path: &[u8]) -> Result<Fd> {
    open(path, PATH_ONLY | CLOEXEC)
}

fn open(path: &[u8], flags: u64) -> Result<Fd> {
    // SAFETY: the kernel reads a path there, which ends with a zero byte.
    unsafe { call(number::OPENAT, [HERE, terminated(path)?, flags as usize, 0, 0, 0]) }.map(opened)
}

/// Opens the place of a file or folder below `root`.
pub(crate) fn open_below(root: &Fd, path: &[u8], lookup: Lookup) -> Result<Fd> {
    open_with(root, path, PATH_ONLY, 0, lookup)
}

/// Opens the place of a folder below `root`.
pub(crate) fn open_folder_below(root: &Fd, path: &[u8], lookup: Lookup) -> Result<Fd> {
    open_with(root, path, PATH_ONLY | FOLDER, 0, lookup)
}

/// Creates a file in a folder; anything that has the name already is an error.
pub(crate) fn create_file(folder: &Fd, name: &[u8]) -> Result<Fd> {
    open_with(folder, name, WRITE | CREATE_NEW | NO_FOLLOW, 0o644, Lookup::InRootWithoutLinks)
}

fn open_with(root: &Fd, path: &[u8], flags: u64, mode: u64, lookup: Lookup) -> Result<Fd> {
    #[repr(C)]
    struct OpenHow {
        flags: u64,
        mode: u64,
        resolve: u64,
    }
    let how = OpenHow { flags: flags | CLOEXEC, mode, resolve: lookup.bits() };
    let path = terminated(path)?;
    loop {
        let args = [root.arg(), path, &raw const how as usize, size_of::<OpenHow>(), 0, 0];
        // SAFETY: the kernel reads a path that ends with a zero byte, and a structure of that size.
        match unsafe { call(number::OPENAT2, args) } {
            // A folder was renamed while the kernel followed `..`.
            Err(Errno::AGAIN | Errno::INTERRUPTED) => {}
            result => return result.map(opened),
        }
    }
}

/// Creates a folder in a folder.
pub(crate) fn create_folder(folder: &Fd, name: &[u8], mode: u32) -> Result<()> {
    // SAFETY: the kernel reads a name there, which ends with a zero byte.
    unsafe { call(number::MKDIRAT, [folder.arg(), terminated(name)?, mode as usize, 0, 0, 0]) }.map(drop)
}

/// Creates a symbolic link in a folder.
pub(crate) fn create_link(folder: &Fd, name: &[u8], to: &[u8]) -> Result<()> {
    let (name, to) = (terminated(name)?, terminated(to)?);
    // SAFETY: the kernel reads two texts there, which end with a zero byte.
    unsafe { call(number::SYMLINKAT, [to, folder.arg(), name, 0, 0, 0]) }.map(drop)
}

/// Removes a file or a link from a folder, but no folder.
pub(crate) fn remove_file(folder: &Fd, name: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads a name there, which ends with a zero byte.
    unsafe { call(number::UNLINKAT, [folder.arg(), terminated(name)?, 0, 0, 0, 0]) }.map(drop)
}

/// Removes an empty folder.
pub(crate) fn remove_folder(path: &[u8]) -> Result<()> {
    const REMOVE_FOLDER: usize = 0x200;
    // SAFETY: the kernel reads a path there, which ends with a zero byte.
    unsafe { call(number::UNLINKAT, [HERE, terminated(path)?, REMOVE_FOLDER, 0, 0, 0]) }.map(drop)
}

/// Sets the mode of an open file.
pub(crate) fn set_mode(file: &Fd, mode: u32) -> Result<()> {
    // SAFETY: the call takes no pointer.
    unsafe { call(number::FCHMOD, [file.arg(), mode as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Sets the mode bits that new files do not get.
pub(crate) fn set_umask(mask: u32) {
    // SAFETY: the call takes no pointer, and always succeeds.
    let _ = unsafe { call(number::UMASK, [mask as usize, 0, 0, 0, 0, 0]) };
}

/// Whether an open file is a folder.
pub(crate) fn is_folder(file: &Fd) -> Result<bool> {
    const EMPTY_PATH: usize = 0x1000;
    const TYPE: usize = 0x1;
    const MODE_OFFSET: usize = 28;
    const FOLDER_TYPE: u16 = 0o040_000;
    let mut found = [0_u8; 256];
    let empty = b"\0".as_ptr() as usize;
    // SAFETY: the kernel reads an empty path, and writes a structure of that size.
    unsafe { call(number::STATX, [file.arg(), empty, EMPTY_PATH, TYPE, found.as_mut_ptr() as usize, 0]) }?;
    let mode = u16::from_ne_bytes([found[MODE_OFFSET], found[MODE_OFFSET + 1]]);
    Ok(mode & 0o170_000 == FOLDER_TYPE)
}

/// Changes the current folder to an open one.
pub(crate) fn enter_folder(folder: &Fd) -> Result<()> {
    // SAFETY: the call takes no pointer.
    unsafe { call(number::FCHDIR, [folder.arg(), 0, 0, 0, 0, 0]) }.map(drop)
}

/// Changes the current folder.
pub(crate) fn change_folder(path: &[u8]) -> Result<()> {
    // SAFETY: the kernel reads a path there, which ends with a zero byte.
    unsafe { call(number::CHDIR, [terminated(path)?, 0, 0, 0, 0, 0]) }.map(drop)
}

/// Reads a file to its end.
pub(crate) fn read_to_end(file: &Fd, expected: usize) -> Result<Vec<u8>> {
    let mut content = Vec::with_capacity(expected);
    let mut buffer = [0; 4096];
    loop {
        match super::read(file, &mut buffer) {
            Ok(0) => return Ok(content),
            Ok(count) => content.extend_from_slice(&buffer[..count]),
            Err(Errno::INTERRUPTED) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes all bytes to a file.
pub(crate) fn write_all(file: &Fd, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match super::write(file, bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTERRUPTED) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Closes all files of the process from that number on.
pub(crate) fn close_files_from(first: u32) -> Result<()> {
    // SAFETY: the call takes no pointer; the caller holds no such file.
    unsafe { call(number::CLOSE_RANGE, [first as usize, u32::MAX as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Makes a standard stream a copy of an open file, which programs inherit.
pub(crate) fn set_standard_stream(number: i32, file: &Fd) -> Result<()> {
    // SAFETY: the call takes no pointer.
    unsafe { call(number::DUP3, [file.arg(), number as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Returns a copy of a standard stream, which programs do not inherit.
pub(crate) fn copy_standard_stream(number: i32) -> Result<Fd> {
    const DUPLICATE_CLOEXEC: usize = 1030;
    const FIRST: usize = 3;
    // SAFETY: the call takes no pointer.
    unsafe { call(number::FCNTL, [number as usize, DUPLICATE_CLOEXEC, FIRST, 0, 0, 0]) }.map(opened)
}

/// The address of a text, which must end with a zero byte.
pub(super) fn terminated(text: &[u8]) -> Result<usize> {
    if text.last() == Some(&0) { Ok(text.as_ptr() as usize) } else { Err(Errno::INVALID) }
}
