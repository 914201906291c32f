//! Tests of merging layers.

use std::{fs, os::unix::fs::MetadataExt as _, path::PathBuf};

use super::*;
use crate::image::{
    Digest,
    store::{
        archive_builder::ArchiveBuilder, decompress::StopFlag, limits::Budget, stored_image::ImageConfig,
        unpack,
    },
};

/// Unpacks layers and merges them.
fn merged(layers: Vec<ArchiveBuilder>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut paths: Vec<PathBuf> = Vec::new();
    for (number, layer) in layers.into_iter().enumerate() {
        let path = folder.path().join(format!("layer-{number}"));
        fs::create_dir(&path).unwrap();
        let archive = layer.finish();
        unpack::unpack(
            &archive[..],
            &path,
            &paths,
            Ownership::of_process(),
            &mut Budget::of_image(),
            StopFlag::default(),
        )
        .unwrap();
        paths.push(path);
    }
    let target = folder.path().join("merged");
    fs::create_dir(&target).unwrap();
    let image = StoredImage {
        id: Digest::sha256(b""),
        digest: None,
        references: Vec::new(),
        config: ImageConfig::default(),
        layers: paths,
        size: 0,
        created: None,
    };
    flatten(&image, &target).unwrap();
    folder
}

/// All paths in the merged root.
fn list(folder: &tempfile::TempDir) -> Vec<String> {
    let root = folder.path().join("merged");
    let (mut found, mut pending) = (Vec::new(), vec![root.clone()]);
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(&root).unwrap().display().to_string());
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                pending.push(path);
            }
        }
    }
    found.sort_unstable();
    found
}

fn archive() -> ArchiveBuilder {
    ArchiveBuilder::default()
}

#[test]
fn whiteouts_and_opaque_folders_apply_to_lower_layers() {
    let lower = archive()
        .file("gone", b"")
        .file("tree/gone", b"")
        .file("opaque/gone", b"")
        .file("kept/file", b"1")
        .symlink("link", "kept")
        .file("was-file", b"")
        .file("was-folder/file", b"");
    let upper = archive()
        .file(".wh.gone", b"")
        .file(".wh.tree", b"")
        .file("opaque/.wh..wh..opq", b"")
        .file("opaque/new", b"")
        .file("kept/second", b"2")
        .file("link/file", b"3")
        .folder("was-file")
        .file("was-folder", b"");
    let merged = merged(vec![lower, upper]);
    assert_eq!(
        list(&merged),
        [
            "kept",
            "kept/file",
            "kept/second",
            "link",
            "link/file",
            "opaque",
            "opaque/new",
            "was-file",
            "was-folder"
        ]
    );
}

#[test]
fn links_times_modes_and_holes_are_kept() {
    let layer = archive()
        .file("a", b"data")
        .hard_link("folder/b", "a")
        .symlink("link", "/outside")
        .entry(tar::EntryType::Regular, "program", "", b"x", |header| header.set_mode(0o755))
        .pax(&[
            ("GNU.sparse.size", b"30000000"),
            ("GNU.sparse.map", b"20000000,2"),
            ("SCHILY.xattr.user.x", b"v"),
        ])
        .file("sparse", b"12");
    let folder = merged(vec![layer, archive().file("other", b"")]);
    let path = |name: &str| folder.path().join("merged").join(name);
    let found = |name: &str| fs::symlink_metadata(path(name)).unwrap();
    assert_eq!((found("a").ino(), found("a").nlink()), (found("folder/b").ino(), 2));
    assert_eq!(fs::read_link(path("link")).unwrap(), Path::new("/outside"));
    assert_eq!((found("program").mode() & 0o777, found("program").mtime()), (0o755, 1_700_000_000));
    assert_eq!((found("sparse").len(), fs::read(path("sparse")).unwrap()[20_000_001]), (30_000_000, b'2'));
    assert!(found("sparse").blocks() < 1000);
    let mut value = [0; 8];
    assert_eq!(fs::read(path("a")).unwrap(), b"data");
    assert_eq!(rustix::fs::getxattr(path("sparse"), "user.x", value.as_mut_slice()), Ok(1));
}
