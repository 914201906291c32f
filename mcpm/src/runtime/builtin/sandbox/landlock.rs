//! Queries the version of Landlock that the kernel supports.

use std::{
    io,
    process::{Command, Stdio},
};

use super::program;

/// Returns the version of Landlock that the kernel supports. The shim queries it, as for a sandbox.
///
/// # Errors
/// The error of the kernel: `ENOSYS` if it has no Landlock, `EOPNOTSUPP` if Landlock is not enabled; any other error if
/// the shim cannot be run.
pub(crate) fn landlock_version() -> io::Result<u32> {
    let path = program::path_in_memory().map_err(io::Error::other)??;
    let output = Command::new(path).arg("landlock").env_clear().stdin(Stdio::null()).output()?;
    let number: Result<i32, _> = String::from_utf8_lossy(&output.stdout).parse();
    let number = number.map_err(|_| io::Error::other("the shim printed no version"))?;
    u32::try_from(number).map_err(|_| io::Error::from_raw_os_error(number.saturating_neg()))
}
