//! Mounts CA certificates (`ca_cert`) into the container of a server whose image is not built.
//!
//! A folder with two files is mounted. One file contains the given certificates, for programs that add them to their
//! own. The other file also contains this machine's certificates, for programs that read a single file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Environment, Error, ErrorKind, Result,
    package::certificates::{CA_BUNDLE_FILE, CA_FILE, Certificates, SYSTEM_CA_BUNDLES},
    platform::set_mode,
    runtime::Mount,
};

/// Returns the mount with the files.
pub(super) fn mount(record: &Path) -> Mount {
    let target = Path::new(CA_BUNDLE_FILE).parent().unwrap_or(Path::new("/"));
    Mount {
        source: folder(record),
        target: target.to_string_lossy().into_owned(),
        read_only: true,
        relabel: None,
    }
}

/// Writes the files. If the given file no longer exists, the files of an earlier start stay.
///
/// # Errors
/// `Io` when they cannot be written, and those of [`Certificates::read`].
pub(super) fn write(record: &Path, given: &Path, environment: &Environment) -> Result<()> {
    let folder = folder(record);
    let given = match Certificates::read(given) {
        Err(error) if error.kind() == ErrorKind::NotFound && folder.is_dir() => return Ok(()),
        given => given?.text(),
    };
    let place = environment.certificates.clone();
    let mut places = place.into_iter().chain(SYSTEM_CA_BUNDLES.iter().map(PathBuf::from));
    let machine = places.find_map(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot write `{}`", folder.display())).source(error)
    };
    fs::create_dir_all(&folder).map_err(failed)?;
    for (name, text) in [(CA_FILE, given.clone()), (CA_BUNDLE_FILE, given + &machine)] {
        let path = folder.join(Path::new(name).file_name().unwrap_or_default());
        fs::write(&path, text).map_err(failed)?;
        set_mode(&path, 0o644).map_err(failed)?;
    }
    // The server may run as any user in its container; the folder around it stays private.
    set_mode(&folder, 0o755).map_err(failed)
}

fn folder(record: &Path) -> PathBuf {
    record.join("certificates")
}
