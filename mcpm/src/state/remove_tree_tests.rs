use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use rustix::fs::mkdirat;

use super::*;
use crate::runtime::builtin::sandbox::sandbox_tests::run_as_ordinary_user;

/// Nests folders in a folder, deeper than a path can name.
fn nest(folder: &Path, depth: usize) {
    let mut current = openat(CWD, folder, FOLDER_FLAGS, Mode::empty()).unwrap();
    for _ in 0..depth {
        mkdirat(&current, "nested", Mode::RWXU).unwrap();
        current = openat(&current, "nested", FOLDER_FLAGS, Mode::empty()).unwrap();
    }
    openat(&current, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
}

#[test]
fn a_deep_tree_is_removed() {
    let outside = tempfile::tempdir().unwrap();
    let tree = outside.path().join("tree");
    fs::create_dir(&tree).unwrap();
    nest(&tree, 20_000);
    remove_tree(&tree).unwrap();
    assert!(!tree.exists());
    remove_tree(&tree).unwrap();
    // The same with an entry of a folder.
    fs::create_dir(&tree).unwrap();
    nest(&tree, 2000);
    let parent = openat(CWD, outside.path(), FOLDER_FLAGS, Mode::empty()).unwrap();
    remove_entry(parent.as_fd(), b"tree").unwrap();
    remove_entry(parent.as_fd(), b"tree").unwrap();
    assert!(!tree.exists());
}

#[test]
fn a_tree_that_its_owner_may_not_read_is_removed() {
    run_as_ordinary_user("state::remove_tree::tests::a_tree_that_its_owner_may_not_read_is_removed");
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "").unwrap();
    let tree = outside.path().join("tree");
    for branch in 0..30 {
        let folder = tree.join(format!("{branch}/b/c/d"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        symlink(outside.path(), folder.join("link")).unwrap();
        // The names that folders are moved to are taken.
        fs::create_dir_all(tree.join(format!(".moved-{branch}/x"))).unwrap();
        for closed in folder.ancestors().take(4) {
            fs::set_permissions(closed, fs::Permissions::from_mode(0o000)).unwrap();
        }
    }
    fs::write(tree.join(".moved-31"), "").unwrap();
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o000)).unwrap();
    remove_tree(&tree).unwrap();
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn a_link_is_no_tree() {
    let outside = tempfile::tempdir().unwrap();
    let (kept, link) = (outside.path().join("kept"), outside.path().join("link"));
    fs::create_dir_all(kept.join("folder")).unwrap();
    symlink(&kept, &link).unwrap();
    remove_tree(&link).unwrap_err();
    assert!(kept.join("folder").exists());
}
