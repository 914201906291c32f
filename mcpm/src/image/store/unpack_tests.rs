//! Tests of unpacking, mostly with hostile archives.

use std::{
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
};

use tar::EntryType;
use tempfile::TempDir;

use super::*;
use crate::image::store::{
    archive_builder::{ArchiveBuilder, gzip, zstd},
    limits::{MAX_ENTRIES, MAX_HEADER_BYTES},
};

/// A folder for a layer, with something beside it that must not change.
pub(super) struct Place(TempDir);

impl Place {
    pub(super) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.layer()).unwrap();
        fs::create_dir(place.0.path().join("outside")).unwrap();
        fs::write(place.secret(), "untouched").unwrap();
        fs::set_permissions(place.secret(), fs::Permissions::from_mode(0o640)).unwrap();
        place
    }

    fn layer(&self) -> PathBuf {
        self.0.path().join("layer")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.layer().join(name)
    }

    fn secret(&self) -> PathBuf {
        self.0.path().join("outside/secret")
    }

    pub(super) fn unpack_as(
        &self,
        archive: &[u8],
        ownership: Ownership,
        budget: &mut Budget,
    ) -> io::Result<UnpackedLayer> {
        unpack(archive, &self.layer(), &[], ownership, budget, StopFlag::default())
    }

    pub(super) fn unpack(&self, archive: &[u8]) -> io::Result<UnpackedLayer> {
        let unpacked = self.unpack_as(archive, Ownership::User, &mut Budget::of_image());
        self.check_outside();
        unpacked
    }

    #[track_caller]
    fn check_outside(&self) {
        let secret = fs::metadata(self.secret()).unwrap();
        assert_eq!(fs::read(self.secret()).unwrap(), b"untouched");
        assert_eq!((secret.mode() & 0o7777, secret.nlink()), (0o640, 1));
        assert_eq!(fs::read_dir(self.0.path().join("outside")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(self.0.path()).unwrap().count(), 2);
    }

    fn is_whiteout(&self, name: &str) -> bool {
        let found = fs::symlink_metadata(self.path(name)).unwrap();
        found.file_type().is_char_device() && found.rdev() == 0
    }

    fn is_opaque(&self, name: &str) -> bool {
        beneath::is_opaque(beneath::open_root(&self.path(name)).unwrap().as_fd())
    }

    fn exists(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::symlink_metadata(self.path(name)).unwrap().mode() & 0o7777
    }
}

pub(super) fn archive() -> ArchiveBuilder {
    ArchiveBuilder::default()
}

#[test]
fn hostile_entries_are_rejected_and_touch_nothing_outside() {
    let long_name = "n".repeat(256);
    let (long_path, deep) = ("d/".repeat(2048) + "x", "d/".repeat(300) + "x");
    for (name, entries) in [
        ("traversal by `..`", archive().file("../outside/secret", b"x")),
        ("traversal in the middle", archive().file("a/../../outside/secret", b"x")),
        ("a whiteout of `..`", archive().file(".wh...", b"")),
        ("a whiteout of `.`", archive().file(".wh..", b"")),
        ("a whiteout of nothing", archive().file(".wh.", b"")),
        ("a whiteout beneath `..`", archive().file("../outside/.wh.secret", b"")),
        ("a whiteout with a slash", archive().file(".wh.a/../../outside/secret", b"")),
        ("a whiteout as a folder", archive().file(".wh.a/b", b"")),
        ("a file through a link", archive().symlink("link", "../outside").file("link/secret", b"x")),
        (
            "a file through an absolute link",
            archive().symlink("link", "/tmp").file("link/mcpm-escaped", b"x"),
        ),
        ("a folder through a link", archive().symlink("link", "../outside").folder("link/new")),
        ("a whiteout through a link", archive().symlink("link", "../outside").file("link/.wh.secret", b"")),
        (
            "an opaque mark through a link",
            archive().symlink("link", "../outside").file("link/.wh..wh..opq", b""),
        ),
        ("a hard link through a link", archive().symlink("link", "../outside").hard_link("x", "link/secret")),
        ("a hard link to `..`", archive().hard_link("x", "../outside/secret")),
        ("a hard link to a folder", archive().folder("d").hard_link("x", "d")),
        ("a hard link to nothing", archive().hard_link("x", "missing")),
        ("a hard link to the root", archive().hard_link("x", "/")),
        ("a hard link to a whiteout", archive().file(".wh.a", b"").hard_link("x", "a")),
        ("a hard link to itself", archive().file("a", b"").hard_link("a", "./a")),
        ("a parent that is a file", archive().file("a", b"x").file("a/b", b"x")),
        ("a replaced parent", archive().file("a/b", b"x").symlink("a", "../outside").file("a/secret", b"x")),
        ("a root that is a file", archive().file("./", b"x")),
        ("a root that is a link", archive().symlink(".", "../outside").file("secret", b"x")),
        ("NUL in a name", archive().pax(&[("path", b"a\0b")]).file("a", b"")),
        ("NUL in a link", archive().pax(&[("linkpath", b"a\0b")]).symlink("a", "b")),
        ("a long name", archive().file(&long_name, b"")),
        ("a long path", archive().file(&long_path, b"")),
        ("a deep path", archive().file(&deep, b"")),
        ("a long target", archive().symlink("a", &"t".repeat(5000))),
        ("an empty target", archive().symlink("a", "")),
        (
            "a huge header",
            archive().pax(&[("comment", &vec![b'x'; MAX_HEADER_BYTES as usize])]).file("a", b""),
        ),
        (
            "too little data",
            archive().entry(EntryType::Regular, "a", "", b"", |header| header.set_size(4096)),
        ),
        (
            "a huge sparse file",
            archive()
                .pax(&[("GNU.sparse.size", b"9000000000000000000"), ("GNU.sparse.map", b"0,1")])
                .file("a", b"x"),
        ),
        ("not an archive", ArchiveBuilder::default().data(&[b'x'; 600])),
    ] {
        let place = Place::new();
        // The archive has no end blocks, so that they are not read in place of missing data.
        let error = place.unpack(&entries.bytes()).expect_err(name);
        assert!(
            [ErrorKind::InvalidData, ErrorKind::UnexpectedEof].contains(&error.kind()),
            "{name}: {error} ({:?})",
            error.kind()
        );
        assert!(!Path::new("/tmp/mcpm-escaped").exists(), "{name}");
    }
}

#[test]
fn absolute_names_are_beneath_the_folder() {
    let place = Place::new();
    let entries = archive().folder("/").file("/etc/passwd", b"x").hard_link("/copy", "/etc/passwd").finish();
    place.unpack(&entries).unwrap();
    assert_eq!(fs::read(place.path("etc/passwd")).unwrap(), b"x");
    assert_eq!(fs::metadata(place.path("copy")).unwrap().nlink(), 2);
}

#[test]
fn devices_and_pipes_are_skipped_and_counted() {
    let place = Place::new();
    let device = |archive: ArchiveBuilder, kind, name, minor| {
        archive.entry(kind, name, "", b"", |header| {
            header.set_device_major(if minor == 0 { 0 } else { 1 }).unwrap();
            header.set_device_minor(minor).unwrap();
        })
    };
    let mut entries = archive().file("a", b"");
    entries = device(entries, EntryType::Char, "null", 3);
    // Such a device would hide a file of the layers below.
    entries = device(entries, EntryType::Char, "hidden", 0);
    entries = device(entries, EntryType::Block, "disk", 1);
    entries = device(entries, EntryType::Fifo, "pipe", 0);
    entries = device(entries, EntryType::new(b'Z'), "unknown", 0);
    let layer = place.unpack(&entries.finish()).unwrap();
    assert_eq!((layer.skipped, layer.entries), (5, 6));
    assert_eq!(fs::read_dir(place.layer()).unwrap().count(), 1);
}

#[test]
fn removed_files_become_whiteouts_and_replaced_folders_opaque() {
    let place = Place::new();
    let entries = archive()
        .file("etc/.wh.gone", b"")
        .hard_link("etc/.wh.linked", "etc/none")
        .file("opaque/.wh..wh..opq", b"")
        .file("opaque/kept", b"1")
        // A file of this layer stays, whichever comes first.
        .file("new", b"2")
        .file(".wh.new", b"")
        .file(".wh.later", b"")
        .file("later", b"3")
        .folder("folder")
        .file(".wh.folder", b"")
        .file(".wh.again", b"")
        .file("again/file", b"4")
        .file(".wh..wh.plnk/1.2", b"")
        .file(".wh..wh.aufs", b"")
        .finish();
    place.unpack(&entries).unwrap();
    assert!(place.is_whiteout("etc/gone") && place.is_whiteout("etc/linked"));
    assert!(place.is_opaque("opaque") && place.is_opaque("folder") && place.is_opaque("again"));
    assert!(!place.is_opaque("etc") && !place.is_opaque("."));
    for (name, content) in [("opaque/kept", "1"), ("new", "2"), ("later", "3"), ("again/file", "4")] {
        assert_eq!(fs::read_to_string(place.path(name)).unwrap(), content);
    }
    assert!(
        fs::read_dir(place.layer()).unwrap().all(|entry| !entry
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".wh."))
    );
}

#[test]
fn only_harmless_attributes_are_kept() {
    let place = Place::new();
    let attributes: [(&str, &[u8]); 7] = [
        ("SCHILY.xattr.user.mime", b"text/plain"),
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ("SCHILY.xattr.user.overlay.whiteout", b"y"),
        ("SCHILY.xattr.user.overlay.redirect", b"/outside"),
        ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
        (
            "SCHILY.xattr.security.capability",
            &[1, 0, 0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
        ("SCHILY.xattr.system.posix_acl_access", b"x"),
    ];
    let entries = archive().pax(&attributes).file("file", b"").pax(&attributes).folder("folder").finish();
    for ownership in [Ownership::User, Ownership::of_process()] {
        place.unpack_as(&entries, ownership, &mut Budget::of_image()).unwrap();
        for name in ["file", "folder"] {
            let opened = File::open(place.path(name)).unwrap();
            let mut names = [0; 1024];
            let length = rustix::fs::flistxattr(&opened, names.as_mut_slice()).unwrap();
            let mut names: Vec<_> =
                names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
            names.retain(|name| *name != b"security.selinux");
            assert_eq!(names, [b"user.mime"], "{name}");
        }
    }
}

#[test]
fn later_entries_replace_earlier_ones() {
    let place = Place::new();
    let entries = archive()
        .file("a", b"first")
        .hard_link("other", "a")
        .file("a", b"second")
        .file("tree/deep/file", b"x")
        .file("tree", b"file")
        .file("leaf", b"x")
        .folder("leaf")
        .file("leaf/file", b"y")
        .symlink("link", "a")
        .file("link", b"not through the link")
        .folder("kept")
        .file("kept/file", b"z")
        .folder("kept")
        .finish();
    place.unpack(&entries).unwrap();
    for (name, content) in [
        ("a", "second"),
        // The first file has this name, too, and was not overwritten.
        ("other", "first"),
        ("tree", "file"),
        ("leaf/file", "y"),
        ("link", "not through the link"),
        ("kept/file", "z"),
    ] {
        assert_eq!(fs::read_to_string(place.path(name)).unwrap(), content, "{name}");
    }
}

#[test]
fn a_folder_that_a_link_replaced_is_not_reused() {
    let place = Place::new();
    let entries = archive().file("a/one", b"1").symlink("a", "../outside").folder("a").file("a/two", b"2");
    place.unpack(&entries.finish()).unwrap();
    assert_eq!(fs::read_dir(place.path("a")).unwrap().count(), 1);
    assert_eq!(fs::read(place.path("a/two")).unwrap(), b"2");
}

#[test]
fn links_are_kept_as_they_are() {
    let place = Place::new();
    let entries = archive()
        .symlink("absolute", "/etc/passwd")
        .symlink("outside", "../outside/secret")
        .symlink("dangling", "nowhere")
        .hard_link("same", "outside")
        .file("outside", b"replaced")
        .finish();
    place.unpack(&entries).unwrap();
    for (name, target) in
        [("absolute", "/etc/passwd"), ("dangling", "nowhere"), ("same", "../outside/secret")]
    {
        assert_eq!(fs::read_link(place.path(name)).unwrap(), Path::new(target));
    }
    assert_eq!(fs::read(place.path("outside")).unwrap(), b"replaced");
}

#[test]
fn ordinary_users_get_no_setuid_files_and_may_remove_all() {
    let entries = |uid: u64| {
        let with = |mode: u32| {
            move |header: &mut tar::Header| {
                header.set_mode(mode);
                header.set_uid(uid);
                header.set_gid(uid);
            }
        };
        archive()
            .entry(EntryType::Regular, "su", "", b"x", with(0o6755))
            .entry(EntryType::Regular, "secret", "", b"x", with(0))
            .entry(EntryType::Directory, "shared", "", b"", with(0o3777))
            .entry(EntryType::Directory, "closed", "", b"", with(0))
            .entry(EntryType::Regular, "closed/file", "", b"x", with(0o400))
            .finish()
    };
    let place = Place::new();
    place.unpack(&entries(1234)).unwrap();
    let modes = ["su", "secret", "shared", "closed", "closed/file"].map(|name| place.mode(name));
    assert_eq!(modes, [0o755, 0o600, 0o1777, 0o700, 0o600]);
    assert_eq!(fs::metadata(place.path("su")).unwrap().uid(), rustix::process::geteuid().as_raw());
    if Ownership::of_process() == Ownership::Kept {
        let place = Place::new();
        place.unpack_as(&entries(1234), Ownership::Kept, &mut Budget::of_image()).unwrap();
        let modes = ["su", "secret", "shared", "closed"].map(|name| place.mode(name));
        assert_eq!(modes, [0o6755, 0, 0o3777, 0o700]);
        let owner = fs::metadata(place.path("closed/file")).unwrap();
        assert_eq!((owner.uid(), owner.gid()), (1234, 1234));
        let place = Place::new();
        let invalid =
            place.unpack_as(&entries(u64::from(u32::MAX)), Ownership::Kept, &mut Budget::of_image());
        assert_eq!(invalid.unwrap_err().kind(), ErrorKind::InvalidData);
    }
}

#[test]
fn times_and_sparse_files_are_kept() {
    let place = Place::new();
    let entries = archive()
        .folder("folder")
        .file("folder/file", b"x")
        .symlink("folder/link", "file")
        .pax(&[("GNU.sparse.size", b"50000000"), ("GNU.sparse.map", b"1000000,3,49999998,2")])
        .file("sparse", b"12345")
        .finish();
    let layer = place.unpack(&entries).unwrap();
    for name in ["folder", "folder/file", "folder/link", "sparse"] {
        assert_eq!(fs::symlink_metadata(place.path(name)).unwrap().mtime(), 1_700_000_000, "{name}");
    }
    let sparse = fs::read(place.path("sparse")).unwrap();
    assert_eq!((sparse.len(), &sparse[1_000_000..1_000_004]), (50_000_000, &b"123\0"[..]));
    assert_eq!(&sparse[49_999_998..], b"45");
    assert!(fs::metadata(place.path("sparse")).unwrap().blocks() < 1000);
    assert_eq!(layer.bytes, 50_000_001);
}

#[test]
fn what_a_layer_takes_is_bounded() {
    let zeros = gzip(&archive().file("zeros", &vec![0; 4 << 20]).finish());
    assert!(zeros.len() < 40_000);
    let place = Place::new();
    let error = place.unpack_as(&zeros, Ownership::User, &mut Budget::new(1 << 20, 10)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    // Nothing was written for a size that is too large.
    assert!(!place.exists("zeros"));
    let skipped =
        gzip(&archive().entry(EntryType::new(b'Z'), "zeros", "", &vec![0; 4 << 20], |_| ()).finish());
    place.unpack_as(&skipped, Ownership::User, &mut Budget::new(1 << 20, 10)).unwrap_err();
    let after_the_end = gzip(&[archive().file("a", b"").finish(), vec![0; 4 << 20]].concat());
    place.unpack_as(&after_the_end, Ownership::User, &mut Budget::new(1 << 20, 10)).unwrap_err();
    let implied = archive().file("1/2/3/4/5/6/7/8/9/10", b"").finish();
    place.unpack_as(&implied, Ownership::User, &mut Budget::new(1 << 20, 9)).unwrap_err();
    let mut budget = Budget::new(8 << 20, 10);
    Place::new().unpack_as(&zeros, Ownership::User, &mut budget).unwrap();
    assert!(budget.bytes() <= 4 << 20);
}

/// An archive with the same link again and again, so that a test does not make that many files.
fn repeated(count: u64) -> impl Read {
    let one = archive().symlink("a", "b").bytes();
    let mut left = one.len() as u64 * count;
    let mut at = 0;
    struct Repeat<F>(F);
    impl<F: FnMut(&mut [u8]) -> usize> Read for Repeat<F> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            Ok((self.0)(into))
        }
    }
    Repeat(move |into: &mut [u8]| {
        let count = into.len().min(one.len() - at).min(usize::try_from(left).unwrap_or(usize::MAX));
        into[..count].copy_from_slice(&one[at..at + count]);
        left -= count as u64;
        at = (at + count) % one.len();
        count
    })
}

#[test]
fn the_number_of_entries_is_bounded() {
    for (count, fits) in [(1000, true), (1001, false)] {
        let (place, mut budget) = (Place::new(), Budget::new(1 << 30, 1000));
        let unpacked =
            unpack(repeated(count), &place.layer(), &[], Ownership::User, &mut budget, StopFlag::default());
        assert_eq!(unpacked.is_ok(), fits, "{count}");
    }
}

#[test]
#[ignore = "nightly: a million entries take a minute"]
fn a_million_entries_are_too_many() {
    let (place, mut budget) = (Place::new(), Budget::of_image());
    let archive = repeated(MAX_ENTRIES + 1);
    let unpacked = unpack(archive, &place.layer(), &[], Ownership::User, &mut budget, StopFlag::default());
    assert!(unpacked.unwrap_err().to_string().contains("too many files"));
}

#[test]
fn each_compression_gives_the_same_digest() {
    let tar = [archive().file("a", b"1").finish(), b"after the end".to_vec()].concat();
    for compressed in [tar.clone(), gzip(&tar), zstd(&tar)] {
        let layer = Place::new().unpack(&compressed).unwrap();
        assert_eq!(layer.diff_id, Digest::sha256(&tar));
    }
    let compressed = gzip(&tar);
    for bad in [&compressed[..compressed.len() - 9], &[&compressed[..], b"garbage"].concat()] {
        Place::new().unpack(bad).unwrap_err();
    }
}

#[test]
fn folders_that_are_not_mentioned_are_as_in_the_layers_below() {
    let lower = Place::new();
    let mut sticky = archive();
    sticky = sticky.entry(EntryType::Directory, "tmp", "", b"", |header| header.set_mode(0o1777));
    sticky = sticky.entry(EntryType::Directory, "./", "", b"", |header| header.set_mode(0o711));
    lower.unpack(&sticky.symlink("link", "tmp").finish()).unwrap();
    let place = Place::new();
    let upper = archive().file("tmp/file", b"").file("other/file", b"").file("link/file", b"").finish();
    unpack(
        &upper[..],
        &place.layer(),
        &[lower.layer()],
        Ownership::User,
        &mut Budget::of_image(),
        StopFlag::default(),
    )
    .unwrap();
    assert_eq!(["tmp", "other", "link", "."].map(|name| place.mode(name)), [0o1777, 0o755, 0o755, 0o711]);
}

#[test]
fn unpacking_stops_on_request() {
    let (place, stop) = (Place::new(), StopFlag::default());
    stop.stop();
    let entries = archive().file("a", b"").finish();
    let stopped = unpack(&entries[..], &place.layer(), &[], Ownership::User, &mut Budget::of_image(), stop);
    assert!(stopped.is_err() && !place.exists("a"));
}
