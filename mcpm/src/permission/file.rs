//! Reads and writes permission profiles as JSON.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Host, MountRule, Outbound, Profile, Resources, error::invalid};
use crate::{
    Error, ErrorKind, Result, config_file::read_error_kind, options::PermissionProfile,
    printable::Printable as _, similar::suggest_field,
};

/// The largest profile.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A profile in JSON. Every key is optional.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProfileDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    read: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    write: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<NetworkSection>,
    #[serde(skip_serializing_if = "is_false")]
    privileged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Resources>,
    #[serde(skip_serializing_if = "is_false")]
    read_only_root: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tmpfs: Vec<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NetworkSection {
    #[serde(skip_serializing_if = "String::is_empty")]
    mode: String,
    outbound: Outbound,
    #[serde(skip_serializing_if = "Option::is_none")]
    inbound: Option<InboundSection>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct InboundSection {
    allow_host: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl Profile {
    /// Returns the named profile; a relative path begins at `working_dir`.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn load(profile: &PermissionProfile, working_dir: &Path) -> Result<Self> {
        match profile {
            PermissionProfile::Nothing => Ok(Self::none()),
            PermissionProfile::Network => Ok(Self::network()),
            PermissionProfile::File(path) => Self::read(&working_dir.join(path)),
        }
    }

    /// Reads a profile from a JSON file of at most 1 MiB.
    ///
    /// # Errors
    /// `NotFound` or `Io` when the file cannot be read, `InvalidOption` for an invalid profile.
    pub fn read(path: &Path) -> Result<Self> {
        use std::io::Read as _;
        let cannot = |error: std::io::Error| {
            Error::new(
                read_error_kind(&error),
                format!("cannot read the permission profile `{}`", path.display()),
            )
            .source(error)
            .hint("use `none`, `network`, or the path of a JSON file")
        };
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
            .map_err(cannot)?;
        let refused = |error: Error| error.with("file", path.display());
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(refused(Error::new(
                ErrorKind::InvalidOption,
                "the permission profile is larger than 1 MiB",
            )));
        }
        Self::from_json(&text).map_err(refused)
    }

    /// Parses a profile.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid profile, including unknown keys.
    pub fn from_json(text: &str) -> Result<Self> {
        parse(text)
    }

    /// Returns the profile as JSON.
    ///
    /// # Errors
    /// `Internal` when a path is not UTF-8.
    pub fn to_json(&self) -> Result<String> {
        print(self)
    }
}

fn parse(text: &str) -> Result<Profile> {
    use serde_json::Value;

    let refusal = |error: serde_json::Error| {
        Error::new(ErrorKind::InvalidOption, "the permission profile is not valid")
            .source(suggest_field(&error.to_string()))
    };
    let value: Value = serde_json::from_str(text).map_err(refusal)?;
    for object in ["", "/network", "/network/outbound", "/network/inbound", "/resources"] {
        let found = match value.pointer(object) {
            None | Some(Value::Object(_) | Value::Null) => continue,
            // serde would accept a list as the values of an object.
            Some(Value::Array(_)) => "a list",
            Some(Value::String(_)) => "a string",
            Some(Value::Number(_)) => "a number",
            Some(Value::Bool(_)) => "a boolean",
        };
        return Err(invalid(format!(
            "the permission profile is not valid: expected an object at `{object}/`, found {found}"
        )));
    }
    let file: ProfileDocument = serde_json::from_str(text).map_err(refusal)?;
    let network = file.network.unwrap_or_default();
    let read = file.read.iter().map(|text| MountRule::parse(text, true));
    let write = file.write.iter().map(|text| MountRule::parse(text, false));
    let resources = file.resources.unwrap_or_default();
    resources.check()?;
    let mode = network.mode;
    if mode.contains(char::is_whitespace) || mode.contains(char::is_control) {
        return Err(invalid(format!("`{}` is not a valid network mode", mode.printable())));
    }
    let inbound = network.inbound.unwrap_or_default().allow_host;
    let hosts = inbound.iter().map(|host| host.parse::<Host>().map(|host| host.to_string()));
    Ok(Profile {
        name: file.name,
        mounts: read.chain(write).collect::<Result<_>>()?,
        network_mode: (!mode.is_empty()).then_some(mode),
        outbound: network.outbound,
        inbound: hosts.collect::<Result<_>>()?,
        privileged: file.privileged,
        resources,
        read_only_root: file.read_only_root,
        tmpfs: file.tmpfs.iter().map(|text| text.parse()).collect::<Result<_>>()?,
    })
}

fn print(profile: &Profile) -> Result<String> {
    let mounts = |read_only: bool| {
        let all = profile.mounts.iter().filter(|mount| mount.read_only == read_only);
        all.map(ToString::to_string).collect()
    };
    let inbound = InboundSection { allow_host: profile.inbound.clone() };
    let file = ProfileDocument {
        name: profile.name.clone(),
        read: mounts(true),
        write: mounts(false),
        network: Some(NetworkSection {
            mode: profile.network_mode.clone().unwrap_or_default(),
            outbound: profile.outbound.clone(),
            inbound: (!profile.inbound.is_empty()).then_some(inbound),
        }),
        privileged: profile.privileged,
        resources: (profile.resources != Resources::default()).then(|| profile.resources.clone()),
        read_only_root: profile.read_only_root,
        tmpfs: profile.tmpfs.iter().map(ToString::to_string).collect(),
    };
    let text = serde_json::to_string_pretty(&file).map_err(|error| {
        Error::new(ErrorKind::Internal, "cannot serialize the permission profile").source(error)
    })?;
    Ok(text + "\n")
}
