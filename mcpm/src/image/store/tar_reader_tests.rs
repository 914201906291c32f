//! Tests of reading archives, some of which GNU tar has written.

use std::{fs, process::Command};

use super::*;
use crate::image::store::archive_builder::ArchiveBuilder;

/// The entries of an archive with their data.
fn read(archive: &[u8]) -> io::Result<Vec<(TarEntry, Vec<u8>)>> {
    let mut reader = TarReader::new(archive);
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        let mut data = Vec::new();
        reader.read_to_end(&mut data)?;
        entries.push((entry, data));
    }
    Ok(entries)
}

fn names(entries: &[(TarEntry, Vec<u8>)]) -> Vec<String> {
    entries.iter().map(|(entry, _)| String::from_utf8_lossy(&entry.path).into_owned()).collect()
}

#[test]
fn long_names_of_both_forms_are_read() {
    let (long, target) = ("a/".repeat(90) + "file", "b/".repeat(80));
    let archive = ArchiveBuilder::default()
        .file(&long, b"1")
        .symlink("link", &target)
        .pax(&[
            ("path", b"from/pax"),
            ("linkpath", target.as_bytes()),
            ("mtime", b"1.5"),
            ("uid", b"3000000"),
        ])
        .symlink("short", "x")
        .finish();
    let entries = read(&archive).unwrap();
    assert_eq!(names(&entries), [long.as_str(), "link", "from/pax"]);
    assert_eq!(
        (&entries[1].0.link, &entries[2].0.link),
        (&target.clone().into_bytes(), &target.into_bytes())
    );
    assert_eq!((entries[2].0.modified, entries[2].0.uid), ((1, 500_000_000), 3_000_000));
    assert_eq!(entries[0].1, b"1");
}

#[test]
fn unread_data_is_skipped_and_the_end_may_be_missing() {
    let archive = ArchiveBuilder::default().file("a", &[1; 1000]).file("b", b"2").bytes();
    let mut reader = TarReader::new(&archive[..]);
    reader.next_entry().unwrap().unwrap();
    assert_eq!(reader.next_entry().unwrap().unwrap().path, b"b");
    assert!(reader.next_entry().unwrap().is_none());
}

#[test]
fn damaged_archives_are_rejected() {
    let good = ArchiveBuilder::default().file("a", &[1; 1000]).finish();
    let mut checksum = good.clone();
    checksum[0] = b'b';
    let size = ArchiveBuilder::default().entry(EntryType::Regular, "a", "", b"", |header| {
        header.set_size(u64::MAX);
    });
    let huge = ArchiveBuilder::default().entry(EntryType::XHeader, "a", "", b"", |header| {
        header.set_size(MAX_HEADER_BYTES + 1);
    });
    let long_name = ArchiveBuilder::default().entry(EntryType::GNULongName, "a", "", b"", |header| {
        header.set_size(1 << 40);
    });
    let negative = ArchiveBuilder::default().pax(&[("size", b"-5")]).file("a", b"");
    let bad_pax = ArchiveBuilder::default().entry(EntryType::XHeader, "a", "", b"99 a=b\n", |_| ());
    for bad in [
        good[..700].to_vec(),
        good[..100].to_vec(),
        checksum,
        size.finish(),
        huge.finish(),
        long_name.finish(),
        negative.finish(),
        bad_pax.finish(),
        vec![b'x'; 2000],
    ] {
        read(&bad).unwrap_err();
    }
}

#[test]
fn what_engines_ignore_is_ignored() {
    let archive = ArchiveBuilder::default()
        .entry(EntryType::XGlobalHeader, "pax_global_header", "", b"12 path=evil\n", |_| ())
        .file("a", b"")
        .entry(EntryType::Symlink, "link", "a", b"", |header| header.set_size(512))
        .file("b", b"")
        .finish();
    let entries = read(&archive).unwrap();
    assert_eq!(names(&entries), ["a", "link", "b"]);
}

#[test]
fn sparse_files_of_gnu_tar_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("sparse")).unwrap();
    let mut expected = vec![0; 40 << 20];
    // Enough parts for the old format to need a further block.
    for part in 0..30 {
        use std::os::unix::fs::FileExt as _;
        let at = part * (1 << 20) + 4096;
        file.write_all_at(&[part as u8 + 1; 5000], at as u64).unwrap();
        expected[at..at + 5000].fill(part as u8 + 1);
    }
    file.set_len(expected.len() as u64).unwrap();
    for format in [
        &["--format=gnu"][..],
        &["--format=pax", "--sparse-version=0.0"],
        &["--format=pax", "--sparse-version=0.1"],
        &["--format=pax", "--sparse-version=1.0"],
    ] {
        let mut tar = Command::new("tar");
        tar.args(["--sparse", "-C"]).arg(folder.path()).args(format).args(["-cf", "-", "sparse"]);
        let made = tar.output().unwrap();
        assert!(made.status.success() && made.stdout.len() < 1 << 20, "{made:?}");
        let entries = read(&made.stdout).unwrap();
        let (entry, data) = &entries[0];
        assert_eq!((names(&entries), entry.size), (vec!["sparse".to_owned()], 40 << 20), "{format:?}");
        let (mut found, mut at) = (vec![0; expected.len()], 0);
        for segment in entry.segments.as_ref().unwrap() {
            let (offset, length) = (segment.offset as usize, segment.length as usize);
            found[offset..offset + length].copy_from_slice(&data[at..at + length]);
            at += length;
        }
        assert!(found == expected, "{format:?}");
    }
}

#[test]
fn invalid_sparse_maps_are_rejected() {
    let with_map = |map: &str| {
        let records: [(&str, &[u8]); 2] = [("GNU.sparse.size", b"1000"), ("GNU.sparse.map", map.as_bytes())];
        ArchiveBuilder::default().pax(&records).file("a", b"12345").finish()
    };
    assert_eq!(read(&with_map("0,2,10,3")).unwrap()[0].0.size, 1000);
    for bad in
        ["0,2", "10,3,0,2", "0,3,2,2", "998,5", "0,18446744073709551615", "18446744073709551615,5", "0,5,x"]
    {
        read(&with_map(bad)).unwrap_err();
    }
    let in_data = |map: &str| {
        let records: [(&str, &[u8]); 3] =
            [("GNU.sparse.major", b"1"), ("GNU.sparse.minor", b"0"), ("GNU.sparse.realsize", b"1000")];
        let mut data = map.as_bytes().to_vec();
        data.resize(512, 0);
        data.extend_from_slice(b"12345");
        ArchiveBuilder::default().pax(&records).file("a", &data).finish()
    };
    assert_eq!(read(&in_data("2\n0\n2\n10\n3\n")).unwrap()[0].0.size, 1000);
    for bad in ["", "9999999999\n", "2\n0\n", "x\n", "1\n0\n6\n", "-1\n"] {
        read(&in_data(bad)).unwrap_err();
    }
    let old = ArchiveBuilder::default().entry(EntryType::GNUSparse, "a", "", b"12345", |header| {
        let gnu = header.as_gnu_mut().unwrap();
        gnu.set_real_size(3);
        gnu.sparse[0].set_offset(0);
        gnu.sparse[0].set_length(5);
    });
    read(&old.finish()).unwrap_err();
}
