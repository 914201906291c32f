//! Tests of which manifests and indexes are accepted.

use serde_json::{Value, json};

use super::*;
use crate::image::store::archive_builder::{TestImage, descriptor, index};

fn manifest() -> Value {
    serde_json::from_slice(&TestImage::new(vec![b"layer".to_vec()]).manifest(&[b"layer".to_vec()])).unwrap()
}

fn parse(value: &Value) -> Result<Document> {
    Document::parse(value.to_string().as_bytes())
}

#[test]
fn manifests_of_both_kinds_are_read() {
    let mut docker = manifest();
    docker["mediaType"] = "application/vnd.docker.distribution.manifest.v2+json".into();
    docker["config"]["mediaType"] = "application/vnd.docker.container.image.v1+json".into();
    docker["layers"][0]["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.gzip".into();
    let mut untyped = manifest();
    untyped.as_object_mut().unwrap().remove("mediaType");
    for value in [manifest(), docker, untyped] {
        let Document::Manifest(manifest) = parse(&value).unwrap() else { panic!("{value}") };
        assert_eq!((manifest.layers.len(), manifest.layers[0].size), (1, 5));
    }
}

#[test]
fn unusable_manifests_are_rejected_with_the_reason() {
    let changed = |pointer: &str, value: Value| {
        let mut manifest = manifest();
        *manifest.pointer_mut(pointer).unwrap() = value;
        manifest
    };
    let layer_type = |kind: &str| changed("/layers/0/mediaType", kind.into());
    let mut both = manifest();
    both["manifests"] = json!([]);
    for (value, reason) in [
        (json!({"schemaVersion": 1, "fsLayers": []}), "schema version 1"),
        (json!({"schemaVersion": 2}), "no layers"),
        (both, "does not have the form"),
        (changed("/mediaType", "application/vnd.oci.image.index.v1+json".into()), "does not have the form"),
        (
            changed("/config/mediaType", "application/vnd.cncf.helm.config.v1+json".into()),
            "not a container image",
        ),
        (layer_type("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"), "Windows"),
        (layer_type("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"), "Windows"),
        (layer_type("application/vnd.oci.image.layer.v1.tar+gzip+encrypted"), "unknown type"),
        (layer_type(""), "unknown type"),
        (changed("/layers/0/digest", "sha512:00".into()), "not a SHA-256 digest"),
        (changed("/layers/0/size", (33_u64 << 30).into()), "which is more than"),
        (changed("/config/size", (5_u64 << 20).into()), "which is more than"),
        (changed("/layers/0/size", (-1).into()), "invalid"),
        (changed("/layers", vec![manifest()["layers"][0].clone(); MAX_LAYERS + 1].into()), "129 layers"),
        (json!([]), "invalid"),
    ] {
        let error = parse(&value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ImageUnavailable);
        assert!(error.to_string().contains(reason), "{error}: {reason}");
    }
}

#[test]
fn the_manifest_for_a_machine_is_selected() {
    let machine = MachinePlatform::current();
    let ours = json!({"os": "linux", "architecture": machine.architecture()});
    let platform = |os: &str, architecture: &str| json!({"os": os, "architecture": architecture});
    let attestation = json!({"vnd.docker.reference.type": "attestation-manifest"});
    let select = |manifests: &[(&[u8], Value, Value)]| {
        let Document::Index(index) = Document::parse(&index(manifests)).unwrap() else { panic!("an index") };
        index.select(&machine).map(|found| found.digest.clone())
    };
    let none = Value::Null;
    let found = select(&[
        (b"other", platform("linux", "mips"), none.clone()),
        (b"attestation", platform("unknown", "unknown"), attestation.clone()),
        (b"ours", ours.clone(), none.clone()),
        (b"second", ours, none.clone()),
    ]);
    assert_eq!(found.unwrap(), Digest::sha256(b"ours").to_string());
    assert_eq!(
        select(&[(b"only", none.clone(), none.clone()), (b"x", none.clone(), attestation)]).unwrap(),
        Digest::sha256(b"only").to_string()
    );
    let error = select(&[
        (b"a", platform("linux", "mips"), none.clone()),
        (b"b", platform("windows", machine.architecture()), none.clone()),
    ]);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("linux/mips, windows/") && error.contains("not available"), "{error}");
    select(&[(b"a", none.clone(), none.clone()), (b"b", none.clone(), none.clone())]).unwrap_err();
    select(&[]).unwrap_err();
}

#[test]
fn descriptions_of_other_content_are_no_images() {
    let other = descriptor("application/json", b"x");
    let text = json!({"schemaVersion": 2, "manifests": [other]}).to_string();
    let Document::Index(index) = Document::parse(text.as_bytes()).unwrap() else { panic!("an index") };
    assert_eq!(index.images().count(), 0);
}
