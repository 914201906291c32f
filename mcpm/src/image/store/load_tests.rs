//! Tests of loading archives.

use std::{fs, process::Command};

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::image::store::archive_builder::{ArchiveBuilder, TestImage, descriptor, gzip, index};

fn store() -> (TempDir, ImageStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = ImageStore::open(&folder.path().join("images")).unwrap();
    (folder, store)
}

fn image(data: &str) -> TestImage {
    let base = ArchiveBuilder::default().file("base", b"1").finish();
    TestImage::new(vec![base, ArchiveBuilder::default().file("file", data.as_bytes()).finish()])
}

fn blob(content: &[u8]) -> String {
    format!("blobs/sha256/{}", Digest::sha256(content).hex())
}

/// The files of an OCI layout.
fn layout(image: &TestImage, annotations: serde_json::Value) -> Vec<(String, Vec<u8>)> {
    let layers: Vec<Vec<u8>> = image.layers.iter().map(|layer| gzip(layer)).collect();
    let manifest = image.manifest(&layers);
    let mut files = vec![
        ("oci-layout".to_owned(), br#"{"imageLayoutVersion": "1.0.0"}"#.to_vec()),
        ("index.json".to_owned(), index(&[(&manifest, serde_json::Value::Null, annotations)])),
    ];
    for content in layers.into_iter().chain([image.config.clone(), manifest]) {
        files.push((blob(&content), content));
    }
    files
}

fn tar(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let archive =
        files.iter().fold(ArchiveBuilder::default(), |archive, (name, data)| archive.file(name, data));
    archive.finish()
}

fn names(images: &[StoredImage]) -> Vec<String> {
    images.iter().flat_map(|image| &image.references).map(ImageReference::to_string).collect()
}

#[test]
fn the_last_file_of_a_name_counts() {
    let (_folder, store) = store();
    let files = layout(&image("2"), json!({}));
    let earlier = files.iter().map(|(name, data)| (name.clone(), [&data[..], b"!"].concat()));
    let all: Vec<_> = earlier.chain(files.clone()).collect();
    let loaded = store.load_stream(&tar(&files)[..]).unwrap();
    assert_eq!(store.load_stream(&tar(&all)[..]).unwrap(), loaded);
}

#[test]
fn layouts_are_loaded_from_folders_and_archives() {
    let (folder, store) = store();
    let image = image("2");
    let files = layout(
        &image,
        json!({"io.containerd.image.name": "docker.io/library/a:1", "org.opencontainers.image.ref.name": "1"}),
    );
    let path = folder.path().join("layout");
    for (name, data) in &files {
        let file = path.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, data).unwrap();
    }
    let loaded = store.load(&path).unwrap();
    assert_eq!((names(&loaded), &loaded[0].id), (vec!["docker.io/library/a:1".to_owned()], &image.id()));
    assert_eq!(fs::read(loaded[0].layers[1].join("file")).unwrap(), b"2");
    for archive in [tar(&files), gzip(&tar(&files))] {
        assert_eq!(store.load_stream(&archive[..]).unwrap(), loaded);
        let path = folder.path().join("archive");
        fs::write(&path, archive).unwrap();
        assert_eq!(store.load(&path).unwrap(), loaded);
    }
    assert_eq!(fs::read_dir(store.folder().join("drafts")).unwrap().count(), 0);
}

#[test]
fn a_tag_alone_is_no_name() {
    let (_folder, store) = store();
    for (name, expected) in
        [("1.0", None), ("a:1.0", Some("a:1.0")), ("example.com/a", Some("example.com/a")), ("!", None)]
    {
        let files = layout(&image(name), json!({"org.opencontainers.image.ref.name": name}));
        let loaded = store.load_stream(&tar(&files)[..]).unwrap();
        assert_eq!(names(&loaded), Vec::from_iter(expected.map(str::to_owned)));
    }
}

#[test]
fn archives_of_old_engines_are_loaded() {
    let (_folder, store) = store();
    let image = image("2");
    let manifest = json!([
        {"Config": "config.json", "RepoTags": ["a:1", "b:2"], "Layers": ["x/layer.tar", "y/layer.tar"]},
        {"Config": "other.json", "RepoTags": null, "Layers": ["x/layer.tar"]},
    ]);
    let other = TestImage::for_architecture("mips", vec![image.layers[0].clone()]);
    let archive = ArchiveBuilder::default()
        .file("original/layer.tar", &image.layers[0])
        .symlink("x/layer.tar", "../original/layer.tar")
        .file("y/layer.tar", &gzip(&image.layers[1]))
        .file("config.json", &image.config)
        .file("other.json", &other.config)
        .file("manifest.json", manifest.to_string().as_bytes())
        .finish();
    let loaded = store.load_stream(&archive[..]).unwrap();
    assert_eq!((names(&loaded), loaded.len()), (vec!["a:1".to_owned(), "b:2".to_owned()], 1));
    assert_eq!((&loaded[0].id, &loaded[0].digest), (&image.id(), &None));
}

#[test]
fn unusable_archives_are_rejected_and_leave_nothing() {
    let (folder, store) = store();
    let image = image("2");
    let saved = |config: &str, layers: &[&str]| json!([{"Config": config, "Layers": layers}]).to_string();
    let with = |manifest: &str| {
        let archive = ArchiveBuilder::default().file("config.json", &image.config);
        let archive = archive.file("a", &image.layers[0]).file("b", &image.layers[1]);
        archive
            .symlink("secret", "/etc/passwd")
            .symlink("loop", "loop")
            .file("manifest.json", manifest.as_bytes())
            .finish()
    };
    let mips = TestImage::for_architecture("mips", image.layers.clone());
    let mut damaged = layout(&image, json!({}));
    damaged.last_mut().unwrap().1.push(b' ');
    let mut missing = layout(&image, json!({}));
    missing.retain(|(name, _)| *name != blob(&gzip(&image.layers[1])));
    let only_index = |text: String| tar(&[("index.json".to_owned(), text.into_bytes())]);
    for (archive, reason) in [
        (with(&saved("config.json", &["b", "a"])), "in the image configuration"),
        (with(&saved("config.json", &["a"])), "numbers of layers"),
        (with(&saved("config.json", &["a", "missing"])), "`missing` is missing"),
        (with(&saved("config.json", &["a", "secret"])), "`secret` is missing"),
        (with(&saved("config.json", &["a", "loop"])), "`loop` is missing"),
        (with(&saved("../../etc/passwd", &["a", "b"])), "is missing"),
        (with("[]"), "no image"),
        (with("{}"), "`manifest.json` is invalid"),
        (tar(&layout(&mips, json!({}))), "linux/mips"),
        (tar(&damaged), "damaged"),
        (tar(&missing), "is missing"),
        (only_index(json!({"schemaVersion": 2, "manifests": [descriptor("application/vnd.oci.image.manifest.v1+json", b"x")]}).to_string()), "is missing"),
        (ArchiveBuilder::default().file("a", b"").finish(), "neither"),
        (b"not an archive".to_vec(), "another format"),
    ] {
        let error = store.load_stream(&archive[..]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{reason}: {error}");
        assert!(error.to_string().contains(reason), "{reason}: {error}");
        assert!(store.list().unwrap().is_empty());
        assert_eq!(fs::read_dir(store.folder().join("drafts")).unwrap().count(), 0);
    }
    store.load(folder.path()).unwrap_err();
    assert_eq!(store.load(&folder.path().join("missing")).unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn an_archive_of_a_running_engine_is_loaded() {
    let saved = Command::new("docker").args(["save", "mcpm-test/silent:1"]).output();
    // A test of the command line requires an engine; this test uses an engine only if there is one.
    let Some(saved) = saved.ok().filter(|saved| saved.status.success()) else { return };
    let (_folder, store) = store();
    let loaded = store.load_stream(&saved.stdout[..]).unwrap();
    assert_eq!(names(&loaded), ["mcpm-test/silent:1"]);
    assert!(loaded[0].size > 0 && !loaded[0].layers.is_empty());
}
