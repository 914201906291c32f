//! Provides the base image of packages whose own base image cannot be pulled: the system folders of this machine.
//!
//! Its layer has empty folders, links, `passwd` and `group` files of its own, and copies of some other files and
//! folders of `/etc`. `/usr`, and `/bin`, `/lib` and similar folders that are not links into `/usr`, are mounted
//! read-only. A container sees the programs and libraries in these folders, but no home folder of this machine. The id
//! of the image depends on the operating system and on the installed Python, uv, Node.js, npm and Go, so packages are
//! installed again after an update of one of them. It also depends on the lists below, so another version of mcpm does
//! not use an image with other folders.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::UNIX_EPOCH,
};

use ring::hmac;

use super::{plan, sandbox::MountOperation};
use crate::{
    Result,
    image::{
        Digest, ImageReference,
        store::{ImageConfig, ImageStore, StoredImage},
    },
    package::certificates::{CA_VARIABLES, SYSTEM_CA_BUNDLES},
    random::random_bytes,
    redact::hex,
    state::file::{self, create_folders, file_error},
};

/// The name of the image.
pub(crate) const REFERENCE: &str = "localhost/mcpm/host:system";

/// The label with the state of the machine that the image was made from, and a proof that this store made it, since
/// other images may have any labels.
const SYSTEM_LABEL: &str = "mcpm-package-host";
/// The file of the store with the key of the proof.
const KEY_FILE: &str = "host.key";
/// Folders of the system, which are mounted, or links into `/usr`.
const SYSTEM_FOLDERS: [&str; 7] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// Empty folders of the image.
const EMPTY_FOLDERS: [&str; 12] = [
    "dev",
    "proc",
    "run",
    "sys",
    "tmp",
    "root",
    "home/mcpm",
    "var/tmp",
    "var/lib",
    "var/cache",
    "etc",
    "app",
];
/// Files and folders of `/etc` that programs and libraries read, and that have no secrets.
const ETC: [&str; 21] = [
    "alternatives",
    "ca-certificates.conf",
    "debian_version",
    "fonts",
    "gai.conf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "protocols",
    "services",
    "ssl/ca-bundle.pem",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
];
const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n\
     mcpm:x:65532:65532::/home/mcpm:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\nmcpm:x:65532:\n";
/// Where interpreters and tools are looked for.
pub(super) const PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The programs whose versions matter.
const TOOLS: [&str; 5] = ["python3", "uv", "node", "npm", "go"];
/// The largest file of `/etc` that is copied.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The state of this machine, cached by a runtime. It is computed once, and again only if the image in the store was
/// made from another state.
#[derive(Debug, Clone, Default)]
pub(super) struct SystemState(Arc<Mutex<Option<String>>>);

impl SystemState {
    /// Returns the label of the image of that state.
    fn label(&self, images: &ImageStore, is_current: impl Fn(&str) -> bool) -> Result<String> {
        // No code panics while it holds the lock.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|label| is_current(label)) {
            return Ok(known.clone());
        }
        let state = system_state(&SYSTEM_FOLDERS);
        Ok(known.insert(format!("{state}.{}", proof(&key(images)?, &state))).clone())
    }
}

/// Returns the image for the present state of this machine, and creates it if necessary.
///
/// # Errors
/// `Io`; those of the store.
pub(super) fn ensure(images: &ImageStore, system: &SystemState) -> Result<StoredImage> {
    let reference = ImageReference::parse(REFERENCE)?;
    let found = images.find(&reference)?;
    let made_from = found.as_ref().and_then(|image| image.config.labels.get(SYSTEM_LABEL));
    let state = system.label(images, |known| made_from.is_some_and(|label| label == known))?;
    if made_from == Some(&state)
        && let Some(found) = found
    {
        return Ok(found);
    }
    let draft = images.draft()?;
    let layer = draft.path().join("layer");
    fill(&layer).map_err(|error| file_error("create", &layer, error))?;
    let mut env = vec![format!("PATH={PATH}")];
    // Makes tools with certificates of their own trust the authorities that this machine trusts.
    if let Some(bundle) = SYSTEM_CA_BUNDLES.iter().find(|bundle| Path::new(bundle).exists()) {
        env.extend(CA_VARIABLES.iter().map(|(name, _)| format!("{name}={bundle}")));
    }
    let config = ImageConfig {
        env,
        labels: [(SYSTEM_LABEL.to_owned(), state)].into(),
        architecture: std::env::consts::ARCH.to_owned(),
        ..ImageConfig::default()
    };
    images.commit(None, vec![layer], &config, Some(reference))
}

/// Returns the mounts of the system folders, for an image that is based on them.
///
/// # Errors
/// `Io` when the key of the store cannot be read.
pub(super) fn system_mounts(images: &ImageStore, image: &StoredImage) -> Result<Vec<MountOperation>> {
    let Some((state, given)) = image.config.labels.get(SYSTEM_LABEL).and_then(|label| label.split_once('.'))
    else {
        return Ok(Vec::new());
    };
    if proof(&key(images)?, state) != given {
        return Ok(Vec::new());
    }
    let folders = SYSTEM_FOLDERS.iter().map(|name| PathBuf::from("/").join(name));
    let folders = folders.filter(|folder| folder.symlink_metadata().is_ok_and(|found| found.is_dir()));
    Ok(folders.map(|folder| plan::bind(folder.clone(), &folder.to_string_lossy(), true)).collect())
}

/// Returns the key of a store, which is created once. Only the user can read it.
fn key(images: &ImageStore) -> Result<Vec<u8>> {
    let path = images.folder().join(KEY_FILE);
    let failed = |error| file_error("read", &path, error);
    match fs::read(&path) {
        Ok(key) if !key.is_empty() => return Ok(key),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    // If two processes create the key at the same time, both use the key of the first one.
    match file::create(&path, &random_bytes::<32>()?) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
        _ => fs::read(&path).map_err(failed),
    }
}

/// Returns the proof that this store has made an image for a state of the machine.
fn proof(key: &[u8], state: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), state.as_bytes());
    hex(tag.as_ref())
}

/// Describes what the image consists of, the operating system, and the tools: their files and when they were changed.
fn system_state(system_folders: &[&str]) -> String {
    let mut text = format!("{system_folders:?}{EMPTY_FOLDERS:?}{ETC:?}{PASSWD}{GROUP}");
    text += &fs::read_to_string("/etc/os-release").unwrap_or_default();
    for tool in TOOLS {
        let paths = PATH.split(':').map(|folder| Path::new(folder).join(tool));
        let found =
            paths.filter_map(|path| Some((fs::canonicalize(&path).ok()?, fs::metadata(&path).ok()?))).next();
        if let Some((path, metadata)) = found {
            let changed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            text.push_str(&format!("{tool} {} {:?}\n", path.display(), changed.unwrap_or_default()));
        }
    }
    Digest::sha256(text.as_bytes()).to_string()
}

/// Fills the layer.
fn fill(layer: &Path) -> io::Result<()> {
    for folder in EMPTY_FOLDERS {
        create_folders(&layer.join(folder))?;
    }
    for name in EMPTY_FOLDERS.iter().flat_map(|folder| Path::new(folder).ancestors()) {
        crate::platform::set_mode(&layer.join(name), 0o755)?;
    }
    for name in ["tmp", "var/tmp", "home/mcpm"] {
        crate::platform::set_mode(&layer.join(name), 0o1777)?;
    }
    for name in SYSTEM_FOLDERS {
        let original = Path::new("/").join(name);
        match fs::read_link(&original) {
            Ok(target) => symlink(target, layer.join(name))?,
            Err(_) if original.is_dir() => fs::create_dir(layer.join(name))?,
            Err(_) => {}
        }
    }
    fs::write(layer.join("etc/passwd"), PASSWD)?;
    fs::write(layer.join("etc/group"), GROUP)?;
    for name in ETC {
        let target = layer.join("etc").join(name);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        copy(&Path::new("/etc").join(name), &target)?;
    }
    Ok(())
}

/// Copies a file, a link or a folder; what is missing, unreadable, or of another kind is left out.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(from) else { return Ok(()) };
    if found.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    if found.is_dir() {
        fs::create_dir_all(to)?;
        let Ok(entries) = fs::read_dir(from) else { return Ok(()) };
        return entries.flatten().try_for_each(|entry| copy(&entry.path(), &to.join(entry.file_name())));
    }
    // A file that not every user may read may contain a key.
    let is_public = found.permissions().mode() & 0o004 != 0;
    if found.is_file() && is_public && found.len() <= MAX_FILE_BYTES {
        match fs::copy(from, to) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_depends_on_the_list_of_system_folders() {
        assert_eq!(system_state(&SYSTEM_FOLDERS), system_state(&SYSTEM_FOLDERS));
        assert_ne!(system_state(&SYSTEM_FOLDERS[1..]), system_state(&SYSTEM_FOLDERS));
    }
}
