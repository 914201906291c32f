//! The standard streams of a sandbox.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::OwnedFd,
};

/// Where a standard stream leads to.
#[derive(Debug)]
pub(crate) enum SandboxStream {
    /// An empty input, or an output that is discarded.
    Null,
    /// A pipe, whose other end is in [`SandboxProcess`](super::SandboxProcess).
    Piped,
    /// An open file.
    File(OwnedFd),
}

/// The standard streams of a sandbox.
#[derive(Debug)]
pub(crate) struct SandboxStreams {
    pub(crate) stdin: SandboxStream,
    pub(crate) stdout: SandboxStream,
    pub(crate) stderr: SandboxStream,
}

impl SandboxStreams {
    /// Returns streams that lead to the same places.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let [stdin, stdout, stderr] = [&self.stdin, &self.stdout, &self.stderr].map(SandboxStream::try_clone);
        Ok(Self { stdin: stdin?, stdout: stdout?, stderr: stderr? })
    }
}

impl SandboxStream {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Null => Self::Null,
            Self::Piped => Self::Piped,
            Self::File(file) => Self::File(file.try_clone()?),
        })
    }

    /// Opens a stream for reading in the sandbox; returns its end there, and that of mcpm.
    pub(super) fn open_input(self) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        match self {
            Self::Null => Ok((File::open("/dev/null")?.into(), None)),
            Self::File(file) => Ok((file, None)),
            Self::Piped => io::pipe().map(|(reader, writer)| (reader.into(), Some(writer.into()))),
        }
    }

    /// Opens a stream for writing in the sandbox; returns its end there, and that of mcpm.
    pub(super) fn open_output(self) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
        match self {
            Self::Null => Ok((OpenOptions::new().write(true).open("/dev/null")?.into(), None)),
            Self::File(file) => Ok((file, None)),
            Self::Piped => io::pipe().map(|(reader, writer)| (writer.into(), Some(reader.into()))),
        }
    }
}
