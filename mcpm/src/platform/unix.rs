//! Files, sockets and processes of Unix.

#[cfg(feature = "containers")]
mod containers;

use std::{
    fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions},
    io,
    os::{
        fd::AsRawFd as _,
        unix::{
            fs::PermissionsExt as _,
            fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
            process::ExitStatusExt as _,
        },
    },
    path::{Path, PathBuf},
    process::ExitStatus,
};

use rustix::{
    io::Errno,
    process::{Pid, kill_process, kill_process_group, test_kill_process, test_kill_process_group},
};
use tokio::process::{Child, Command};

#[cfg(feature = "containers")]
pub(crate) use containers::*;
pub(crate) use rustix::process::Signal;
pub(crate) use tokio::net::{
    UnixListener as LocalListener, UnixStream as LocalStream,
    unix::{OwnedReadHalf, OwnedWriteHalf},
};

/// Sets the mode of a file that is created.
pub(crate) fn with_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    options.mode(mode)
}

/// Sets the mode of a folder that is created.
pub(crate) fn folder_with_mode(builder: &mut DirBuilder, mode: u32) -> &mut DirBuilder {
    builder.mode(mode)
}

/// Sets the mode of a file or folder.
pub(crate) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Makes opening a named pipe succeed while no process has opened its other end.
pub(crate) fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    options.custom_flags(i32::try_from(flags).unwrap_or_default())
}

/// Opens a folder, so that [`is_same_file`] can tell later whether the path still leads to it.
pub(crate) fn open_folder(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Writes the entries of a folder to disk.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Whether `path` still leads to the opened file.
pub(crate) fn is_same_file(path: &Path, opened: &File) -> io::Result<bool> {
    let opened = opened.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok(is_same_entry(&found, &opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether two descriptions are of the same file.
pub(crate) fn is_same_entry(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Whether a file belongs to the user of this process.
pub(crate) fn is_own_file(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

/// Gives a file the group, the mode and the extended attributes of another one of the same user. On Linux, they contain
/// the ACL.
#[cfg(feature = "clients")]
pub(crate) fn copy_attributes(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{Gid, XattrFlags, fchown, fgetxattr, flistxattr, fremovexattr, fsetxattr};

    /// The largest list of attribute names and the largest attribute value on Linux, in bytes.
    const MAX_BYTES: usize = 64 << 10;
    let names = |file: &File| -> io::Result<Vec<Vec<u8>>> {
        let mut list = vec![0; MAX_BYTES];
        let length = match flistxattr(file, &mut list[..]) {
            Err(Errno::NOTSUP) => 0,
            length => length?,
        };
        Ok(list[..length]
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    };
    let (from, to) = (File::open(from)?, File::open(to)?);
    let (old, new) = (from.metadata()?, to.metadata()?);
    if old.gid() != new.gid() {
        fchown(&to, None, Some(Gid::from_raw(old.gid())))?;
    }
    let wanted = names(&from)?;
    // New files get the default ACL of the folder, if it has one.
    for extra in names(&to)?.iter().filter(|name| !wanted.contains(*name)) {
        fremovexattr(&to, extra.as_slice())?;
    }
    for name in &wanted {
        let value = |file: &File| {
            let mut value = vec![0; MAX_BYTES];
            let length = fgetxattr(file, name.as_slice(), &mut value[..])?;
            value.truncate(length);
            Ok::<_, Errno>(value)
        };
        let wanted = value(&from)?;
        if value(&to).ok().as_ref() == Some(&wanted) {
            continue;
        }
        let set = fsetxattr(&to, name.as_slice(), &wanted, XattrFlags::empty());
        // Labels of security modules are not changed: the modules label a new file by their own rules.
        if !name.starts_with(b"security.") {
            set?;
        }
    }
    // The mode is set last: with an ACL, its group bits are the ACL's mask; without the ACL, they would be the rights
    // of the group.
    to.set_permissions(old.permissions())
}

pub(crate) fn is_char_device(metadata: &Metadata) -> bool {
    metadata.file_type().is_char_device()
}

/// Whether a file cannot be locked because its file system has no locks.
pub(crate) fn has_no_locks(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported || error.raw_os_error() == Some(Errno::NOLCK.raw_os_error())
}

/// A short path to a file in a folder: the path of a socket has at most 107 bytes. The folder has to stay open.
pub(crate) fn socket_path(folder: &File, name: &str) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name)
}

fn raw(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Whether a process with that pid exists, whichever user it belongs to.
pub(crate) fn process_exists(pid: u32) -> bool {
    raw(pid).is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH)))
}

/// Signals a process. Returns `false` if there is none.
pub(crate) fn signal_process(pid: u32, signal: Signal) -> io::Result<bool> {
    let Some(pid) = raw(pid) else { return Ok(false) };
    match kill_process(pid, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The exit code of a process: 128 + n after signal n.
pub(crate) fn exit_code(status: ExitStatus) -> i64 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or_default().into()
}

/// A process and those that it started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessGroup(Pid);

impl ProcessGroup {
    /// Makes a program start in a process group of its own.
    pub(crate) fn prepare(command: &mut Command) -> &mut Command {
        command.process_group(0)
    }

    /// The group of a program that was [prepared](Self::prepare).
    pub(crate) fn of(child: &Child) -> Option<Self> {
        child.id().and_then(raw).map(Self)
    }

    /// Whether processes of the group remain.
    pub(crate) fn remains(self) -> bool {
        test_kill_process_group(self.0).is_ok()
    }

    /// Signals all processes of the group.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        Ok(kill_process_group(self.0, signal)?)
    }
}
