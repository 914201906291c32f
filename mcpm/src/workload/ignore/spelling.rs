//! File systems that ignore the case of letters, where a file has many names.
//!
//! What covers a file is mounted over one name of it. A server could open it by another one: `.ENV` for `.env`. There
//! are too many names to cover them all, since such file systems also take different sequences of Unicode characters
//! for the same name.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
};

/// Tells whether a folder ignores the case of letters, as far as its entries show it.
pub(super) fn ignores_case<I: Iterator<Item = OsString>>(folder: &Path, names: impl Fn() -> I) -> bool {
    let mut shown = names().filter_map(|name| has_other_spelling(folder, &name, &names));
    shown.next().unwrap_or(false)
}

/// Tells whether a file below `root` can be reached by a name that differs in case from that of itself or of a folder on
/// the way.
pub(super) fn is_ambiguous(root: &Path, path: &Path) -> bool {
    let on_the_way = path.ancestors().take_while(|path| *path != root);
    let mut ambiguous = on_the_way.filter_map(|path| {
        let (folder, name) = (path.parent()?, path.file_name()?);
        let names = || fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        has_other_spelling(folder, name, &names)
    });
    ambiguous.any(|ambiguous| ambiguous)
}

/// Tells whether an entry has another name that differs in case; `None` for one that has no letters, or is gone.
fn has_other_spelling<I: Iterator<Item = OsString>>(
    folder: &Path,
    name: &OsStr,
    names: &impl Fn() -> I,
) -> Option<bool> {
    let other = other_case(name)?;
    let file = fs::symlink_metadata(folder.join(name)).ok()?;
    let Ok(found) = fs::symlink_metadata(folder.join(&other)) else { return Some(false) };
    let is_same = (found.dev(), found.ino()) == (file.dev(), file.ino());
    // Else it is another name of the same file, as on every file system.
    Some(is_same && !names().any(|name| name == other))
}

/// The name with the case of its ASCII letters changed, if it has some.
fn other_case(name: &OsStr) -> Option<OsString> {
    let flip = |byte: &u8| if byte.is_ascii_alphabetic() { byte ^ 0x20 } else { *byte };
    let other: Vec<u8> = name.as_bytes().iter().map(flip).collect();
    (other != name.as_bytes()).then(|| OsStr::from_bytes(&other).to_owned())
}
