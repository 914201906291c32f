use std::io::{Cursor, Write as _};

use zip::{ZipWriter, write::SimpleFileOptions};

use super::*;

/// An archive with files: their names, contents and modes.
fn archive(files: &[(&str, &[u8], u32)]) -> tempfile::NamedTempFile {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content, mode) in files {
        writer.start_file(*name, SimpleFileOptions::default().unix_permissions(*mode)).unwrap();
        writer.write_all(content).unwrap();
    }
    written(&writer.finish().unwrap().into_inner())
}

fn written(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// The names and modes of the packed files.
fn packed(file: &tempfile::NamedTempFile, limit: usize) -> Result<Vec<String>> {
    packed_files(&Archive::open(file.path())?, limit)
}

fn packed_files(archive: &Archive, limit: usize) -> Result<Vec<String>> {
    let mut context = BuildContext::new();
    archive.pack_bounded(&mut context, "src", limit)?;
    let archive = context.finish()?;
    let mut archive = tar::Archive::new(archive.as_ref());
    let names = archive.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let mode = if entry.header().mode().unwrap() == 0o755 { "*" } else { "" };
        format!("{}{mode}", entry.path().unwrap().display())
    });
    Ok(names.collect())
}

#[test]
fn files_go_into_the_context_with_their_modes() {
    let file =
        archive(&[("manifest.json", b"{}", 0o644), ("./server/run", b"x", 0o755), ("a b", b"", 0o600)]);
    assert_eq!(packed(&file, 100).unwrap(), ["src/manifest.json", "src/server/run*", "src/a b"]);
    assert_eq!(Archive::open(file.path()).unwrap().manifest().unwrap(), b"{}");
    // A signature follows the archive.
    let mut bytes = std::fs::read(file.path()).unwrap();
    bytes.extend(b"MCPB_SIG_V1\x04\x00\x00\x00abcdMCPB_SIG_END");
    assert_eq!(packed(&written(&bytes), 100).unwrap().len(), 3);
}

#[test]
fn what_leads_out_of_the_bundle_is_refused() {
    for name in [
        "../a",
        "a/../../b",
        "/etc/passwd",
        "a\\..\\b",
        "a\nb",
        &"a".repeat(256),
        &"a/".repeat(600),
        ".",
        "./",
    ] {
        let error = packed(&archive(&[(name, b"x", 0o644)]), 100).unwrap_err();
        assert!(error.message().contains("which is not allowed"), "{name:?}: {error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    writer.add_symlink("link", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    let error = packed(&written(&writer.finish().unwrap().into_inner()), 100).unwrap_err();
    assert!(error.message().contains("it is a link"), "{error}");
    let twice = archive(&[("a", b"x", 0o644), ("./a", b"y", 0o644)]);
    assert!(packed(&twice, 100).unwrap_err().message().contains("the bundle contains it twice"));
}

#[test]
fn a_name_that_is_in_the_index_twice_is_refused() {
    let mut bytes = std::fs::read(archive(&[("a", b"x", 0o644), ("b", b"y", 0o644)]).path()).unwrap();
    // The writer does not write a name twice.
    for byte in bytes.iter_mut().filter(|byte| **byte == b'b') {
        *byte = b'a';
    }
    let error = Archive::open(written(&bytes).path()).unwrap_err();
    assert!(error.message().contains("contains a file twice"), "{error}");
}

#[test]
fn an_index_is_read_up_to_its_limit() {
    let names: Vec<String> = (0..100).map(|number| format!("{number:0>100}")).collect();
    let files: Vec<(&str, &[u8], u32)> = names.iter().map(|name| (name.as_str(), &b"x"[..], 0o644)).collect();
    let file = archive(&files);
    let size = file.as_file().metadata().unwrap().len();
    let error = Archive::open_bounded(file.path(), 10_000).unwrap_err();
    assert!(error.message().contains("has an index of more than 16 MiB"), "{error}");
    // The limit does not apply to the files.
    let opened = Archive::open_bounded(file.path(), size).unwrap();
    for _ in 0..2 {
        opened.pack_bounded(&mut BuildContext::new(), "src", 100).unwrap();
    }
}

#[test]
fn an_open_archive_stays_the_same_if_the_file_is_replaced() {
    let file = archive(&[("a", b"x", 0o644)]);
    let opened = Archive::open(file.path()).unwrap();
    let other = archive(&[("b", b"y", 0o644)]);
    std::fs::rename(other.path(), file.path()).unwrap();
    let names = packed_files(&opened, 100).unwrap();
    assert_eq!(names, ["src/a"]);
    // A file that is overwritten in place does not match the index.
    let opened = Archive::open(file.path()).unwrap();
    std::fs::copy(archive(&[("c", b"z", 0o644)]).path(), file.path()).unwrap();
    assert!(packed_files(&opened, 100).is_err());
}

#[test]
fn bombs_are_not_unpacked() {
    let zeros = vec![0; 4 << 20];
    let file = archive(&[("a", &zeros, 0o644), ("b", &zeros, 0o644)]);
    assert!(file.as_file().metadata().unwrap().len() < 1 << 20);
    assert_eq!(packed(&file, 8 << 20).unwrap().len(), 2);
    let error = packed(&file, (8 << 20) - 1).unwrap_err();
    assert!(error.message().contains("is larger than"), "{error}");
    // The index states a smaller size than the file has.
    let mut bytes = std::fs::read(file.path()).unwrap();
    let size = u32::to_le_bytes(4 << 20);
    let claimed: Vec<usize> =
        bytes.windows(4).enumerate().filter(|(_, four)| *four == size).map(|(at, _)| at).collect();
    assert!(!claimed.is_empty());
    for at in claimed {
        bytes[at..at + 4].copy_from_slice(&1_u32.to_le_bytes());
    }
    assert!(packed(&written(&bytes), 100).is_err());
    let manifest = archive(&[("manifest.json", &zeros, 0o644)]);
    let error = Archive::open(manifest.path()).unwrap().manifest().unwrap_err();
    assert!(error.message().contains("larger than 1 MiB"), "{error}");
}

#[test]
fn what_is_no_archive_is_refused() {
    for bytes in [&b""[..], b"PK\x03\x04", b"{}", &[0; 1000]] {
        let error = Archive::open(written(bytes).path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
    }
    let none = archive(&[("server.js", b"", 0o644)]);
    let error = Archive::open(none.path()).unwrap().manifest().unwrap_err();
    assert!(error.message().contains("it has no `manifest.json`"), "{error}");
    assert_eq!(Archive::open(Path::new("/absent.mcpb")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(Archive::open(Path::new("/")).unwrap_err().kind(), ErrorKind::InvalidOption);
}

#[test]
fn a_damaged_archive_is_read_without_a_panic() {
    let file = archive(&[("manifest.json", b"{\"a\": 1}", 0o644), ("server/index.js", &[b'x'; 500], 0o644)]);
    let bytes = std::fs::read(file.path()).unwrap();
    for at in 0..bytes.len() {
        for value in [0, 0xff, bytes[at] ^ 1] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            let file = written(&damaged);
            if let Ok(mut archive) = Archive::open(file.path()) {
                let _ = archive.manifest();
                let _ = archive.pack_bounded(&mut BuildContext::new(), "src", 4096);
            }
        }
    }
}
