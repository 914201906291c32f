//! Files and processes of Windows, and streams in place of sockets.

#[cfg(feature = "containers")]
mod containers;

use std::{
    convert::Infallible,
    fs::{DirBuilder, File, Metadata, OpenOptions},
    io,
    os::windows::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    pin::Pin,
    process::ExitStatus,
    task::{Context, Poll},
};

use same_file::Handle;
use sysinfo::{ProcessesToUpdate, System};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, ReadHalf, WriteHalf},
    process::{Child, Command},
};

#[cfg(feature = "containers")]
pub(crate) use containers::*;

/// Without this flag, no folder can be opened (`CreateFile`).
const FILE_FLAG_BACKUP_SEMANTICS: u32 = 0x0200_0000;
/// Bytes that wait in each direction of a stream.
const STREAM_BYTES: usize = 64 << 10;

/// A request to end a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal(bool);

impl Signal {
    /// On Windows, there is no such request: nothing is sent, and callers only wait for the process.
    pub(crate) const TERM: Self = Self(false);
    pub(crate) const KILL: Self = Self(true);
}

/// A stream between two parts of this process.
#[derive(Debug)]
pub(crate) struct LocalStream(DuplexStream);

pub(crate) type OwnedReadHalf = ReadHalf<LocalStream>;
pub(crate) type OwnedWriteHalf = WriteHalf<LocalStream>;

impl LocalStream {
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = tokio::io::duplex(STREAM_BYTES);
        Ok((Self(one), Self(other)))
    }

    pub(crate) async fn connect(_path: impl AsRef<Path>) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "mcpm does not support Unix sockets on Windows"))
    }

    pub(crate) fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        tokio::io::split(self)
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A listener of a socket, which does not exist on Windows.
#[derive(Debug)]
pub(crate) struct LocalListener(Infallible);

impl LocalListener {
    pub(crate) fn bind(_path: impl AsRef<Path>) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "mcpm does not support Unix sockets on Windows"))
    }

    pub(crate) async fn accept(&self) -> io::Result<(LocalStream, ())> {
        match self.0 {}
    }
}

/// A file is as private as its folder.
pub(crate) fn with_mode(options: &mut OpenOptions, _mode: u32) -> &mut OpenOptions {
    options
}

pub(crate) fn folder_with_mode(builder: &mut DirBuilder, _mode: u32) -> &mut DirBuilder {
    builder
}

pub(crate) fn set_mode(_path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Does nothing: named pipes are not files on Windows.
pub(crate) fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Opens a folder, so that [`is_same_file`] can tell later whether the path still leads to it.
pub(crate) fn open_folder(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)
}

/// Does nothing: the file system itself writes the entries of folders.
pub(crate) fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Whether `path` still leads to the opened file.
pub(crate) fn is_same_file(path: &Path, opened: &File) -> io::Result<bool> {
    match Handle::from_path(path) {
        Ok(found) => Ok(found == Handle::from_file(opened.try_clone()?)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether two descriptions, whose names differ only in case, are of the same file. On Windows this is almost always
/// true.
pub(crate) fn is_same_entry(_one: &Metadata, _other: &Metadata) -> bool {
    true
}

/// Whether a file belongs to the user of this process. Always true here: access rights decide on Windows.
pub(crate) fn is_own_file(_metadata: &Metadata) -> bool {
    true
}

/// Does nothing: a file gets the permissions of its folder.
#[cfg(feature = "clients")]
#[expect(clippy::unnecessary_wraps, reason = "the signature is that of Unix")]
pub(crate) fn copy_attributes(_from: &Path, _to: &Path) -> io::Result<()> {
    Ok(())
}

pub(crate) fn is_char_device(_metadata: &Metadata) -> bool {
    false
}

/// Whether a file cannot be locked because its file system has no locks.
pub(crate) fn has_no_locks(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
}

/// The path of a file in a folder.
pub(crate) fn socket_path(_folder: &File, name: &str) -> PathBuf {
    PathBuf::from(name)
}

fn with_process<T>(pid: u32, read: impl FnOnce(&sysinfo::Process) -> T) -> Option<T> {
    let (mut system, pid) = (System::new(), sysinfo::Pid::from_u32(pid));
    system.refresh_processes(ProcessesToUpdate::Some(&[pid]), true);
    system.process(pid).map(read)
}

/// Whether a process with that pid exists, whichever user it belongs to.
pub(crate) fn process_exists(pid: u32) -> bool {
    with_process(pid, |_| ()).is_some()
}

/// Ends a process, or only checks whether it exists. Returns `false` if it does not.
pub(crate) fn signal_process(pid: u32, signal: Signal) -> io::Result<bool> {
    match with_process(pid, |process| !signal.0 || process.kill()) {
        Some(true) => Ok(true),
        Some(false) => Err(io::Error::other("the process cannot be terminated")),
        None => Ok(false),
    }
}

/// The exit code of a process.
pub(crate) fn exit_code(status: ExitStatus) -> i64 {
    status.code().unwrap_or_default().into()
}

/// A process. The processes that it started are not known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessGroup(u32);

impl ProcessGroup {
    pub(crate) fn prepare(command: &mut Command) -> &mut Command {
        command
    }

    pub(crate) fn of(child: &Child) -> Option<Self> {
        child.id().map(Self)
    }

    pub(crate) fn remains(self) -> bool {
        process_exists(self.0)
    }

    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        signal_process(self.0, signal).map(drop)
    }
}
