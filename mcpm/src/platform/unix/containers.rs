//! Functions of Unix that only containers and the files mounted into them need.

use std::{
    ffi::{OsStr, OsString},
    fs::{DirEntry, Metadata},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirEntryExt as _, MetadataExt as _},
    },
};

use rustix::io::Errno;

/// The number of a file on its file system.
pub(crate) fn file_number(metadata: &Metadata) -> u64 {
    metadata.ino()
}

/// The number of an entry's file on its file system.
pub(crate) fn entry_number(entry: &DirEntry) -> u64 {
    entry.ino()
}

/// Changes the case of the ASCII letters of a name.
pub(crate) fn flip_ascii_case(name: &OsStr) -> OsString {
    let flip = |byte: &u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte };
    let flipped: Vec<u8> = name.as_bytes().iter().map(flip).collect();
    OsStr::from_bytes(&flipped).to_owned()
}

/// Whether an operation failed because a path leads through too many links.
pub(crate) fn is_link_loop(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// The release of the kernel, if it is Linux.
#[cfg(feature = "docker")]
pub(crate) fn linux_release() -> Option<String> {
    let name = rustix::system::uname();
    let release = name.release().to_str().ok()?;
    (name.sysname().to_bytes() == b"Linux").then(|| release.to_owned())
}
