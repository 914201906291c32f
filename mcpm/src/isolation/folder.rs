//! The folder that an isolated container sees: the shim, and the socket that it connects to.
//!
//! It lies in the workload's own folder, which other users of the machine cannot enter; in the container it is
//! mounted read-only, and anybody there may connect.

use std::{
    fs::{self, File, Permissions},
    io,
    os::{fd::AsRawFd as _, unix::fs::PermissionsExt as _},
    path::Path,
};

use tokio::net::UnixListener;

use crate::{Error, ErrorKind, Result};

/// Where the folder is in the container.
pub(crate) const MOUNT_POINT: &str = "/.mcpm";
/// The program's name in there.
pub(crate) const PROGRAM: &str = "shim";
/// The program, made by the build script; empty where there is none.
static SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/shim"));

/// Returns the program that runs in the container.
///
/// # Errors
/// `Unsupported` when this build has none.
pub(crate) fn program() -> Result<&'static [u8]> {
    if SHIM.is_empty() {
        return Err(super::unsupported("this build of mcpm has no program for it"));
    }
    Ok(SHIM)
}

/// Makes the folder whole and listens on its socket.
pub(super) fn prepare(folder: &Path) -> Result<UnixListener> {
    program()?;
    let cannot = |error: io::Error| {
        let message = format!("cannot make ready `{}` for an isolated container", folder.display());
        Error::new(ErrorKind::Io, message).source(error)
    };
    make(folder).map_err(cannot)
}

fn make(folder: &Path) -> io::Result<UnixListener> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    let program = folder.join(PROGRAM);
    if fs::read(&program).ok().as_deref() != Some(SHIM) {
        // One that runs cannot be written to, but gives way to another.
        let draft = folder.join(".shim.new");
        fs::write(&draft, SHIM)?;
        fs::rename(&draft, &program)?;
    }
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    // The path of a socket has at most 107 bytes, and a folder may lie deep.
    let opened = File::open(folder)?;
    let socket = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join("link.sock");
    match fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&socket)?;
    fs::set_permissions(&socket, Permissions::from_mode(0o666))?;
    Ok(listener)
}
