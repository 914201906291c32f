//! Tests of removing images and abandoned drafts, of tagging images, and of images that are built from layers.

use std::{collections::BTreeMap, fs, os::fd::AsFd as _};

use tempfile::TempDir;

use super::*;
use crate::image::store::{
    archive_builder::{ArchiveBuilder, TestImage},
    beneath,
    stored_image::{ImageConfig, StoredImage},
};

/// A store with images that have a base in common.
struct Fixture {
    _folder: TempDir,
    store: ImageStore,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = ImageStore::open(&folder.path().join("images")).unwrap();
        Self { _folder: folder, store }
    }

    fn load(&self, data: &str, names: &[&str]) -> StoredImage {
        let base = ArchiveBuilder::default().file("base", &[0; 1000]).finish();
        let image =
            TestImage::new(vec![base, ArchiveBuilder::default().file("file", data.as_bytes()).finish()]);
        let manifest =
            serde_json::json!([{"Config": "c", "RepoTags": names, "Layers": ["a", "b"]}]).to_string();
        let archive = ArchiveBuilder::default()
            .file("c", &image.config)
            .file("a", &image.layers[0])
            .file("b", &image.layers[1])
            .file("manifest.json", manifest.as_bytes())
            .finish();
        self.store.load_stream(&archive[..]).unwrap().remove(0)
    }

    /// The number of layers and blobs.
    fn count(&self) -> (usize, usize) {
        let count = |name: &str| fs::read_dir(self.store.folder().join(name)).unwrap().count();
        assert_eq!(count("layers") % 2, 0);
        (count("layers") / 2, count("blobs/sha256"))
    }
}

fn reference(text: &str) -> ImageReference {
    ImageReference::parse(text).unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "reading the records of workloads may fail")]
fn none_in_use() -> Result<ImagesInUse> {
    Ok(ImagesInUse::default())
}

#[test]
fn layers_stay_as_long_as_an_image_has_them() {
    let fixture = Fixture::new();
    let first = fixture.load("one", &["one:1", "also:1"]);
    fixture.load("second", &["two:1"]);
    assert_eq!(fixture.count(), (3, 2));
    let removed = fixture.store.remove("docker.io/library/one:1", none_in_use).unwrap();
    assert_eq!((removed.references, removed.images, removed.freed), (vec![reference("one:1")], vec![], 0));
    let removed = fixture.store.remove("also:1", none_in_use).unwrap();
    assert_eq!((removed.images, fixture.count()), (vec![first.id], (2, 1)));
    assert!(removed.freed >= 3);
    let second = fixture.store.find(&reference("two:1")).unwrap().unwrap();
    let removed = fixture.store.remove(&second.id.hex()[..12], none_in_use).unwrap();
    assert_eq!((removed.references, fixture.count()), (vec![reference("two:1")], (0, 0)));
    assert!(removed.freed > 1000);
    for name in ["two:1", "0123456789ab", "!"] {
        assert_eq!(fixture.store.remove(name, none_in_use).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn what_is_in_use_stays() {
    let fixture = Fixture::new();
    let used = fixture.load("used", &["used:1", "alias:1"]);
    fixture.load("unused", &["unused:1"]);
    let by_name = || Ok(ImagesInUse { references: vec![reference("used:1")], ..ImagesInUse::default() });
    let id = used.id.to_string();
    let by_id = || Ok(ImagesInUse { ids: [used.id.clone()].into(), ..ImagesInUse::default() });
    assert_eq!(fixture.store.remove("used:1", by_name).unwrap_err().kind(), ErrorKind::NameTaken);
    assert_eq!(fixture.store.remove(&id, by_name).unwrap_err().kind(), ErrorKind::NameTaken);
    fixture.store.remove("alias:1", by_name).unwrap();
    assert_eq!(fixture.store.remove("used:1", by_id).unwrap_err().kind(), ErrorKind::NameTaken);
    assert!(fixture.store.prune(PruneScope::Unnamed, none_in_use).unwrap().images.is_empty());
    assert_eq!(fixture.store.prune(PruneScope::Unused, by_name).unwrap().images.len(), 1);
    // The name moves to a new image while a container still uses the old image.
    fixture.load("newer", &["used:1"]);
    assert!(fixture.store.prune(PruneScope::Unnamed, by_id).unwrap().images.is_empty());
    assert!(used.layers.iter().all(|layer| layer.is_dir()));
    assert_eq!(fixture.store.prune(PruneScope::Unnamed, none_in_use).unwrap().images, [used.id]);
    assert_eq!(fixture.store.list().unwrap().len(), 1);
}

#[test]
fn abandoned_files_are_removed_and_drafts_in_use_are_not() {
    let fixture = Fixture::new();
    fixture.load("kept", &["kept:1"]);
    let (folder, before) = (fixture.store.folder(), fixture.count());
    fs::create_dir_all(folder.join("layers/0123/file")).unwrap();
    fs::write(folder.join("layers/4567.json"), "{}").unwrap();
    fs::write(folder.join("blobs/sha256/0123"), "x").unwrap();
    make_draft(&fixture.store, "old", 25);
    make_draft(&fixture.store, "new", 1);
    fixture.store.prune(PruneScope::Unnamed, none_in_use).unwrap();
    assert_eq!(fixture.count(), before);
    assert_eq!(drafts(&fixture.store), ["new"]);
    // An image whose layer is gone is not offered.
    let image = fixture.store.find(&reference("kept:1")).unwrap().unwrap();
    fs::remove_dir_all(&image.layers[1]).unwrap();
    assert!(fixture.store.find(&reference("kept:1")).unwrap().is_none());
    fixture.load("kept", &[]);
    assert!(fixture.store.find(&reference("kept:1")).unwrap().is_some());
}

/// Makes a draft that was changed hours ago.
fn make_draft(store: &ImageStore, name: &str, age: u64) {
    let draft = store.folder().join("drafts").join(name);
    fs::create_dir(&draft).unwrap();
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age * 3600);
    fs::File::open(&draft).unwrap().set_modified(time).unwrap();
}

fn drafts(store: &ImageStore) -> Vec<String> {
    let entries = fs::read_dir(store.folder().join("drafts")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_new_draft_sweeps_abandoned_ones_while_none_is_in_use() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    let in_use = store.draft().unwrap();
    make_draft(store, "old", 25);
    drop(store.draft().unwrap());
    assert_eq!(drafts(store).len(), 2);
    drop(in_use);
    make_draft(store, "new", 1);
    drop(store.draft().unwrap());
    assert_eq!(drafts(store), ["new"]);
}

#[test]
fn a_draft_that_cannot_be_removed_does_not_keep_others() {
    let fixture = Fixture::new();
    let folder = fixture.store.folder().join("drafts");
    let time = std::time::SystemTime::now() - std::time::Duration::from_secs(25 * 3600);
    for number in 0..20 {
        make_draft(&fixture.store, &format!("folder-{number}"), 25);
        // A file is not a draft.
        let file = fs::File::create(folder.join(format!("file-{number}"))).unwrap();
        file.set_modified(time).unwrap();
    }
    fixture.store.prune(PruneScope::Unnamed, none_in_use).unwrap();
    let left = drafts(&fixture.store);
    assert!(left.len() == 20 && left.iter().all(|name| name.starts_with("file-")), "{left:?}");
}

#[test]
fn images_are_tagged() {
    let fixture = Fixture::new();
    let image = fixture.load("one", &["one:1"]);
    fixture.store.tag(&image.id, &reference("two")).unwrap();
    assert_eq!(fixture.store.find(&reference("two:latest")).unwrap().unwrap().references.len(), 2);
    let digest = reference(&format!("one@{}", image.id));
    assert_eq!(fixture.store.tag(&image.id, &digest).unwrap_err().kind(), ErrorKind::InvalidOption);
    let missing = fixture.store.tag(&Digest::sha256(b"missing"), &reference("three"));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn built_layers_are_added_to_a_base() {
    let fixture = Fixture::new();
    let base = fixture.load("base", &["base:1"]);
    let draft = fixture.store.draft().unwrap();
    let layer = draft.path().join("built");
    fs::create_dir_all(layer.join("bin")).unwrap();
    fs::write(layer.join("bin/server"), "program").unwrap();
    let config = ImageConfig {
        command: vec!["/bin/server".to_owned()],
        labels: BTreeMap::from([("package".to_owned(), "uvx://a".to_owned())]),
        ..base.config.clone()
    };
    let name = reference("mcpm/built:1");
    let built = fixture.store.commit(Some(&base), vec![layer.clone()], &config, Some(name.clone())).unwrap();
    drop(draft);
    assert_eq!((&built.config, built.layers.len(), built.size), (&config, 3, base.size + 7));
    assert_eq!(
        (fs::read(built.layers[2].join("bin/server")).unwrap(), layer.exists()),
        (b"program".to_vec(), false)
    );
    assert_eq!(fixture.store.find(&name).unwrap(), Some(built.clone()));
    // The base can be removed; its layers stay.
    fixture.store.remove("base:1", none_in_use).unwrap();
    assert!(built.layers.iter().all(|layer| layer.is_dir()));
    let gone = fixture.store.commit(Some(&base), vec![], &config, None);
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
    let empty = fixture.store.commit(None, vec![], &config, None);
    assert_eq!(empty.unwrap_err().kind(), ErrorKind::InvalidOption);
}

#[test]
fn a_layer_that_replaces_the_root_hides_those_below() {
    let fixture = Fixture::new();
    let base = fixture.load("base", &["base:1"]);
    let draft = fixture.store.draft().unwrap();
    let layer = draft.path().join("built");
    fs::create_dir(&layer).unwrap();
    beneath::make_opaque(beneath::open_root(&layer).unwrap().as_fd()).unwrap();
    let built = fixture.store.commit(Some(&base), vec![layer], &base.config, None).unwrap();
    assert_eq!(built.layers.len(), 1);
}
