//! Resolves the user and the group that an image's program runs as.

use std::{fs, path::PathBuf};

use crate::{Error, ErrorKind, Result, printable::Printable as _};

/// Largest `passwd` or `group` file of an image that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A user and its groups, in the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ImageUser {
    pub(super) user: u32,
    pub(super) group: u32,
    /// The home folder, if the image knows it.
    pub(super) home: Option<String>,
}

impl ImageUser {
    /// Finds the user `USER[:GROUP]`, each a number or a name, in the layers of an image, lowest first. An empty text
    /// is root.
    ///
    /// # Errors
    /// `ImageUnavailable` for a name that the image does not have.
    pub(super) fn find(text: &str, layers: &[PathBuf]) -> Result<Self> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let user = if user.is_empty() { "0" } else { user };
        let passwd = Table::read(layers, "passwd");
        let entry = passwd.find(user);
        let number = |text: &str| text.parse::<u32>().ok();
        let unknown = |what: &str, name: &str| {
            let message = format!("the image has no {what} `{}`", name.printable());
            Error::new(ErrorKind::ImageUnavailable, message)
        };
        let id = number(user)
            .or_else(|| entry.as_ref().and_then(|fields| number(fields.get(2)?)))
            .ok_or_else(|| unknown("user", user))?;
        let group = match group {
            Some(group) => {
                let groups = Table::read(layers, "group");
                let entry = groups.find(group);
                number(group)
                    .or_else(|| entry.and_then(|fields| number(fields.get(2)?)))
                    .ok_or_else(|| unknown("group", group))?
            }
            None => entry.as_ref().and_then(|fields| number(fields.get(3)?)).unwrap_or(0),
        };
        let home = entry.and_then(|fields| fields.get(5).copied()).filter(|home| home.starts_with('/'));
        Ok(Self { user: id, group, home: home.map(str::to_owned) })
    }
}

/// A file of `/etc` with colons between its fields.
struct Table(String);

impl Table {
    /// Reads the file from the topmost layer that has it. Links are not followed: they could lead out of the image.
    fn read(layers: &[PathBuf], name: &str) -> Self {
        let text = layers.iter().rev().find_map(|layer| {
            let folder = layer.join("etc");
            fs::symlink_metadata(&folder).ok().filter(fs::Metadata::is_dir)?;
            let path = folder.join(name);
            let file = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
            (file.len() <= MAX_FILE_BYTES).then(|| fs::read(&path).ok()).flatten()
        });
        Self(String::from_utf8_lossy(&text.unwrap_or_default()).into_owned())
    }

    /// Returns the entry with that name or number.
    fn find(&self, key: &str) -> Option<Vec<&str>> {
        let entries = || self.0.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let by = |field: usize| entries().find(|fields| fields.get(field) == Some(&key));
        by(0).or_else(|| by(2))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let layers = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for (layer, passwd) in
            layers.iter().zip(["app:x:1:1::/old:/bin/sh\n", "root:x:0:0::/root:\napp:x:7:8::/app:\n"])
        {
            fs::create_dir(layer.path().join("etc")).unwrap();
            fs::write(layer.path().join("etc/passwd"), passwd).unwrap();
        }
        fs::write(layers[0].path().join("etc/group"), "staff:x:50:\n").unwrap();
        let layers = layers.each_ref().map(|layer| layer.path().to_owned());
        for (text, user, group, home) in [
            ("", 0, 0, Some("/root")),
            ("app", 7, 8, Some("/app")),
            ("7", 7, 8, Some("/app")),
            ("7:0", 7, 0, Some("/app")),
            ("app:staff", 7, 50, Some("/app")),
            ("1000", 1000, 0, None),
            ("1000:1000", 1000, 1000, None),
        ] {
            let found = ImageUser::find(text, &layers).unwrap();
            assert_eq!((found.user, found.group, found.home.as_deref()), (user, group, home), "{text}");
        }
        for bad in ["nobody", "app:nobody", "-1"] {
            let error = ImageUser::find(bad, &layers).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{bad}");
        }
    }

    #[test]
    fn links_of_an_image_are_not_followed() {
        let (layer, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("passwd"), "app:x:7:7::/:\n").unwrap();
        symlink(outside.path(), layer.path().join("etc")).unwrap();
        assert!(ImageUser::find("app", &[layer.path().to_owned()]).is_err());
    }
}
