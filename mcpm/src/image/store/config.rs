//! Parses and creates image configurations, which list the layers of an image and specify the command, the variables,
//! the working folder, the user and the ports of its containers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{limits::MAX_LAYERS, stored_image::ImageConfig};
use crate::{Error, ErrorKind, Result, image::Digest, printable::Printable as _};

/// The operating system of images.
pub(super) const LINUX: &str = "linux";

/// A configuration as it is stored.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ConfigFile {
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) variant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<String>,
    #[serde(default)]
    config: Option<ContainerConfig>,
    #[serde(default)]
    rootfs: RootFs,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct RootFs {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    diff_ids: Vec<String>,
}

/// Has Docker's field names, which the OCI specification kept. Empty lists and maps are often `null`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ContainerConfig {
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
    working_dir: Option<String>,
    user: Option<String>,
    exposed_ports: Option<BTreeMap<String, serde_json::Value>>,
    labels: Option<BTreeMap<String, String>>,
}

impl ConfigFile {
    /// Reads a configuration.
    ///
    /// # Errors
    /// `ImageUnavailable` for data that is not a configuration.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| {
            Error::new(ErrorKind::ImageUnavailable, "the image has an invalid configuration").source(error)
        })
    }

    /// Makes the configuration of an image with these layers.
    pub(super) fn new(config: &ImageConfig, diff_ids: &[Digest], created: String) -> Self {
        let ports = config.exposed_ports.iter();
        let ports =
            ports.map(|port| (format!("{port}/tcp"), serde_json::Value::Object(serde_json::Map::new())));
        Self {
            architecture: config.architecture.clone(),
            os: LINUX.to_owned(),
            variant: None,
            created: Some(created),
            config: Some(ContainerConfig {
                entrypoint: Some(config.entrypoint.clone()),
                cmd: Some(config.command.clone()),
                env: Some(config.env.clone()),
                working_dir: Some(config.working_dir.clone()),
                user: Some(config.user.clone()),
                exposed_ports: Some(ports.collect()),
                labels: Some(config.labels.clone()),
            }),
            rootfs: RootFs {
                kind: "layers".to_owned(),
                diff_ids: diff_ids.iter().map(Digest::to_string).collect(),
            },
        }
    }

    /// Returns the digests of the uncompressed layers, lowest first.
    ///
    /// # Errors
    /// `ImageUnavailable` for an image without layers, with too many, and for other kinds of digests.
    pub(super) fn diff_ids(&self) -> Result<Vec<Digest>> {
        let invalid = |why: String| Error::new(ErrorKind::ImageUnavailable, why);
        let ids = &self.rootfs.diff_ids;
        if ids.is_empty() {
            return Err(invalid("the image has no layers".to_owned()));
        }
        if ids.len() > MAX_LAYERS {
            return Err(invalid(format!(
                "the image has {} layers, which is more than {MAX_LAYERS}",
                ids.len()
            )));
        }
        let parse = |id: &String| {
            Digest::parse(id).ok_or_else(|| {
                let shown: String = id.chars().take(100).collect::<String>().printable();
                invalid(format!("`{shown}` is not the SHA-256 digest of a layer"))
            })
        };
        ids.iter().map(parse).collect()
    }

    /// Returns the part of the configuration that concerns containers.
    pub(super) fn image_config(&self) -> ImageConfig {
        let of = self.config.clone().unwrap_or_default();
        let ports = of.exposed_ports.unwrap_or_default();
        let port = |text: &String| {
            let (number, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
            number.parse().ok().filter(|_| protocol == "tcp")
        };
        let mut exposed_ports: Vec<u16> = ports.keys().filter_map(port).collect();
        exposed_ports.sort_unstable();
        exposed_ports.dedup();
        ImageConfig {
            entrypoint: of.entrypoint.unwrap_or_default(),
            command: of.cmd.unwrap_or_default(),
            env: of.env.unwrap_or_default(),
            working_dir: of.working_dir.unwrap_or_default(),
            user: of.user.unwrap_or_default(),
            exposed_ports,
            labels: of.labels.unwrap_or_default(),
            architecture: self.architecture.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_and_missing_fields_are_empty() {
        let text = r#"{"architecture": "amd64", "os": "linux", "history": [{"empty_layer": true}],
            "config": {"Entrypoint": null, "Cmd": ["a"], "Env": ["A=b"], "ArgsEscaped": true,
                "ExposedPorts": {"80/tcp": {}, "53/udp": {}, "8080": {}}},
            "rootfs": {"type": "layers", "diff_ids": []}}"#;
        let file = ConfigFile::parse(text.as_bytes()).unwrap();
        let config = file.image_config();
        assert_eq!((config.command, config.env), (vec!["a".to_owned()], vec!["A=b".to_owned()]));
        assert_eq!(config.exposed_ports, [80, 8080]);
        assert!(config.entrypoint.is_empty() && config.labels.is_empty() && config.user.is_empty());
        assert!(file.diff_ids().unwrap_err().to_string().contains("no layers"));
        assert_eq!(ConfigFile::parse(b"{}").unwrap().image_config(), ImageConfig::default());
    }

    #[test]
    fn a_config_is_the_same_after_it_was_stored() {
        let config = ImageConfig {
            entrypoint: vec!["/server".to_owned()],
            command: vec!["--x".to_owned()],
            env: vec!["A=b".to_owned()],
            working_dir: "/work".to_owned(),
            user: "1000:1000".to_owned(),
            exposed_ports: vec![80, 443],
            labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            architecture: "amd64".to_owned(),
        };
        let layers = [Digest::sha256(b"a"), Digest::sha256(b"b")];
        let file = ConfigFile::new(&config, &layers, "2026-01-01T00:00:00Z".to_owned());
        let again = ConfigFile::parse(&serde_json::to_vec(&file).unwrap()).unwrap();
        assert_eq!((again.image_config(), again.diff_ids().unwrap()), (config, layers.to_vec()));
    }

    #[test]
    fn invalid_layers_are_rejected() {
        let with = |ids: Vec<String>| ConfigFile {
            rootfs: RootFs { kind: String::new(), diff_ids: ids },
            ..ConfigFile::default()
        };
        assert!(with(vec!["sha512:00".to_owned()]).diff_ids().is_err());
        assert!(with(vec![Digest::sha256(b"").to_string(); MAX_LAYERS + 1]).diff_ids().is_err());
        for bad in ["", "null", r#"{"config": {"Cmd": "x"}}"#] {
            assert!(ConfigFile::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
