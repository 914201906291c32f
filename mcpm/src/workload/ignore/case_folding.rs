//! Detects case-insensitive file systems, on which a file can be opened by different spellings of its name.
//!
//! An overlay covers only one spelling, so a server could open `.env` as `.ENV`. There are too many spellings to cover
//! all of them, because these file systems also treat different Unicode sequences as the same name.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::Path,
};

use crate::platform::{flip_ascii_case, is_same_entry};

/// Tells whether a folder is case-insensitive, as far as its entries reveal that.
pub(super) fn ignores_case<I: Iterator<Item = OsString>>(folder: &Path, names: impl Fn() -> I) -> bool {
    let mut shown = names().filter_map(|name| has_case_variant(folder, &name, &names));
    shown.next().unwrap_or(false)
}

/// Tells whether a file below `root` can also be reached by a path in which its name, or that of a folder on the way,
/// has another case.
pub(super) fn has_case_variant_below(root: &Path, path: &Path) -> bool {
    let on_the_way = path.ancestors().take_while(|path| *path != root);
    let mut ambiguous = on_the_way.filter_map(|path| {
        let (folder, name) = (path.parent()?, path.file_name()?);
        let names = || fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        has_case_variant(folder, name, &names)
    });
    ambiguous.any(|ambiguous| ambiguous)
}

/// Tells whether an entry can also be reached by a name that differs only in case; `None` for an entry without letters
/// in its name, or that no longer exists.
fn has_case_variant<I: Iterator<Item = OsString>>(
    folder: &Path,
    name: &OsStr,
    names: &impl Fn() -> I,
) -> Option<bool> {
    let others = other_cases(name);
    if others.is_empty() {
        return None;
    }
    let file = fs::symlink_metadata(folder.join(name)).ok()?;
    let is_another_name = |other: &OsString| {
        let found = fs::symlink_metadata(folder.join(other));
        let is_same = found.is_ok_and(|found| is_same_entry(&found, &file));
        // If the folder lists the other name as well, it is a hard link, which is possible on every file system.
        is_same && !names().any(|name| name == *other)
    };
    Some(others.iter().any(is_another_name))
}

/// Variants of the name that differ from it: with the case of its ASCII letters swapped and, if it has non-ASCII
/// letters, in capital and in small letters.
fn other_cases(name: &OsStr) -> Vec<OsString> {
    let text = name.to_str().filter(|name| !name.is_ascii());
    let of_unicode = text.map(|name| [name.to_uppercase(), name.to_lowercase()]).into_iter().flatten();
    let mut all: Vec<OsString> = of_unicode.map(OsString::from).collect();
    all.push(flip_ascii_case(name));
    all.retain(|other| other != name);
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn letters_outside_of_ascii_have_a_case_too() {
        for (name, others) in [
            (".env", &[".ENV"][..]),
            ("1.2", &[]),
            ("ключ", &["КЛЮЧ"]),
            ("Ключ.a", &["КЛЮЧ.A", "ключ.a", "Ключ.A"]),
            ("鍵", &[]),
        ] {
            assert_eq!(other_cases(OsStr::new(name)), others, "{name}");
        }
        assert_eq!(other_cases(OsStr::from_bytes(b"\xffa")), [OsStr::from_bytes(b"\xffA")]);
    }
}
