//! Prepares the folder that is mounted into an isolated container, with the shim and the socket to mcpm.
//!
//! The folder is inside the folder of the workload or build, which other users of the machine cannot access. It is
//! mounted read-only, and all users in the container may connect to the socket.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use crate::{
    Error, ErrorKind, Result,
    platform::{LocalListener, set_mode, socket_path},
};

/// Path of the folder in the container.
pub(crate) const MOUNT_POINT: &str = "/.mcpm";
/// File name of the shim in the folder.
pub(crate) const SHIM_FILE_NAME: &str = "shim";
/// The shims from the build script, by the engine's architecture; empty if it was not built.
const SHIM_BINARIES: [(&str, &[u8]); 2] = [
    ("x86_64", include_bytes!(concat!(env!("OUT_DIR"), "/shim-x86_64"))),
    ("aarch64", include_bytes!(concat!(env!("OUT_DIR"), "/shim-aarch64"))),
];

/// Returns the shim for containers of an engine with that architecture.
///
/// # Errors
/// `Unsupported` if this build has none.
pub(crate) fn shim_binary(architecture: &str) -> Result<&'static [u8]> {
    let found = SHIM_BINARIES.iter().find(|(of, program)| *of == architecture && !program.is_empty());
    let none = || unsupported(&format!("this build of mcpm does not support isolation on `{architecture}`"));
    found.map(|(_, program)| *program).ok_or_else(none)
}

/// Prepares the folder with the shim, and listens on its socket.
pub(super) fn prepare(folder: &Path, program: &[u8]) -> Result<LocalListener> {
    let cannot = |error: io::Error| {
        let message = format!("cannot prepare `{}` for an isolated container", folder.display());
        Error::new(ErrorKind::Io, message).source(error)
    };
    make(folder, program).map_err(cannot)
}

fn make(folder: &Path, shim: &[u8]) -> io::Result<LocalListener> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    set_mode(folder, 0o755)?;
    let program = folder.join(SHIM_FILE_NAME);
    if fs::read(&program).ok().as_deref() != Some(shim) {
        // A running program cannot be written to, but can be replaced.
        let draft = folder.join(".shim.new");
        fs::write(&draft, shim)?;
        fs::rename(&draft, &program)?;
    }
    set_mode(&program, 0o755)?;
    // The folder's path may be long.
    let opened = File::open(folder)?;
    let socket = socket_path(&opened, "link.sock");
    match fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = LocalListener::bind(&socket)?;
    set_mode(&socket, 0o666)?;
    Ok(listener)
}

/// Returns the error for a build, or a machine, that cannot isolate containers.
pub(crate) fn unsupported(why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this workload cannot be isolated: {why}")).hint(
        "use a build of mcpm that supports isolation, or remove the isolation and the network limits from \
            the permission profile",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "nightly: a target of the compiler is installed for it"]
    fn a_shim_is_built_for_each_architecture() {
        assert!(SHIM_BINARIES.iter().all(|(_, program)| !program.is_empty()));
    }

    #[test]
    fn shim_binaries_match_their_architecture() {
        let has = |architecture| shim_binary(architecture).is_ok();
        assert_eq!(has(std::env::consts::ARCH), cfg!(target_os = "linux"));
        assert!(!has("riscv64"));
        for (architecture, program) in SHIM_BINARIES.iter().filter(|(_, program)| !program.is_empty()) {
            let machine: u16 = if *architecture == "x86_64" { 0x3e } else { 0xb7 };
            assert!(program.starts_with(b"\x7fELF\x02\x01"), "{architecture}");
            assert_eq!(program[18..20], machine.to_le_bytes(), "{architecture}");
        }
    }
}
