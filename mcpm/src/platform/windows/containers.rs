//! Functions of Windows that only containers and the files mounted into them need.

use std::{
    ffi::{OsStr, OsString},
    fs::{DirEntry, Metadata},
    io,
};

/// Returns the same number for every file: files are only distinguished by the time of their creation.
pub(crate) fn file_number(_metadata: &Metadata) -> u64 {
    0
}

pub(crate) fn entry_number(_entry: &DirEntry) -> u64 {
    0
}

/// Changes the case of the ASCII letters of a name, if it is Unicode.
pub(crate) fn flip_ascii_case(name: &OsStr) -> OsString {
    let flip = |letter: char| match letter.is_ascii_uppercase() {
        true => letter.to_ascii_lowercase(),
        false => letter.to_ascii_uppercase(),
    };
    name.to_str().map_or_else(|| name.to_owned(), |name| name.chars().map(flip).collect::<String>().into())
}

pub(crate) fn is_link_loop(_error: &io::Error) -> bool {
    false
}

/// The release of the kernel, if it is Linux.
#[cfg(feature = "docker")]
pub(crate) fn linux_release() -> Option<String> {
    None
}
