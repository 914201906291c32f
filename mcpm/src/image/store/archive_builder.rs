//! Archives, layers and images for tests, hostile ones included.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use tar::{EntryType, Header};

use super::platform::MachinePlatform;
use crate::image::Digest;

/// A tar archive that is written entry by entry, valid or not.
#[derive(Default, Clone)]
pub(super) struct ArchiveBuilder(Vec<u8>);

impl ArchiveBuilder {
    pub(super) fn file(self, path: &str, data: &[u8]) -> Self {
        self.entry(EntryType::Regular, path, "", data, |_| ())
    }

    pub(super) fn folder(self, path: &str) -> Self {
        self.entry(EntryType::Directory, path, "", b"", |header| header.set_mode(0o755))
    }

    pub(super) fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, path, target, b"", |_| ())
    }

    pub(super) fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(EntryType::Link, path, target, b"", |_| ())
    }

    /// An entry whose header is changed before its checksum is set. Long names get headers of their own.
    pub(super) fn entry(
        mut self,
        kind: EntryType,
        path: &str,
        link: &str,
        data: &[u8],
        change: impl FnOnce(&mut Header),
    ) -> Self {
        for (kind, name) in [(EntryType::GNULongName, path), (EntryType::GNULongLink, link)] {
            if name.len() > 100 {
                let header = header(kind, "././@LongLink", "", name.len());
                self = self.header(header).data(name.as_bytes());
            }
        }
        let mut header = header(kind, path, link, data.len());
        change(&mut header);
        self.header(header).data(data)
    }

    fn header(mut self, mut header: Header) -> Self {
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self
    }

    /// Data in whole blocks.
    pub(super) fn data(mut self, data: &[u8]) -> Self {
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// An extended header for the next entry.
    pub(super) fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut data = Vec::new();
        for (key, value) in records {
            let rest = key.len() + value.len() + 3;
            let length = (rest + 1..).find(|length| length.to_string().len() + rest == *length).unwrap();
            data.extend_from_slice(format!("{length} {key}=").as_bytes());
            data.extend_from_slice(value);
            data.push(b'\n');
        }
        self.entry(EntryType::XHeader, "PaxHeaders/x", "", &data, |_| ())
    }

    /// The archive with its end.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut bytes = self.0;
        bytes.extend_from_slice(&[0; 1024]);
        bytes
    }

    /// The archive without its end.
    pub(super) fn bytes(self) -> Vec<u8> {
        self.0
    }
}

fn header(kind: EntryType, path: &str, link: &str, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_700_000_000);
    header.set_size(size as u64);
    let gnu = header.as_gnu_mut().expect("a header of GNU");
    for (field, name) in [(&mut gnu.name, path), (&mut gnu.linkname, link)] {
        let length = name.len().min(field.len());
        field[..length].copy_from_slice(&name.as_bytes()[..length]);
    }
    header
}

pub(super) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(data: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(data, ruzstd::encoding::CompressionLevel::Fastest)
}

/// The parts of an image, with its layers uncompressed.
pub(super) struct TestImage {
    pub(super) layers: Vec<Vec<u8>>,
    pub(super) config: Vec<u8>,
}

impl TestImage {
    /// An image for this machine.
    pub(super) fn new(layers: Vec<Vec<u8>>) -> Self {
        Self::for_architecture(MachinePlatform::current().architecture(), layers)
    }

    pub(super) fn for_architecture(architecture: &str, layers: Vec<Vec<u8>>) -> Self {
        let diff_ids: Vec<Digest> = layers.iter().map(|layer| Digest::sha256(layer)).collect();
        let config = json!({
            "architecture": architecture, "os": "linux", "created": "2026-01-02T03:04:05Z",
            "config": {"Entrypoint": ["/server"], "Env": ["A=b"], "ExposedPorts": {"8080/tcp": {}}},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        Self { layers, config: config.to_string().into_bytes() }
    }

    pub(super) fn id(&self) -> Digest {
        Digest::sha256(&self.config)
    }

    /// The manifest for layers as they are sent.
    pub(super) fn manifest(&self, layers: &[Vec<u8>]) -> Vec<u8> {
        let layers: Vec<Value> = layers
            .iter()
            .map(|layer| descriptor("application/vnd.oci.image.layer.v1.tar+gzip", layer))
            .collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &self.config),
            "layers": layers,
        });
        manifest.to_string().into_bytes()
    }
}

/// A description of content.
pub(super) fn descriptor(media_type: &str, content: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": Digest::sha256(content), "size": content.len()})
}

/// An index of manifests, with the platform and annotations of each.
pub(super) fn index(manifests: &[(&[u8], Value, Value)]) -> Vec<u8> {
    let manifests: Vec<Value> = manifests
        .iter()
        .map(|(manifest, platform, annotations)| {
            let mut of = descriptor("application/vnd.oci.image.manifest.v1+json", manifest);
            if !platform.is_null() {
                of["platform"] = platform.clone();
            }
            if !annotations.is_null() {
                of["annotations"] = annotations.clone();
            }
            of
        })
        .collect();
    json!({"schemaVersion": 2, "manifests": manifests}).to_string().into_bytes()
}
