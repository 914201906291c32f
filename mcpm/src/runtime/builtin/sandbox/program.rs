//! Provides the shim as a program that this machine can run.
//!
//! The shim is run from a sealed file in memory, so that neither the server nor another process can change it, and
//! nothing has to be installed or removed. Where the kernel is configured not to run programs from memory
//! (`vm.memfd_noexec`), it is run from a file in a private folder.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::{
    Result,
    isolation::{SHIM_FILE_NAME, shim_binary},
    platform::set_mode,
};

/// Returns a path to the program in memory, which each process that this one forks can use until it runs a program.
pub(super) fn path_in_memory() -> Result<io::Result<PathBuf>> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    let program = shim_binary(std::env::consts::ARCH)?;
    let file = match FILE.get() {
        Some(file) => Ok(file),
        None => sealed_file(program).map(|file| FILE.get_or_init(|| file)),
    };
    Ok(file.map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()).into()))
}

fn sealed_file(program: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = match memfd_create("mcpm-shim", flags | MemfdFlags::EXEC) {
        // Kernels before 6.3 do not have the flag, and run programs from all such files.
        Err(rustix::io::Errno::INVAL) => memfd_create("mcpm-shim", flags)?,
        file => file?,
    };
    let mut file = File::from(file);
    io::Write::write_all(&mut file, program)?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file.into())
}

/// Returns a path to the program in a private folder.
pub(super) fn path_in_folder(folder: &Path) -> Result<io::Result<PathBuf>> {
    let program = shim_binary(std::env::consts::ARCH)?;
    let path = folder.join(SHIM_FILE_NAME);
    Ok(write_file(&path, program).map(|()| path))
}

fn write_file(path: &Path, program: &[u8]) -> io::Result<()> {
    if fs::read(path).ok().as_deref() == Some(program) {
        return Ok(());
    }
    // A running program cannot be written to, but can be replaced.
    let draft = path.with_extension("new");
    fs::write(&draft, program)?;
    set_mode(&draft, 0o700)?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_shim_runs_from_memory_and_from_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let in_folder = || path_in_folder(folder.path()).unwrap().unwrap();
        // A running program can be replaced, and an identical file is kept.
        for path in [path_in_memory().unwrap().unwrap(), in_folder(), in_folder()] {
            let outcome = Command::new(path).arg("sandbox").stdin(Stdio::null()).output().unwrap();
            let stderr = String::from_utf8_lossy(&outcome.stderr);
            assert_eq!(outcome.status.code(), Some(125), "{stderr}");
            assert!(stderr.starts_with("mcpm: cannot receive the configuration of the sandbox"), "{stderr}");
        }
    }
}
