//! Parses bind mounts of host files and folders.

use std::{fmt, path::PathBuf, str::FromStr};

use super::{Relabel, ValueKind, value::invalid_value};
use crate::{Error, Result};

/// A bind mount: `host-path:container-path[:opts]`, with `ro`, `rw`, `z` and `Z` as comma-separated options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VolumeSpec {
    /// The host path; a relative one is resolved when the workload starts.
    pub host_path: PathBuf,
    /// The absolute path in the container.
    pub container_path: String,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// The SELinux relabelling.
    pub relabel: Option<Relabel>,
}

impl VolumeSpec {
    /// Mounts a host path read-write.
    pub fn new(host_path: impl Into<PathBuf>, container_path: impl Into<String>) -> Self {
        Self {
            host_path: host_path.into(),
            container_path: container_path.into(),
            read_only: false,
            relabel: None,
        }
    }

    /// Makes the mount read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }
}

impl FromStr for VolumeSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let not_absolute = || {
            invalid_value(
                "the path in the container must be absolute: expected `host-path:/container-path[:OPTION,...]`",
            )
        };
        // Split from the right, because a host path may contain a colon; the container path starts with a slash.
        let (front, back) = text.rsplit_once(':').ok_or_else(|| {
            invalid_value(
                "expected `host-path:container-path[:OPTION,...]`; the options are `ro`, `rw`, `z` and `Z`",
            )
        })?;
        let (host, container, settings) = if back.starts_with('/') {
            (front, back, None)
        } else {
            let (host, container) = front.rsplit_once(':').ok_or_else(not_absolute)?;
            (host, container, Some(back))
        };
        if host.is_empty() {
            return Err(invalid_value("the host path before `:` is empty"));
        }
        if !container.starts_with('/') {
            return Err(not_absolute());
        }
        if container.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(invalid_value("the path in the container must not have a segment `.` or `..`"));
        }
        let mut volume = Self::new(host, container);
        if let Some(settings) = settings {
            volume.read_settings(settings)?;
        }
        Ok(volume)
    }
}

impl VolumeSpec {
    fn read_settings(&mut self, settings: &str) -> Result<()> {
        let mut access = None;
        for setting in settings.split(',') {
            let again = match setting {
                "ro" | "rw" => access.replace(setting == "ro").is_some(),
                _ => {
                    let relabel = setting.parse().map_err(|_| {
                        invalid_value("expected `ro`, `rw`, `z` or `Z` after the container's path")
                    })?;
                    self.relabel.replace(relabel).is_some()
                }
            };
            if again {
                return Err(invalid_value(
                    "the options after the container's path repeat or contradict each other",
                ));
            }
        }
        self.read_only = access.unwrap_or(false);
        Ok(())
    }
}

impl fmt::Display for VolumeSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host_path.display(), self.container_path)?;
        match (self.read_only, self.relabel) {
            (false, None) => Ok(()),
            (true, None) => f.write_str(":ro"),
            (false, Some(relabel)) => write!(f, ":{relabel}"),
            (true, Some(relabel)) => write!(f, ":ro,{relabel}"),
        }
    }
}

text_form!(VolumeSpec => ValueKind::Compound("host-path:container-path[:ro]"));
